"""What proposers are paid: a question is worth most where solvers are neither sure of it nor lost.

Each reward takes the solvers' results on one question, 1 for solved and 0 for not, or None for a question that was
invalid: badly formed, without an answer, or giving its answer away. They are pure; who asks, who solves and what
makes a question valid is the task's. `p` is the share of solvers who were right.

A solver group that is all right or all wrong teaches the solver nothing, so each of them pays little for both. They
differ in where the most is paid: at one half (goldilocks, SPICE, R-Zero), or as near to never as can be solved at
all (Absolute Zero, bug injection; search self-play even beyond).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from statistics import fmean
from typing import Any, TypeVar

Results = Sequence[float] | None
"""Of each solver, 1.0 if it was right, else 0.0; None if the question was invalid. Never empty."""

Answer = TypeVar("Answer", bound=Hashable)

ProposerReward = Callable[[Results], float]

ALPHA = 0.8
"""Bug injection: what is lost where every solver, or none, repairs the bug."""
VARIANCE, WIDTH = 0.25, 0.01
"""SPICE: the variance of 0/1 results that is paid in full, and the squared width of the bell around it."""


def goldilocks(results: Results) -> float:
    """`1 − 2·|p − 0.5|`: 1 where half of the solvers are right, 0 where all are or none is.

    Invalid: −0.1, as in SPICE, so that a bad question is worth less than one that is merely too easy.
    """
    return -0.1 if results is None else 1.0 - 2.0 * abs(_solved(results) - 0.5)


def spice(results: Results, *, invalid: float = -0.1) -> float:
    """`exp(−(Var − 0.25)² / (2·0.01))`, Var the variance of the results (SPICE, arXiv 2510.24684)."""
    if results is None:
        return invalid
    p = _solved(results)
    return math.exp(-((p * (1.0 - p) - VARIANCE) ** 2) / (2.0 * WIDTH))


def absolute_zero(results: Results) -> float:
    """`1 − p`, and 0 where nobody is right; invalid −1 (Absolute Zero, arXiv 2505.03335)."""
    if results is None:
        return -1.0
    p = _solved(results)
    return 1.0 - p if p > 0.0 else 0.0


def r_zero(results: Results) -> float:
    """`min(s, 1 − s)`, s the share of the solvers' most frequent answer; invalid 0 (R-Zero, arXiv 2508.05004).

    Nobody knows the right answer there: give it the results of `agreement(answers)`. The paper takes a
    `repetition_penalty` off it.
    """
    if results is None:
        return 0.0
    s = _solved(results)
    return min(s, 1.0 - s)


def search(results: Results) -> float:
    """`1 − p`; invalid 0, which is what a question without support in its documents is (arXiv 2510.18821)."""
    return 0.0 if results is None else 1.0 - _solved(results)


def bug_injection(results: Results) -> float:
    """`1 − (1 + α)·p`, `−α` where all solvers or none repair the bug, α = 0.8; invalid −1 (arXiv 2512.18552)."""
    if results is None:
        return -1.0
    p = _solved(results)
    return -ALPHA if p in (0.0, 1.0) else 1.0 - (1.0 + ALPHA) * p


PROPOSER_REWARDS: dict[str, ProposerReward] = {
    function.__name__: function for function in (goldilocks, spice, absolute_zero, r_zero, search, bug_injection)
}
"""By name, as a preset chooses."""


def majority(answers: Sequence[Answer | None]) -> Answer | None:
    """The answer given most often, the earliest of several; None where nobody gave one.

    None stands for a reply without an answer.
    """
    given = Counter(answer for answer in answers if answer is not None)
    return max(given, key=given.__getitem__) if given else None


def agreement(answers: Sequence[Hashable | None]) -> list[float]:
    """Of each answer, 1.0 if it is the majority's, else 0.0. Replies without an answer agree with nobody."""
    most = majority(answers)
    return [float(most is not None and answer == most) for answer in answers]


def repetition_penalty(
    question: Hashable, others: Sequence[Hashable], alike: Callable[[Any, Any], bool] | None = None
) -> float:
    """The share of questions, itself counted among them, that are like this one: R-Zero's `|cluster| / |batch|`.

    Without it a proposer that has found one good question has no reason to look for another. `alike`: equality, if
    left out (R-Zero: a BLEU above 0.5).
    """
    same = sum(question == other if alike is None else alike(question, other) for other in others)
    return (1 + same) / (1 + len(others))


def _solved(results: Sequence[float]) -> float:
    if not results:
        raise ValueError("a proposer's reward needs at least one solver's result; an invalid question is None")
    return fmean(results)
