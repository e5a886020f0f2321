"""What a configuration says of rewards, as an arena takes it: other weights, and functions added to its rubrics."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from engine.arena import Arena
from engine.config import RewardConfig
from engine.rewards.named import reward
from engine.rubric import RewardFunction, Rewards, RewardSetting
from engine.task import TaskError
from engine.types import Rollout


def setting(name: str, table: RewardConfig, arena: Arena) -> RewardSetting:
    """The table `[rewards.name]`: of the task's own function of that name, or of one to be added.

    Raises `TaskError` for a function, a role or a type of episode that there isn't.
    """
    _check("role", table.roles, arena.roles, name)
    _check("type of episode", table.episodes, arena.episodes, name)
    own = own_functions(arena)
    if name in own and table.function:
        raise TaskError(f"[rewards.{name}]: the task has a reward function {name!r}; give yours another name")
    try:
        function = None if name in own else _added(table.function or name, table, arena)
    except ValueError as error:
        raise TaskError(f"[rewards.{name}]: {error}; the task's own are: {', '.join(own) or 'none'}") from error
    return RewardSetting(table.weight, function, tuple(table.roles), tuple(table.episodes))


def own_functions(arena: Arena) -> tuple[str, ...]:
    """The names of the reward functions that the task brings along."""
    episodes = arena.episodes.values()
    return tuple(dict.fromkeys(name for e in episodes for name in (*e.rubric.functions, *e.comparisons)))


def _check(what: str, named: Iterable[str], known: Iterable[str], table: str) -> None:
    for name in named:
        if name not in known:
            raise TaskError(f"[rewards.{table}]: there is no {what} {name!r}; there are: {', '.join(known)}")


def _added(function: str, table: RewardConfig, arena: Arena) -> RewardFunction:
    """The reward function of that name: for all that speak, or for the roles it is limited to."""
    if not table.roles:
        return reward(function, options=table.options)
    of_role = {role: reward(function, role=arena.roles[role].id, options=table.options) for role in table.roles}

    async def scored(rollout: Rollout, arena: Arena) -> Rewards:
        rewards: dict[str, float] = {}
        for role in dict.fromkeys(turn.role for turn in rollout.turns):
            if arena.prefix + role in of_role:
                found = of_role[arena.prefix + role](rollout, arena)
                found = await found if inspect.isawaitable(found) else found
                if found is None:
                    return None
                rewards |= {role: found[role]} if role in found else {}
        return rewards

    return scored
