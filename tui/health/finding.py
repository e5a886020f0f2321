"""One line of health."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["good", "watch", "bad", "none"]

GRAVITY: dict[Level, int] = {"bad": 0, "watch": 1, "good": 2, "none": 3}
"""What is said first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is watched, how it is, and what to do where it isn't well."""

    name: str
    level: Level
    words: str
    advice: str = ""


def graded(value: float, watch: float, bad: float) -> Level:
    """Of a number that is the worse the higher it is."""
    return "bad" if value >= bad else "watch" if value >= watch else "good"
