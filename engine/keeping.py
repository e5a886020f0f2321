"""What a run keeps: its checkpoints, which of them stay, and which one it goes on from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine import guards
from engine.course import Course
from engine.events import CheckpointSaved
from engine.steps import Stepper
from engine.store import Store
from engine.training import checkpoint, checkpoints
from engine.training.checkpoint import Checkpoint
from engine.types import EngineError, GenerateResult, RunError

Batches = list[list[GenerateResult]]


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint in a run's folder."""

    step: int
    reasons: tuple[str, ...]
    """Why it is kept, such as `"best"` and `"manual"`; `"unsound"` where nothing can be learnt from it."""
    path: Path


class Keeper:
    """The checkpoints in a run's folder.

    Every method may raise `CheckpointError`; what was kept before is still there then.
    """

    def __init__(self, course: Course, store: Store, tell: Callable[[CheckpointSaved], None]) -> None:
        self.folder, self.root = course.folder, course.folder / checkpoints.ROOT
        self.newest: Path | None = None
        """Written or gone on from: what resuming would find, if nothing breaks it."""
        self.refused: list[str] = []
        """Why newer checkpoints than the one gone on from were passed over."""
        self.saving = asyncio.Lock()
        """Held while one is written."""
        self.closed = False
        """Whether the run is over: nothing new is written, and the record takes nothing more."""
        self._course, self._store, self._tell = course, store, tell
        self._waiting = 0
        """Batches of rollouts in the newest."""

    def latest(self) -> Checkpoint | None:
        """The newest that can be trusted, to go on from."""
        found, self.refused = checkpoints.latest(self.root)
        self.newest = found and found.path
        return found

    def kept(self) -> list[Kept]:
        """All of them, the newest first, as far as their manifests can be read."""
        return [Kept(step, reasons, path) for step, reasons, path in checkpoints.listed(self.root)]

    def rollouts(self, origin: Checkpoint | None) -> Batches:
        """Those that waited for the learner where the run goes on from."""
        found = origin.rollouts() if origin else []
        self._waiting = len(found)
        return found

    def has(self, waiting: Batches | None = None) -> bool:
        """Whether the last finished step is kept, and what waits for the learner, if given, with it."""
        is_written = self.newest == checkpoint.folder(self.root, self._course.step)
        return is_written and (waiting is None or len(waiting) == self._waiting)

    async def save(self, reason: str, stepper: Stepper | None, *, anew: bool = False) -> Path:
        """Keep the last finished step, once; a further reason to keep it is added to what is there.

        With `anew` also what has come since, such as rollouts that wait for the next one. Raises `RunError` where
        there is no `stepper`, or none between two steps, to take it from.
        """
        async with self.saving:
            if self.newest is not None and self.has() and not anew:
                checkpoints.mark(self.newest, reason)
            elif self.closed or stepper is None or stepper.is_torn:
                raise RunError(f"run {self.folder.name} is not playing: there is nothing new to save")
            else:
                self.newest = await self._write(stepper, reason)
            self._tidy(self.newest, reason)
            saved = CheckpointSaved(self._course.step, str(self.newest), reason)
            if not self.closed and self._store.writes:
                self._store.record_checkpoint(saved)
            self._tell(saved)
            return self.newest

    def keep_good(self) -> str:
        """Have resuming go on from the last sound checkpoint, kept for good; what to say of it."""
        path = self._course.finite.sound or self.newest
        if path is not None:
            try:
                checkpoints.mark(path, "good")
                checkpoints.condemn(path)
                saved = CheckpointSaved(checkpoint.step_of(path), str(path), "good")
                self._store.record_checkpoint(saved)
            except EngineError as error:
                return f"{error}"
            self._tell(saved)
        return guards.advice(path and path.relative_to(self.folder), self._course.config.train)

    async def _write(self, stepper: Stepper, reason: str) -> Path:
        """A new checkpoint; also over a damaged one of the same step, passed over before."""
        trainer, state, waiting = stepper.trainer, stepper.state(), stepper.source.waiting
        await trainer.device.call(self._store.sync)  # a checkpoint never knows more than the record
        path = await trainer.save(self.root, self._course.step, state, waiting, reason)
        self._waiting = len(waiting)
        return path

    def _tidy(self, newest: Path, reason: str) -> None:
        """After the newest was kept for a reason: there is one best, and a few automatic ones beside the sound."""
        if reason == "best":
            checkpoints.only(newest, reason)
        keep = self._course.config.checkpoint.keep
        checkpoints.prune(self.root, keep, (newest, self._course.finite.sound))
