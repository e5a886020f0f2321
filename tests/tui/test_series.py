"""Series and ledgers: bounded, without losing what matters."""

from __future__ import annotations

import math

from tui.series import KEPT, Ledger, Series


def test_a_series_stays_bounded_and_keeps_its_spikes_and_its_last_point() -> None:
    series = Series()
    for x in range(50_000):
        series.add(x, 1000.0 if x == 12_345 else -1000.0 if x == 20_001 else math.sin(x / 100))
    assert len(series.xs) < KEPT
    assert max(series.ys) == 1000.0
    assert series.xs[series.ys.index(1000.0)] == 12_345
    assert min(series.ys) == -1000.0
    assert series.xs[-1] == 49_999
    assert series.xs == sorted(set(series.xs))


def test_a_point_at_the_same_step_replaces_the_one_before() -> None:
    series = Series()
    series.add(3, 1.0)
    series.add(3, 2.0)
    assert (series.xs, series.ys, series.last) == ([3], [2.0], 2.0)


def test_thinning_drops_what_is_not_a_number() -> None:
    series = Series()
    for x in range(KEPT):
        series.add(x, math.nan)
    assert len(series.xs) == 1


def test_a_ledgers_running_mean_weighs_values_and_not_steps() -> None:
    ledger = Ledger()
    for values in ([1.0, 1.0, 1.0], [0.0]):
        for value in values:
            ledger.now.add(value)
        ledger.close()
    assert ledger.running() == 0.75
    assert ledger.running(1) == 0.0
    assert math.isnan(Ledger().running())


def test_a_step_without_values_leaves_no_mean() -> None:
    ledger = Ledger()
    assert math.isnan(ledger.close())
    assert not ledger.closed
