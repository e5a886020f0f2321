"""Who was how strong when: ratings as they were after each step of a run, from what had been played by then."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from engine.ratings import Rating
from engine.store import Store
from tui.league.standings import Player, Standings

Ratings = Mapping[str, Mapping[Player, Rating]]
"""Kind of episodes → players; a learner is one of its own at the last step in which it met anybody."""


class Strength:
    """Belongs to the thread that made it."""

    def __init__(self, folder: Path) -> None:
        self._store = Store.open(folder, read_only=True)
        self._standings = Standings()
        self._known: dict[int, str] = {}

    def close(self) -> None:
        self._store.close()

    def take_in(self, marks: Mapping[int, str], seconds: float) -> int:
        """Reads who met whom, for about so long; how many of the steps of these marks are left to read."""
        until = time.monotonic() + seconds
        stale = {step for step, mark in self._known.items() if marks.get(step) != mark}
        self._standings.forget(stale)
        self._known = {step: mark for step, mark in self._known.items() if step not in stale}
        left = [step for step in sorted(marks, reverse=True) if step not in self._known]
        while left:
            step = left.pop()
            self._known[step] = marks[step]  # also where it can't be read: the next look is at the next step
            self._standings.add(self._store.met(step))
            if time.monotonic() >= until:
                break
        return len(left)

    def at(self, step: int) -> Ratings:
        """Of all that was taken in, what was played up to that step."""
        found = {kind: self._standings.ratings(kind, step) for kind in self._standings.kinds}
        return {kind: ratings for kind, ratings in found.items() if ratings}
