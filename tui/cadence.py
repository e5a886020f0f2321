"""How often to draw: as often as was asked for, but not at the engine's expense, nor where nothing is new."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST = 0.15
"""Of the thread's time that frames may take, whatever else there is to do."""

ROOM = 0.0065
"""The same, times the share of the thread that everything else takes. The engine plays on the same thread: where
short turns need a quarter of it, one that waits for a frame costs more than where long ones need a fiftieth."""

WEIGHT = 0.3
"""Of the latest in what frames are taken to cost, and the thread to be at work."""

SLOWEST = 0.5
"""Seconds between two frames at most, while something happens."""

STILL = 1.0
"""Seconds between two frames where nothing happens: clocks go on."""

AWAKE = 1.0
"""Seconds for which what happens keeps frames coming: rows fade, and panes of the screen have their turns."""


class Cadence:
    """Says when to draw. `clock` is the wall's, `computed` the thread's own seconds."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, computed: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock, self._computed = clock, computed
        self._cost = self._load = 0.0
        self._stirred = self._began = clock() - SLOWEST
        self._looked, self._before, self._after = clock(), computed(), computed()

    @property
    def is_early(self) -> bool:
        """Whether what there is to see can wait, for the frames before took their share."""
        return self._clock() - self._began < min(self._cost / self.share, SLOWEST)

    @property
    def share(self) -> float:
        """Of the thread's time that frames may take now."""
        return MOST if self._load * MOST < ROOM else ROOM / self._load

    def begin(self) -> None:
        """What is computed from now on is for the next frame, if one is due."""
        now, computed = self._clock(), self._computed()
        if now > self._looked:
            self._load += WEIGHT * ((computed - self._after) / (now - self._looked) - self._load)
        self._looked, self._before, self._after = now, computed, computed

    def stir(self) -> None:
        """Something happened: in the run, or by the person's hand."""
        self._stirred = self._clock()

    def due(self) -> bool:
        """Whether to draw one now: always, while something happens."""
        now = self._clock()
        if now - self._stirred > AWAKE and now - self._began < STILL:
            return False
        self._began = now
        return True

    def painted(self) -> None:
        """The frame is on its way to the terminal: what was computed since it began is what it cost."""
        self._after = self._computed()
        self._cost += WEIGHT * (self._after - self._before - self._cost)
