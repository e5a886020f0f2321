"""Tables of a configuration being written: `[rewards.NAME]` and `[tasks.NAME]` put in, taken out, and `[task]` made
one of several.

Nothing is checked here: whether what comes of it can be played is told by `engine.steering.drafts.edited`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from engine.config import Config, PartConfig, RewardConfig, RoleConfig

Table = RewardConfig | PartConfig | RoleConfig

TABLES = ("tasks", "roles", "rewards")
"""Sections that hold tables by name."""


def tables(config: Config) -> dict[str, Table]:
    """All of them, by place: `"rewards.length"`."""
    return {f"{section}.{name}": table for section in TABLES for name, table in getattr(config, section).items()}


def put(config: Config, place: str, table: Table) -> Config:
    """The configuration with that table at that place, such as `"rewards.length"`."""
    section, _, name = place.partition(".")
    return config.model_copy(update={section: {**getattr(config, section), name: table}})


def take_out(config: Config, place: str) -> Config:
    """The configuration without the table of that place, if there is one."""
    section, _, name = place.partition(".")
    left = {other: table for other, table in getattr(config, section).items() if other != name}
    return config.model_copy(update={section: left})


def free(name: str, taken: Collection[str]) -> str:
    """A table's name for what is called `name`, be it a file's path with a class: one that isn't taken."""
    place, _, inside = name.partition(":")
    short = (inside or Path(place).stem).replace(".", "_")
    return next(
        tried for n in range(1, len(taken) + 2) if (tried := short if n == 1 else f"{short}_{n}") not in taken
    )


def reward(function: str, config: Config) -> tuple[str, RewardConfig]:
    """A place for a reward function, and its table."""
    name = free(function, config.rewards)
    return f"rewards.{name}", RewardConfig() if name == function else RewardConfig(function=function)


def part(task: str, config: Config, weight: float = 1.0) -> tuple[str, PartConfig]:
    """A place for a task beside the others, and its table."""
    name = free(task, config.tasks)
    table = PartConfig() if name == task else PartConfig(name=task)
    return f"tasks.{name}", table if weight == 1.0 else table.model_copy(update={"weight": weight})


def as_one_of_several(config: Config) -> Config:
    """`[task]` as one of `[tasks]`, so that others can be trained on beside it.

    Its roles, types of episodes and metrics begin with its name from now on, wherever the configuration names them.
    """
    if config.task is None:
        return config
    place, table = part(config.task.name, config)
    options = {"options": config.task.options} if config.task.options else {}
    mine = place.partition(".")[2]

    def renamed(name: str) -> str:
        return name if name.partition("/")[0] in config.tasks else f"{mine}/{name}"

    changes: dict[str, object] = {
        "task": None,
        "tasks": {mine: table.model_copy(update=options), **config.tasks},
        "roles": {renamed(name): role for name, role in config.roles.items()},
        "rewards": {name: _within(reward, renamed) for name, reward in config.rewards.items()},
    }
    if config.eval.metric:
        changes["eval"] = config.eval.model_copy(update={"metric": renamed(config.eval.metric)})
    return config.model_copy(update={key: value for key, value in changes.items() if value != getattr(config, key)})


def _within(table: RewardConfig, renamed: Callable[[str], str]) -> RewardConfig:
    """A reward's table where roles and types of episodes have other names."""
    lists = {"roles": table.roles, "episodes": table.episodes}
    return table.model_copy(
        update={key: [renamed(name) for name in names] for key, names in lists.items() if names}
    )
