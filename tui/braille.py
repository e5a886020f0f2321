"""Curves in braille: two by four dots a cell, numpy in, characters out.

Each column of dots shows the lowest and the highest value that fall into it, so that a spike of one point among
ten thousand is drawn, and neighbours are joined, so that ten points over a hundred columns are a line.
"""

from __future__ import annotations

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
    top, bottom = _spans(_scale(xs, x_range, columns), rows - 1 - _scale(ys, y_range, rows), columns, rows)

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


def _spans(at: Array, row: Array, columns: int, rows: int) -> tuple[Array, Array]:
    """The highest and the lowest dot of each column, [columns] each; where there is none, the one above."""
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    ends = np.append(starts[1:], len(at)) - 1
    filled = at[starts]
    top, bottom = np.full(columns, rows), np.full(columns, -1)
    top[filled] = np.minimum.reduceat(row, starts)
    bottom[filled] = np.maximum.reduceat(row, starts)

    # straight from the last point of each filled column to the first of the next one
    between = np.setdiff1d(np.arange(filled[0], filled[-1]), filled, assume_unique=True)
    after = np.searchsorted(filled, between)
    left, right = filled[after - 1], filled[after]
    here, there = row[ends[after - 1]], row[starts[after]]
    top[between] = bottom[between] = np.rint(here + (there - here) * (between - left) / (right - left))

    # columns that don't touch meet half way
    inner = slice(filled[0], filled[-1]), slice(filled[0] + 1, filled[-1] + 1)
    _meet(top, bottom, *inner)
    _meet(top, bottom, *reversed(inner))
    return top, bottom


def _meet(top: Array, bottom: Array, upper: slice, lower: slice) -> None:
    """Where each of the columns `lower` lies below its neighbour in `upper`, half the way for either; in place."""
    end, begin = bottom[upper], top[lower]
    middle = (end + begin) // 2
    apart = begin > end + 1
    bottom[upper] = np.where(apart, np.maximum(bottom[upper], middle), bottom[upper])
    top[lower] = np.where(apart, np.minimum(top[lower], middle + 1), top[lower])


def text(bits: Array) -> list[str]:
    """The characters of each row of cells; an empty cell is a space."""
    codes = np.where(bits, 0x2800 + bits.astype(np.uint32), ord(" ")).astype("<u4")
    return [row.tobytes().decode("utf-32-le") for row in codes]
