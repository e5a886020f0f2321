"""Who is to leave before its time: withdrawn, late, or never to fit. No MLX here."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection

from engine.types import StopReason


class Withdrawing:
    """Reasons to end requests, by id, until they are acted on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        self._reasons: dict[int, StopReason] = {}
        self._deadlines: list[tuple[float, int]] = []

    def add(self, id: int, reason: StopReason) -> None:
        self._reasons[id] = reason

    def at(self, deadline: float, id: int) -> None:
        heapq.heappush(self._deadlines, (deadline, id))

    def due(self, known: Collection[int]) -> dict[int, StopReason]:
        """All that is to be acted on now; of those `known`, also who is late by now."""
        while self._deadlines and self._deadlines[0][0] <= self._clock():
            id = heapq.heappop(self._deadlines)[1]
            if id in known:
                self._reasons.setdefault(id, StopReason.DEADLINE)
        due, self._reasons = self._reasons, {}
        return due
