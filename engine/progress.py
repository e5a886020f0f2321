"""How a run is getting on: metrics of a step, totals over all steps, the course of the evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean
from typing import Any, Literal

from engine.types import GenerateResult, Rollout, TrainingRecord, Turn


@dataclass
class Totals:
    """Counts over the whole run, whatever it was interrupted by."""

    tokens_generated: int = 0
    tokens_trained: int = 0
    stale: int = 0
    illegal: int = 0
    failed: int = 0
    skipped: int = 0
    unscored: int = 0
    seconds: float = 0.0

    def add_step(self, metrics: dict[str, float]) -> None:
        self.tokens_generated += int(metrics["tokens_generated"])
        self.tokens_trained += int(metrics["tokens_trained"])
        self.stale += int(metrics["stale"])
        self.illegal += int(metrics["illegal"])
        self.failed += int(metrics["failed"])
        self.unscored += int(metrics["unscored"])
        self.skipped += bool(metrics.get("skipped"))

    def add_evaluation(self, results: Iterable[GenerateResult]) -> None:
        """What an evaluation cost; its illegal moves are in its own metrics."""
        rollouts = _rollouts(results)
        self.tokens_generated += sum(len(turn.completion.tokens) for turn in _turns(rollouts))
        self.failed += sum(rollout.error is not None for rollout in rollouts)

    def state(self) -> dict[str, Any]:
        return asdict(self)

    def load_state(self, state: dict[str, Any]) -> None:
        for name in (f.name for f in fields(self)):
            setattr(self, name, state[name])


@dataclass
class Evaluations:
    """The first, the latest and the best evaluation."""

    metric: str
    goal: Literal["max", "min"]
    first: dict[str, float] = field(default_factory=dict)
    latest: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int = 0
    step: int = -1
    """Of the latest; -1 before the first."""

    def add(self, step: int, metrics: dict[str, float]) -> bool:
        """Take note of an evaluation; returns whether it is the best after the first one."""
        self.first = self.first or metrics
        self.latest, self.step = metrics, step
        if self.best and not self._better(metrics):
            return False
        is_first = not self.best
        self.best, self.best_step = metrics, step
        return not is_first

    def _better(self, metrics: dict[str, float]) -> bool:
        if not self.metric:
            return False
        gain = metrics[self.metric] - self.best[self.metric]
        return gain > 0 if self.goal == "max" else gain < 0

    def state(self) -> dict[str, Any]:
        return asdict(self)

    def load_state(self, state: dict[str, Any]) -> None:
        for name in ("first", "latest", "best", "best_step", "step"):
            setattr(self, name, state[name])


def step_metrics(
    results: list[GenerateResult],
    records: list[TrainingRecord],
    stale: int,
    play_seconds: float,
    learn_seconds: float,
) -> dict[str, float]:
    """What can be said of a step beside the learner's own metrics.

    `reward/<role>` and `reward/<role>/<function>` are means over scored rollouts; `signal` is the share of turns
    with credit whose advantage is not 0; `seat_bias` the largest difference between roles' mean rewards.
    """
    rollouts = _rollouts(results)
    turns = _turns(rollouts)
    generated = sum(len(turn.completion.tokens) for turn in turns)
    trained = sum(len(record.prompt_tokens) + len(record.tokens) for record in records)
    credited = [turn.credit for turn in turns if turn.credit is not None]
    metrics = {
        "episodes": float(len(rollouts)),
        "turns_per_episode": len(turns) / max(len(rollouts), 1),
        "tokens_generated": float(generated),
        "tokens_trained": float(trained),
        "generation_rate": generated / max(play_seconds, 1e-9),
        "training_rate": trained / max(learn_seconds, 1e-9),
        "play_seconds": play_seconds,
        "learn_seconds": learn_seconds,
        "stale": float(stale),
        "failed": float(sum(rollout.error is not None for rollout in rollouts)),
        "unscored": float(sum(rollout.unscored is not None for rollout in rollouts)),
        "illegal": float(sum(turn.illegal for turn in turns)),
        "illegal_rate": sum(turn.illegal for turn in turns) / max(len(turns), 1),
        "truncated_rate": sum(turn.completion.stop_reason != "stop" for turn in turns) / max(len(turns), 1),
        "signal": sum(credit.advantage != 0.0 for credit in credited) / max(len(credited), 1),
    }
    metrics |= _mean_rewards(rollouts)
    means = [value for name, value in metrics.items() if name.startswith("reward/") and name.count("/") == 1]
    if means:
        metrics["seat_bias"] = max(means) - min(means)
    return metrics


def _mean_rewards(rollouts: list[Rollout]) -> dict[str, float]:
    values: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        for role, reward in rollout.rewards.items():
            values[f"reward/{role}"].append(reward)
        for function, rewards in rollout.breakdown.items():
            for role, reward in rewards.items():
                values[f"reward/{role}/{function}"].append(reward)
    return {name: fmean(rewards) for name, rewards in sorted(values.items())}


def _rollouts(results: Iterable[GenerateResult]) -> list[Rollout]:
    return [node.rollout for result in results for node in result.walk()]


def _turns(rollouts: list[Rollout]) -> list[Turn]:
    return [turn for rollout in rollouts for turn in rollout.turns]
