"""How often to draw: as often as was asked for, but not at the engine's expense, nor where nothing is new."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.06
"""Of the thread's time that frames may take. The engine plays on the same thread, and games of short turns wait for
it; beside a model that takes its time all frames that were asked for take less."""

WEIGHT = 0.3
"""Of the latest frame in what a frame is taken to cost."""

SLOWEST = 0.5
"""Seconds between two frames at most: clocks go on where nothing else does."""

AWAKE = 1.0
"""Seconds for which what happens keeps frames coming: rows fade, and panes of the screen have their turns."""


class Cadence:
    """Says when to draw. `clock` is the wall's, `computed` the thread's own seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, computed: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._computed = clock, computed
        self._cost = 0.0
        self._stirred = self._began = clock() - SLOWEST
        self._computed_before = 0.0

    @property
    def is_early(self) -> bool:
        """Whether what there is to see can wait, for the frames before took their share."""
        return self._clock() - self._began < min(self._cost / SHARE, SLOWEST)

    def begin(self) -> None:
        """What is computed from now on is for the next frame, if one is due."""
        self._computed_before = self._computed()

    def stir(self) -> None:
        """Something happened: in the run, or by the person's hand."""
        self._stirred = self._clock()

    def due(self) -> bool:
        """Whether to draw one now: always, while something happens."""
        now = self._clock()
        if now - self._stirred > AWAKE and now - self._began < SLOWEST:
            return False
        self._began = now
        return True

    def painted(self) -> None:
        """The frame is on its way to the terminal: what was computed since it began is what it cost."""
        cost = self._computed() - self._computed_before
        self._cost += WEIGHT * (cost - self._cost)
