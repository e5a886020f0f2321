"""Where a run is kept: a folder of its own, named after its task if not by hand."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Callable
from itertools import count
from pathlib import Path

from engine.store import FILE, StoreError, locked


class FolderError(Exception):
    """A run's folder that can't be made or deleted: says why, and what would help."""


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


def beside(folder: Path, file: str, elsewhere: Path) -> Path:
    """Where something about a run is kept that isn't part of its record: in its folder, or, where that can't be
    written to, in `elsewhere` under a name of that run's own."""
    if os.access(folder, os.W_OK):
        return folder / file
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    return elsewhere / f"{folder.name}-{name}" / file


def _became(draft: Path, place: Path) -> bool:
    """Rename, unless there is something in that place; an empty folder is nothing."""
    try:
        draft.rename(place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def size(folder: Path) -> int:
    """Bytes of all files in a folder; what goes away meanwhile counts nothing."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size if not path.is_dir() else 0
    return total


def delete(folder: Path) -> None:
    """Delete a run with all that is in its folder. It is renamed first: what a crash leaves is no run any more.

    Raises:
        FolderError: it is at work, it isn't a run's folder, or it can't be deleted.
    """
    if folder.is_symlink() or not (folder / FILE).is_file():
        raise FolderError(f"{folder}: not a run's own folder: there is no {FILE} in it, or it is a link")
    gone = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    try:
        with locked(folder):
            folder.rename(gone)
        shutil.rmtree(gone)
    except StoreError as error:
        raise FolderError(f"{error}: stop it first") from error
    except OSError as error:
        left = f"; what is left of it lies in {gone}" if gone.exists() else ""
        raise FolderError(f"{folder}: can't be deleted: {error.strerror or error}{left}") from error
