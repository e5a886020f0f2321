"""Where a run goes on: at its newest good checkpoint, under all edits of its record, or at the beginning."""

from __future__ import annotations

from engine import store as storage
from engine.course import Course
from engine.keeping import Keeper
from engine.store import Store
from engine.training.checkpoint import Checkpoint
from engine.types import RunError


def go_back(course: Course, keeper: Keeper, store: Store) -> Checkpoint | None:
    """Have a run stand where it goes on from; None where that is the beginning. The record is left as it is.

    Raises `RunError` where the record and the checkpoints there are can't both be true.
    """
    found = keeper.latest()
    if found is None:
        _check_is_new(keeper, store)
    else:
        course.restore(found)
    for edit in store.edits():
        course.apply(edit)
    course.steering.reweigh()
    if found is not None:
        _check_edits(found, course.steering.edits)
    return found


def _check_is_new(keeper: Keeper, store: Store) -> None:
    """A record of steps without a checkpoint to go on from is not thrown away."""
    refused = keeper.refused
    if refused or store.last_step():
        why = "; ".join(refused) or f"there is none in {keeper.root}"
        raise RunError(
            f"run {keeper.folder.name} has no checkpoint to go on from: {why}. Put back one that is whole, or "
            f"start a new run; the record stays as it is"
        )


def _check_edits(found: Checkpoint, known: int) -> None:
    """Those in force at the checkpoint are in the record, or it isn't the record of this checkpoint."""
    made_under = found.state.get("edits", 0)
    if known < made_under:
        raise RunError(
            f"{found.path} was made under edit {made_under}, but the record knows only {known}: "
            f"put back the {storage.FILE} that belongs to it, or remove the checkpoint"
        )
