"""Where a step's rollouts come from: played on demand, or ahead of the learner.

With `ahead = 0` a batch is played when it is asked for, by the newest policy. With more, batches are played in the
background while the learner works: one begins when at most `ahead` are finished and not learnt from. As a step
counts the version up by one at most, no token is then more than `ahead` versions old when it is learnt from (AReaL,
arXiv 2505.24298, bounds it so).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from engine.arena import Arena
from engine.types import GenerateResult, TrainingRecord


@dataclass(frozen=True, slots=True)
class Position:
    """A moment between two batches: what the next one depends on, beside the policy."""

    played: int
    """Its first episode."""
    stores: dict[str, Any]
    """The state of every artifact store."""

    @classmethod
    def of(cls, arena: Arena) -> Position:
        return cls(arena.played, {name: store.state() for name, store in arena.stores.items()})

    def restore(self, arena: Arena) -> None:
        """Have the next batch begin here. Raises `ValueError` if the arena has other stores than these."""
        gone = sorted(self.stores.keys() - arena.stores.keys())
        if gone:
            raise ValueError(f"the task has no artifact store {', '.join(map(repr, gone))}")
        arena.played = self.played
        for name, state in self.stores.items():
            arena.stores[name].load_state(state)


class RolloutSource:
    """Batches of finished rollouts, in the order in which they were begun.

    A batch stays here until its step is `done`. So `waiting` and `position` are, at any moment, all there is to
    keep: the batches that wait are learnt from as they are, the one in play is played again from its beginning.
    """

    def __init__(
        self,
        arena: Arena,
        play: Callable[[], Awaitable[list[GenerateResult]]],
        *,
        ahead: int,
        waiting: Iterable[list[GenerateResult]] = (),
    ) -> None:
        """`play` plays the next batch in `arena`; `waiting` were finished before, and come first."""
        self._arena, self._play, self._ahead = arena, play, ahead
        self._waiting = deque(waiting)
        self._is_taken = False
        self._begun: Position | None = None
        self._changed = asyncio.Event()
        self._producer: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> list[list[GenerateResult]]:
        """Batches finished and not learnt from, the oldest first; also the one taken, until it is done."""
        return list(self._waiting)

    @property
    def position(self) -> Position:
        """Where playing goes on after those that wait."""
        return self._begun or Position.of(self._arena)

    @property
    def queued(self) -> int:
        """Finished rollouts nobody has taken yet."""
        return sum(map(len, self._waiting)) - (len(self._waiting[0]) if self._is_taken else 0)

    async def take(self) -> list[GenerateResult]:
        """The next batch. Raises what its playing raised."""
        if self._ahead:
            await self._produced()
        elif not self._waiting:
            await self._add()
        self._is_taken = True
        return self._waiting[0]

    def done(self) -> None:
        """The batch taken has been learnt from."""
        self._waiting.popleft()
        self._is_taken = False
        self._changed.set()

    async def close(self) -> None:
        if self._producer is not None:
            self._producer.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._producer

    async def _add(self) -> None:
        self._begun = Position.of(self._arena)
        results = await self._play()
        self._begun = None
        self._waiting.append(results)
        self._changed.set()

    async def _produced(self) -> None:
        if self._producer is None:
            self._producer = asyncio.create_task(self._produce())
            self._producer.add_done_callback(lambda _: self._changed.set())
        while not self._waiting:
            if self._producer.done():
                await self._producer  # it only ends by raising
            await self._change()

    async def _produce(self) -> None:
        while True:
            while len(self._waiting) > self._ahead:
                await self._change()
            await self._add()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


def split_stale(
    records: Iterable[TrainingRecord],
    version: int,
    max_staleness: int,
    lessons: Iterable[GenerateResult] = (),
) -> tuple[list[TrainingRecord], int]:
    """Records whose oldest token is at most `max_staleness` versions old, and how many are older.

    Each turn stands for itself: one stale turn does not take its group along. Turns of `lessons`, in which a person
    took their time, are never stale.
    """
    records = list(records)
    spared = {node.rollout.id for lesson in lessons for node in lesson.walk()}
    fresh = [r for r in records if version - r.version <= max_staleness or r.rollout_id in spared]
    return fresh, len(records) - len(fresh)
