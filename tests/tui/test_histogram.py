"""How values are spread, in blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tui.histogram import Histogram, histogram
from tui.readouts.rewarded import shares
from tui.series import Ledger


@pytest.mark.parametrize("cells", [1, 7, 20])
def test_it_counts_as_numpy_does(cells: int) -> None:
    values = np.random.default_rng(0).normal(size=500)
    counts, edges = np.histogram(values, cells)
    assert histogram(values.tolist(), cells) == Histogram(edges[0], edges[-1], tuple(counts.tolist()))


def test_what_is_rare_is_still_seen_and_what_is_not_there_is_blank() -> None:
    assert histogram([0.0] * 999 + [1.0], 5).bars() == "█   ▁"


def test_equal_values_are_one_bar_and_nothing_is_none() -> None:
    assert histogram([2.0, 2.0], 10).bars() == "█"
    assert histogram([math.nan, math.inf], 10).bars() == ""
    assert histogram([1.0], 0).bars() == ""


def test_the_widest_numbers_there_are_do_not_overflow() -> None:
    assert histogram([-1.7e308, 0.0, 1.7e308], 3).counts == (1, 1, 1)


def test_a_share_is_of_what_was_given_signs_apart() -> None:
    ledgers = [Ledger(), Ledger(), Ledger()]
    for values in ((1.0, 0.5, 0.0), (-1.0, 0.5, 0.0)):
        for ledger, value in zip(ledgers, values, strict=True):
            ledger.add(value)
    assert shares(ledgers, [1.0, -2.0, 3.0]) == [0.5, 0.5, 0.0]
    assert all(math.isnan(share) for share in shares([Ledger()], [1.0]))
