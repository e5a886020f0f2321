"""Where a step's rollouts come from: played on demand, or ahead of the learner.

With `ahead = 0` a batch is played when it is asked for, by the newest policy. With more, batches are played in the
background while the learner works, at most `ahead` of them waiting; their tokens may then be of older versions.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from engine.arena import Arena
from engine.types import EpisodeRequest, GenerateResult, TrainingRecord


class RolloutSource:
    """Batches of finished rollouts, in the order in which they were begun."""

    def __init__(self, arena: Arena, requests: Callable[[], list[EpisodeRequest]], *, ahead: int) -> None:
        self._arena, self._requests = arena, requests
        self._queue: asyncio.Queue[tuple[list[GenerateResult], int]] | None = None
        self._producer: asyncio.Task[None] | None = None
        self.consumed = arena.played
        """The first episode after the batch last taken: where a resumed run counts on from."""
        self.queued = 0
        """Finished rollouts nobody has taken yet."""
        if ahead:
            self._queue = asyncio.Queue(maxsize=ahead)

    async def take(self) -> list[GenerateResult]:
        """The next batch. Raises what its playing raised."""
        if self._queue is None:
            results, self.consumed = await self._play()
            return results
        if self._producer is None:
            self._producer = asyncio.create_task(self._produce(self._queue))
        get = asyncio.create_task(self._queue.get())
        await asyncio.wait({get, self._producer}, return_when=asyncio.FIRST_COMPLETED)
        if not get.done():
            get.cancel()
            await self._producer  # it only ends by raising
        results, self.consumed = get.result()
        self.queued -= len(results)
        return results

    async def close(self) -> None:
        if self._producer is not None:
            self._producer.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._producer

    async def _play(self) -> tuple[list[GenerateResult], int]:
        requests = self._requests()
        next_episode = self._arena.played + len(requests)
        return await self._arena.generate_rollouts(requests), next_episode

    async def _produce(self, queue: asyncio.Queue[tuple[list[GenerateResult], int]]) -> None:
        while True:
            batch = await self._play()
            self.queued += len(batch[0])
            await queue.put(batch)


def split_stale(
    records: Iterable[TrainingRecord], version: int, max_staleness: int
) -> tuple[list[TrainingRecord], int]:
    """Records whose oldest token is at most `max_staleness` versions old, and how many are older.

    Each turn stands for itself: one stale turn does not take its group along.
    """
    records = list(records)
    fresh = [record for record in records if version - record.version <= max_staleness]
    return fresh, len(records) - len(fresh)
