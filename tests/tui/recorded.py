"""Runs on disk, without a model: a configuration and a record of evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from engine import config as configuration
from engine.config import Config, EvalConfig, RunConfig, TaskConfig
from engine.events import EvaluationFinished
from engine.store import Store
from tui.interface import RunInfo

METRIC = "win_vs_random"


def record(folder: Path, values: Sequence[float], *, every: int = 10, seed: int = 0, steps: int = 80) -> RunInfo:
    """A run whose metric went so, and Home's line on it."""
    config = Config(
        title="Nim",
        task=TaskConfig(name="nim"),
        run=RunConfig(steps=steps, seed=seed),
        eval=EvalConfig(every=every, metric=METRIC),
    )
    folder.mkdir(parents=True)
    configuration.save(config, folder / "config.toml")
    with Store.create(folder) as store:
        for place, value in enumerate(values):
            metrics = {METRIC: value, "optimal_moves": value / 2}
            store.record_evaluation(EvaluationFinished(place * every, metrics, is_best=place > 0), [])
        store.record_state("finished")
    last = (len(values) - 1) * every
    value = values[-1] if values else None
    return RunInfo(folder.name, folder, "finished", "Nim", last, steps, METRIC, value, "2 h ago", updated=1.0)


def rising(many: int, start: float = 0.5, end: float = 0.9) -> list[float]:
    """A course that rises and levels off."""
    return [start + (end - start) * (1 - math.exp(-3 * place / max(many - 1, 1))) for place in range(many)]
