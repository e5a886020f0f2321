"""A run that is opened: who only reads it holds nothing, and who goes on with it is alone with it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine import folders
from engine.events import RunState
from engine.run import Run
from engine.store import Store, StoreError, in_use
from engine.summaries import summary
from tests.test_run import small, until


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one step that has finished."""
    run = Run.create(small(run__steps=1), tmp_path_factory.mktemp("runs"), "played")
    asyncio.run(run.start())
    assert run.state is RunState.FINISHED, run.reason
    return run.folder


@pytest.fixture
def finished(played: Path, tmp_path: Path) -> Path:
    return shutil.copytree(played, tmp_path / "finished")


def steps(folder: Path) -> list[int]:
    with Store.open(folder, read_only=True) as store:
        return [step.step for step in store.steps()]


def test_a_finished_run_that_is_only_read_is_free_for_others(finished: Path):
    run = Run.open(finished)
    assert (run.step, run.status().steps) == (1, 1)
    assert summary(finished).state == "finished"
    with Store.open(finished):
        pass
    folders.delete(finished)
    assert not finished.exists()


async def test_who_goes_on_with_a_finished_run_has_it_until_the_end(finished: Path):
    run = Run.open(finished)
    await run.set("run.steps", "2")
    assert in_use(finished)
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    assert not in_use(finished)
    assert steps(finished) == [1, 2]


async def test_of_two_who_read_a_run_one_goes_on_with_it_and_the_other_is_told(finished: Path):
    first, second = Run.open(finished), Run.open(finished)
    await first.set("run.steps", "9")
    with pytest.raises(StoreError, match=f"process {os.getpid()} is running this run"):
        await second.start()
    with pytest.raises(StoreError, match=f"process {os.getpid()} is running this run"):
        await second.set("run.steps", "8")
    await first.stop()
    assert summary(finished).steps == 9


@pytest.mark.parametrize("changed", ["an edit", "another end"])
async def test_nobody_goes_on_from_where_a_run_no_longer_is(finished: Path, changed: str):
    late = Run.open(finished)
    if changed == "an edit":
        first = Run.open(finished)
        await first.set("run.steps", "9")
        await first.stop()
    else:
        with Store.open(finished) as store:
            store.record_state(RunState.STOPPED)
    with pytest.raises(StoreError, match="another process went on with this run meanwhile: open it anew"):
        await late.start()
    assert not in_use(finished)


async def test_reading_forgets_nothing_and_going_on_only_what_comes_after_the_checkpoint(finished: Path):
    (finished / "checkpoints/step-000001/learner.safetensors").write_bytes(b"")
    run = Run.open(finished)
    assert run.step == 0
    assert steps(finished) == [1]
    await run.set("run.steps", "2")
    assert steps(finished) == []
    await run.stop()


async def test_keeping_the_checkpoint_of_a_run_that_is_only_read_writes_no_record(finished: Path):
    run = Run.open(finished)
    path = await run.checkpoint()
    assert ["manual" in kept.reasons for kept in run.checkpoints() if kept.path == path] == [True]
    assert summary(finished).state == "finished"


def test_a_finished_run_that_has_got_more_steps_is_one_to_go_on_with(finished: Path):
    extended = Run.open(finished)
    asyncio.run(extended.set("run.steps", "9"))
    asyncio.run(extended.stop())
    found = summary(finished)
    assert (found.state, found.step < found.steps) == ("stopped", True)
    again = Run.open(finished)
    asyncio.run(again.start())
    found = summary(finished)
    assert (found.state, found.step, found.steps) == ("finished", 9, 9)


def test_a_run_killed_right_after_it_was_resumed_was_interrupted(finished: Path):
    extended = Run.open(finished)
    asyncio.run(extended.set("run.steps", "999"))
    asyncio.run(extended.stop())
    with Store.open(finished) as store:
        store.record_state(RunState.STOPPED)
    program = (
        "import asyncio, pathlib, sys; from engine.run import Run\n"
        "asyncio.run(Run.open(pathlib.Path(sys.argv[1])).start())"
    )
    root = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(root)}
    process = subprocess.Popen([sys.executable, "-c", program, str(finished)], cwd=root, env=environment)
    try:
        with Store.open(finished, read_only=True) as store:
            asyncio.run(until(lambda: store.state() is None or process.poll() is not None))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert summary(finished).state == "interrupted"
