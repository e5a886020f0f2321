"""A disk of its own size, to be filled and sealed: a `tmpfs`, which only root may mount."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class Disk:
    """Mounted at a folder, of so many KB."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", f"{folder}"], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"no disk can be mounted here, which takes root: {done.stderr.strip()}")

    def grow(self, more: int) -> None:
        """Room for `more` KB more than it has."""
        self.size += more
        self._again(f"size={self.size}k")

    def fill(self) -> None:
        """Not a byte is free afterwards."""
        with suppress(OSError), (self.folder / "filler").open("ab", buffering=0) as file:
            while file.write(b"." * 4096):
                pass

    def clear(self) -> None:
        """Takes away what filled it."""
        (self.folder / "filler").unlink()

    def seal(self, is_sealed: bool = True) -> None:
        """Read-only, or no longer. The kernel refuses while a file there is open to be written."""
        self._again("ro" if is_sealed else "rw")

    def _again(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", f"{self.folder}"], check=True)


@contextmanager
def disk(folder: Path, size: int = 4096) -> Iterator[Disk]:
    """Skips the test where nothing can be mounted."""
    made = Disk(folder, size)
    try:
        yield made
    finally:
        subprocess.run(["umount", "--lazy", f"{folder}"], check=True)
