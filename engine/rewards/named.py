"""Reward functions by name: what a preset or a task switches on without writing it.

    reward("numeric", options={"tolerance": 0.01})

What is scored is the text of the role's last turn. What it is compared with is `rollout.extras["answer"]`, or else
`rollout.artifact["answer"]`: one answer, or a list of which any will do. A reward is from 0 to 1, and None where no
judgement could be made. An empty reply gets 0 from all that read one.

| name | 1 for |
|---|---|
| `exact` | the answer's text, but for case, white space and what stands around it |
| `numeric` | the answer's number as the reply's last, or behind `####` |
| `regex` | a text that a pattern matches |
| `json_schema` | one JSON value that fits a schema |
| `length` | a number of words, characters or tokens within a window |
| `format` | `<think>…</think><answer>…</answer>`, each once and nothing beside them |
| `judge` | what a judge rates highest |
| `constitution` | a text that keeps to every principle, by a judge; less by the weight of those it doesn't |
| `./file.py:function` | as it says, given (rollout, arena): role → reward, a number, or None |
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.options import Options, checked
from engine.rewards.scores import REWARDS, Reply, Score
from engine.rubric import RewardFunction, Rewards
from engine.types import Rollout, Turn

if TYPE_CHECKING:
    from engine.arena import Arena


def reward(
    name: str,
    *,
    role: str | None = None,
    options: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> RewardFunction:
    """The reward function of that name, for one role or else for each that spoke.

    A file's path is relative to `folder`. Raises `ValueError` for a name that there isn't, a file that doesn't
    load, and options that don't fit.
    """
    options = options or {}
    if ".py" in name:
        return _own(name, role, options, folder or Path.cwd())
    maker = _maker(name)
    score = maker(**checked(f"reward {name!r}", maker, options))

    async def scored(rollout: Rollout, arena: Arena) -> Rewards:
        rewards: dict[str, float] = {}
        for turn in _last_turns(rollout, arena, role):
            value = score(Reply(turn, rollout, arena))
            value = await value if isinstance(value, Awaitable) else value
            if value is None:
                return None
            rewards[turn.role] = value
        return rewards

    scored.__name__ = name
    return scored


def built_in() -> dict[str, str]:
    """The reward functions there are by name, each with what it says of itself."""
    texts = {name: inspect.getdoc(maker) or "" for name, maker in REWARDS.items()}
    return {name: " ".join(text.partition("\n\n")[0].replace("`", "").split()) for name, text in texts.items()}


def options_of(name: str, *, folder: Path | None = None) -> Options:
    """What the reward function of that name takes as its options. Raises `ValueError` as `reward` does."""
    if ".py" in name:
        return Options(partial(_own_function(name, folder or Path.cwd()), None, None))
    return Options(_maker(name))


def _maker(name: str) -> Callable[..., Score]:
    if name not in REWARDS:
        near = difflib.get_close_matches(name, REWARDS, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(REWARDS)}"
        raise ValueError(f"no reward {name!r}; {meant} One of your own is './file.py:function'")
    return REWARDS[name]


def _last_turns(rollout: Rollout, arena: Arena, role: str | None) -> Sequence[Turn]:
    """The last turn of that role, or of each that spoke; none if it didn't speak."""
    if role is not None and role not in arena.roles:
        raise ValueError(f"no role {role!r} to reward; there are: {', '.join(sorted(arena.roles))}")
    last = {turn.role: turn for turn in sorted(rollout.turns, key=lambda turn: turn.index)}
    return [turn for name, turn in last.items() if role in (None, name)]


def _own(name: str, role: str | None, options: Mapping[str, Any], folder: Path) -> RewardFunction:
    """A function of the user's own: `def mine(rollout, arena, *, its: options) -> …`, `async` or not.

    It gives role → reward, or a number for `role` (or for every role that spoke), or None for no judgement.
    """
    function = _own_function(name, folder)
    settings = checked(f"reward {name!r}", partial(function, None, None), options)

    async def scored(rollout: Rollout, arena: Arena) -> Rewards:
        value = function(rollout, arena, **settings)
        value = await value if isinstance(value, Awaitable) else value
        if value is None or isinstance(value, dict):
            return value
        return {turn.role: float(value) for turn in _last_turns(rollout, arena, role)}

    scored.__name__ = function.__name__
    return scored


def _own_function(name: str, folder: Path) -> Callable[..., Any]:
    """A function in a file, which takes a rollout and an arena first."""
    place, _, wanted = name.partition(":")
    path = folder / place
    if not path.is_file():
        raise ValueError(f"reward {name!r}: no file at {path.resolve()}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"reward {name!r}: {path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"reward {name!r}: {path} does not load: {type(error).__name__}: {error}") from error
    functions = [
        key for key, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__
    ]
    if wanted not in functions:
        there = ", ".join(functions) or "none"
        raise ValueError(f"reward {name!r} is named as './file.py:function'; {path.name} has: {there}")
    function = getattr(module, wanted)
    try:
        inspect.signature(function).bind_partial(None, None)
    except TypeError:
        raise ValueError(f"reward {name!r} has to take (rollout, arena) first") from None
    return function
