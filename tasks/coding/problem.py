"""A problem: what is asked, a reference that answers it, and what it is asked about."""

from __future__ import annotations

import copy
import inspect
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Problem:
    """A function to write. Arguments and results are what JSON can hold; a tuple counts as a list."""

    reference: Callable[..., Any]
    statement: str
    shown: list[Any]
    """Arguments of the example in the prompt, which is no test."""
    tests: list[list[Any]]
    """Arguments of the tests."""

    @property
    def name(self) -> str:
        return self.reference.__name__

    @property
    def signature(self) -> str:
        """Such as `gcd(a: int, b: int) -> int`."""
        return self.name + str(inspect.signature(self.reference)).replace("'", "")

    @property
    def source(self) -> str:
        """The reference as it is written, without what enters it into a table."""
        source = inspect.getsource(self.reference)
        return source[source.index("def ") :]

    @property
    def example(self) -> str:
        """Such as `gcd(12, 18) == 6`."""
        return f"{self.name}({', '.join(map(repr, self.shown))}) == {self.expected(self.shown)!r}"

    def expected(self, arguments: list[Any]) -> Any:
        """What is right. The reference gets a copy, for it may change its arguments."""
        return self.reference(*copy.deepcopy(arguments))

    def lucky(self, tests: list[list[Any]]) -> int:
        """How many tests the best function passes that returns the same whatever it is given."""
        answers = Counter(json.dumps(self.expected(arguments)) for arguments in tests)
        return max(answers.values(), default=0)


def problem(table: list[Problem], statement: str, *inputs: list[Any]) -> Callable[[Function], Function]:
    """Enter the decorated reference into a table."""

    def enter(reference: Function) -> Function:
        table.append(Problem(reference, statement, inputs[0], list(inputs[1:])))
        return reference

    return enter
