"""Where a step's rollouts come from, and that nothing of them is lost whenever it is kept."""

from __future__ import annotations

import asyncio

import pytest

from engine import Arena, ArtifactStore, GenerateResult, Rollout
from engine.rollouts import Position, RolloutSource

BATCH = 3


class Playing:
    """Batches of three rollouts, each made when the test says so; a batch draws from a store and adds to it."""

    def __init__(self) -> None:
        self.arena = Arena()
        self.arena.add_store("questions", ArtifactStore(["a", "b", "c", "d"]))
        self.begun: list[list[str]] = []
        self.ends = asyncio.Semaphore(0)

    async def __call__(self) -> list[GenerateResult]:
        first, store = self.arena.played, self.arena.stores["questions"]
        self.begun.append([artifact.data for artifact in store.sample(BATCH)])
        self.arena.played += BATCH
        store.add(f"made by {first}")
        await self.ends.acquire()
        return [GenerateResult(Rollout(str(first + i), "solve")) for i in range(BATCH)]


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def ids(batch: list[GenerateResult]) -> list[str]:
    return [result.rollout.id for result in batch]


async def test_on_demand_a_batch_is_played_when_it_is_asked_for_and_not_before():
    playing = Playing()
    source = RolloutSource(playing.arena, playing, ahead=0)
    for first in (0, 3):
        await settled()
        assert len(playing.begun) == first // BATCH
        playing.ends.release()
        assert ids(await source.take()) == [str(first + i) for i in range(BATCH)]
        source.done()


async def test_a_batch_in_play_is_kept_as_not_begun():
    """What it drew from a store is put back, and what it added is not there."""
    playing = Playing()
    source = RolloutSource(playing.arena, playing, ahead=0)
    before = Position.of(playing.arena)
    taking = asyncio.create_task(source.take())
    await settled()
    assert playing.arena.played == BATCH
    assert (source.position, source.waiting) == (before, [])
    taking.cancel()
    await asyncio.wait({taking})
    assert source.position == before
    again = Playing()
    again.arena.stores["questions"].load_state(before.stores["questions"])
    again.ends.release()
    await RolloutSource(again.arena, again, ahead=0).take()
    assert again.begun == playing.begun


@pytest.mark.parametrize("ahead", [0, 2])
async def test_a_batch_taken_waits_until_it_has_been_learnt_from(ahead):
    playing = Playing()
    source = RolloutSource(playing.arena, playing, ahead=ahead)
    playing.ends.release()
    batch = await source.take()
    assert source.waiting == [batch]
    assert source.position.played == BATCH
    assert source.queued == 0
    source.done()
    assert source.waiting == []
    await source.close()


@pytest.mark.parametrize("ahead", [1, 2, 3])
async def test_no_batch_begins_that_would_be_too_old_when_it_is_learnt_from(ahead):
    """However fast playing is: at version v, batch n has begun only if n ≤ v + ahead."""
    playing = Playing()
    source = RolloutSource(playing.arena, playing, ahead=ahead)
    for _ in range(100):
        playing.ends.release()
    for version in range(6):
        batch = await source.take()
        await settled()
        assert ids(batch)[0] == str(version * BATCH)
        assert len(playing.begun) == version + ahead + 1
        assert source.queued == ahead * BATCH
        source.done()
    await source.close()


async def test_what_waited_comes_first_and_is_not_played_again():
    playing = Playing()
    playing.arena.played = 2 * BATCH
    kept = [[GenerateResult(Rollout(str(number), "solve"))] for number in (0, 3)]
    source = RolloutSource(playing.arena, playing, ahead=1, waiting=kept)
    assert await source.take() == kept[0]
    await settled()
    assert playing.begun == []  # one more would be too old
    source.done()
    assert await source.take() == kept[1]
    source.done()
    playing.ends.release()
    assert ids(await source.take()) == ["6", "7", "8"]
    await source.close()


async def test_kept_ahead_and_gone_on_with_on_demand():
    playing = Playing()
    kept = [GenerateResult(Rollout("0", "solve"))]
    source = RolloutSource(playing.arena, playing, ahead=0, waiting=[kept])
    assert await source.take() == kept
    assert playing.begun == []


async def test_a_fault_of_playing_is_raised_where_its_batch_is_taken():
    async def fails() -> list[GenerateResult]:
        raise ValueError("a fault of the task")

    for ahead in (0, 1):
        source = RolloutSource(Arena(), fails, ahead=ahead)
        with pytest.raises(ValueError, match="a fault of the task"):
            await source.take()
        await source.close()
