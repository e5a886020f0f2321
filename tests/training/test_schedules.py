"""The learning rate of a step against values worked out by hand and MLX's own schedules."""

from __future__ import annotations

import math

import mlx.optimizers as optim
import pytest

from engine.config import TrainConfig
from engine.training.schedules import rate


def rates(total: int, **train) -> list[float]:
    return [rate(step, total, TrainConfig.model_validate(train)) for step in range(total)]


def test_a_constant_rate_rises_from_a_tenth_and_stays():
    expected = [0.1, 0.325, 0.55, 0.775, 1.0, 1.0, 1.0]
    assert rates(7, learning_rate=1.0, warmup=4) == pytest.approx(expected)


def test_a_linear_rate_falls_in_equal_parts_to_its_final_share():
    expected = [0.1, 0.55, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375]
    train = {"learning_rate": 1.0, "warmup": 2, "schedule": "linear", "final_rate": 0.25}
    assert rates(8, **train) == pytest.approx(expected)
    assert rate(8, 8, TrainConfig.model_validate(train)) == pytest.approx(0.25)


def test_a_cosine_is_at_half_its_way_in_the_middle_and_slow_at_both_ends():
    train = {"learning_rate": 0.2, "warmup": 0, "schedule": "cosine", "final_rate": 0.5}
    root = math.sqrt(0.5)
    expected = [0.2, 0.1 + 0.05 * (1 + root), 0.15, 0.1 + 0.05 * (1 - root)]
    assert rates(4, **train) == pytest.approx(expected)
    assert rate(4, 4, TrainConfig.model_validate(train)) == pytest.approx(0.1)


@pytest.mark.parametrize("final", [0.0, 0.3])
def test_falling_rates_are_mlxs_own(final):
    settings = {"learning_rate": 3e-3, "warmup": 0, "final_rate": final}
    of_mlx = {
        "linear": optim.linear_schedule(3e-3, 3e-3 * final, 40),
        "cosine": optim.cosine_decay(3e-3, 40, 3e-3 * final),
    }
    for schedule, expected in of_mlx.items():
        ours = rates(40, schedule=schedule, **settings)
        assert ours == pytest.approx([float(expected(step)) for step in range(40)], rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(("warmup", "total"), [(0, 1), (5, 5), (9, 4), (5, 6), (1, 50)])
def test_a_rate_is_between_its_bounds_however_short_the_run(schedule, warmup, total):
    found = rates(total, learning_rate=1e-2, warmup=warmup, schedule=schedule, final_rate=0.05)
    assert all(0.05e-2 <= each <= 1e-2 for each in found)
    after = found[warmup:]
    assert after == sorted(after, reverse=True)


def test_more_steps_stretch_what_is_left():
    train = TrainConfig(learning_rate=1.0, warmup=0, schedule="linear")
    assert (rate(30, 40, train), rate(30, 60, train)) == (0.25, 0.5)
    assert rate(50, 40, train) == 0.0  # one that goes on after its end
