"""What a pause is no part of: the time that a run was at work, and the rates of its steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from engine.events import CreditAssigned, Event, RunState, TokensSampled
from engine.humans import Humans
from engine.pace import Pace
from engine.progress import Totals
from engine.run import Run
from engine.store import Store
from tests.test_run import small, until

HOUR = 3600.0


class Hands:
    """A clock that is turned by hand. It goes on by itself too, if it is to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, going: bool = False) -> None:
        self.turned = 0.0
        self._now = time.monotonic if going else lambda: 0.0
        self.perf_counter = time.perf_counter
        for module in ("pace", "steps"):
            monkeypatch.setattr(f"engine.{module}.time", self)

    def monotonic(self) -> float:
        return self._now() + self.turned


class Held:
    """A device whose tick is over when the test says so."""

    def __init__(self) -> None:
        self.ends: list[Callable[[], None]] = []

    def pause(self, held: Callable[[], None]) -> None:
        self.ends.append(held)

    def resume(self) -> None:
        pass


def paced() -> tuple[Pace, Held]:
    pace, device = Pace(Totals(), Humans(lambda _: None), lambda _: None), Held()
    pace.begin(device)  # type: ignore[arg-type]
    return pace, device


def sampled_to_learn(event: Event) -> bool:
    return isinstance(event, TokensSampled) and not event.rollout_id.startswith("eval")


@pytest.mark.parametrize(
    ("named", "moment"),
    [
        ("play_seconds", sampled_to_learn),
        ("learn_seconds", lambda event: isinstance(event, CreditAssigned)),
    ],
    ids=["playing", "learning"],
)
async def test_a_pause_is_no_part_of_a_rate(tmp_path, monkeypatch, named, moment):
    clock = Hands(monkeypatch, going=True)
    run = Run.create(small(run__steps=1), tmp_path)
    stream = run.watch()
    playing = asyncio.create_task(run.start())
    await until(lambda: any(moment(event) for event in stream.drain()))
    run.pause()
    assert run.trainer is not None
    await run.trainer.device.call(int)  # comes after the tick under way
    clock.turned += HOUR
    run.resume()
    await playing
    assert run.state is RunState.FINISHED, run.reason
    with Store.open(run.folder, read_only=True) as store:
        [step] = store.steps()
    assert 0.0 < step.metrics[named] <= step.seconds < HOUR
    assert run.status().seconds < HOUR
    for rate, tokens, seconds in (
        ("generation_rate", "tokens_generated", "play_seconds"),
        ("training_rate", "tokens_trained", "learn_seconds"),
    ):
        assert step.metrics[rate] == pytest.approx(step.metrics[tokens] / step.metrics[seconds])


def test_the_tick_that_a_pause_finds_under_way_is_time_at_work(monkeypatch):
    clock = Hands(monkeypatch)
    pace, device = paced()
    clock.turned += 10.0
    pace.pause()
    clock.turned += 2.0
    device.ends.pop()()
    clock.turned += HOUR
    assert pace.seconds == 12.0
    pace.resume()
    clock.turned += 1.0
    assert pace.seconds == 13.0


def test_a_pause_that_ends_within_the_tick_leaves_no_time_out(monkeypatch):
    clock = Hands(monkeypatch)
    pace, device = paced()
    pace.pause()
    clock.turned += 2.0
    pace.resume()
    device.ends.pop()()
    clock.turned += 3.0
    assert pace.seconds == 5.0
