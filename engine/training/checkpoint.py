"""Checkpoints: folders that are either whole or not there.

    step-000040/   adapters.safetensors + adapter_config.json   the policy, as mlx-lm loads it (`adapter_path`)
                   average/                                      both of its running mean, if one is kept
                   learner.safetensors                           parameters, the optimiser's moments, counters
                   state.json                                    everything else a run needs to go on
                   rollouts.sqlite                               those that wait for the learner, where some do
                   manifest.json                                 why it was kept; size and SHA-256 of every file

A checkpoint is written beside its place and renamed into it, after everything in it has reached the disk. Only
`save`, `Checkpoint.adapters` and `Checkpoint.learner` touch MLX, and run on the device thread; the rest is files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine import batches
from engine.training import manifest
from engine.training.manifest import MANIFEST, CheckpointError
from engine.types import AVERAGE, GenerateResult

if TYPE_CHECKING:
    import mlx.core as mx

ROOT = "checkpoints"
"""The folder of a run that they lie in."""
ADAPTERS = "adapters.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
LEARNER = "learner.safetensors"
STATE = "state.json"
ROLLOUTS = "rollouts.sqlite"
FILES = (ADAPTERS, ADAPTER_CONFIG, LEARNER, STATE)
"""What every checkpoint has, beside its manifest."""
AUTO = "auto"
"""The reason of a checkpoint made by the clock: what `prune` may delete."""
UNSOUND = "unsound"
"""The mark of a checkpoint from which nothing finite can be learnt: `latest` passes over it."""

_NAME = re.compile(r"step-(\d{6,})")
_DRAFT = re.compile(r"step-\d{6,}\.tmp-[0-9a-f]+")
_SET_ASIDE = re.compile(r"step-(\d{6,})\.old-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose files were all found to be what was written."""

    path: Path
    step: int
    reasons: tuple[str, ...]
    """Why it is kept: "auto", "best", "manual", "final", "good"; and "unsound". Never empty."""
    adapter_config: dict[str, Any]
    state: dict[str, Any]

    def adapters(self) -> dict[str, mx.array]:
        """The policy's adapter. On the device thread."""
        return _arrays(self.path / ADAPTERS)

    def learner(self) -> dict[str, mx.array]:
        """What `Learner.load_state` takes. On the device thread."""
        return _arrays(self.path / LEARNER)

    def rollouts(self) -> list[list[GenerateResult]]:
        """Batches that were finished and not learnt from, the oldest first."""
        file = self.path / ROLLOUTS
        return batches.read(file) if file.exists() else []


def folder(root: Path, step: int) -> Path:
    """Where the checkpoint of a step lies, or would."""
    return root / f"step-{step:06d}"


def step_of(path: Path) -> int:
    """The step of a checkpoint's folder, also of one set aside."""
    return int(path.name.removeprefix("step-").partition(".")[0])


def save(
    root: Path,
    step: int,
    *,
    adapters: dict[str, mx.array],
    adapter_config: dict[str, Any],
    learner: dict[str, mx.array],
    state: dict[str, Any],
    reason: str,
    average: dict[str, mx.array] | None = None,
    rollouts: Sequence[Sequence[GenerateResult]] = (),
) -> Path:
    """Write `root/step-NNNNNN` and return it. Runs on the device thread.

    A checkpoint of the same step is replaced, and its reasons stay, unless it was unsound. `state` must be JSON:
    tuples come back as lists, and keys as strings.

    Raises:
        CheckpointError: it could not be written, such as on a full disk. Nothing is left of it, and what was there
            before still is.
        TypeError, ValueError: `state` is not JSON; non-finite numbers are not.
    """
    import mlx.core as mx

    def write(folder: Path) -> None:
        for player, parameters in ((folder, adapters), (folder / AVERAGE, average)):
            if parameters is not None:
                _write_player(player, parameters, adapter_config)
        mx.save_safetensors(str(folder / LEARNER), learner, metadata={"format": "mlx"})
        (folder / STATE).write_text(manifest.dumps(state), encoding="utf-8")
        if rollouts:
            batches.write(folder / ROLLOUTS, rollouts)

    return commit(root, step, write, reason)


