"""The titles of a run's panes."""

from __future__ import annotations

from engine.events import EpisodeFinished, EpisodeStarted, StepFinished
from engine.types import GenerateResult, Rollout
from tests.tui.fake import FakeRun
from tests.tui.look import play, seen, still, until, watching
from tui.app import SelfPlayApp
from tui.session import Session


def play_one(run: FakeRun, app: SelfPlayApp) -> None:
    run.emit(EpisodeStarted("400", "nim", None, True, {"First": "policy", "Second": "policy"}))
    run.emit(EpisodeFinished(GenerateResult(Rollout("400", "nim", rewards={"First": 1.0, "Second": -1.0}))))
    assert isinstance(app.session, Session)
    app.session.drain()


async def test_of_a_run_that_goes_on_only_the_episodes_seen_here_are_counted_and_said_to_be() -> None:
    run = still(history=[StepFinished(50, {"loss": 0.1})])
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 0)
        await until(pilot, lambda: " step 50 " in seen(app))
        play_one(run, app)
        await play(pilot, run, 0)
        await until(pilot, lambda: " step 50, 1 seen " in seen(app))


async def test_of_a_run_that_began_here_they_are_those_that_were_played() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 0)
        play_one(run, app)
        run.emit(StepFinished(1, {"loss": 0.1}))
        await play(pilot, run, 0)
        await until(pilot, lambda: " step 1, 1 played " in seen(app))


async def test_where_only_an_evaluation_is_in_play_it_is_counted_once() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 0)
        for number in range(20):
            run.emit(EpisodeStarted(f"eval-0/{number}", "nim", None, False, {}))
        await play(pilot, run, 0)
        await until(pilot, lambda: " 20 eval in play " in seen(app))
        run.emit(EpisodeStarted("0", "nim", None, True, {}))
        await play(pilot, run, 0)
        await until(pilot, lambda: " 21 in play, 20 eval " in seen(app))
