"""Where a run is kept: a folder of its own, named after its task if not by hand."""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Callable
from itertools import count
from pathlib import Path


class FolderError(Exception):
    """A run's folder that can't be made: says why, and what would help."""


def new_folder(runs_dir: Path, stem: str, name: str | None, fill: Callable[[Path], None]) -> Path:
    """Make `runs_dir/name`, or `stem` with the first number that is free, and have `fill` write what is in it.

    It is filled beside its place and renamed into it: a process killed meanwhile leaves no folder by that name.

    Raises:
        FolderError: the name is taken or is not one, or the folder can't be made. And whatever `fill` raises.
    """
    if name is not None and (name in ("", ".", "..") or Path(name).name != name):
        raise FolderError(f"a run's name is a folder's name, without separators: not {name!r}")
    draft = runs_dir / f".{stem}-{uuid.uuid4().hex[:8]}"
    try:
        draft.mkdir(parents=True)
        fill(draft)
        for candidate in [name] if name is not None else (f"{stem}-{number}" for number in count(1)):
            if _became(draft, runs_dir / candidate):
                return runs_dir / candidate
    except OSError as error:
        raise FolderError(f"cannot make a folder in {runs_dir}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    raise FolderError(f"there is a run {name!r} in {runs_dir} already: resume it, or choose another name")


def _became(draft: Path, place: Path) -> bool:
    """Rename, unless there is something in that place; an empty folder is nothing."""
    try:
        draft.rename(place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True
