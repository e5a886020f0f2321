"""Rubrics: reward functions, sync or async, summed by weight and remembered one by one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.types import GenerateResult, Rollout

if TYPE_CHECKING:
    from engine.arena import Arena

Rewards = dict[str, float] | None
"""Role → reward. None means that no judgement could be made: the rollout then has no reward at all."""

LARGEST = 1e38
"""Rewards from here on are none: differences of smaller ones are finite in the learner's single precision."""

RewardFunction = Callable[[Rollout, "Arena"], Rewards | Awaitable[Rewards]]

Together = Callable[[list[GenerateResult]], Awaitable[Sequence[Rewards]]]
"""Rewards of rollouts that only a comparison gives, one for each."""


@dataclass(frozen=True, slots=True)
class RewardSetting:
    """What a configuration says of a reward function: of one that rubrics have, or of one it adds to them."""

    weight: float = 1.0
    function: RewardFunction | None = None
    """The one it adds."""
    roles: tuple[str, ...] = ()
    """Whose reward it concerns, empty for every role's; by their names in the whole arena, as all here."""
    episodes: tuple[str, ...] = ()
    """In which types of episodes, empty for all."""
    edit: int = 0
    """The number of the edit that set the weight."""

    @property
    def pays_nothing(self) -> bool:
        """Whether the function is only shown; then it may make no judgement without costing the rollout."""
        return not self.weight and (self.function is not None or not self.roles)


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

    async def score(
        self, rollout: Rollout, arena: Arena, settings: Mapping[str, RewardSetting] | None = None
    ) -> None:
        """Fill in `rollout.rewards` and `rollout.breakdown`, or `rollout.unscored`.

        `settings` change weights and add functions. A function whose reward is not a finite number has made no
        judgement, and is named with what it said.
        """
        kind = arena.prefix + rollout.episode_type
        settings = {name: s for name, s in (settings or {}).items() if not s.episodes or kind in s.episodes}
        added = {name: s.function for name, s in settings.items() if s.function is not None}
        totals: dict[str, float] = {}
        for name, function in (self.functions | added).items():
            rewards = function(rollout, arena)
            if inspect.isawaitable(rewards):
                rewards = await rewards
            setting = settings.get(name)
            if rewards is None and setting is not None and setting.pays_nothing:
                continue
            if rewards is None:
                rollout.unscored = name
                return
            values = {role: float(value) for role, value in rewards.items()}
            for role, value in values.items():
                if setting is not None and (not setting.roles or arena.prefix + role in setting.roles):
                    weight = setting.weight
                else:
                    weight = self.weights[name]
                totals[role] = totals.get(role, 0.0) + weight * value
                if not abs(totals[role]) < LARGEST:
                    rollout.unscored = f"{name}: {value:g} for {role}"
                    return
            rollout.breakdown[name] = values
        rollout.rewards = totals


def add_rewards(rollout: Rollout, name: str, rewards: Rewards) -> None:
    """Add to a scored rollout what it got beside those it was compared with; None, or no number, unscores it."""
    values = {role: float(value) for role, value in (rewards or {}).items()}
    totals = rollout.rewards | {role: rollout.rewards.get(role, 0.0) + value for role, value in values.items()}
    odd = [f"{name}: {value:g} for {role}" for role, value in values.items() if not abs(totals[role]) < LARGEST]
    if rewards is None or odd:
        rollout.unscored, rollout.rewards = odd[0] if odd else name, {}
        return
    rollout.breakdown[name] = values
    rollout.rewards = totals


def _name(function: RewardFunction, index: int, functions: Sequence[RewardFunction]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    earlier = [getattr(f, "__name__", type(f).__name__) for f in functions[:index]]
    return name if name not in earlier else f"{name}_{index}"
