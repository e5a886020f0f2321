"""A run that measures the average of its policy's weights beside the policy."""

from __future__ import annotations

import asyncio
import hashlib
import re

import pytest

from engine.events import RunState, StepFinished
from engine.run import Run
from engine.store import Store
from engine.types import AVERAGE
from tests.test_run import facts, small, until


def kuhn(**changes):
    changes = {"task__name": "kuhn_poker", "task__options": {}, "eval__metric": "average_nash_conv"} | changes
    return small(**changes, eval__goal="min", run__episodes_per_step=16, train__warmup=0)


def measured(run: Run) -> list[dict[str, float]]:
    with Store.open(run.folder, read_only=True) as store:
        return [event.metrics for event in store.evaluations()]


def average_kept(run: Run) -> str:
    assert run.checkpoint_path is not None
    return hashlib.sha256((run.checkpoint_path / AVERAGE / "adapters.safetensors").read_bytes()).hexdigest()


async def seen_through(run: Run) -> Run:
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    return run


async def test_everything_measured_of_the_policy_is_measured_of_the_average(tmp_path):
    run = await seen_through(Run.create(kuhn(train__average=0.5), tmp_path))
    before, after = measured(run)
    own = {name for name in after if not name.startswith("average_")}
    assert {name.removeprefix("average_") for name in after if name.startswith("average_")} == own
    assert before["average_nash_conv"] == before["nash_conv"]  # nothing is learnt yet
    assert after["average_nash_conv"] != after["nash_conv"]
    assert run.evaluations.best["average_nash_conv"] == min(m["average_nash_conv"] for m in (before, after))
    with Store.open(run.folder, read_only=True) as store:
        played = store.episodes(evaluation=True)
        players = {e.rollout.id: {t.completion.player for t in store.turns(e.rollout.id)} for e in played}
    assert {tuple(who) for name, who in players.items() if f"/{AVERAGE}/" in name if who} == {(AVERAGE,)}
    assert {tuple(who) for name, who in players.items() if f"/{AVERAGE}/" not in name if who} == {("policy",)}


async def test_an_average_of_the_last_step_alone_is_as_strong_as_the_policy(tmp_path):
    run = await seen_through(Run.create(kuhn(train__average=1e-9), tmp_path))
    _, after = measured(run)
    assert after["average_nash_conv"] == pytest.approx(after["nash_conv"], abs=1e-5)


async def test_a_stopped_run_goes_on_with_its_average_as_if_it_had_not_been(tmp_path):
    settings = {"train__average": 0.9, "train__kl": 0.3, "train__kl_reference": AVERAGE}
    settings |= {"run__steps": 4, "eval__every": 2, "eval__metric": "average_win_vs_random"}
    whole = await seen_through(Run.create(small(**settings), tmp_path, "whole"))
    first = Run.create(small(**settings), tmp_path, "halves")
    stream = first.watch(live=False)
    playing = asyncio.create_task(first.start())
    await until(lambda: sum(isinstance(event, StepFinished) for event in stream.drain()) > 0)
    await first.stop()
    await playing
    second = await seen_through(Run.open(tmp_path / "halves"))
    assert facts(second) == facts(whole)
    assert measured(second) == measured(whole)
    assert average_kept(second) == average_kept(whole)


async def test_naming_the_average_without_keeping_one_is_explained(tmp_path):
    run = Run.create(kuhn(), tmp_path)
    await run.start()
    assert run.state is RunState.FAILED
    assert re.search(r"'average_nash_conv'.*train.average is 0", run.reason)
