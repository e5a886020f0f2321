"""Measuring a policy between two steps, and the average of its weights beside it."""

from __future__ import annotations

import math

from engine.arena import Arena
from engine.config import Config
from engine.mixture import Mixture
from engine.training.trainer import LocalTrainer
from engine.types import AVERAGE, GenerateResult, RunError, averaged


async def measure(
    mixture: Mixture, arena: Arena, trainer: LocalTrainer, config: Config, step: int
) -> tuple[dict[str, float], list[GenerateResult]]:
    """What the tasks measure of the policy after a step, and as `average_…` of its average; and what was played.

    Raises `RunError` where it isn't finite, or `eval.metric` isn't among it.
    """
    label = f"eval-{step}"
    due = mixture.at(step, config.run.steps)
    played: list[GenerateResult] = []
    arena.on_labelled = played.extend
    metrics = await due.evaluate(arena, config.eval.episodes, label)
    if config.train.average:
        await trainer.publish_average()
        with arena.standing_in(AVERAGE):
            twin = await due.evaluate(arena, config.eval.episodes, f"{label}/{AVERAGE}")
        metrics = metrics | {averaged(name): value for name, value in twin.items()}
    _check(metrics, config)
    return metrics, played


def _check(metrics: dict[str, float], config: Config) -> None:
    if config.eval.metric and config.eval.metric not in metrics:
        off = "" if config.train.average else " (train.average is 0: no average is kept)"
        raise RunError(
            f"eval.metric is {config.eval.metric!r}, which this task does not measure; "
            f"it measures: {', '.join(metrics)}{off}"
        )
    odd = [name for name, value in metrics.items() if not math.isfinite(value)]
    if odd:
        raise RunError(f"the task's evaluation gave no finite number for {', '.join(odd)}")
