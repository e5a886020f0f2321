"""Going back in a run, and beginning another from where one was.

Both start from a checkpoint and end where resuming starts: a folder whose newest checkpoint is the one chosen. So
what follows is what resuming from it gives, weights, moments, baselines and the numbers of episodes included.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from engine import config as configuration
from engine import past
from engine.assembly import folded
from engine.config import Config
from engine.course import Course
from engine.events import EditApplied, RunState
from engine.folders import FolderError, new_folder
from engine.mixture import task_of
from engine.store import Store
from engine.training import checkpoint, checkpoints, durable
from engine.training.checkpoint import Checkpoint, CheckpointError
from engine.training.checkpoints import AUTO
from engine.training.manifest import MANIFEST, dumps
from engine.types import RunError

UNDONE = "undone"
"""The folder of a run to which checkpoints are moved that were kept for a reason and came after a roll-back."""

FIXED = ("model.source", "lora.", "train.optimiser", "credit.kind")
"""What a checkpoint's weights, moments and baselines are of: it can't be another in a fork."""


def roll_back(folder: Path, step: int, *, keep_edits: bool = True) -> None:
    """Have a run that is not at work go on from its checkpoint of `step`, as if nothing had come after.

    The record forgets what came after. Automatic checkpoints after it are deleted, others moved to `undone`. Edits
    stay and are in force from there; without `keep_edits` those made since the checkpoint are taken back, each
    target by a new edit.

    Raises:
        RunError: there is no such checkpoint, or one that can't be trusted. Then nothing has changed.
        StoreError: the run is at work, or its record can't be written.
    """
    with Store.open(folder) as store:  # its lock keeps others out until this is done
        found = _checkpoint(folder, step)
        for later, reasons, path in checkpoints.listed(folder / checkpoints.ROOT):
            if later > step:
                _move_away(path, reasons, folder / UNDONE)
        store.rewind(step)
        if not keep_edits:
            _take_back(store, found)
        store.record_state(RunState.STOPPED)


def _move_away(path: Path, reasons: Sequence[str], place: Path) -> None:
    """Newest first, so that one that is interrupted leaves a run that goes on from a checkpoint between."""
    if list(reasons) == [AUTO]:
        durable.discard(path)
        return
    place.mkdir(exist_ok=True)
    path.rename(durable.free(place / path.name))


def _take_back(store: Store, found: Checkpoint) -> None:
    edits = store.edits()
    since = [edit for edit in edits if edit.number > found.state.get("edits", 0)]
    number = edits[-1].number if edits else 0
    for target in dict.fromkeys(edit.target for edit in since):
        of_target = [edit for edit in since if edit.target == target]
        if of_target[0].before != of_target[-1].after:
            number += 1
            store.record_edit(EditApplied(number, found.step, target, of_target[-1].after, of_target[0].before))


def fork(
    folder: Path,
    runs_dir: Path,
    *,
    step: int | None = None,
    changes: Sequence[str] = (),
    name: str | None = None,
) -> Path:
    """A new run that begins from a checkpoint of another, by default its newest; returns its folder.

    Its configuration is the other's as it was in force at the checkpoint, with `changes` (`"key=value"`). Steps and
    evaluations so far are in its record, episodes stay in the other's; what it came from is told there too. The
    other run may be at work meanwhile.

    Raises:
        RunError: no such checkpoint, changes that its weights can't take, or steps that are all done.
        ConfigError, TaskError, StoreError: the configuration, the task or the other's record is at fault.
    """
    folder = folder.absolute()
    with Store.open(folder, read_only=True) as store:
        found = _checkpoint(folder, step)
        edits = [edit for edit in store.edits() if edit.number <= found.state.get("edits", 0)]
    before = folded(configuration.load(folder / "config.toml"), edits)
    config = configuration.anchored(configuration.override(before, changes), Path.cwd())
    _check(config, before, found)

    def fill(draft: Path) -> None:
        configuration.save(config, draft / "config.toml")
        with Store.create(draft) as store:
            store.begin_with(folder, found.step, f"{folder.name} at step {found.step}")
            store.record_state(RunState.STOPPED)
        _copy(found, draft / checkpoints.ROOT)
        past.copy(folder, draft, found.state)

    try:
        return new_folder(runs_dir, folder.name, name, fill)
    except (FolderError, CheckpointError) as error:
        raise RunError(f"{error}") from error


def _checkpoint(folder: Path, step: int | None) -> Checkpoint:
    """That of a step, or the newest that can be trusted."""
    root = folder / checkpoints.ROOT
    if step is None:
        found, refused = checkpoints.latest(root)
        if found is None:
            raise RunError(
                f"{folder}: there is no checkpoint to begin from{': ' if refused else ''}{'; '.join(refused)}"
            )
        return found
    steps = [kept for kept, _, _ in checkpoints.listed(root)]
    if step not in steps:
        known = ", ".join(map(str, reversed(steps))) or "none"
        raise RunError(f"{folder}: no checkpoint of step {step} is kept; there are: {known}")
    try:
        return checkpoints.sound(checkpoint.folder(root, step))
    except CheckpointError as error:
        raise RunError(f"{error}") from error


def _check(config: Config, before: Config, found: Checkpoint) -> None:
    """That the checkpoint fits what is to go on from it."""
    for key in configuration.KEYS:
        if key.name.startswith(FIXED):
            was, wanted = (configuration.value_text(c, key.name) for c in (before, config))
            if was != wanted:
                raise RunError(
                    f"{key.name} is {was or 'not set'} in the checkpoint, and can't be {wanted} in a fork"
                )
    if config.run.steps <= found.step:
        raise RunError(
            f"run.steps is {config.run.steps}, and the fork begins after step {found.step}: set it above that, "
            f"as by --set run.steps={found.step + before.run.steps}"
        )
    Course(config, task_of(config), found.path.parent.parent).restore(found)


def _copy(found: Checkpoint, root: Path) -> None:
    """The checkpoint in another run, which has no edits yet."""

    def write(folder: Path) -> None:
        shutil.copytree(found.path, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST))
        (folder / checkpoint.STATE).write_text(dumps({**found.state, "edits": 0}), encoding="utf-8")

    checkpoints.commit(root, found.step, write, "origin")
