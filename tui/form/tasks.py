"""What the tasks of a configuration tell of it: to be asked in a thread, for some import whole libraries."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from engine.config import Config
from engine.options import Options
from engine.task import TaskError, options_of
from tui.form.fields import TaskFacts


def ask(config: Config) -> TaskFacts:
    """Their options, roles and reward functions, and why a run of it couldn't be made, if so."""
    from engine.rewards import named

    options: dict[str, Options] = {}
    rewards: dict[str, Options] = {}
    facts = TaskFacts(options, rewards)
    try:
        for name, table in config.rewards.items():
            with contextlib.suppress(ValueError):  # one of the task's own, or none there is: the arena tells
                rewards[name] = named.options_of(table.function or name)
        for name, part in config.parts.items():
            options[name] = options_of(part.name)
        return _with_arena(facts, config)
    except TaskError as error:
        facts = replace(facts, problem=f"{error}")
    except (Exception, SystemExit) as error:  # a task of one's own may fail in any way, and the form must live on
        facts = replace(facts, problem=f"{type(error).__name__}: {error}")
    # which roles there are is all the more of use where the configuration names others
    with contextlib.suppress(Exception, SystemExit):
        return _with_arena(facts, config.model_copy(update={"roles": {}, "rewards": {}}))
    return facts


def _with_arena(facts: TaskFacts, config: Config) -> TaskFacts:
    from engine.assembly import arena_of
    from engine.mixture import task_of
    from engine.rewards.settings import own_functions

    arena = arena_of(config, task_of(config))
    return replace(facts, functions=own_functions(arena), roles=arena.own_roles)
