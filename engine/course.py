"""The course of a run: what it plays under and how far it has got, which checkpoints keep beside the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.assembly import arena_of, check_biases
from engine.config import Config
from engine.events import EditApplied
from engine.guards import FiniteGuard
from engine.mixture import Mixture
from engine.past import Past
from engine.progress import Evaluations, Totals
from engine.rollouts import Position
from engine.steering.edits import Steering
from engine.training import checkpoints
from engine.training.checkpoint import Checkpoint
from engine.training.trainer import LocalTrainer
from engine.types import RunError


class Course:
    """A task under a configuration, in a run's folder, at the beginning or wherever a checkpoint left it."""

    def __init__(self, config: Config, mixture: Mixture, folder: Path) -> None:
        self.folder, self.mixture = folder, mixture
        self.arena = arena_of(config, mixture)
        self.steering = Steering(config, self.arena, mixture)
        self.past = Past(folder)
        self.step = 0
        self.totals = Totals()
        self.evaluations = Evaluations(config.eval.metric, config.eval.goal)
        self.finite = FiniteGuard()

    @property
    def config(self) -> Config:
        """The configuration as it is in force now."""
        return self.steering.config

    @property
    def evaluation_is_due(self) -> bool:
        """Before, after and every so many steps; also where a stop came between a step and its evaluation."""
        every, last = self.config.eval.every, self.step >= self.config.run.steps
        due = self.step == 0 or last or (every > 0 and self.step % every == 0)
        return due and self.evaluations.step != self.step

    @property
    def checkpoint_is_due(self) -> bool:
        return self.step % self.config.checkpoint.every == 0

    def apply(self, edit: EditApplied) -> None:
        self.steering.apply(edit)
        self.evaluations.metric, self.evaluations.goal = self.config.eval.metric, self.config.eval.goal

    def state(self, position: Position, seconds: float) -> dict[str, Any]:
        """As JSON, with the position from which playing goes on and the time spent so far."""
        return {
            "step": self.step,
            "played": position.played,
            "stores": position.stores,
            "credit": self.arena.credit.state(),
            "edits": self.steering.edits,
            "mixture": self.mixture.state(),
            "past": self.past.state(),
            "totals": self.totals.state() | {"seconds": seconds},
            "evaluations": self.evaluations.state(),
            "finite": self.finite.state(),
        }

    def restore(self, found: Checkpoint) -> None:
        """Stand where a checkpoint was made, but for its edits: those are in the record.

        Raises `RunError` if it is of another task, or of another way to give credit.
        """
        state = found.state
        self.step = state["step"]
        try:
            Position(state["played"], state["stores"]).restore(self.arena)
            self.arena.credit.load_state(state["credit"])
            if "mixture" in state:
                self.mixture.load_state(state["mixture"])
            self.past.load_state(state.get("past", ()))
        except ValueError as error:
            raise RunError(f"{found.path} was made with another task or [credit]: {error}") from error
        self.totals.load_state(state["totals"])
        self.evaluations.load_state(state["evaluations"])
        if "finite" in state:
            self.finite.load_state(state["finite"], self.folder / checkpoints.ROOT)

    async def bring(self, trainer: LocalTrainer, found: Checkpoint | None) -> None:
        """Have the task, the model and its players ready to go on from here, or from the checkpoint found."""
        check_biases(self.config, trainer.tokenizer)
        await trainer.device.call(self.mixture.prepare)  # which may download for minutes
        self.arena.connect(trainer.client)
        if found:
            await trainer.restore(found)
            await self.past.restore(trainer)
        elif self.config.lora.start:
            await trainer.begin_from(Path(self.config.lora.start))
