"""Curves in braille: two by four dots a cell, numpy in, characters out.

Each column of dots shows the lowest and the highest value that fall into it, so that a spike of one point among
ten thousand is drawn, and neighbours are joined, so that ten points over a hundred columns are a line.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

Array = np.ndarray

DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.uint8)
"""The bit of each dot in a cell, [4 rows, 2 columns] (Unicode block 2800)."""

DASHES = ((1, 1), (4, 2), (2, 1), (8, 6))
"""(period, drawn) in columns of dots, by curve: a second curve is told from the first without colour."""


def curve(
    xs: Array,
    ys: Array,
    width: int,
    height: int,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
    dash: int = 0,
) -> Array:
    """Dots of the curve through (xs, ys), [n] each with xs rising, as bits of `height` by `width` cells.

    Points that aren't finite are left out; those outside a range sit on its edge.
    """
    columns, rows = 2 * width, 4 * height
    finite = np.isfinite(xs) & np.isfinite(ys)
    xs, ys = xs[finite], ys[finite]
    if len(xs) == 0 or width < 1 or height < 1:
        return np.zeros((height, width), dtype=np.uint8)
    at = _scale(xs, x_range, columns)
    row = rows - 1 - _scale(ys, y_range, rows)

    top = np.full(columns, rows)
    bottom = np.full(columns, -1)
    np.minimum.at(top, at, row)
    np.maximum.at(bottom, at, row)
    _join(top, bottom, at, row)

    down = np.arange(rows)[:, None]
    drawn = (down >= top) & (down <= bottom)
    period, shown = DASHES[dash % len(DASHES)]
    drawn &= np.arange(columns) % period < shown
    cells = drawn.reshape(height, 4, width, 2).transpose(0, 2, 1, 3) * DOTS
    return cells.sum(axis=(2, 3), dtype=np.uint8)


def _scale(values: Array, bounds: tuple[float, float], size: int) -> Array:
    low, high = bounds
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    return np.clip(np.rint(share * (size - 1)), 0, size - 1).astype(np.int64)


def _join(top: Array, bottom: Array, at: Array, row: Array) -> None:
    """Draws straight from the last point of each filled column to the first of the next one, in place."""
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    ends = np.append(starts[1:], len(at)) - 1
    for a, b in pairwise(range(len(starts))):
        left, right = at[starts[a]], at[starts[b]]
        here, there = row[ends[a]], row[starts[b]]
        span = right - left
        if span > 1:
            between = np.arange(int(left) + 1, int(right))
            level = np.rint(here + (there - here) * (between - left) / span).astype(np.int64)
            top[between] = level
            bottom[between] = level
    for column in range(at[0] + 1, at[-1] + 1):
        before = column - 1
        if top[column] > bottom[before] + 1:
            top[column], bottom[before] = _meet(bottom[before], top[column])
        elif bottom[column] < top[before] - 1:
            top[before], bottom[column] = _meet(bottom[column], top[before])


def _meet(upper: int, lower: int) -> tuple[int, int]:
    """(where the lower one now begins, where the upper one now ends): half way each."""
    middle = (upper + lower) // 2
    return middle + 1, middle


def text(bits: Array) -> list[str]:
    """The characters of each row of cells; an empty cell is a space."""
    return ["".join(chr(0x2800 + bit) if bit else " " for bit in row) for row in bits.tolist()]


def nice_range(low: float, high: float) -> tuple[float, float, int]:
    """Round bounds around [low, high], and the decimals that their labels need."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return 0.0, 1.0, 0
    if high - low < 1e-12 * max(abs(low), abs(high), 1.0):
        margin = abs(low) * 0.1 or 1.0
        low, high = low - margin, high + margin
    raw = (high - low) / 4
    power = math.floor(math.log10(raw))
    step = next(s for s in (1, 2, 2.5, 5, 10) if s * 10.0**power >= raw * 0.999) * 10.0**power
    decimals = next((d for d in range(9) if math.isclose(step * 10**d, round(step * 10**d), rel_tol=1e-6)), 9)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, decimals
