"""The titles of a run's panes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.events import EpisodeFinished, EpisodeStarted, Event, StepFinished
from engine.types import GenerateResult, Rollout
from tests.tui.fake import FakeRun
from tests.tui.look import play, seen, still, until, watching

ONE = (
    EpisodeStarted("400", "nim", None, True, {"First": "policy", "Second": "policy"}),
    EpisodeFinished(GenerateResult(Rollout("400", "nim", rewards={"First": 1.0, "Second": -1.0}))),
)

Shows = Callable[..., Coroutine[Any, Any, None]]


@asynccontextmanager
async def watched(run: FakeRun, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Shows]:
    """The run on the screen: `shows` waits until events have led to words there."""
    app = watching(run)
    async with app.run_test(size=size) as pilot:

        async def shows(words: str, *events: Event) -> None:
            for event in events:
                run.emit(event)
            await play(pilot, run, 0)
            await until(pilot, lambda: words in seen(app))

        await play(pilot, run, 0)
        yield shows


async def test_of_a_run_that_goes_on_only_the_episodes_seen_here_are_counted_and_said_to_be() -> None:
    async with watched(still(history=[StepFinished(50, {"loss": 0.1})])) as shows:
        await shows(" step 50 ")
        await shows(" step 50, 1 seen ", *ONE)


async def test_of_a_run_that_began_here_they_are_those_that_were_played() -> None:
    async with watched(still()) as shows:
        await shows(" step 1, 1 played ", *ONE, StepFinished(1, {"loss": 0.1}))


async def test_where_only_an_evaluation_is_in_play_it_is_counted_once() -> None:
    async with watched(still()) as shows:
        evaluation = [EpisodeStarted(f"eval-0/{number}", "nim", None, False, {}) for number in range(20)]
        await shows(" 20 eval in play ", *evaluation)
        await shows(" 21 in play, 20 eval ", EpisodeStarted("0", "nim", None, True, {}))


@pytest.mark.parametrize(
    ("wide", "words"),
    [
        (110, "━ 338 in play ━ "),
        (120, "━ 338 in play ━ "),
        (160, "━ 338 in play, 20 eval ━ "),
    ],
)
async def test_a_title_without_room_for_everything_leaves_out_the_least_and_cuts_no_word(
    wide: int, words: str
) -> None:
    async with watched(still(), (wide, 40)) as shows:
        played = [EpisodeStarted(f"{number}", "nim", None, True, {}) for number in range(318)]
        evaluation = [EpisodeStarted(f"eval-0/{number}", "nim", None, False, {}) for number in range(20)]
        await shows(words, *played, *evaluation)
