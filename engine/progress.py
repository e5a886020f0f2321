"""How a run is getting on: metrics of a step, totals over all steps, the course of the evaluations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from statistics import fmean
from typing import Any, Literal

from engine.credit import trainable_rollouts
from engine.types import Credit, GenerateResult, Rollout, TrainingRecord, Turn

EQUAL = "had equal rewards"
ALONE = "had one rollout, and nothing to compare it with"
AT_BASELINE = "had rewards equal to their baseline"
"""Why nothing can be learnt from a group."""


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
        """A metric that was named later may be one that the best so far was not measured by."""
        if not self.metric:
            return False
        if self.metric not in self.best:
            return True
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
    """What can be said of a step beside the learner's own metrics. The seconds are those outside pauses.

    `reward/<role>` and `reward/<role>/<function>` are means over scored rollouts; `signal` is the share of turns
    with credit whose advantage is not 0; `seat_bias` the largest difference between mean rewards of one task's
    roles. Of the `groups` whose rewards were compared, `flat_groups` had nothing but equal ones and `lone_groups`
    only one.
    """
    rollouts = _rollouts(results)
    turns = _turns(rollouts)
    generated = sum(len(turn.completion.tokens) for turn in turns)
    trained = sum(len(record.prompt_tokens) + len(record.tokens) for record in records)
    credited = [turn.credit for turn in turns if turn.credit is not None]
    groups, silent = _groups(credited)
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
        "unscored": float(sum(rollout.error is None and not rollout.is_scored for rollout in rollouts)),
        "illegal": float(sum(turn.illegal for turn in turns)),
        "illegal_rate": sum(turn.illegal for turn in turns) / max(len(turns), 1),
        "truncated_rate": sum(turn.completion.stop_reason != "stop" for turn in turns) / max(len(turns), 1),
        "signal": sum(credit.advantage != 0.0 for credit in credited) / max(len(credited), 1),
        "groups": float(groups),
        "flat_groups": float(silent[EQUAL] + silent[AT_BASELINE]),
        "lone_groups": float(silent[ALONE]),
    }
    metrics |= _mean_rewards([rollout for rollout in rollouts if rollout.is_scored])
    means: dict[str, list[float]] = defaultdict(list)
    for name in role_means(metrics):
        means[name.rpartition("/")[0]].append(metrics[name])
    if means:
        metrics["seat_bias"] = max(max(values) - min(values) for values in means.values())
    return metrics


def role_means(metrics: Mapping[str, float]) -> list[str]:
    """Which of a step's metrics are the mean rewards of roles: those that are no part of another."""
    rewards = [name for name in metrics if name.startswith("reward/")]
    return [name for name in rewards if name.rpartition("/")[0] not in metrics]


def why_skipped(results: list[GenerateResult], metrics: dict[str, float]) -> str:
    """In words, why a step changed nothing; empty if it did.

    What was played is followed on its way to the learner, and whatever left it there is named.
    """
    if not metrics["skipped"]:
        return ""
    if metrics["nonfinite"]:
        return "its loss or gradient was not finite"
    trained = trainable_rollouts(results)
    spoken = [turn for rollout in trained for turn in rollout.turns if turn.trainable and turn.completion.tokens]
    credited = [turn.credit for turn in spoken if turn.credit is not None]
    if not results:
        return "no episode was asked for"
    if spoken and not credited:
        return "no role that spoke has a reward"
    groups, silent = _groups(credited)
    counted, stale = sum(credit.counts for credit in credited), int(metrics["stale"])
    left = [
        (int(metrics["failed"]), int(metrics["episodes"]), "episode", "failed"),
        (int(metrics["unscored"]), int(metrics["episodes"]), "episode", "could not be scored"),
        *((count, groups, "group", why) for why, count in sorted(silent.items())),
        (stale, counted, "turn", "exceeded run.max_staleness"),
        (int(metrics["unlearnable"]), counted - stale, "turn", "had temperature 0, which leaves no gradient"),
    ]
    reasons = [f"{_share(gone, there, what)} {why}" for gone, there, what, why in left if gone]
    if trained and not spoken:
        reasons.append("the policy said nothing")
    return "; ".join(reasons) or "no turn had an advantage, and no two a preference, that is learnt from"


def _share(part: int, whole: int, noun: str) -> str:
    if whole == 1:
        return f"the only {noun}"
    return f"{'all' if part == whole else f'{part} of'} {whole} {noun}s"


def _groups(credited: list[Credit]) -> tuple[int, Counter[str]]:
    """How many groups' rewards were compared, and of how many nothing came, by why."""
    members: dict[str, list[Credit]] = defaultdict(list)
    for credit in credited:
        members[credit.group].append(credit)
    silent = [credits[0] for credits in members.values() if not any(credit.advantage for credit in credits)]
    return len(members), Counter(map(_why_silent, silent))


def _why_silent(credit: Credit) -> str:
    if credit.counts:
        return AT_BASELINE
    return EQUAL if credit.group_size > 1 else ALONE


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
