"""Where training reward rises while the evaluation gets worse: what is rewarded is no longer what is wanted."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean

from engine.reading.saying import signed, unsigned
from engine.store import StepRecord

WINDOW = 5
"""Evaluations in a row that are looked at together."""

TREND = 0.6
"""How surely both go their way, as Kendall's tau."""

FALL = 0.1
"""How much worse the metric gets, as a share of its range over the whole run."""

Point = tuple[int, float]
"""Step and value."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One such stretch."""

    first: int
    step: int
    """The last step of it."""
    earned: tuple[float, float]
    """Mean training reward of all roles, between its first two evaluations and between its last two."""
    measured: tuple[float, float]
    """The evaluation's metric, at the first and at the last."""
    fall: float
    """How much worse the metric got, as a share of its range over the run."""

    @property
    def words(self) -> str:
        earned = " to ".join(map(signed, self.earned))
        measured = " to ".join(map(unsigned, self.measured))
        return f"steps {self.first} to {self.step}: reward {earned}, but evaluation {measured}"


def drifts(rewards: Sequence[Point], evaluations: Sequence[Point], goal: str = "max") -> list[Drift]:
    """The stretches of `WINDOW` evaluations over which it happened, none over another.

    Steps rise in both. In a zero-sum game the mean reward of all roles never moves: nothing is suspected there.
    """
    sign = 1.0 if goal == "max" else -1.0
    measured = [sign * value for _, value in evaluations]
    whole = max(measured, default=0.0) - min(measured, default=0.0)
    steps, earnings = [step for step, _ in rewards], [got for _, got in rewards]
    found: list[Drift] = []
    start = 0
    while whole > 0 and start + WINDOW <= len(evaluations):
        window = evaluations[start : start + WINDOW]
        values = measured[start : start + WINDOW]
        ends = [bisect_right(steps, step) for step, _ in window]
        spans = [earnings[low:high] for low, high in pairwise(ends)]
        earned = [fmean(span) for span in spans if span]
        fall = (values[0] - values[-1]) / whole
        if len(earned) == WINDOW - 1 and fall >= FALL and tau(earned) >= TREND and tau(values) <= -TREND:
            course = (earned[0], earned[-1]), (window[0][1], window[-1][1])
            found.append(Drift(window[0][0], window[-1][0], *course, fall))
            start += WINDOW
        else:
            start += 1
    return found


def mean_rewards(steps: Iterable[StepRecord]) -> list[Point]:
    """Each step's mean of what its roles got, where that is known."""
    found: list[Point] = []
    for step in steps:
        names = [name for name in step.metrics if name.startswith("reward/")]
        # beside a role's whole reward stand its functions, by the role's name and theirs
        values = [step.metrics[name] for name in names if name.rpartition("/")[0] not in step.metrics]
        if values and all(map(math.isfinite, values)):
            found.append((step.step, fmean(values)))
    return found


def tau(values: Sequence[float]) -> float:
    """Kendall's rank correlation with time: 1 where they only rise, -1 where they only fall; ties count 0."""
    pairs = list(combinations(values, 2))
    return sum((late > early) - (late < early) for early, late in pairs) / len(pairs) if pairs else 0.0
