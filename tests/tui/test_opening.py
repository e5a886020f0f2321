"""A run that comes onto the screen begins, once, whatever happens to the screen before its first frame."""

from __future__ import annotations

from pathlib import Path

from engine.config import parse
from engine.events import RunState
from engine.run import Run
from engine.store import Store, in_use, locked
from engine.summaries import summary
from tests.tui.demo import PRESETS
from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tests.tui.look import seen, still, until, watching
from tui import catalogue, opening
from tui.app import SelfPlayApp
from tui.interface import RunInfo
from tui.screens.dialog import Confirm
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen


async def test_a_run_begins_though_its_screen_is_left_before_its_first_frame() -> None:
    run, app = still(), demo_app()
    async with app.run_test() as pilot:
        await opening.show(app, run)
        app.pop_screen()
        await until(pilot, lambda: "start" in run.calls)


async def test_a_run_begins_in_a_terminal_that_is_too_small_to_show_it() -> None:
    run = still()
    async with watching(run).run_test(size=(40, 8)) as pilot:
        await until(pilot, lambda: "start" in run.calls)


async def test_the_first_frame_of_a_run_that_the_app_begins_with_does_not_wait_for_home() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "start" in run.calls)
        assert isinstance(app.screen, RunScreen)
        assert not app.home.is_attached
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.home and "at work" in seen(app) and "nim-pocket" in seen(app))


async def test_home_comes_after_a_run_that_began_in_a_terminal_that_was_too_small() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(40, 8)) as pilot:
        await until(pilot, lambda: "start" in run.calls)
        assert "needs 60×15 cells" in seen(app)
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.home)


async def test_what_is_chosen_twice_at_once_begins_once() -> None:
    made: list[FakeRun] = []

    def make() -> FakeRun:
        made.append(still())
        return made[-1]

    app = demo_app(make=make)
    async with app.run_test() as pilot:
        await pilot.pause()
        for _ in range(2):
            app.home.post_message(HomeScreen.Chosen(PRESETS[0]))
        await until(pilot, lambda: made and "start" in made[0].calls and isinstance(app.screen, Confirm))
        assert len(made) == 1


async def test_a_run_stopped_before_its_first_frame_never_begins() -> None:
    run, app = still(), demo_app()
    async with app.run_test() as pilot:
        await opening.show(app, run)
        session = app.session
        assert session is not None
        assert session.live
        await session.stop()
        await session.close()
        await pilot.pause(0.2)
        assert "start" not in run.calls
        assert run.state is RunState.LOADING
        assert not session.live


async def test_no_run_is_stopped_for_one_that_another_process_has(tmp_path: Path) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.session is not None and app.session.live)
        chosen = RunInfo("nim-9", tmp_path, "stopped", "", 8, 80)
        with locked(tmp_path):
            await opening.begin(app, chosen)
            await until(pilot, lambda: "nim-9 is at work in another process" in " ".join(seen(app).split()))
            assert isinstance(app.screen, RunScreen)
        await opening.begin(app, chosen)
        await until(pilot, lambda: isinstance(app.screen, Confirm))


async def test_a_finished_run_that_is_read_here_can_be_gone_on_with_elsewhere(tmp_path: Path) -> None:
    config = parse({"task": {"name": "nim"}, "model": {"source": "pocket"}}, "test")
    made = Run.create(config, tmp_path, "done")
    await made.stop()
    with Store.open(made.folder) as store:
        store.record_state(RunState.FINISHED)
    app = SelfPlayApp(presets=list, runs=list, create=lambda _: still(), resume=Run.open)
    async with app.run_test(size=(120, 40)) as pilot:
        await opening.begin(app, catalogue.run_info(summary(made.folder)))
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert app.session is not None
        assert app.session.only_read
        assert summary(made.folder).state == "finished"
        elsewhere = Run.open(made.folder)
        await elsewhere.set("run.steps", "200")
        assert in_use(made.folder)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.home and app.session is None)
        assert in_use(made.folder)
        await elsewhere.stop()
