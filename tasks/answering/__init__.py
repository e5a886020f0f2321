"""Prompts that one role answers: what the tasks on data sets have in common."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
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
)


class Answering(SingleTurnEpisode):
    """One prompt, answered as the role samples, or greedily. The artifact is an `Example`'s.

    `legal` gives the answers a constrained role chooses from, where the example doesn't list its own; `shown` what
    stands before every prompt, as a conversation.
    """

    role = "Solver"

    def __init__(
        self,
        rubric: Rubric,
        legal: Callable[[], Sequence[str]] = tuple,
        shown: Callable[[], list[Message]] = list,
        *,
        greedy: bool = False,
    ) -> None:
        super().__init__(rubric)
        self.legal, self.shown, self.settings = legal, shown, {"temperature": 0.0} if greedy else {}

    def prompt(self, artifact: Any) -> list[Message]:
        return [*self.shown(), {"role": "user", "content": artifact["prompt"]}]

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        legal = artifact.get("choices") or self.legal()
        reply = await self.call_model(self.role, self.prompt(artifact), arena, legal=legal, **self.settings)
        state.data["reply"] = reply.text
        return state


def set_apart(parts: Parts, count: int) -> tuple[list[Message], Parts]:
    """`count` worked examples as a conversation, the same for every seed, and the parts without them.

    Raises `TaskError` where nothing to train on is left, or one has no answer to show.
    """
    if count >= len(parts.train):
        raise TaskError(f"option 'examples' = {count} leaves nothing of {len(parts.train)} prompts to train on")
    chosen = random.Random("examples").sample(parts.train, count)
    shown: list[Message] = []
    for example in chosen:
        if example.answer is None:
            raise TaskError(f"{example.place}: option 'examples' wants answers to show, so name their column")
        answer = example.answer[0] if isinstance(example.answer, list) else example.answer
        shown.append({"role": "user", "content": example.prompt})
        shown.append({"role": "assistant", "content": str(answer)})
    return shown, parts._replace(train=[example for example in parts.train if example not in chosen])


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
