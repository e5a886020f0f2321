"""Sums: `a op b`, in levels by the size of their numbers, a fixed share of them held out."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from hashlib import blake2b

OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}
HELD_OUT = 0.2
"""The share of problems that is never trained on."""
MOST = 10_000
"""So many problems, or answers, are listed for a constrained role; of more there is no list."""
TRIES = 1_000
"""Draws after which a level is taken to have no problem of the kind wanted."""
WRITTEN = re.compile(r"(?<![\w.,])(\d{1,9})\s*([-+*×−])\s*(\d{1,9})(?![\w,]|\.\d)")
SIGNS = {"×": "*", "−": "-"}


class Sums:
    """Whole numbers from 0; level k has those problems whose larger number is above `sizes[k − 2]`, up to
    `sizes[k − 1]`.

    What is held out depends on the problem alone, and `2 + 3` and `3 + 2` are one. Raises `ValueError` for a level
    without a problem.
    """

    def __init__(self, operators: str, sizes: Sequence[int]) -> None:
        self.operators, self.sizes = operators, list(sizes)
        levels = range(1, len(sizes) + 1)
        self._examined = [level for level in levels if self._drawn(random.Random(level), level, held_out=True)]
        for level in levels:
            self.draw(random.Random(level), level)

    def read(self, text: str) -> str | None:
        """The one problem a text names, as `a op b`; None if there is none, or more than one."""
        found = {f"{int(a)} {SIGNS.get(sign, sign)} {int(b)}" for a, sign, b in WRITTEN.findall(text[:MOST])}
        problem = found.pop() if len(found) == 1 else None
        return problem if problem and self._fits(problem) else None

    def answer(self, problem: str) -> int:
        a, sign, b = problem.split()
        return OPERATIONS[sign](int(a), int(b))

    def level(self, problem: str) -> int:
        """How hard it is: the level of its larger number, from 1."""
        larger = max(_numbers(problem))
        return next(k for k, size in enumerate(self.sizes, 1) if larger <= size)

    def is_held_out(self, problem: str) -> bool:
        a, sign, b = problem.split()
        first, second = (a, b) if sign == "-" else sorted((a, b), key=int)
        return blake2b(f"{first} {sign} {second}".encode(), digest_size=1).digest()[0] < HELD_OUT * 256

    def draw(self, rng: random.Random, level: int) -> str:
        """A problem that may be trained on: first its larger number, then the other, then their order."""
        problem = self._drawn(rng, level, held_out=False)
        if problem is None:
            raise ValueError(f"level {level}, up to {self.sizes[level - 1]}, has no problem that isn't held out")
        return problem

    def table(self, count: int, *, held_out: bool) -> list[str]:
        """Up to `count` different problems of all levels, the same every time."""
        rng = random.Random("table")
        levels = self._examined if held_out else list(range(1, len(self.sizes) + 1))
        drawn = (self._drawn(rng, rng.choice(levels), held_out=held_out) for _ in range(10 * count) if levels)
        return list(itertools.islice(dict.fromkeys(problem for problem in drawn if problem), count))

    def problems(self) -> list[str]:
        """Every problem that may be trained on, empty if there are too many to list."""
        numbers = range(self.sizes[-1] + 1)
        if len(self.operators) * len(numbers) ** 2 > MOST:
            return []
        every = (f"{a} {sign} {b}" for a in numbers for b in numbers for sign in self.operators)
        return [problem for problem in every if not self.is_held_out(problem)]

    def answers(self) -> list[str]:
        """Every whole number from the least answer to the greatest, empty if there are too many to list."""
        pairs = [(a, b) for a in (0, self.sizes[-1]) for b in (0, self.sizes[-1])]
        ends = [OPERATIONS[sign](a, b) for sign in self.operators for a, b in pairs]
        return [str(n) for n in range(min(ends), max(ends) + 1)] if max(ends) - min(ends) < MOST else []

    def _drawn(self, rng: random.Random, level: int, *, held_out: bool) -> str | None:
        least = self.sizes[level - 2] + 1 if level > 1 else 0
        for _ in range(TRIES):
            larger = rng.randint(least, self.sizes[level - 1])
            pair = [larger, rng.randint(0, larger)]
            rng.shuffle(pair)
            problem = f"{pair[0]} {rng.choice(self.operators)} {pair[1]}"
            if self.is_held_out(problem) == held_out:
                return problem
        return None

    def _fits(self, problem: str) -> bool:
        return problem.split()[1] in self.operators and max(_numbers(problem)) <= self.sizes[-1]


def _numbers(problem: str) -> tuple[int, int]:
    a, _, b = problem.split()
    return int(a), int(b)
