"""Guards: when a run must not go on as it does, and what to say then."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.config import TrainConfig
from engine.types import GenerateResult, RunError

FAILURES_IN_A_ROW = 10
"""So many failed episodes with none between that worked stop the run."""

IN_A_ROW = 3
"""So many steps in a row without a finite update stop the run: the next one would be as the last."""

PROGRAMMING = (LookupError, TypeError, AttributeError, NameError, AssertionError, ZeroDivisionError)
"""Errors whose own words seldom tell what was wrong."""

NO_MEMORY = re.compile(r"\bm?alloc(ate)?\b|bad_alloc|out of memory", re.IGNORECASE)
"""How MLX, Metal and CUDA say it."""

LESS = (
    "Less is needed with a lower model.rows, model.context or train.microbatch_tokens, or with "
    "train.checkpoint_layers = true"
)


class FailureGuard:
    """Watches whether a task still works at all."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def add(self, results: Iterable[GenerateResult]) -> None:
        """Take note of what was played. Raises `RunError` if nothing works any more."""
        for node in (node for result in results for node in result.walk()):
            self._in_a_row = self._in_a_row + 1 if node.rollout.error else 0
            if self._in_a_row >= FAILURES_IN_A_ROW:
                raise RunError(
                    f"{FAILURES_IN_A_ROW} episodes in a row failed; the last, {node.rollout.id}, with "
                    f"{node.rollout.error}. The last finished step is kept: mend the task, then resume"
                )


class FiniteGuard:
    """Watches whether steps are learnt from with finite numbers, and knows which checkpoint is sound.

    A step that isn't finite changes nothing, so the weights that it began with are finite; but they may be what
    made it so, as after an update that was far too large. Sound is a checkpoint from which a step was learnt since.
    """

    def __init__(self) -> None:
        self.sound: Path | None = None
        self._in_a_row = 0

    def add_step(self, step: int, metrics: dict[str, float], began_from: Path | None) -> None:
        """Take note of a step and of the checkpoint before it. Raises `FloatingPointError` if the run has to stop.

        A step that had nothing to learn from says nothing either way.
        """
        if metrics["updates"]:
            self._in_a_row = 0
            self.sound = began_from
        elif metrics["nonfinite"]:
            self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW:
            raise FloatingPointError(f"{IN_A_ROW} steps in a row, to step {step}, had no finite loss or gradient")

    def state(self) -> dict[str, Any]:
        """As JSON: a run that is resumed doesn't begin to count anew."""
        return {"in_a_row": self._in_a_row, "sound": self.sound and self.sound.name}

    def load_state(self, state: dict[str, Any], checkpoints: Path) -> None:
        """Go on from a `state`; `checkpoints` is the folder they are in, if they still are."""
        self._in_a_row = state["in_a_row"]
        sound = checkpoints / (state["sound"] or "")
        self.sound = sound if state["sound"] and sound.is_dir() else None


def advice(kept: Path | None, train: TrainConfig) -> str:
    """Where the last good state is, and what to try from there."""
    where = f"The last good state is kept in {kept}; resuming goes on from it. " if kept else ""
    return (
        f"{where}Try a lower train.learning_rate (now {train.learning_rate:g}) or train.grad_clip "
        f"(now {train.grad_clip:g})"
    )


def told(error: BaseException) -> str:
    """What an error says; one of a program's own, such as a task's, by its kind and line too."""
    trace = traceback.extract_tb(error.__traceback__)
    if isinstance(error, PROGRAMMING) and trace:
        return f"{type(error).__name__}: {error} ({trace[-1].filename}, line {trace[-1].lineno})"
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_MEMORY.search(f"{error}")):
        return f"out of memory: {f'{error}'.rstrip('.') or type(error).__name__}. {LESS}"
    return f"{error}" or type(error).__name__
