"""A whole course of values in a few cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def spark(values: Sequence[float], cells: int) -> str:
    """All of `values`, oldest first, as at most `cells` bars between their lowest and highest; "" for fewer than 2.

    Where there are more values than cells a bar is the value of its stretch that is farthest from the whole's mean,
    so that a dip or a peak of one point is still there. What isn't finite is left out.
    """
    known = [value for value in values if math.isfinite(value)]
    if len(known) < 2 or cells < 1:
        return ""
    low, high = min(known), max(known)
    # halved first: the difference of two finite numbers may not be one
    room = high / 2 - low / 2
    if room == 0:
        return BARS[len(BARS) // 2 - 1] * min(len(known), cells)
    middle = sum(value / len(known) for value in known)
    shown = _stretches(known, cells, middle) if len(known) > cells else known
    return "".join(BARS[round((value / 2 - low / 2) / room * (len(BARS) - 1))] for value in shown)


def _stretches(values: Sequence[float], cells: int, middle: float) -> list[float]:
    edges = [round(place * len(values) / cells) for place in range(cells + 1)]
    stretches = [values[edges[place] : edges[place + 1]] for place in range(cells)]
    return [max(stretch, key=lambda value: abs(value / 2 - middle / 2)) for stretch in stretches]
