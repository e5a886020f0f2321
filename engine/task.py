"""Tasks: what a preset names. Roles, episodes, what to train on, and how to tell whether it helps.

A task is found by name through importlib, so the engine knows none: `nim` is a module of the package
`tasks`, `./my_game.py:MyGame` a class in a file. A class of rules (`Game`) is a task as it stands.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from engine.arena import Arena
from engine.games import Bot, Game, GameEpisode, from_beginnings, random_move
from engine.matches import mean, move_probabilities, nash_conv, perfect_player, seats_in_turn, standing
from engine.options import Between, Count, Options, checked
from engine.types import EpisodeRequest, Role


class TaskError(Exception):
    """A task that can't be found, loaded or set up: says which, and what would be right."""


class Task(ABC):
    """Everything a run needs to know of what is played.

    Options of the preset arrive as keyword arguments, checked against their annotations (see `engine.options`).
    Whatever else doesn't fit, such as a file that isn't there, is a `TaskError`.
    """

    @abstractmethod
    def setup(self, arena: Arena) -> None:
        """Add roles, episodes and artifact stores."""

    def prepare(self) -> None:  # noqa: B027  most tasks have nothing to prepare
        """Read what takes long, such as a data set of the hub: once a run, off the event loop, before the first
        episode."""

    @abstractmethod
    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        """`n` episodes to train on next."""

    @abstractmethod
    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Measure the policy with about `n` episodes per opponent. Pass `label` to `generate_rollouts`.

        With `train.average` it is called twice: the second time the average stands in for the policy
        (`Arena.standing_in`), and what is measured gets names that begin with `average_`.
        """


class GameTask(Task):
    """Self-play of a two-player game: the live policy in both seats."""

    def __init__(
        self,
        name: str,
        game: Game[Any],
        *,
        openings: Annotated[int, Between(0, 1000)] = 0,
        repeats: Count = 1,
        draw: Annotated[float, Between(-0.99, 0.99)] = 0.0,
        notation: Literal["compact", "words"] = "compact",
    ) -> None:
        """`openings`: up to so many random moves come first; `repeats`: games from each beginning, those that GRPO
        compares; `draw`: what it is worth to each; `notation`: in short, or in words for a language model.
        """
        self.name, self.game = name, game
        self.openings, self.repeats = openings, repeats
        self.draw, self.words = float(draw), notation == "words"

    def setup(self, arena: Arena) -> None:
        prompt = self.game.rules if self.words else self.game.prompt
        for seat in self.game.seats:
            arena.add_role(Role(seat, system_prompt=prompt))
        bots: dict[str, Bot] = {"random": random_move}
        if self.game.perfect_information:
            bots["perfect"] = perfect_player(self.game)
        played = GameEpisode(self.game, openings=self.openings, draw=self.draw, words=self.words)
        arena.add_episode(self.name, played)
        arena.add_episode(f"{self.name}-match", GameEpisode(self.game, words=self.words, bots=bots))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        return from_beginnings(arena, self.name, n, self.repeats)

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        kind, seats = f"{self.name}-match", self.game.seats
        played = await seats_in_turn(arena, kind, seats, "random", n, label=f"{label}/random")
        metrics = standing(played, "random")
        metrics["illegal"] = mean(result.rollout.extras.get("illegal") == mine for result, mine in played)
        if self.game.perfect_information:
            half = max(2, n // 2)
            played = await seats_in_turn(arena, kind, seats, "perfect", half, label=f"{label}/perfect")
            metrics["loss_vs_perfect"] = standing(played, "perfect")["loss_vs_perfect"]
        else:
            view = self.game.describe if self.words else self.game.observe
            table = await move_probabilities(arena, self.game, view)

            def policy(state: Any) -> dict[str, float]:
                return table[view(state, self.game.seat(state))]

            metrics["nash_conv"] = nash_conv(self.game, policy)
            metrics |= self.game.habits(policy)
        return metrics


def load_task(name: str, options: dict[str, Any], *, folder: Path | None = None) -> Task:
    """The task a preset names, made with its options. A file's path is relative to `folder`."""
    short, maker = _maker(name, folder)
    try:
        return maker(**checked(short, maker, options))
    except ValueError as error:
        raise TaskError(f"{error}") from error


def options_of(name: str, *, folder: Path | None = None) -> Options:
    """What a task that a preset names takes as its options. `TaskError` as from `load_task`."""
    return Options(_maker(name, folder)[1])


def built_in() -> dict[str, str]:
    """The tasks there are by name, each with the first line it says of itself; none of them is imported."""
    folder = Path(importlib.import_module("tasks").__path__[0])
    return {name: _first_line(folder / f"{name}.py") for name in _names()}


def _first_line(file: Path) -> str:
    """Of a module's docstring. The rest isn't parsed: of all tasks that is 40 ms, for which a key would wait."""
    with tokenize.open(file) as source:
        first = next(tokenize.generate_tokens(source.readline))
    return ast.literal_eval(first.string).partition("\n")[0] if first.type == tokenize.STRING else ""


def _names() -> list[str]:
    tasks = importlib.import_module("tasks")
    return [module.name for module in pkgutil.iter_modules(tasks.__path__) if not module.ispkg]


def _maker(name: str, folder: Path | None) -> tuple[str, Callable[..., Task]]:
    """A task's name without its place, and what makes it of its options."""
    place, _, class_name = name.partition(":")
    path = (folder or Path.cwd()) / place
    module = _module_of_file(path) if place.endswith(".py") else _built_in(place)
    found = _task_class(module, class_name)
    short = module.__name__.rpartition(".")[2]
    return short, partial(GameTask, short, found()) if issubclass(found, Game) else found


def _built_in(name: str) -> ModuleType:
    known = _names()
    if name not in known:
        near = difflib.get_close_matches(name, known, 1) or known
        raise TaskError(
            f"no task {name!r}; nearest: {', '.join(near)}. A task of your own is './file.py:ClassName'"
        )
    return importlib.import_module(f"tasks.{name}")


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TaskError(f"no task file at {path.resolve()}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise TaskError(f"task file {path} does not load: {type(error).__name__}: {error}") from error
    return module


def _task_class(module: ModuleType, name: str) -> type[Task] | type[Game[Any]]:
    classes = {
        key: value
        for key, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Task | Game)
        and not inspect.isabstract(value)
        and value.__module__ == module.__name__
    }
    if name:
        if name not in classes:
            raise TaskError(f"{module.__name__} has no task class {name!r}; it has: {', '.join(classes) or 'none'}")
        return classes[name]
    if len(classes) != 1:
        raise TaskError(
            f"{module.__name__} should have one class derived from Task or Game, or be named as 'file.py:Class'; "
            f"it has: {', '.join(classes) or 'none'}"
        )
    return next(iter(classes.values()))
