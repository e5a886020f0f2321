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

    def weighs(self, role: str) -> bool:
        return not self.roles or role in self.roles


Settings = Mapping[str, RewardSetting]
"""By the names of reward functions."""


def in_force(settings: Settings, episode_type: str) -> Settings:
    """Those that concern a type of episodes, by its name in the whole arena."""
    return {name: s for name, s in settings.items() if not s.episodes or episode_type in s.episodes}


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

    async def score(self, rollout: Rollout, arena: Arena, settings: Settings | None = None) -> None:
        """Fill in `rollout.rewards`, `rollout.breakdown` and `rollout.weights`, or `rollout.unscored`.

        `settings` change weights and add functions. A function whose reward is not a finite number has made no
        judgement, and is named with what it said.
        """
        settings = in_force(settings or {}, arena.prefix + rollout.episode_type)
        added = {name: s.function for name, s in settings.items() if s.function is not None}
        rollout.rewards = {}
        for name, function in (self.functions | added).items():
            rewards = function(rollout, arena)
            if inspect.isawaitable(rewards):
                rewards = await rewards
            setting, weight = settings.get(name), self.weights.get(name, 1.0)
            add_rewards(rollout, name, rewards, setting, prefix=arena.prefix, weight=weight)
            if rollout.unscored is not None:
                return


def add_rewards(
    rollout: Rollout,
    name: str,
    rewards: Rewards,
    setting: RewardSetting | None = None,
    *,
    prefix: str = "",
    weight: float = 1.0,
) -> None:
    """Add what a function gave, times `weight` or what `setting` has in its place; None, or no number, unscores.

    `prefix` stands before the roles' names where the whole arena is seen.
    """
    if rewards is None and setting is not None and setting.pays_nothing:
        return
    values = {role: float(value) for role, value in (rewards or {}).items()}
    totals = dict(rollout.rewards)
    weights: dict[str, float] = {}
    odd = ""
    for role, value in values.items():
        counts = setting.weight if setting is not None and setting.weighs(prefix + role) else weight
        weights[role] = counts
        totals[role] = totals.get(role, 0.0) + counts * value
        if not odd and not abs(totals[role]) < LARGEST:
            odd = f"{name}: {value:g} for {role}"
    if rewards is None or odd:
        rollout.unscored, rollout.rewards = odd or name, {}
        return
    rollout.breakdown[name], rollout.weights[name] = values, weights
    rollout.rewards = totals


def _name(function: RewardFunction, index: int, functions: Sequence[RewardFunction]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    earlier = [getattr(f, "__name__", type(f).__name__) for f in functions[:index]]
    return name if name not in earlier else f"{name}_{index}"
