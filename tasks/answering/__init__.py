"""Prompts that one role answers: what the tasks on data sets have in common."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine import (
    Arena,
    EpisodeState,
    Example,
    Message,
    Parts,
    Rubric,
    SingleTurnEpisode,
    TaskError,
    is_on_hub,
    read_number,
    read_parts,
)


class Answering(SingleTurnEpisode):
    """One prompt, answered as the role samples, or greedily. The artifact is an `Example`'s.

    `prompts` has the answers a constrained role chooses from, where the example doesn't list its own, and what is
    shown before every prompt.
    """

    role = "Solver"

    def __init__(self, rubric: Rubric, prompts: Prompts | None = None, *, greedy: bool = False) -> None:
        super().__init__(rubric)
        self.prompts, self.settings = prompts, {"temperature": 0.0} if greedy else {}

    def prompt(self, artifact: Any) -> list[Message]:
        shown = self.prompts.shown if self.prompts else []
        return [*shown, {"role": "user", "content": artifact["prompt"]}]

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        legal = artifact.get("choices") or (self.prompts.answers if self.prompts else [])
        reply = await self.call_model(self.role, self.prompt(artifact), arena, legal=legal, **self.settings)
        state.data["reply"] = reply.text
        return state


class Prompts:
    """The prompts of a data set as a task asks them, read once, when they are first wanted: see `read_early`."""

    def __init__(self, task: str, path: str, *, examples: int, numbers: bool, **reading: Any) -> None:
        """`examples` of them are worked ones to show; with `numbers` every answer has to be one. `reading` goes to
        `read_parts`."""
        self.task, self.source, self.examples = task, bundled(path), examples
        self.numbers, self.reading = numbers, reading
        read_early(self.source, self.read)

    def read(self) -> None:
        """Raises `TaskError` for an answer that is no number, and for examples that can't be shown."""
        _ = self._shown_and_parts

    @property
    def shown(self) -> list[Message]:
        """The worked examples as a conversation, the same for every seed."""
        return self._shown_and_parts[0]

    @property
    def parts(self) -> Parts:
        """All but the examples."""
        return self._shown_and_parts[1]

    @cached_property
    def answers(self) -> list[str]:
        """What a constrained role chooses from where the data set lists no choices: every answer there is."""
        return answers(self.parts.train, self.parts.held_out)

    @cached_property
    def _shown_and_parts(self) -> tuple[list[Message], Parts]:
        parts = read_parts(self.source, **self.reading)
        if self.numbers:
            check_numbers(parts, self.reading["answer"])
        if self.examples >= len(parts.train):
            raise TaskError(
                f"{self.task}: option 'examples' = {self.examples} leaves nothing of {len(parts.train)} prompts "
                f"to train on"
            )
        chosen = random.Random("examples").sample(parts.train, self.examples)
        shown: list[Message] = [message for example in chosen for message in self._worked(example)]
        return shown, parts._replace(train=[example for example in parts.train if example not in chosen])

    def _worked(self, example: Example) -> list[Message]:
        if example.answer is None:
            raise TaskError(f"{example.place}: option 'examples' wants answers to show, so name their column")
        answer = example.answer[0] if isinstance(example.answer, list) else example.answer
        return [{"role": "user", "content": example.prompt}, {"role": "assistant", "content": str(answer)}]


def answers(*parts: Iterable[Example]) -> list[str]:
    """Every answer there is, as a text, once."""
    keys = [example.answer for part in parts for example in part if example.answer is not None]
    return list(dict.fromkeys(str(a) for key in keys for a in (key if isinstance(key, list) else [key])))


def check_numbers(parts: Parts, column: str) -> None:
    """Raises `TaskError` for a key that is no number: found by the reward, it would cost a rollout each time."""
    for example in [*parts.train, *parts.held_out]:
        keys = example.answer if isinstance(example.answer, list) else [example.answer]
        if any(read_number(str(key)) is None for key in keys):
            raise TaskError(
                f"{example.place}: column {column!r} wants an answer that ends in one number, not {keys}"
            )


def read_early(source: str, prepare: Callable[[], None]) -> None:
    """Prepares what is read from files, so that what is wrong is told before a run begins; the hub is asked in it.

    Raises `TaskError` where the hub can't be asked at all, before a model is loaded for it.
    """
    if not is_on_hub(source):
        prepare()
    elif find_spec("datasets") is None:
        raise TaskError(f"{source}: a data set of the hub needs a package: pip install 'selfplay-tui[data]'")


def bundled(path: str) -> str:
    """The path of a data file that comes along, if it is one's name; else the path as it is."""
    beside = Path(__file__).parent / path
    return str(beside) if path.endswith(".jsonl") and beside.is_file() else path
