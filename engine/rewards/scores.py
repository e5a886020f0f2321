"""How a reply is scored: what makes a score from options, by name. `named` makes reward functions of them.

A score is from 0 to 1, and None where no judgement could be made. An empty reply gets 0, and so does one of more
than `LONGEST` characters: text from a model is bounded before it is searched, so that no reply can hold up a run.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engine.options import Between, Count
from engine.rewards.answers import LONGEST, read_element, read_json, read_number
from engine.rewards.judge import Judge, quoted
from engine.types import Rollout, Turn

if TYPE_CHECKING:
    from engine.arena import Arena

MATCHING_SECONDS = 1.0
"""What a pattern may take on one text; one that takes longer doesn't match."""
QUOTES, ENDS = "\"'`“”‘’* ", ".,;:!? "
"""What may stand around an answer, and behind one, without being of it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a role said last, and where."""

    turn: Turn
    rollout: Rollout
    arena: Arena

    @property
    def text(self) -> str:
        return self.turn.completion.text

    @property
    def question(self) -> str:
        return self.turn.messages[-1]["content"]

    @property
    def answers(self) -> list[Any]:
        """The answers that are right. Raises `ValueError` if the episode says none."""
        kept = [self.rollout.extras, self.rollout.artifact]
        found = [place["answer"] for place in kept if isinstance(place, Mapping) and "answer" in place]
        if not found:
            raise ValueError('no answer to compare with in rollout.extras["answer"] or rollout.artifact["answer"]')
        answers = found[0] if isinstance(found[0], list | tuple) else [found[0]]
        if not answers or any(isinstance(a, bool) or not isinstance(a, str | int | float) for a in answers):
            raise ValueError(f"an answer is a text or a number, or a list of them, not {found[0]!r}")
        return list(answers)

    def within(self, tag: str) -> str | None:
        """The text within the one element of that name, or all of it without a name."""
        if not tag:
            return self.text if self.text.strip() and len(self.text) <= LONGEST else None
        return read_element(self.text, tag)


Score = Callable[[Reply], "float | Awaitable[float | None] | None"]


def exact(
    *, ignore_case: bool = True, ignore_space: bool = True, ignore_punctuation: bool = True, tag: str = ""
) -> Score:
    """1 if the reply is an answer's text, else 0.

    Options: `ignore_case`: capitals are as good as small letters. `ignore_space`: how many blanks, and of which
    kind, makes no difference. `ignore_punctuation`: nor do quotation marks and emphasis around it, and marks that
    end a sentence behind it; a sign or a decimal point always does. `tag`: only that element is read.
    """

    def plain(text: str) -> str:
        text = unicodedata.normalize("NFC", text).strip()
        text = text.casefold() if ignore_case else text
        text = " ".join(text.split()) if ignore_space else text
        return (ignore_punctuation and text.lstrip(QUOTES).rstrip(QUOTES + ENDS)) or text

    def score(reply: Reply) -> float:
        text = reply.within(tag)
        return float(text is not None and plain(text) in {plain(str(answer)) for answer in reply.answers})

    return score


def numeric(*, tolerance: Annotated[float, Between(0.0)] = 0.0, marked: bool = False, tag: str = "") -> Score:
    """1 if the reply's final number is an answer's.

    See `read_number` for what is read. Options: `tolerance`: how far off it may be, relative to an answer above 1.
    `marked`: only a number behind `####` or in `\\boxed{}` counts. `tag`: only that element is read.
    """
    allowed = Fraction(str(tolerance))

    def score(reply: Reply) -> float:
        text = reply.within(tag)
        said = None if text is None else read_number(text, marked=marked)
        right = [_key(answer) for answer in reply.answers]
        return float(said is not None and any(abs(said - a) <= allowed * max(1, abs(a)) for a in right))

    return score


def _key(answer: str | int | float) -> Fraction:
    """The number an answer key stands for. Raises `ValueError` if it stands for none."""
    number = read_number(str(answer))
    if number is None:
        raise ValueError(f"the reward 'numeric' wants answers that end in one number, not {answer!r}")
    return number


def regex(*, pattern: str, whole: bool = False, ignore_case: bool = False, tag: str = "") -> Score:
    """1 if a pattern matches in the reply, else 0.

    Options: `pattern`: a regular expression. `whole`: it has to match all of the text, not just somewhere.
    `ignore_case`: capitals match small letters. `tag`: only that element is read.
    """
    import regex as engine

    try:
        compiled = engine.compile(pattern, engine.IGNORECASE if ignore_case else 0)
    except engine.error as error:
        raise ValueError(f"reward 'regex': option 'pattern' = {pattern!r}: {error}") from None

    def score(reply: Reply) -> float:
        text = reply.within(tag)
        match = compiled.fullmatch if whole else compiled.search
        try:
            return float(text is not None and match(text.strip(), timeout=MATCHING_SECONDS) is not None)
        except TimeoutError:
            return 0.0

    return score


