"""Reading an answer out of a reply: a number, an element, a JSON value. None where there isn't exactly one.

As with moves, what can be read in two ways is never guessed: a reply that names two different final answers names
none. Text from a model is bounded before it is searched, so that no reply can hold up a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

LONGEST = 100_000
"""Characters of a reply that is read at all: a longer one has no answer."""
MARKERS = ("####", "\\boxed{")
"""What stands before a final answer, in GSM8K's solutions and in LaTeX."""

_SIGN = r"[-−–+]?"
_CURRENCY = r"[$€£]?"
_WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d{1,300})"
_DECIMAL = rf"(?:{_WHOLE}(?:\.\d{{1,300}})?|\.\d{{1,300}})"
_POWER = r"(?:[eE]|\s?[×x*]\s?10\^\{?)([-−+]?\d{1,3})\}?"
NUMBER = re.compile(rf"({_SIGN}){_CURRENCY}({_DECIMAL})(?:{_POWER}|/({_DECIMAL}))?\s?(%?)")
LATEX_FRACTION = re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}")
TOKEN = re.compile(
    rf"(?<![\w.,/]){_SIGN}{_CURRENCY}"
    + r"\.?\d(?:[\d.,/]*\d)?(?:[eE][-−+]?\d+|\s?[×x*]\s?10\^\{?[-−+]?\d+\}?)?(?:\s?%)?"
)
"""Whatever looks like a number, well-formed or not. `1.2.3` and `10,5` are tokens, and no numbers."""


def read_number(reply: str, markers: Sequence[str] = MARKERS, *, marked: bool = False) -> Fraction | None:
    """The number a reply ends in, exactly; None if there is none, or if it is ambiguous.

    If the reply has `markers`, the number right after each counts, and all have to be equal; otherwise the last
    number of the reply does, unless it has to be `marked`. Read are thousands' commas, decimals, fractions such as
    3/4, and 1.2e3 or 1.2 × 10^3. Units are passed over, the percent sign too: 50% is 50.
    """
    if len(reply) > LONGEST:
        return None
    reply = LATEX_FRACTION.sub(r"\1/\2", reply)
    places = [match.end() for marker in markers for match in re.finditer(re.escape(marker), reply)]
    if not places:
        tokens = [] if marked else TOKEN.findall(reply)
        return _number(tokens[-1]) if tokens else None
    claims = {_claimed(reply[place : place + 400]) for place in places}
    return claims.pop() if len(claims) == 1 else None


def read_element(reply: str, tag: str) -> str | None:
    """The text within `<tag>…</tag>`; None if there isn't exactly one such element, or it is empty."""
    if len(reply) > LONGEST or reply.count(f"<{tag}>") != 1 or reply.count(f"</{tag}>") != 1:
        return None
    inside = reply.partition(f"<{tag}>")[2].partition(f"</{tag}>")
    return inside[0].strip() or None if inside[1] else None


def read_json(reply: str) -> tuple[Any] | None:
    """The one JSON value a reply is, bare or in one fenced block that is all of it, as a tuple of one.

    A key named twice, NaN and infinities make it none: which of two values is meant can't be known.
    """
    text = reply.strip()
    if len(text) > LONGEST:
        return None
    fenced = re.fullmatch(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", text, re.DOTALL)
    try:
        return (json.loads(fenced[1] if fenced else text, object_pairs_hook=_object, parse_constant=_refused),)
    except (ValueError, RecursionError):
        return None


def _claimed(text: str) -> Fraction | None:
    """The number that follows a marker in the same line, but for a sign of currency."""
    match = TOKEN.match(text.lstrip(" \t:*$€£"))
    return _number(match[0]) if match else None


def _number(token: str) -> Fraction | None:
    match = NUMBER.fullmatch(token)
    if not match:
        return None
    sign, digits, power, below, _ = match.groups()
    value = Fraction(digits.replace(",", ""))
    if power:
        value *= Fraction(10) ** int(power.replace("−", "-"))
    if below:
        divisor = Fraction(below.replace(",", ""))
        if not divisor:
            return None
        value /= divisor
    return -value if sign in ("-", "−", "–") else value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is named twice")
    return dict(pairs)


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
