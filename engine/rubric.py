"""Rubrics: reward functions, sync or async, summed by weight and remembered one by one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from engine.types import Rollout

if TYPE_CHECKING:
    from engine.arena import Arena

Rewards = dict[str, float] | None
"""Role → reward. None means that no judgement could be made: the rollout then has no reward at all."""

LARGEST = 1e38
"""Rewards from here on are none: differences of smaller ones are finite in the learner's single precision."""

RewardFunction = Callable[[Rollout, "Arena"], Rewards | Awaitable[Rewards]]


class Rubric:
    """Scores a rollout: `rewards[role] = Σ weight · function(role)`.

    A reward function may ask `arena.call_model(prompt)` without a role: an oracle, whose words never train.
    """

    def __init__(self, functions: Sequence[RewardFunction] = (), weights: Sequence[float] | None = None) -> None:
        weights = [1.0] * len(functions) if weights is None else list(weights)
        if len(weights) != len(functions):
            raise ValueError(f"a rubric of {len(functions)} reward functions was given {len(weights)} weights")
        self.functions = {_name(function, i, functions): function for i, function in enumerate(functions)}
        self.weights = dict(zip(self.functions, weights, strict=True))

    async def score(self, rollout: Rollout, arena: Arena) -> None:
        """Fill in `rollout.rewards` and `rollout.breakdown`, or `rollout.unscored`.

        A function whose reward is not a finite number has made no judgement, and is named with what it said.
        """
        totals: dict[str, float] = {}
        for name, function in self.functions.items():
            rewards = function(rollout, arena)
            if inspect.isawaitable(rewards):
                rewards = await rewards
            if rewards is None:
                rollout.unscored = name
                return
            values = {role: float(value) for role, value in rewards.items()}
            for role, value in values.items():
                totals[role] = totals.get(role, 0.0) + self.weights[name] * value
                if not abs(totals[role]) < LARGEST:
                    rollout.unscored = f"{name}: {value:g} for {role}"
                    return
            rollout.breakdown[name] = values
        rollout.rewards = totals


def _name(function: RewardFunction, index: int, functions: Sequence[RewardFunction]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    earlier = [getattr(f, "__name__", type(f).__name__) for f in functions[:index]]
    return name if name not in earlier else f"{name}_{index}"
