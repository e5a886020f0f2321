"""Python's garbage collector while a run plays, and after it, however it ended."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from engine.events import RunState
from engine.garbage import Settled
from engine.run import Run
from engine.training.trainer import LocalTrainer
from tests.test_run import small, until


@pytest.fixture(autouse=True)
def usual() -> Iterator[tuple[int, int, int]]:
    """Python's own settings, of which each test has to leave what it found."""
    gc.unfreeze()
    before = gc.get_threshold()
    yield before
    after, frozen = gc.get_threshold(), gc.get_freeze_count()
    gc.set_threshold(*before)
    gc.unfreeze()
    assert after == before
    assert not frozen


async def test_full_collections_are_rarer_while_a_run_plays_and_as_usual_once_it_finished(tmp_path, usual):
    run = Run.create(small(run__steps=1), tmp_path, "whole")
    playing = asyncio.create_task(run.start())
    await until(lambda: run.state is RunState.RUNNING)
    young, middle, old = gc.get_threshold()
    assert (young, middle) == usual[:2]
    assert old > usual[2]
    assert gc.get_freeze_count() > 0
    await playing
    assert run.state is RunState.FINISHED, run.reason


async def test_they_are_as_usual_once_a_run_was_stopped(tmp_path):
    run = Run.create(small(), tmp_path, "stopped")
    playing = asyncio.create_task(run.start())
    await until(lambda: run.state is RunState.RUNNING)
    await run.stop()
    await playing
    assert run.state is RunState.STOPPED


async def test_they_are_as_usual_once_a_run_failed(tmp_path, monkeypatch):
    async def lost(self, records):
        raise ValueError("no gradient today")

    monkeypatch.setattr(LocalTrainer, "train", lost)
    run = Run.create(small(), tmp_path, "failed")
    await run.start()
    assert (run.state, run.reason) == (RunState.FAILED, "no gradient today")


async def test_they_are_as_usual_once_a_run_failed_while_loading(tmp_path, monkeypatch):
    async def lost(self, root):
        raise OSError("no such adapter")

    monkeypatch.setattr(LocalTrainer, "begin_from", lost)
    run = Run.create(small(lora__start=str(tmp_path)), tmp_path, "unloaded")
    await run.start()
    assert (run.state, run.reason) == (RunState.FAILED, "no such adapter")


async def test_they_are_as_usual_though_the_model_could_not_be_let_go_of(tmp_path, monkeypatch):
    close = LocalTrainer.close

    async def lost(self):
        await close(self)
        raise OSError("it won't go")

    monkeypatch.setattr(LocalTrainer, "close", lost)
    run = Run.create(small(run__steps=1), tmp_path, "whole")
    with pytest.raises(OSError, match="it won't go"):
        await run.start()
    monkeypatch.undo()
    again = Run.open(run.folder)  # its folder is free all the same
    assert again.step == 1
    await again.stop()


def test_of_two_runs_the_one_that_began_first_may_end_first(usual):
    first, second = Settled(), Settled()
    first.release()
    assert gc.get_threshold() != usual
    second.release()


def test_letting_go_twice_is_letting_go_once():
    settled = Settled()
    settled.release()
    settled.release()


def test_what_a_run_has_loaded_is_freed_once_it_let_go():
    class Loaded:
        def __init__(self) -> None:
            self.itself = self

    loaded = Loaded()
    seen, settled = weakref.ref(loaded), Settled()
    del loaded
    gc.collect()
    assert seen() is not None, "it was not left out of collections"
    settled.release()
    gc.collect()
    assert seen() is None
