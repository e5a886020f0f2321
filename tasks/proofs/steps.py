"""Which line follows from which. Every rule is exact, and lets one operation be done in a step.

*Compute*: an expression of numbers. A step makes one of two of its numbers that are added or multiplied, and leaves
the rest as it is; order, and brackets that change nothing, don't matter. Proved when one number is left. Every step
does exactly one of the operations there are, so none can be repeated, skipped, or put in by guessing the result.

*Solve*: an equation. A step adds one term (a number, or a multiple of x) to both sides, multiplies both by a number
other than 0, exchanges them, or writes the same two sides with fewer operations. Proved when x stands alone on one
side and a number on the other. Sides that were there before are no step but for being written shorter, so nothing
is gained by going round; and x = 5 doesn't follow from 3x + 4 = 19, true as it is, for that takes two operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tasks.proofs.expressions import Line, Tree, leaves, line, plus, read, reductions, scaled, size, tree

MOST_STEPS = 40
LONGEST_PROOF = 20_000


class Step(NamedTuple):
    """A line of a proof, and whether it follows from the one before it."""

    before: str
    text: str
    valid: bool


@dataclass(frozen=True, slots=True)
class Checked:
    """A proof as far as its first line that doesn't follow."""

    steps: list[Step]
    proved: bool
    """Whether the goal was reached and every line follows."""
    progress: float
    """Share of the work that valid steps have done, from 0 to 1."""


class Sides(NamedTuple):
    left: Line
    right: Line
    size: int
    """Operations it is written with."""
    is_solved: bool

    @property
    def worth(self) -> tuple[Line, Line]:
        return self.left, self.right


def check(kind: str, given: str, proof: str) -> Checked:
    """A proof, checked up to its first invalid step. Lines without `=` are words, and claim nothing."""
    follows, work_of = (_reduces, _operations) if kind == "compute" else (_transforms, _distance)
    steps: list[Step] = []
    seen = [given]
    for text in _claims(kind, seen, proof):
        valid = len(steps) < MOST_STEPS and work_of(seen[-1]) > 0 and follows(seen, text)
        steps.append(Step(seen[-1], text, valid))
        if not valid:
            break
        seen.append(text)
    remaining = work_of(seen[-1])
    proved = remaining == 0 and steps[-1].valid
    return Checked(steps, proved, max(0.0, 1.0 - remaining / work_of(given)))


def _claims(kind: str, seen: list[str], proof: str) -> Iterator[str]:
    """The lines that have to follow, one by one: in *compute* what stands behind each `=`. The problem copied is
    none. `seen` is what was accepted so far, and grows while this goes on."""
    for number, text in enumerate(filter(lambda text: "=" in text, proof[:LONGEST_PROOF].splitlines())):
        parts = [part.strip(" `*$\t").rstrip(". ") for part in text.split("=")]
        if kind == "compute":
            yield from parts[1:] if not parts[0] or _same(parts[0], seen[-1]) else parts
        elif number or not _is_copied(" = ".join(parts), seen[0]):
            yield " = ".join(parts)


# Compute


def _reduces(seen: list[str], text: str) -> bool:
    claimed = _tree(text)
    return claimed is not None and claimed in reductions(_known(seen[-1]))


def _operations(text: str) -> int:
    return leaves(_known(text)) - 1


def _same(text: str, other: str) -> bool:
    found = _tree(text)
    return found is not None and found == _tree(other)


def _tree(text: str) -> Tree | None:
    expression = None if "x" in text.lower() or set(text) & set("/÷") else read(text)
    return None if expression is None else tree(expression)


def _known(text: str) -> Tree:
    found = _tree(text)
    assert found is not None, text
    return found


# Solve


def _transforms(seen: list[str], text: str) -> bool:
    before, after = _sides(seen[-1]), _sides(text)
    if before is None or after is None:
        return False
    if after.worth == before.worth:
        return after.size < before.size
    if after.worth in [sides.worth for sides in map(_sides, seen) if sides]:
        return False
    return _is_exchanged(before, after) or _is_added_to(before, after) or _is_multiplied(before, after)


def _is_exchanged(before: Sides, after: Sides) -> bool:
    return after.worth == before.worth[::-1]


def _is_added_to(before: Sides, after: Sides) -> bool:
    """Whether both sides have grown by the same single term."""
    left, right = (plus(b, scaled(a, Fraction(-1))) for a, b in zip(before.worth, after.worth, strict=True))
    return left == right and (left.slope == 0) != (left.offset == 0)


def _is_multiplied(before: Sides, after: Sides) -> bool:
    old, new = ([*sides.left, *sides.right] for sides in (before, after))
    factor = next((b / a for a, b in zip(old, new, strict=True) if a), Fraction(0))
    return factor != 0 and [factor * a for a in old] == new


def _distance(text: str) -> int:
    """Operations still needed until x stands alone on one side and a number on the other."""
    sides = _sides(text)
    assert sides is not None, text
    (a, b), (c, d) = sides.worth
    if a and c:
        return 1 + (b != 0 and d != 0) + (abs(a - c) != 1)
    beside, factor = (b, a) if a else (d, c)
    return (beside != 0) + (factor != 1) or int(not sides.is_solved)


def _is_copied(text: str, given_text: str) -> bool:
    found, given = _sides(text), _sides(given_text)
    return found is not None and given is not None and found.worth == given.worth and found.size == given.size


def _sides(text: str) -> Sides | None:
    """Both sides of an equation in x that has one solution; None for anything else."""
    written = text.split("=")
    read_sides = [read(side) for side in written]
    if len(written) != 2 or read_sides[0] is None or read_sides[1] is None:
        return None
    left, right = (line(side) for side in read_sides if side is not None)
    if left is None or right is None or left.slope == right.slope:
        return None
    plain = sorted(side.replace(" ", "") for side in written)
    numbers = [str(worth.offset) for worth in (left, right) if worth.slope == 0]
    solved = len(numbers) == 1 and plain == sorted(["x", numbers[0]])
    return Sides(left, right, size(read_sides[0]) + size(read_sides[1]), solved)
