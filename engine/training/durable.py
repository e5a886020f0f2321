"""Folders that are whole or not there, whatever ends the process or the machine: written beside, then renamed."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.training.manifest import CheckpointError

FULL = 1 << 20
"""Bytes: with fewer than these left, that is why a write failed."""


@contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """An empty folder to be filled and renamed to `target` within; what is left of it at the end is deleted.

    Raises `CheckpointError` where something can't be written.
    """
    draft = beside(target, "tmp")
    try:
        with failure_of(target):  # told before the draft is gone, while a full disk is full
            draft.mkdir(parents=True)
            yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def beside(path: Path, kind: str) -> Path:
    """A name that nothing has yet, such as `step-000040.tmp-1f3c09ab`."""
    return path.with_name(f"{path.name}.{kind}-{uuid.uuid4().hex[:8]}")


def free(path: Path) -> Path:
    """The path, or where something is there `step-000040.2`, and so on."""
    number, found = 2, path
    while found.exists():
        number, found = number + 1, path.with_name(f"{path.name}.{number}")
    return found


def discard(path: Path) -> None:
    """Delete a folder. Renamed first: one half deleted must not look like one that is damaged."""
    doomed = beside(path, "tmp")
    path.rename(doomed)
    shutil.rmtree(doomed)


def sync_all(folder: Path) -> None:
    """All that is in a folder has reached the disk, and that it is in there."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def failure_of(path: Path) -> Iterator[None]:
    """Say what could not be written, and why."""
    try:
        yield
    except (OSError, RuntimeError, sqlite3.Error) as error:
        anchor = next(parent for parent in path.absolute().parents if parent.exists())
        free = shutil.disk_usage(anchor).free
        raise CheckpointError(
            f"{path}: could not be written: {_reason(error, free)} ({free / 1e6:.1f} MB are free there now)"
        ) from error


def _reason(error: Exception, free: int) -> str:
    """MLX reports a failed write as RuntimeError, and not what was wrong."""
    if isinstance(error, RuntimeError) and free < FULL:
        return os.strerror(errno.ENOSPC)
    return f"{error.strerror or error}" if isinstance(error, OSError) else f"{error}"
