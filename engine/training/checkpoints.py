"""The checkpoints of a run: folders that are either whole or not there, each kept for a reason.

One is written beside its place and renamed into it, after everything in it has reached the disk. All of this is
files: no MLX.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection
from itertools import takewhile
from pathlib import Path

from engine.training import durable, manifest
from engine.training.checkpoint import NAME, Checkpoint, folder, load, step_of
from engine.training.manifest import MANIFEST, CheckpointError

ROOT = "checkpoints"
"""The folder of a run that they lie in."""
AUTO = "auto"
"""The reason of a checkpoint made by the clock: what `prune` may delete."""
UNSOUND = "unsound"
"""The mark of a checkpoint from which nothing finite can be learnt: `latest` passes over it."""

_DRAFT = re.compile(r"step-\d{6,}\.tmp-[0-9a-f]+")
_SET_ASIDE = re.compile(r"step-(\d{6,})\.old-[0-9a-f]+")


def commit(root: Path, step: int, fill: Callable[[Path], None], reason: str) -> Path:
    """Have `fill` write a checkpoint's files into an empty folder, and keep that as `root/step-NNNNNN`; returns it.

    A checkpoint of the same step is replaced, and its reasons stay, unless it was unsound.

    Raises:
        CheckpointError: it could not be written, such as on a full disk. Nothing is left of it, and what was there
            before still is. And whatever `fill` raises.
    """
    target = folder(root, step)
    replaced = durable.beside(target, "old")
    with durable.failure_of(target):
        _tidy(root)
    with durable.drafted(target) as draft:
        fill(draft)
        before = _reasons(target)
        reasons = _joined([] if UNSOUND in before else before, reason)
        files = sorted(path for path in draft.rglob("*") if path.is_file())
        prints = {path.relative_to(draft).as_posix(): manifest.fingerprint(path) for path in files}
        (draft / MANIFEST).write_text(manifest.text(step, reasons, prints), encoding="utf-8")
        durable.sync_all(draft)
        try:
            if target.exists():
                target.rename(replaced)
            draft.rename(target)
            durable.sync(root)
        except BaseException:
            if replaced.exists() and not target.exists():
                replaced.rename(target)
            raise
    shutil.rmtree(replaced, ignore_errors=True)
    return target


def listed(root: Path) -> list[tuple[int, tuple[str, ...], Path]]:
    """Step, reasons and folder of every checkpoint whose manifest can be read, the newest first."""
    found = [(path, _reasons(path)) for path in _newest_first(root)]
    return [(step_of(path), tuple(reasons), path) for path, reasons in found if reasons]


def latest(root: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be trusted, and why each newer one can't. `None` if there is none.

    Drafts of an interrupted `commit` don't count; a checkpoint it had set aside, and replaced by nothing, does.
    """
    refused: list[str] = []
    for path in _newest_first(root):
        try:
            return sound(path), refused
        except CheckpointError as error:
            refused.append(str(error))
    return None, refused


def sound(path: Path) -> Checkpoint:
    found = load(path)
    if UNSOUND in found.reasons:
        raise CheckpointError(f"{path}: nothing finite can be learnt from it")
    return found


def mark(path: Path, reason: str) -> None:
    """Add a reason to a checkpoint, such as "best", so that `prune` leaves it.

    Raises:
        CheckpointError: its manifest can't be read or written.
    """
    _write_reasons(path, _joined(manifest.read(path)["reasons"], reason))


def _write_reasons(path: Path, reasons: list[str]) -> None:
    found = manifest.read(path)
    with durable.failure_of(path / MANIFEST):
        draft = path / f"{MANIFEST}.tmp"
        try:
            draft.write_text(manifest.text(found["step"], reasons, found["files"]), encoding="utf-8")
            durable.sync(draft)
            draft.replace(path / MANIFEST)
            durable.sync(path)
        finally:
            draft.unlink(missing_ok=True)


def only(path: Path, reason: str) -> None:
    """Take a reason from every other checkpoint beside this one: there is one "best"."""
    for other in _newest_first(path.parent):
        reasons = _reasons(other)
        if other != path and reason in reasons:
            _write_reasons(other, [kept for kept in reasons if kept != reason] or [AUTO])


def condemn(path: Path) -> None:
    """Mark every checkpoint after this one as unsound; one that can't be read is passed over anyway."""
    for other in takewhile(lambda other: other != path, _newest_first(path.parent)):
        if _reasons(other):
            mark(other, UNSOUND)


def prune(root: Path, keep: int, spared: Collection[Path | None] = ()) -> list[Path]:
    """Delete automatic checkpoints but the newest `keep` and those `spared`, and return those deleted.

    Never one with another reason, never the newest that can be trusted, never one whose manifest can't be read:
    that one is for a person to look at. Those spared are trusted, and aren't read for it.
    """
    automatic = [path for path in _newest_first(root) if _reasons(path) == [AUTO]]
    surplus = [path for path in automatic[keep:] if path not in spared]
    if surplus:
        good = next((path for path in _newest_first(root) if path in spared or _is_good(path)), None)
        surplus = [path for path in surplus if path != good]
    for path in surplus:
        durable.discard(path)
    return surplus


def _newest_first(root: Path) -> list[Path]:
    found: dict[int, Path] = {}
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        match = NAME.fullmatch(path.name) or _SET_ASIDE.fullmatch(path.name)
        if match:  # "step-000040" sorts before "step-000040.old-…", and wins
            found.setdefault(int(match[1]), path)
    return [found[step] for step in sorted(found, reverse=True)]


def _tidy(root: Path) -> None:
    """Finish what an interrupted `commit` left. Only for who writes here: to others, a draft may be under way."""
    for path in list(root.iterdir()) if root.is_dir() else []:
        aside = _SET_ASIDE.fullmatch(path.name)
        if aside and not (root / f"step-{aside[1]}").exists():
            path.rename(root / f"step-{aside[1]}")
        elif aside or _DRAFT.fullmatch(path.name):
            shutil.rmtree(path)


def _is_good(path: Path) -> bool:
    try:
        sound(path)
    except CheckpointError:
        return False
    return True


def _reasons(path: Path) -> list[str]:
    """Why a checkpoint is kept; nothing if it isn't there or can't tell."""
    try:
        return manifest.read(path)["reasons"]
    except CheckpointError:
        return []


def _joined(reasons: list[str], reason: str) -> list[str]:
    return list(dict.fromkeys([*reasons, reason]))
