"""Braille curves against dots set by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tui.braille import curve, text
from tui.drawing.scales import nice_range


def by_hand(picture: str) -> list[str]:
    """Characters from a picture of dots: `#` for a dot, four lines a row, two columns a cell."""
    lines = [line.strip() for line in picture.strip().splitlines()]
    order = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]
    rows = []
    for top in range(0, len(lines), 4):
        row = ""
        for left in range(0, len(lines[0]), 2):
            bits = sum(1 << bit for bit, (y, x) in enumerate(order) if lines[top + y][left + x] == "#")
            row += chr(0x2800 + bits) if bits else " "
        rows.append(row)
    return rows


def draw(xs: list[float], ys: list[float], width: int, height: int, **ranges: tuple[float, float]) -> list[str]:
    x_range = ranges.get("x", (min(xs), max(xs)))
    y_range = ranges.get("y", (min(ys), max(ys)))
    return text(curve(np.array(xs, float), np.array(ys, float), width, height, x_range, y_range))


def test_a_diagonal() -> None:
    assert draw([0, 7], [0, 7], 4, 2) == by_hand(
        """
        .......#
        ......#.
        .....#..
        ....#...
        ...#....
        ..#.....
        .#......
        #.......
        """
    )


def test_a_steep_step_is_joined_half_way_from_each_side() -> None:
    assert draw([0, 1, 2, 3], [0, 0, 7, 7], 2, 2) == by_hand(
        """
        ..##
        ..#.
        ..#.
        ..#.
        .#..
        .#..
        .#..
        ##..
        """
    )


def test_a_column_shows_its_lowest_and_its_highest() -> None:
    xs = [0, 0.1, 0.2, 0.3, 3]
    assert draw(xs, [1, 3, 0, 1, 1], 2, 1, x=(0, 3), y=(0, 3)) == by_hand(
        """
        #...
        #...
        ####
        #...
        """
    )


def test_one_spike_among_thousands_is_drawn() -> None:
    ys = np.zeros(10_000)
    ys[5_000] = 1.0
    rows = text(curve(np.arange(10_000.0), ys, 40, 4, (0, 9_999), (0, 1)))
    assert rows[0].strip() != ""


def test_few_points_over_many_columns_are_a_line_without_gaps() -> None:
    rows = draw([0, 1, 2], [0, 1, 0], 30, 4)
    for column in range(30):
        assert any(row[column] != " " for row in rows)


def test_what_is_not_finite_is_left_out() -> None:
    assert draw([0, 1, 2, 3], [0, float("nan"), float("inf"), 0], 2, 1, y=(0, 3)) == draw(
        [0, 3], [0, 0], 2, 1, y=(0, 3)
    )
    assert draw([0, 1], [float("nan")] * 2, 2, 1, y=(0, 1)) == ["  "]


def test_no_points_draw_nothing_and_one_draws_a_dot() -> None:
    empty = np.zeros(0)
    assert text(curve(empty, empty, 3, 1, (0, 1), (0, 1))) == ["   "]
    assert draw([0], [0], 1, 1, x=(0, 1), y=(0, 1)) == ["⡀"]


def test_values_beyond_the_range_sit_on_its_edge() -> None:
    assert draw([0, 1, 2, 3], [9, 9, 9, 9], 2, 1, y=(0, 1)) == ["⠉⠉"]


def test_a_second_curve_is_dashed() -> None:
    flat = np.zeros(20)
    plain = curve(np.arange(20.0), flat, 10, 1, (0, 19), (0, 1))
    dashed = curve(np.arange(20.0), flat, 10, 1, (0, 19), (0, 1), dash=1)
    assert text(plain) == ["⣀" * 10]
    assert text(dashed) == ["⣀ " * 5]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.51, 0.87, (0.5, 0.9, 1)),
        (0.0, 1.0, (0.0, 1.0, 2)),
        (-3.2, 7.9, (-5.0, 10.0, 0)),
        (0.0011, 0.0042, (0.001, 0.005, 3)),
        (5.0, 5.0, (4.5, 5.5, 2)),
        (0.0, 0.0, (-1.0, 1.0, 1)),
    ],
)
def test_bounds_are_round_and_hold_the_values(low: float, high: float, expected: tuple[float, float, int]) -> None:
    found = nice_range(low, high)
    assert found == pytest.approx(expected)
    assert found[0] <= low <= high <= found[1]


def test_bounds_of_nothing_finite_are_a_unit() -> None:
    assert nice_range(float("nan"), float("inf")) == (0.0, 1.0, 0)


def test_a_long_series_is_drawn_in_milliseconds() -> None:
    import time

    xs = np.arange(4096.0)
    ys = np.sin(xs / 50) + np.random.default_rng(0).normal(0, 0.2, len(xs))
    curve(xs, ys, 120, 30, (0, 4095), (-2, 2))
    began = time.perf_counter()
    for _ in range(5):
        curve(xs, ys, 120, 30, (0, 4095), (-2, 2))
    assert (time.perf_counter() - began) / 5 < 0.05