def save_player(folder: Path, adapters: dict[str, mx.array], adapter_config: dict[str, Any]) -> None:
    """Write an adapter alone, in the place of one that may be there. On the device thread.

    Raises `CheckpointError` as `save`.
    """
    draft = folder.with_name(f"{folder.name}.tmp-{uuid.uuid4().hex[:8]}")
    with _failure_of(folder):
        try:
            draft.mkdir(parents=True)
            _write_player(draft, adapters, adapter_config)
            for path in (*draft.iterdir(), draft):
                _sync(path)
            shutil.rmtree(folder, ignore_errors=True)
            draft.rename(folder)
            _sync(folder.parent)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def _write_player(folder: Path, adapters: dict[str, mx.array], adapter_config: dict[str, Any]) -> None:
    import mlx.core as mx

    folder.mkdir(exist_ok=True)
    mx.save_safetensors(str(folder / ADAPTERS), adapters, metadata={"format": "mlx"})
    (folder / ADAPTER_CONFIG).write_text(manifest.dumps(adapter_config), encoding="utf-8")


def commit(root: Path, step: int, write: Callable[[Path], None], reason: str) -> Path:
    """Have `write` fill an empty folder with `FILES` and more, make it durable, and rename it. See `save`."""
    target = folder(root, step)
    mark = uuid.uuid4().hex[:8]
    draft = target.with_name(f"{target.name}.tmp-{mark}")
    replaced = target.with_name(f"{target.name}.old-{mark}")
    with _failure_of(target):
        try:
            _tidy(root)
            draft.mkdir(parents=True)
            write(draft)
            before = _reasons(target)
            reasons = _joined([] if UNSOUND in before else before, reason)
            files = sorted(path for path in draft.rglob("*") if path.is_file())
            prints = {path.relative_to(draft).as_posix(): manifest.fingerprint(path) for path in files}
            (draft / MANIFEST).write_text(manifest.text(step, reasons, prints), encoding="utf-8")
            for path in (*draft.rglob("*"), draft):
                _sync(path)
            if target.exists():
                target.rename(replaced)
            draft.rename(target)
            _sync(root)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            if replaced.exists() and not target.exists():
                replaced.rename(target)
            raise
    shutil.rmtree(replaced, ignore_errors=True)
    return target


def load(path: Path) -> Checkpoint:
    """Check every file against the manifest and read what isn't arrays.

    Raises:
        CheckpointError: the folder or a file is missing, cut short, or not what was written. It names the file.
    """
    kept = manifest.read(path)
    named = _NAME.fullmatch(path.name)
    if named and int(named[1]) != kept["step"]:
        raise CheckpointError(f"{path / MANIFEST}: is of step {kept['step']}, not of the folder's {int(named[1])}")
    for name in FILES:
        if name not in kept["files"]:
            raise CheckpointError(f"{path / MANIFEST}: does not list {name}")
    for name, expected in kept["files"].items():
        manifest.verify(path / name, expected)
    return Checkpoint(
        path=path,
        step=kept["step"],
        reasons=tuple(kept["reasons"]),
        adapter_config=json.loads((path / ADAPTER_CONFIG).read_text(encoding="utf-8")),
        state=json.loads((path / STATE).read_text(encoding="utf-8")),
    )


def listed(root: Path) -> list[tuple[int, tuple[str, ...], Path]]:
    """Step, reasons and folder of every checkpoint whose manifest can be read, the newest first."""
    found = [(path, _reasons(path)) for path in _newest_first(root)]
    return [(step_of(path), tuple(reasons), path) for path, reasons in found if reasons]


def latest(root: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be trusted, and why each newer one can't. `None` if there is none.

    Drafts of an interrupted `save` don't count; a checkpoint it had set aside, and put nothing in its place, does.
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
    with _failure_of(path / MANIFEST):
        draft = path / f"{MANIFEST}.tmp"
        try:
            draft.write_text(manifest.text(found["step"], reasons, found["files"]), encoding="utf-8")
            _sync(draft)
            draft.replace(path / MANIFEST)
            _sync(path)
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
        # Renamed first: one half deleted must not look like one that is damaged.
        doomed = path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex[:8]}")
        path.rename(doomed)
        shutil.rmtree(doomed)
    return surplus


def _newest_first(root: Path) -> list[Path]:
    found: dict[int, Path] = {}
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        match = _NAME.fullmatch(path.name) or _SET_ASIDE.fullmatch(path.name)
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


@contextmanager
def _failure_of(path: Path) -> Iterator[None]:
    """Say what could not be written. MLX reports failed writes as RuntimeError."""
    try:
        yield
    except (OSError, RuntimeError, sqlite3.Error) as error:
        anchor = next(parent for parent in path.absolute().parents if parent.exists())
        free = shutil.disk_usage(anchor).free
        raise CheckpointError(
            f"{path}: could not be written: {error} ({free / 1e6:.0f} MB are free there now)"
        ) from error


def _arrays(file: Path) -> dict[str, mx.array]:
    import mlx.core as mx

    return cast("dict[str, mx.array]", mx.load(str(file)))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
