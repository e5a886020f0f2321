"""Which of several answers to one prompt are good enough to learn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from engine import GenerateResult, StopReason

Passed = list[bool | None]
"""Of each answer, whether it passed; None for no verdict."""


def text(attempt: GenerateResult) -> str:
    return attempt.rollout.extras.get("reply", "")


def whole(attempt: GenerateResult) -> str:
    """What an attempt says, or nothing if it was cut off."""
    ended = all(turn.completion.stop_reason is StopReason.STOP for turn in attempt.rollout.turns)
    return text(attempt) if ended else ""


def survivors(replies: Sequence[str], passed: Passed, keep: int) -> list[int]:
    """Which replies are trained on: the first `keep` that passed and say something, each text once."""
    kept: dict[str, int] = {}
    for index, (reply, is_passed) in enumerate(zip(replies, passed, strict=True)):
        if is_passed and reply.strip() and len(kept) < keep:
            kept.setdefault(reply.strip(), index)
    return sorted(kept.values())


def worth(result: GenerateResult, function: str) -> float:
    """What one reward function gave the Solver, whatever else is paid."""
    return result.rollout.breakdown.get(function, {}).get("Solver", 0.0)


def by_reward(attempts: list[GenerateResult], function: str, least: float) -> Passed:
    """Which attempts that function found worth at least so much."""
    return [worth(attempt, function) >= least if attempt.rollout.is_scored else None for attempt in attempts]


def by_majority(attempts: list[GenerateResult], compared: Callable[[str], Hashable]) -> Passed:
    """Which attempts say what more than half of all say: where there is no such answer, none."""
    said = [compared(text(attempt)) for attempt in attempts]
    often = Counter(answer for answer in said if answer not in (None, ""))
    agreed = next((answer for answer, times in often.items() if 2 * times > len(attempts)), None)
    return [agreed is not None and answer == agreed for answer in said]


def plain(reply: str) -> str:
    return " ".join(reply.casefold().split()).rstrip(".")