def json_schema(*, fits: dict[str, Any], tag: str = "") -> Score:
    """1 if the reply is one JSON value, bare or in one fenced block, that fits a JSON Schema.

    Options: `fits`: the schema. `tag`: only that element is read.
    Draft 2020-12, or the one that it names. References lead to places within it: none is fetched from elsewhere.
    `patternProperties` is refused: a reply may name a property that takes forever to match.
    """
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import extend, validator_for
    from referencing import Registry

    kind = validator_for(fits, default=Draft202012Validator)
    try:
        kind.check_schema(fits)
    except SchemaError as error:
        place = ".".join(["fits", *map(str, error.absolute_path)])
        raise ValueError(f"reward 'json_schema': option {place!r}: {error.message}") from None
    if "patternProperties" in _keywords(fits):
        raise ValueError("reward 'json_schema': option 'fits' has patternProperties, which nothing bounds in time")
    bounded = {"pattern": _pattern, "uniqueItems": _unique}
    validator = extend(kind, bounded)(fits, registry=Registry())

    def score(reply: Reply) -> float:
        value = read_json(reply.within(tag) or "")
        try:
            return float(value is not None and validator.is_valid(value[0]))
        except (RecursionError, TimeoutError, OverflowError):  # too deep, matching forever, too large
            return 0.0

    return score


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Exception]:
    """JSON Schema's `pattern`, in bounded time."""
    import regex as engine
    from jsonschema import ValidationError

    if isinstance(instance, str) and not engine.search(pattern, instance, timeout=MATCHING_SECONDS):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _unique(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[Exception]:
    """JSON Schema's `uniqueItems`, in linear time."""
    from jsonschema import ValidationError

    if wanted and isinstance(instance, list) and len({*map(_frozen, instance)}) < len(instance):
        yield ValidationError("items are not all different")


def _frozen(value: Any) -> Hashable:
    """A JSON value as one that can be hashed: equal where JSON Schema calls the values equal."""
    if isinstance(value, dict):
        return frozenset((key, _frozen(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return str(value).encode() if isinstance(value, bool) else value


def _keywords(schema: Any) -> Iterator[str]:
    """Every keyword of a schema, those within others included; names of properties are none."""
    if isinstance(schema, list):
        for inner in schema:
            yield from _keywords(inner)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            yield name
            is_named = name in ("properties", "$defs", "definitions", "dependentSchemas")
            yield from _keywords([*value.values()] if is_named else value)


def length(*, least: Count = 1, most: Count, unit: Literal["words", "characters", "tokens"] = "words") -> Score:
    """1 for a reply of a wanted length; below and above it falls linearly, to 0 at none and at twice the most.

    Options: `least`: the fewest units that get 1. `most`: the most units that do. `unit`: what is counted. Tokens
    are those sampled, the end of the turn included.
    """
    if least > most:
        raise ValueError(f"reward 'length': option 'least' = {least} is more than 'most' = {most}")

    def score(reply: Reply) -> float:
        text = reply.text.strip()
        sizes = {"words": len(text.split()), "characters": len(text), "tokens": len(reply.turn.completion.tokens)}
        size = sizes[unit] if text else 0
        return min(1.0, size / least, max(0.0, 2.0 - size / most))

    return score


def format(*, tags: list[str] | None = None) -> Score:
    """1 if the reply is `<think>…</think><answer>…</answer>`, each once, filled, and nothing beside them.

    DeepSeek-R1 (arXiv 2501.12948) has such a reward. Options: `tags`: the elements, in order, if they are others.
    """
    names = tags or ["think", "answer"]

    def score(reply: Reply) -> float:
        rest = reply.text
        for name in names:
            inside = read_element(reply.text, name)
            before, _, rest = rest.partition(f"<{name}>")
            between, _, rest = rest.partition(f"</{name}>")
            if inside is None or before.strip() or not between.strip():
                return 0.0
        return float(not rest.strip())

    return score


def judge(*, criteria: str = "", max_tokens: Count = 256, constrained: bool = False, tag: str = "") -> Score:
    """What a judge rates the reply, from 0 to 1; None without a verdict, 0 for an empty reply.

    Options: `criteria`: what it is to go by, in words. `max_tokens`: how long its answer may be. `constrained`: it
    can say nothing but a verdict. `tag`: only that element is judged.
    """
    asked = Judge(criteria, max_tokens=max_tokens, constrained=constrained)

    async def score(reply: Reply) -> float | None:
        text = reply.within(tag)
        return 0.0 if text is None else await asked.rate(reply.arena, reply.question, text)

    return score


def constitution(
    *,
    principles: list[str] | dict[str, Annotated[float, Between(0.0)]],
    max_tokens: Count = 256,
    constrained: bool = False,
    tag: str = "",
) -> Score:
    """The share of principles a judge finds kept, by their weights; None if a verdict is missing.

    After Constitutional AI (arXiv 2212.08073). An empty reply breaks no principle, and gets 0 nevertheless.
    Options: `principles`: a list of them, or a table of each one's weight. `max_tokens`: how long an answer of the
    judge may be. `constrained`: it can say nothing but a verdict. `tag`: only that element is judged.
    """
    weights = principles if isinstance(principles, dict) else dict.fromkeys(principles, 1.0)
    if not sum(weights.values()):
        raise ValueError("reward 'constitution': option 'principles' wants at least one with a weight above 0")
    asked = Judge(max_tokens=max_tokens, constrained=constrained)

    async def score(reply: Reply) -> float | None:
        text = reply.within(tag)
        if text is None:
            return 0.0
        about = f"{quoted('The request', reply.question)}\n\n{quoted('The reply', text)}"
        questions = [
            f"A principle: {principle}\n\n{about}\n\nDoes the reply keep to the principle?" for principle in weights
        ]
        verdicts = await asyncio.gather(*(asked.holds(reply.arena, question) for question in questions))
        if None in verdicts:
            return None
        kept = sum(weight for weight, holds in zip(weights.values(), verdicts, strict=True) if holds)
        return kept / sum(weights.values())

    return score


REWARDS: dict[str, Callable[..., Score]] = {
    maker.__name__: maker for maker in (exact, numeric, regex, json_schema, length, format, judge, constitution)
}
