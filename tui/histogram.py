"""How values are spread, in one line of block characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts over equal stretches from `low` to `high`, the last one closed."""

    low: float
    high: float
    counts: tuple[int, ...]

    def bars(self) -> str:
        """A character a stretch: blank where nothing is, so that what is rare stands out as the lowest bar."""
        most = max(self.counts, default=0)
        return "".join(
            BARS[max(math.ceil(count / most * len(BARS)), 1) - 1] if count else " " for count in self.counts
        )


def histogram(values: Sequence[float], cells: int) -> Histogram:
    """All finite `values` in `cells` stretches from their lowest to their highest; one where all are equal."""
    known = [value for value in values if math.isfinite(value)]
    if not known or cells < 1:
        return Histogram(math.nan, math.nan, ())
    low, high = min(known), max(known)
    if low == high:
        return Histogram(low, high, (len(known),))
    counts = [0] * cells
    width = high / 2 - low / 2  # halved: the difference of two finite numbers may not be one
    for value in known:
        counts[min(int((value / 2 - low / 2) / width * cells), cells - 1)] += 1
    return Histogram(low, high, tuple(counts))
