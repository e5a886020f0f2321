"""What a run keeps: its checkpoints, which of them stay, and which one it goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.training import checkpoint
from engine.training.checkpoint import Checkpoint
from engine.training.trainer import LocalTrainer
from engine.types import GenerateResult

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

    def __init__(self, folder: Path) -> None:
        self.root = folder / checkpoint.ROOT
        self.newest: Path | None = None
        """Written or gone on from: what resuming would find, if nothing breaks it."""
        self.refused: list[str] = []
        """Why newer checkpoints than the one gone on from were passed over."""
        self._waiting = 0
        """Batches of rollouts in the newest."""

    def latest(self) -> Checkpoint | None:
        """The newest that can be trusted, to go on from."""
        found, self.refused = checkpoint.latest(self.root)
        self.newest = found and found.path
        return found

    def kept(self) -> list[Kept]:
        """All of them, the newest first, as far as their manifests can be read."""
        return [Kept(step, reasons, path) for step, reasons, path in checkpoint.listed(self.root)]

    def rollouts(self, origin: Checkpoint | None) -> Batches:
        """Those that waited for the learner where the run goes on from."""
        found = origin.rollouts() if origin else []
        self._waiting = len(found)
        return found

    def has(self, step: int, waiting: Batches | None = None) -> bool:
        """Whether a step has its checkpoint; and whether what waits for the learner, if given, is in it too."""
        is_written = self.newest == checkpoint.folder(self.root, step)
        return is_written and (waiting is None or len(waiting) == self._waiting)

    async def write(
        self, trainer: LocalTrainer, step: int, state: dict[str, Any], waiting: Batches, reason: str
    ) -> None:
        """A new checkpoint; also over a damaged one of the same step, passed over before."""
        self.newest = await trainer.save(self.root, step, state, waiting, reason)
        self._waiting = len(waiting)

    def mark(self, reason: str) -> None:
        """One reason more to keep the newest."""
        if self.newest is not None:
            checkpoint.mark(self.newest, reason)

    def tidy(self, reason: str, keep: int, sound: Path | None) -> None:
        """After the newest was kept for a reason: there is one best, and `keep` automatic ones beside the sound."""
        if reason == "best" and self.newest is not None:
            checkpoint.only(self.newest, reason)
        checkpoint.prune(self.root, keep, (self.newest, sound))

    def go_on_from(self, path: Path) -> int:
        """Have resuming go on from this one, kept for good, whatever came after it; returns its step."""
        checkpoint.mark(path, "good")
        checkpoint.condemn(path)
        return checkpoint.step_of(path)
