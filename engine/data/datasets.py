"""Data sets: prompts with their answers, read from a file or from the Hugging Face hub.

A file has one row a line (`.jsonl`, `.csv`, `.tsv` with a header), or is a JSON list of objects, or Parquet. Text
is UTF-8. Whatever doesn't fit is an error that names file and line, and says what was expected: a row is never
skipped, for a data set with holes that nobody knows of is measured as if it were whole. Blank lines are no rows.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, NamedTuple

from engine.artifacts import Artifact, ArtifactStore
from engine.data.tables import DataError, kind_of, rows_of


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt and what answers it."""

    prompt: str
    answer: str | int | float | list[str | int | float] | None
    """A text or number, or several of which any is right; None where no column of answers was asked for."""
    choices: tuple[str, ...] = ()
    """The answers to choose from, where the data set lists them."""
    place: str = ""

    @property
    def artifact(self) -> dict[str, Any]:
        """What an episode starts from. `engine.rewards.named` finds its answer there."""
        kept = {"prompt": self.prompt, "answer": self.answer, "choices": list(self.choices)}
        return {name: value for name, value in kept.items() if value not in (None, [])}


class Parts(NamedTuple):
    """What is trained on, and what is only measured on."""

    train: list[Example]
    held_out: list[Example]
    repeated: int
    """Examples left out because their prompt was there before, or is held out."""


def read(
    source: str,
    *,
    config: str = "",
    split: str = "train",
    prompt: str = "prompt",
    answer: str = "answer",
    choices: str = "",
    template: str = "",
) -> list[Example]:
    """The examples of a file, of a folder laid out like a data set of the hub, or of one of the hub by its id.

    `prompt`, `answer` and `choices` are names of columns; without the latter two there are no answers or choices.
    `template` makes the prompt of several columns, as in `"{context}\\n\\nQuestion: {question}"`. `config` and
    `split` say which part of a data set of the hub. Raises `DataError`.
    """
    examples = []
    for place, row in rows_of(source, config, split):
        made = _filled(template, row, place) if template else _text(row, prompt, place)
        key = _answer(row, answer, place) if answer else None
        options = _choices(row, choices, place) if choices else ()
        if options and answer and key not in options:
            raise DataError(
                f"{place}: column {answer!r} wants one of the choices {options!r:.100}, not {kind_of(key)}"
            )
        examples.append(Example(made, key, options, place))
    if not examples:
        raise DataError(f"{source}: no rows; expected at least one")
    return examples


def read_parts(
    source: str, *, share: float = 0.1, evaluation: str = "", split: str = "train", **columns: Any
) -> Parts:
    """The examples of a source, and those held out: a `share` of them, or all of another source.

    `evaluation` is that other source, or `"split:NAME"` for another split of the same. Other options as for `read`.
    Raises `DataError`, also where there is nothing to train on, or nothing to measure on.
    """
    train = read(source, split=split, **columns)
    if not evaluation:
        parts = held_out(train, share)
    elif evaluation.startswith("split:"):
        parts = apart(train, read(source, split=evaluation.removeprefix("split:"), **columns))
    else:
        parts = apart(train, read(evaluation, split=split, **columns))
    if not parts.held_out:
        raise DataError(
            f"{source}: a share of {share:g} of {len(train)} examples holds out none; take a larger one"
        )
    if not parts.train:
        raise DataError(f"{source}: all of its {len(train)} examples are held out, none is left to train on")
    return parts


def held_out(examples: Sequence[Example], share: float) -> Parts:
    """A share of the examples set apart by a hash of the prompt: the same whatever seed, order and other examples.

    Prompts that differ only in case and white space are one, and the first of them counts.
    """
    parts = Parts([], [], 0)
    for example in examples:
        (parts.held_out if _position(example) < share else parts.train).append(example)
    return apart(*parts[:2])


def apart(train: Iterable[Example], held_out: Iterable[Example]) -> Parts:
    """Both without repetitions, and nothing trained on that is held out. What is held out is put in the order of
    its hashes: its first n are then as good a sample as any, whatever the file is sorted by."""
    seen: set[str] = set()
    kept: list[list[Example]] = []
    repeated = 0
    for part in (held_out, train):
        kept.append([])
        for example in part:
            key = _plain(example.prompt)
            repeated += key in seen
            if key not in seen:
                kept[-1].append(example)
            seen.add(key)
    return Parts(kept[1], sorted(kept[0], key=_position), repeated)


