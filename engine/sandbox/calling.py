"""Functions of untrusted code, called in the sandbox: arguments go in, values come out, nothing else counts.

Whoever judges code by a report from within its process believes the code: it can print "OK", leave with status 0
before the tests, replace `assertEqual`, or find the expected values on the stack. Here the expected values never
enter the process. What comes out are claims of values, one a call in the order of the calls, to be compared with
what only the other side knows. Code may write these lines itself; it then has to write the right ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.sandbox.running import ORDINARY, Limits, run_python

CALLER = "__call__.py"
SAID = 200
"""Characters of an exception's name and of its words: judged code may write them itself."""
Call = tuple[str, str, list[Any]]
"""Module, function, arguments that JSON can hold."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: a value, or an error."""

    value: Any = None
    """As JSON brings it back: tuples are lists, and keys texts."""
    error: str = ""
    """The name of the exception; `"NoAnswer"` if the process ended, or wrote what isn't an answer."""
    says: str = ""
    """The exception's words."""


async def call_python(files: Mapping[str, str], calls: Sequence[Call], limits: Limits = ORDINARY) -> list[Outcome]:
    """Call functions of the modules in `files`, all in one process, and return an outcome for each call.

    Calls after one that doesn't end have no answer. Raises `SandboxError` where code can't be confined.
    """
    source = Path(__file__).with_name("caller.py").read_text(encoding="utf-8")
    room = replace(limits, output=max(limits.output, 1_000_000))
    finished = await run_python({**files, CALLER: source}, [CALLER], room, stdin=json.dumps(calls))
    lines = finished.stdout.split("\n")[:-1][: len(calls)]
    missing = Outcome(error="NoAnswer", says=f"the program ended ({finished.why})")
    return [_outcome(line) for line in lines] + [missing] * (len(calls) - len(lines))


def same_value(expected: Any, value: Any) -> bool:
    """Whether a value is the expected one: exactly, but fractions within 1e-6, and tuples as lists.

    True is not 1 here: a truth and a number are different answers.
    """
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            return False
        wanted = {key if isinstance(key, str) else json.dumps(key): item for key, item in expected.items()}
        return wanted.keys() == value.keys() and all(same_value(item, value[key]) for key, item in wanted.items())
    if isinstance(expected, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(expected) == len(value)
            and all(same_value(a, b) for a, b in zip(expected, value, strict=True))
        )
    if isinstance(expected, bool) or isinstance(value, bool):
        return expected is value
    if isinstance(expected, float) and isinstance(value, int | float):
        try:
            return math.isclose(expected, value, rel_tol=1e-6, abs_tol=1e-6)
        except OverflowError:  # a whole number beyond what fractions can be
            return False
    return expected == value


def _outcome(line: str) -> Outcome:
    """A line read as an answer. Plain JSON types are all that can come of it, whatever was written."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        if answer.keys() == {"value"}:
            return Outcome(answer["value"])
        if answer.keys() == {"error", "says"} and all(isinstance(text, str) for text in answer.values()):
            return Outcome(None, answer["error"][:SAID], answer["says"][:SAID])
    return Outcome(error="NoAnswer", says="what it wrote isn't an answer")
