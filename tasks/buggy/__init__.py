"""A small real package, `planner`, for roles that break and repair it: edits, and what its tests say of them.

An edit replaces some whole lines of one module. Modules only ever run in the sandbox, and what they return is
compared here.
"""

from __future__ import annotations

import asyncio
import builtins
import io
import keyword
import re
import tokenize
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
LONGEST = 4000
"""Characters of a reply that is read, and of a module: of more, taking apart what was made for it takes minutes."""
SHORT = 4
"""Characters of a name, text or comment that says nothing to anybody."""
PYTHONS = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins)}
WORDS = (tokenize.NAME, tokenize.STRING, tokenize.COMMENT)


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
    """The module after the one edit that a reply holds; None if it holds none or several, or it doesn't fit, or
    more than `LONGEST` characters.

    What is searched for has to be in the module exactly once, as whole lines.
    """
    if len(reply) > LONGEST or any(reply.count(mark) != 1 for mark in MARKS):
        return None
    found = EDIT.search(reply)
    if found is None:
        return None
    old, new = found.groups()
    text = "\n" + source
    if not old.strip() or text.count("\n" + old) != 1:
        return None
    result = text.replace("\n" + old, "\n" + new)[1:]
    return result if len(result) <= LONGEST else None


def brings_words(before: str, after: str) -> bool:
    """Whether an edit brings in words: a name, text or comment, longer than `SHORT`, that is Python's no more than
    the module's. Who breaks a module could tell by them how to repair it."""
    words = _words(after)
    return words is None or any(len(word) > SHORT for word in words - (_words(before) or set()) - PYTHONS)


def code_of(source: str) -> str:
    """A source without what doesn't change what it does: comments, blank lines, spaces within a line."""
    tokens = _tokens(source)
    if tokens is None:
        return source
    layout = {tokenize.INDENT: "{", tokenize.DEDENT: "}", tokenize.NEWLINE: ";"}
    dropped = (tokenize.COMMENT, tokenize.NL)
    return " ".join(layout.get(token.type, token.string) for token in tokens if token.type not in dropped)


def _words(source: str) -> set[str] | None:
    tokens = _tokens(source)
    return None if tokens is None else {token.string for token in tokens if token.type in WORDS}


def _tokens(source: str) -> list[tokenize.TokenInfo] | None:
    """None for what isn't Python."""
    try:
        tokens = [*tokenize.generate_tokens(io.StringIO(source).readline)]
    except (tokenize.TokenError, SyntaxError):
        return None
    return None if any(token.type == tokenize.ERRORTOKEN for token in tokens) else tokens


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
    says = " ".join(f"{outcome.error}: {outcome.says}".split())  # one line, whatever the module that raises writes
    said = f"raises {says}" if outcome.error else f"is {outcome.value!r}"
    should = f"should {expected!r}" if isinstance(expected, Raises) else f"should be {expected!r}"
    return f"{module}.{function}({', '.join(map(repr, arguments))}) {should}, but {said}"[:300]
