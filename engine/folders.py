"""Where a run is kept: a folder of its own, named after its task if not by hand."""

from __future__ import annotations

import contextlib
from pathlib import Path


class FolderError(Exception):
    """A run's folder that can't be made: says why, and what would help."""


def new_folder(runs_dir: Path, stem: str, name: str | None) -> Path:
    """Make `runs_dir/name`, or `stem` with the first number that is free.

    Raises:
        FolderError: the name is taken or is not one, or the folder can't be made.
    """
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        return _numbered(runs_dir, stem) if name is None else _named(runs_dir, name)
    except FileExistsError:
        raise FolderError(
            f"there is a run {name!r} in {runs_dir} already: resume it, or choose another name"
        ) from None
    except OSError as error:
        raise FolderError(f"cannot make a folder in {runs_dir}: {error.strerror or error}") from error


def _named(runs_dir: Path, name: str) -> Path:
    if name in ("", ".", "..") or Path(name).name != name:
        raise FolderError(f"a run's name is a folder's name, without separators: not {name!r}")
    (runs_dir / name).mkdir()
    return runs_dir / name


def _numbered(runs_dir: Path, stem: str) -> Path:
    number = 1
    while True:
        with contextlib.suppress(FileExistsError):
            (runs_dir / f"{stem}-{number}").mkdir()
            return runs_dir / f"{stem}-{number}"
        number += 1
