"""What a measurement is, and whether it reached its target."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Target:
    """The ratio of the two sides must be at least, or at most, this."""

    bound: float
    at_most: bool = False

    def met(self, ratio: float) -> bool:
        return ratio <= self.bound if self.at_most else ratio >= self.bound

    def __str__(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.bound:g}"


@dataclass(frozen=True)
class Result:
    """One line of the table: a measure and what it is held against."""

    measure: str
    value: float
    unit: str
    against: str = ""
    reference: float | None = None
    target: Target | None = None
    rounds: tuple[tuple[float, float], ...] = ()
    """Both sides of each round."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if self.reference is None else self.value / self.reference

    @property
    def met(self) -> bool | None:
        return None if self.target is None or self.ratio is None else self.target.met(self.ratio)

    def row(self) -> tuple[str, ...]:
        against = "" if self.reference is None else f"{number(self.reference)} {self.against}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        verdict = {None: "", True: "met", False: "missed"}[self.met]
        return (
            self.measure,
            f"{number(self.value)} {self.unit}",
            against,
            ratio,
            str(self.target or ""),
            verdict,
            self.note,
        )

    def json(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "value": short(self.value),
            "against": self.against,
            "reference": short(self.reference),
            "unit": self.unit,
            "ratio": short(self.ratio),
            "target": str(self.target) if self.target else None,
            "met": self.met,
            "rounds": [[short(side) for side in round] for round in self.rounds],
            "note": self.note,
        }


def compared(
    measure: str,
    value: list[float],
    against: str,
    reference: list[float],
    unit: str,
    target: Target | None = None,
    note: str = "",
) -> Result:
    """Of the medians of rounds."""
    rounds = tuple(zip(value, reference, strict=True))
    medians = statistics.median(value), statistics.median(reference)
    return Result(measure, medians[0], unit, against, medians[1], target, rounds, note)


def short(value: float | None) -> float | None:
    """In four digits."""
    return None if value is None else float(f"{value:.4g}")


def number(value: float) -> str:
    """Four digits that say something."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def in_turn(sides: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, list[Any]]:
    """What each side returned in each round; one round before isn't counted, in which things compile.

    Rounds go on for so many seconds, but there are `LEAST_ROUNDS`.
    """
    measured: dict[str, list[Any]] = {name: [] for name in sides}
    for round in _rounds(seconds):
        for name, side in sides.items():
            value = side()
            if round:
                measured[name].append(value)
    return measured


def _rounds(seconds: float) -> Iterator[int]:
    yield 0
    start, round = time.perf_counter(), 0
    while round < LEAST_ROUNDS or time.perf_counter() - start < seconds:
        round += 1
        yield round


def table(results: list[Result]) -> str:
    rows = [("measure", "value", "against", "ratio", "target", "", ""), *(result.row() for result in results)]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
