"""A course in a few cells."""

from __future__ import annotations

import math
import random

import pytest

from tui.spark import BARS, spark


def test_what_rises_is_drawn_from_the_lowest_bar_to_the_highest():
    assert spark([0, 1, 2, 3, 4, 5, 6, 7], 8) == BARS
    assert spark([3.0, 1.0], 8) == "█▁"


@pytest.mark.parametrize("many", [9, 100, 12_345])
def test_a_dip_of_one_point_among_many_is_drawn(many):
    values = [0.9] * many
    values[many // 2] = 0.1
    drawn = spark(values, 8)
    assert len(drawn) == 8
    assert drawn.count("▁") == 1


def test_a_level_course_is_level():
    assert spark([0.5] * 30, 6) == "▄" * 6


@pytest.mark.parametrize("values", [[], [1.0], [math.nan, math.inf], [math.nan, 2.0]])
def test_of_fewer_than_two_values_there_is_no_course(values):
    assert spark(values, 8) == ""


def test_what_is_not_finite_is_left_out():
    assert spark([0.0, math.nan, 1.0, math.inf], 8) == "▁█"


def test_whatever_the_numbers_it_has_no_more_cells_than_given():
    rng = random.Random(0)
    for _ in range(300):
        scale = 10.0 ** rng.randint(-300, 308)
        values = [rng.uniform(-scale, scale) for _ in range(rng.randint(0, 50))]
        cells = rng.randint(0, 12)
        drawn = spark(values, cells)
        assert len(drawn) <= cells
        assert set(drawn) <= set(BARS)


def test_both_ends_of_what_numbers_there_are_can_be_drawn():
    assert spark([-1.7e308, 1.7e308], 4) == "▁█"
