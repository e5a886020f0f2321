"""What there is to say of a run at any moment."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.events import RunState

if TYPE_CHECKING:
    from engine.course import Course
    from engine.life import Life
    from engine.pace import Pace


@dataclass(slots=True)
class Status:
    """A glance at a run."""

    state: RunState
    step: int
    steps: int
    version: int
    tokens_generated: int
    tokens_trained: int
    generation_rate: float
    """Tokens a second while playing, in the last step."""
    training_rate: float
    """Tokens a second while learning, prompts included, in the last step."""
    memory: int
    """Most bytes this process has held."""
    stale: int
    queued: int
    """Rollouts waiting for the learner."""
    illegal: int
    failed: int
    skipped: int
    """Steps without an update."""
    seconds: float
    """Time spent running, pauses left out, over all sittings."""
    live: int
    """Episodes in play."""


def glance(course: Course, pace: Pace, life: Life) -> Status:
    """How a run is doing now."""
    totals, stepper = course.totals, life.stepper
    generation, training = stepper.rates if stepper else (0.0, 0.0)
    return Status(
        state=pace.state,
        step=course.step,
        steps=course.config.run.steps,
        version=life.trainer.learner.version if life.trainer else 0,
        tokens_generated=totals.tokens_generated,
        tokens_trained=totals.tokens_trained,
        generation_rate=generation,
        training_rate=training,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        stale=totals.stale,
        queued=stepper.source.queued if stepper else 0,
        illegal=totals.illegal,
        failed=totals.failed,
        skipped=totals.skipped,
        seconds=pace.seconds,
        live=course.arena.live,
    )
