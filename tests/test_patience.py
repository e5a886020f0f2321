"""A disk that is full, or read-only, under a run at work: it waits where somebody is there, and nothing is lost."""

from __future__ import annotations

import asyncio

from engine.events import RunState, StateChanged
from engine.run import Run
from engine.training import checkpoints
from tests.test_run import facts, small, until


def fill_disk(run: Run) -> None:
    """SQLite's own limit: it says the same as on a full disk."""
    pages = run._store._connection.execute("PRAGMA page_count").fetchone()[0]
    run._store._connection.execute(f"PRAGMA max_page_count = {pages}")


def make_room(run: Run) -> None:
    run._store._connection.execute("PRAGMA max_page_count = 1000000")


async def paused(run: Run, reason: str) -> None:
    await until(lambda: run.state is RunState.PAUSED and reason in run.reason)


async def test_a_full_disk_pauses_with_the_reason_and_costs_nothing(tmp_path):
    whole = Run.create(small(), tmp_path, "whole")
    await whole.start()
    run = Run.create(small(), tmp_path, "held")
    run.attended = True
    stream = run.watch(live=False)
    playing = asyncio.create_task(run.start())
    await until(lambda: run.step == 1)
    fill_disk(run)
    await paused(run, "disk is full; make room there")
    for _ in range(2):  # tried again while it is still full: it says so again
        run.resume()
        await paused(run, "disk is full")
    make_room(run)
    run.resume()
    await playing
    assert run.state is RunState.FINISHED, run.reason
    assert facts(run) == facts(whole)
    told = [event.state for event in stream.drain() if isinstance(event, StateChanged) and event.reason]
    assert told == [RunState.PAUSED] * 3


async def test_a_run_resumed_on_a_disk_that_takes_nothing_waits_for_it(tmp_path):
    begun = Run.create(small(), tmp_path, "resumed")
    playing = asyncio.create_task(begun.start())
    await until(lambda: begun.step == 1)
    await begun.stop()
    await playing
    run = Run.open(begun.folder)
    run.attended = True
    run._store._connection.execute("PRAGMA query_only = TRUE")
    playing = asyncio.create_task(run.start())
    await paused(run, "readonly")
    assert run.step == begun.step
    run._store._connection.execute("PRAGMA query_only = FALSE")
    run.resume()
    await playing
    assert run.state is RunState.FINISHED, run.reason


async def test_where_nobody_is_there_a_full_disk_ends_the_run_and_resuming_finishes_it(tmp_path):
    run = Run.create(small(), tmp_path, "alone")
    playing = asyncio.create_task(run.start())
    await until(lambda: run.step == 1)
    fill_disk(run)
    await playing
    assert run.state is RunState.FAILED
    assert "disk is full" in run.reason
    again = Run.open(run.folder)
    await again.start()
    assert again.state is RunState.FINISHED, again.reason


async def test_a_run_that_waits_for_a_disk_can_be_stopped(tmp_path):
    run = Run.create(small(), tmp_path, "stopped")
    run.attended = True
    playing = asyncio.create_task(run.start())
    await until(lambda: run.step == 1)
    fill_disk(run)
    await paused(run, "disk is full")
    await asyncio.wait_for(run.stop(), 10)
    await playing
    assert run.state is RunState.FAILED
    again = Run.open(run.folder)
    await again.start()
    assert again.state is RunState.FINISHED, again.reason


async def test_a_checkpoint_that_cannot_be_written_is_written_later(tmp_path, monkeypatch):
    run = Run.create(small(run__steps=1), tmp_path, "run")
    run.attended = True
    commit, failed = checkpoints.commit, []

    def full_at_first(root, step, write, reason):
        def refused(folder):
            failed.append(step)
            raise OSError(28, "No space left on device")

        return commit(root, step, write if failed else refused, reason)

    monkeypatch.setattr(checkpoints, "commit", full_at_first)
    playing = asyncio.create_task(run.start())
    await paused(run, "No space left on device")
    run.resume()
    await playing
    assert run.state is RunState.FINISHED, run.reason
    assert len(failed) == 1
    assert checkpoints.latest(run.folder / checkpoints.ROOT)[0].step == 1


async def test_what_is_wrong_with_a_record_is_not_waited_for(tmp_path, monkeypatch):
    run = Run.create(small(), tmp_path, "run")
    run.attended = True
    playing = asyncio.create_task(run.start())
    await until(lambda: run.step == 1)
    run._store._connection.execute("INSERT INTO steps VALUES (2, 0, 0, '{}', '')")
    run._store._connection.execute("INSERT INTO steps VALUES (3, 0, 0, '{}', '')")
    await playing
    assert run.state is RunState.FAILED
    assert "recorded twice" in run.reason