class Epochs(ArtifactStore):
    """A store that gives every example once before it gives one again, in an order drawn anew for each round.

    What it keeps is how far it came, and not the examples: these may be many, and are read anew when a run is
    resumed. `examples` is called when they are first needed.
    """

    def __init__(self, examples: Callable[[], Sequence[Example]], *, seed: int = 0) -> None:
        super().__init__()
        self._examples, self._seed, self._drawn = examples, seed, 0
        self._expected: int | None = None
        self._round, self._order = -1, []

    def __len__(self) -> int:
        return len(self._examples())

    def __iter__(self) -> Iterator[Artifact]:
        return (Artifact(i, example.artifact) for i, example in enumerate(self._examples()))

    def sample(self, k: int = 1) -> list[Artifact]:
        """The next `k`. Raises `DataError` if there are more or fewer than when the run began."""
        there = len(self)
        if self._expected not in (None, there):
            raise DataError(f"the data set has {there} examples to train on; it had {self._expected} in this run")
        self._expected, drawn = there, range(self._drawn, self._drawn + k)
        self._drawn += k
        return [self._at(*divmod(number, there)) for number in drawn]

    def state(self) -> dict[str, Any]:
        return {"drawn": self._drawn, "seed": self._seed, "of": self._expected}

    def load_state(self, state: dict[str, Any]) -> None:
        self._drawn, self._seed, self._expected = state["drawn"], state["seed"], state["of"]
        self._round = -1

    def _at(self, round_: int, place: int) -> Artifact:
        if round_ != self._round:
            order = list(range(len(self)))
            random.Random(f"{self._seed}:{round_}").shuffle(order)
            self._round, self._order = round_, order
        index = self._order[place]
        return Artifact(index, self._examples()[index].artifact)


def _plain(prompt: str) -> str:
    return " ".join(prompt.casefold().split())


def _position(example: Example) -> float:
    """A number from 0 to below 1 that depends on nothing but the prompt."""
    digest = hashlib.blake2b(_plain(example.prompt).encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big") / 2**48


def _column(row: dict[str, Any], name: str, place: str) -> Any:
    if name not in row:
        raise DataError(f"{place}: no column {name!r}; there are: {', '.join(map(str, row)) or 'none'}")
    return row[name]


def _text(row: dict[str, Any], name: str, place: str) -> str:
    value = _column(row, name, place)
    if not isinstance(value, str):
        raise DataError(f"{place}: column {name!r} wants a text, not {kind_of(value)}")
    return _sound(value, f"column {name!r}", place)


def _answer(row: dict[str, Any], name: str, place: str) -> Any:
    value = _column(row, name, place)
    for answer in value if isinstance(value, list) else [value]:
        if isinstance(answer, bool) or not isinstance(answer, str | int | float) or _is_infinite(answer):
            raise DataError(f"{place}: column {name!r} wants a text or a number, not {kind_of(answer)}")
        if isinstance(answer, str):
            _sound(answer, f"column {name!r}", place)
    if value == []:
        raise DataError(f"{place}: column {name!r} has no answer")
    return value


def _is_infinite(answer: str | int | float) -> bool:
    return isinstance(answer, float) and not math.isfinite(answer)


def _choices(row: dict[str, Any], name: str, place: str) -> tuple[str, ...]:
    value = _column(row, name, place)
    if not isinstance(value, list) or not value or not all(isinstance(choice, str) and choice for choice in value):
        raise DataError(f"{place}: column {name!r} wants a list of texts, not {kind_of(value)}")
    return tuple(_sound(choice, f"column {name!r}", place) for choice in value)


def _filled(template: str, row: dict[str, Any], place: str) -> str:
    """The template with columns in place of `{names}`; nothing else of Python's format strings means anything."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise DataError(f"template {template!r}: {error}; a brace of its own is written {{{{ or }}}}") from None
    filled = []
    for literal, name, form, conversion in parts:
        filled.append(literal)
        if name is not None:
            if form or conversion:
                raise DataError(f"template {template!r}: {{{name}…}} wants the name of a column and nothing else")
            value = _column(row, name, place)
            if not isinstance(value, str | int | float):
                raise DataError(f"{place}: column {name!r} wants a text or a number, not {kind_of(value)}")
            filled.append(str(value))
    return _sound("".join(filled), "the template's text", place)


def _sound(text: str, what: str, place: str) -> str:
    if not text.strip():
        raise DataError(f"{place}: {what} is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{place}: {what} has half of a surrogate pair, which is no character") from None
    return text
