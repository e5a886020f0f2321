"""What there is to say of a run at any moment."""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import RunState


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
