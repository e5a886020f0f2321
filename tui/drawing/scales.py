"""Axes: round bounds, where on them a value is, and which values are named along them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tui.words import number

if TYPE_CHECKING:
    from tui.series import Array

STEPS = (1, 2, 2.5, 5, 10)
"""Between the values named on an axis, times a power of ten."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of values from `low` to `high`, both round; on a logarithmic one 1, 2 or 5 times a power of ten."""

    low: float
    high: float
    is_log: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """`low` and `high` as `place` has them."""
        return (math.log10(self.low), math.log10(self.high)) if self.is_log else (self.low, self.high)

    def place(self, values: Array) -> Array:
        """The values as they go along the axis, [n]; on a logarithmic one, what isn't above 0 is at its foot."""
        return np.log10(np.where(values > 0, values, self.low)) if self.is_log else values

    def share(self, value: float) -> float:
        """How far up the axis a value is, from 0 to 1."""
        low, high = self.bounds
        at = math.log10(value) if self.is_log else value
        return (at - low) / (high - low)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """At most `most` (2 or more) round values from low to high with their labels, both ends among them."""
        if self.is_log:
            return self._powers(most)
        _, _, decimals = nice_range(self.low, self.high)
        step = _step(self.low, self.high)
        count = round((self.high - self.low) / step)
        every = next((n for n in range(1, count + 1) if count % n == 0 and count // n <= most - 1), count)
        return [(self.low + step * n, number(self.low + step * n, decimals)) for n in range(0, count + 1, every)]

    def _powers(self, most: int) -> list[tuple[float, str]]:
        """Both ends, and between them powers of ten as far apart as need be, or 1, 2 and 5 times each."""
        first, last = math.ceil(self.bounds[0] - 1e-9), math.floor(self.bounds[1] + 1e-9)
        inner = [digit * 10.0**power for power in range(first - 1, last + 1) for digit in (1, 2, 5)]
        if len([value for value in inner if self.low <= value <= self.high]) > most:
            every = max(1, math.ceil((last - first) / (most - 1)))
            inner = [10.0**power for power in range(first, last + 1, every)]
        # not so near to an end that their labels would meet
        apart = 0.5 / most
        between = [
            value for value in inner if self.low < value < self.high and apart < self.share(value) < 1 - apart
        ]
        return [(value, _decimal(value)) for value in (self.low, *between[: most - 2], self.high)]


def axis(values: Array, is_log: bool = False) -> Axis:
    """The axis that holds those of `values` that are finite; a logarithmic one, if any of them is above 0."""
    values = values[np.isfinite(values)]
    if is_log and (positive := values[values > 0]).size:
        low, high = _below(float(positive.min())), _above(float(positive.max()))
        return Axis(low, high if high > low * 1.5 else _above(low * 1.5), True)
    if not values.size:
        return Axis(0.0, 1.0)
    low, high, _ = nice_range(float(values.min()), float(values.max()))
    return Axis(low, high)


def nice_range(low: float, high: float) -> tuple[float, float, int]:
    """Round bounds around [low, high], and the decimals that their labels need."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0, 0
    if high - low < 1e-12 * max(abs(low), abs(high), 1.0):
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    step = _step(low, high)
    decimals = next((d for d in range(9) if math.isclose(step * 10**d, round(step * 10**d), rel_tol=1e-6)), 9)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, decimals


def _step(low: float, high: float) -> float:
    """The round distance at which about five values are named between two that differ."""
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    return next(step for step in STEPS if step * power >= raw * 0.999) * power


def ticks(low: float, high: float) -> list[float]:
    """Four to nine round numbers from at most `low` to at least `high`, which lies above it."""
    rough = (high - low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * n, 12) for n in range(first, last + 1)]


def within(low: float, high: float) -> list[float]:
    """Round whole numbers between two steps, both left in where they are round."""
    if high - low < 1:
        return [low]
    found = [value for value in ticks(low, high) if low <= value <= high and value == round(value)]
    return found or [low]


def _below(value: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that isn't above the value, which is."""
    power = 10.0 ** math.floor(math.log10(value))
    return max(digit * power for digit in (0.5, 1, 2, 5) if digit * power <= value * (1 + 1e-9))


def _above(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return min(digit * power for digit in (1, 2, 5, 10) if digit * power >= value * (1 - 1e-9))


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _decimal(value: float) -> str:
    """`0.01`, `2`, `1000`, `5·10⁻⁶`."""
    if 1e-4 < value < 1e5:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    digit = round(value / 10.0**power)
    return (f"{digit}·" if digit > 1 else "") + "10" + str(power).translate(_SUPERSCRIPTS)
