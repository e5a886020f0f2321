"""A small real package, `planner`, for roles that break and repair it: edits, and what its tests say of them.

An edit replaces some whole lines of one module. Modules only ever run in the sandbox, and what they return is
compared here.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

from engine import Limits, Outcome, call_python, same_value
from tasks.buggy.checks import HIDDEN, VISIBLE, Check, Raises

PACKAGE = Path(__file__).parent / "planner"
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.glob("*.py"))}
MODULES = tuple(name for name in SOURCES if name != "__init__")
HELD_OUT = ("formulas", "shares")
"""Modules that no role sees in training."""

EDIT = re.compile(r"<<<<<<< SEARCH\n(.*?)^=======\n(.*?)^>>>>>>> REPLACE", re.DOTALL | re.MULTILINE)
LIMITS = Limits(cpu=1)
"""All tests take a tenth of a second; what takes a whole one doesn't end."""
MARKS = ("<<<<<<< SEARCH", "\n=======\n", ">>>>>>> REPLACE")


@dataclass(frozen=True)
class Verdict:
    """What the package's tests say with one of its modules replaced."""

    failing: list[str]
    """The visible tests that fail, as a person would say it."""
    passes: bool
    """Whether every test does, the hidden ones too."""
    is_bug: bool
    """Whether a visible test fails, the same tests in both runs, and another of the module's still passes."""


def edited(source: str, reply: str) -> str | None:
    """The module after the one edit that a reply holds; None if it holds none or several, or it doesn't fit.

    What is searched for has to be in the module exactly once, as whole lines.
    """
    if any(reply.count(mark) != 1 for mark in MARKS):
        return None
    found = EDIT.search(reply)
    if found is None:
        return None
    old, new = found.groups()
    text = "\n" + source
    if not old.strip() or text.count("\n" + old) != 1:
        return None
    return text.replace("\n" + old, "\n" + new)[1:]


async def judged(module: str, source: str) -> Verdict:
    """Run all tests of the package, twice, with `source` in place of a module.

    A test passes if it does both times: what fails now and then is a die, and neither a bug nor a repair.
    """
    files = {f"planner/{name}.py": text for name, text in (SOURCES | {module: source}).items()}
    visible, hidden = ([(name, *check) for name in MODULES for check in table[name]] for table in (VISIBLE, HIDDEN))
    calls = [(f"planner.{name}", function, arguments) for name, function, arguments, _ in (*visible, *hidden)]
    first, second = await asyncio.gather(call_python(files, calls, LIMITS), call_python(files, calls, LIMITS))
    expected = [check[3] for check in (*visible, *hidden)]
    once, again = (list(map(passed, expected, outcomes)) for outcomes in (first, second))
    shown = list(zip(visible, first, once, strict=False))
    failing = [told(check[0], check[1:], outcome) for check, outcome, right in shown if not right]
    works = any(right for check, _, right in shown if check[0] == module)
    return Verdict(failing, passes=all(once) and all(again), is_bug=bool(failing) and works and once == again)


def passed(expected: object, outcome: Outcome) -> bool:
    if isinstance(expected, Raises):
        return outcome.error == expected.error
    return not outcome.error and same_value(expected, outcome.value)


def told(module: str, check: Check, outcome: Outcome) -> str:
    """Such as `dates.weekday([2024, 1, 1]) should be 0, but is 1`."""
    function, arguments, expected = check
    said = f"raises {outcome.error}: {outcome.says}" if outcome.error else f"is {outcome.value!r}"
    should = f"should {expected!r}" if isinstance(expected, Raises) else f"should be {expected!r}"
    return f"{module}.{function}({', '.join(map(repr, arguments))}) {should}, but {said}"[:300]
