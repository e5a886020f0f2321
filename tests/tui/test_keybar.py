"""The key bar offers what the run as it stands would do; what it leaves out says why not when it is pressed."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from engine.events import RunState
from tests.tui.demo import RUNS
from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tests.tui.look import play, play_to, seen, still, until, watching
from tui.app import SelfPlayApp
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen
from tui.screens.steer import SteerScreen
from tui.widgets.keybar import KeyBar

WIDE = (200, 40)
"""With room for every key."""

ALWAYS = {"steer", "play", "league", "maximise", "help", "quit"}
OF_A_RUN = {"pause", "resume", "prompts", "checkpoint", "follow", "following", "why", "copy"}


class Loading(FakeRun):
    """A run whose model is never there."""

    async def start(self) -> None:
        await self._ended.wait()

    async def stop(self) -> None:
        self._ended.set()


def offered(app: SelfPlayApp) -> set[str]:
    """Of the labels that come and go, those in the key bar."""
    bar = f" {app.screen.query_one(KeyBar).render_line(0).text} "
    known = OF_A_RUN | ALWAYS | {"change", "undo", "go back", "fork", "one step", "learn", "odds"}
    return {label for label in known if f" {label} " in bar}


async def become(pilot: Pilot[None], run: FakeRun, state: RunState) -> None:
    match state:
        case RunState.PAUSED:
            run.pause()
        case RunState.STOPPED:
            await run.stop()
        case RunState.FAILED:
            run.fail("no memory")
        case RunState.FINISHED:
            run._become(state)
    await play(pilot, run, 0)


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (RunState.RUNNING, {"pause", "prompts", "checkpoint", "following", "why", "copy"}),
        (RunState.PAUSED, {"resume", "prompts", "checkpoint", "following", "why", "copy"}),
        (RunState.STOPPED, {"resume", "checkpoint", "why", "copy"}),
        (RunState.FAILED, {"resume", "checkpoint", "why", "copy"}),
        (RunState.FINISHED, {"why", "copy"}),
    ],
)
async def test_the_bar_offers_what_the_run_would_do_in_its_state(state: RunState, wanted: set[str]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=WIDE) as pilot:
        await play(pilot, run, 3)
        await become(pilot, run, state)
        session = app.session
        assert session is not None
        await until(pilot, lambda: session.live == (state in (RunState.RUNNING, RunState.PAUSED)))
        await until(pilot, lambda: offered(app) == ALWAYS | wanted)


async def test_a_run_that_loads_has_nothing_to_pause_keep_or_read_yet() -> None:
    app = watching(Loading())
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: "loading" in seen(app))
        await until(pilot, lambda: offered(app) == ALWAYS | {"prompts", "following"})


async def test_a_finished_run_that_is_opened_to_be_read_offers_nothing_that_would_change_it() -> None:
    app = demo_app(make=still)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        app.home.post_message(HomeScreen.Chosen(RUNS[0]))
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await until(pilot, lambda: offered(app) == ALWAYS)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("space", "The run has finished: there is nothing to pause."),
        ("p", "Prompts can be edited while the run is at work."),
        ("n", "The run has finished. To go on:"),
        ("f", "The run has finished: no episode is in play."),
    ],
)
async def test_what_a_finished_run_no_longer_does_says_why_not_where_it_is_pressed(key: str, said: str) -> None:
    run = still(episodes=4, steps=2)
    app = watching(run)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await play_to(pilot, run, 2)
        await until(pilot, lambda: app.session is not None and not app.session.live)
        before = list(run.calls)
        await pilot.press(key)
        await until(pilot, lambda: said in seen(app))
        assert run.calls == before


async def test_steering_a_finished_run_offers_to_go_back_and_to_fork() -> None:
    run = still(episodes=4, steps=2)
    app = watching(run)
    async with app.run_test(size=WIDE) as pilot:
        await play_to(pilot, run, 1)
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, SteerScreen))
        at_work = {"change", "undo", "go back", "fork", "checkpoint", "pause", "one step", "prompts"}
        await until(pilot, lambda: offered(app) >= at_work)
        while run.state is RunState.RUNNING:
            run.advance()
        assert app.session is not None
        app.session.drain()
        await until(pilot, lambda: not offered(app) & (at_work - {"go back", "fork"}))
        assert offered(app) >= {"go back", "fork"}


async def test_who_plays_against_a_run_that_is_over_is_not_offered_to_have_it_learn() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=WIDE) as pilot:
        await play(pilot, run, 3)
        await pilot.press("x")
        await until(pilot, lambda: {"learn", "odds"} <= offered(app))
        run.table.no_lesson = "the run isn't at work, so nothing is learnt"
        await until(pilot, lambda: offered(app) & {"learn", "odds"} == {"odds"})
