"""The smallest training loop: play a batch, learn from it, again. `Run` is the one with everything around it."""

from __future__ import annotations

from typing import Protocol

from engine.arena import Arena
from engine.types import TrainingRecord


class Trainer(Protocol):
    """What learns from records and publishes the new weights to whoever answers the arena."""

    async def train(self, records: list[TrainingRecord]) -> dict[str, float]:
        """One optimiser step; returns its metrics."""
        ...


async def simple_training_loop(arena: Arena, trainer: Trainer, num_steps: int) -> list[dict[str, float]]:
    """Play `arena.get_batch()`, assign credit and train, `num_steps` times; returns each step's metrics."""
    metrics = []
    for _ in range(num_steps):
        results = await arena.generate_rollouts(arena.get_batch())
        metrics.append(await trainer.train(arena.records(results)))
    return metrics
