"""Numbers over time, bounded: what plots are drawn from and rewards are summed up in."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray

RECENT = 512
"""Values of a ledger whose spread is shown."""
KEPT = 4096
"""Points a series holds; at that many, every eight become their lowest and their highest."""


@dataclass(slots=True)
class Series:
    """y over x, x never falling. A point at the x of the last one replaces it."""

    xs: list[float] = field(default_factory=list)
    ys: list[float] = field(default_factory=list)

    def add(self, x: float, y: float) -> None:
        if self.xs and self.xs[-1] == x:
            self.ys[-1] = y
            return
        self.xs.append(x)
        self.ys.append(y)
        if len(self.xs) >= KEPT:
            self._thin(8)

    @property
    def last(self) -> float:
        return self.ys[-1] if self.ys else math.nan

    def arrays(self) -> tuple[Array, Array]:
        """x and y, [n] each."""
        import numpy as np  # once there is something to draw: a run's first frame would wait for it

        return np.asarray(self.xs, dtype=np.float64), np.asarray(self.ys, dtype=np.float64)

    def _thin(self, group: int) -> None:
        """Keep each group's extremes: a spike of one point survives any number of thinnings."""
        kept: list[int] = []
        for start in range(0, len(self.xs) - 1, group):
            members = [i for i in range(start, min(start + group, len(self.xs) - 1)) if math.isfinite(self.ys[i])]
            if members:
                low = min(members, key=self.ys.__getitem__)
                high = max(members, key=self.ys.__getitem__)
                kept += sorted({low, high})
        kept.append(len(self.xs) - 1)
        self.xs = [self.xs[i] for i in kept]
        self.ys = [self.ys[i] for i in kept]


@dataclass(slots=True)
class Mean:
    """A sum and how many it is of."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan


@dataclass(slots=True)
class Ledger:
    """One quantity, step by step: the step now filling, and the last ones closed."""

    now: Mean = field(default_factory=Mean)
    closed: deque[Mean] = field(default_factory=lambda: deque(maxlen=60))
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    """The latest values, whatever their step: how they are spread."""

    def add(self, value: float) -> None:
        self.now.add(value)
        self.recent.append(value)

    def close(self) -> float:
        """Ends the step; returns its mean, NaN where nothing came."""
        mean, self.now = self.now, Mean()
        if mean.count:
            self.closed.append(mean)
        return mean.value

    def running(self, steps: int = 10) -> float:
        """The mean over the last `steps` steps that were closed, each value weighing the same."""
        recent = list(self.closed)[-steps:]
        count = sum(mean.count for mean in recent)
        return sum(mean.total for mean in recent) / count if count else math.nan


BLOCK = 64
"""Values that are smoothed at once."""


def smoothed(ys: Array, strength: float) -> Array:
    """The exponential moving average of `ys`, [n], each weighing 1 − `strength` against those before it.

    It starts from the first values without leaning to 0 (as Adam's means do), and goes on over what isn't finite.
    """
    import numpy as np

    finite = np.isfinite(ys)
    many = int(finite.sum())
    means = np.zeros((-(-many // BLOCK), BLOCK))
    means.reshape(-1)[:many] = (1.0 - strength) * ys[finite]
    back = np.subtract.outer(np.arange(BLOCK), np.arange(BLOCK))
    means = means @ np.where(back >= 0, strength ** np.maximum(back, 0), 0.0).T
    carried = 0.0
    for block in means:
        block += carried * strength ** np.arange(1, BLOCK + 1)
        carried = block[-1]
    found = means.reshape(-1)[:many] / (1.0 - strength ** np.arange(1, many + 1))
    last = np.cumsum(finite) - 1
    return np.where(last >= 0, np.append(found, np.nan)[last], np.nan)
