"""What the tasks of a configuration tell of it: to be asked in a thread, for some import whole libraries."""

from __future__ import annotations

from engine.config import Config
from engine.options import Options
from tui.form.fields import TaskFacts


def ask(config: Config) -> TaskFacts:
    """Their options and roles, and why a run of it couldn't be made, if so."""
    from engine.assembly import arena_of
    from engine.mixture import task_of
    from engine.task import TaskError, options_of

    options: dict[str, Options] = {}
    try:
        for name, part in config.parts.items():
            options[name] = options_of(part.name)
        arena = arena_of(config, task_of(config))
    except TaskError as error:
        return TaskFacts(options, problem=f"{error}")
    except (Exception, SystemExit) as error:  # a task of one's own may fail in any way, and the form must live on
        return TaskFacts(options, problem=f"{type(error).__name__}: {error}")
    return TaskFacts(options, arena.own_roles)
