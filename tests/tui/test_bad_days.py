"""Bad days: the engine dies, the disk is full, the terminal shrinks to nothing, somebody pastes a book."""

from __future__ import annotations

import time

import pytest
from textual import events
from textual.widgets import TextArea

from engine.events import RunState, StateChanged
from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, play, seen, still, until, watching
from tui.screens.dialog import TooSmall
from tui.screens.home import HomeScreen
from tui.screens.prompt import LONGEST, EditPrompt
from tui.screens.run import RunScreen


@pytest.mark.parametrize("size", SIZES)
async def test_an_engine_that_dies_is_told_and_the_run_resumed_from_where_it_is_kept(size: tuple[int, int]) -> None:
    run, second = still(), still(name="nim-3")
    app = demo_app(start=run, make=lambda: second)

    async def died() -> None:
        raise RuntimeError("[metal::malloc] the device thread is gone [/oops]")

    run.start = died  # type: ignore[method-assign]
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "The run failed: [metal::malloc]" in seen(app) and "(space)" in seen(app))
        await pilot.press("2", "1", "question_mark", "escape")  # it lives
        assert isinstance(app.screen, RunScreen)
        await pilot.press("space")
        await until(pilot, lambda: app.session is not None and app.session.run is second)
        await play(pilot, second, 3)
        await until(pilot, lambda: "▸ running" in seen(app) and "The run failed" not in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_a_run_that_cannot_be_resumed_says_why_and_stays() -> None:
    def refused() -> object:
        raise ValueError("run.sqlite is damaged")

    run = still()
    app = demo_app(start=run, make=refused)  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play(pilot, run, 3)
        run.fail("out of memory")
        await until(pilot, lambda: "The run failed" in seen(app))
        await until(pilot, lambda: app.session is not None and not app.session.live)
        await pilot.press("space")
        await until(pilot, lambda: "run.sqlite is damaged" in seen(app))
        assert isinstance(app.screen, RunScreen)


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_that_waits_for_a_disk_says_so_and_goes_on(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 3)
        run.state = RunState.PAUSED
        run.emit(StateChanged(RunState.PAUSED, "/runs/nim-3: database or disk is full; make room there"))
        await until(pilot, lambda: "The run waits: /runs/nim-3: database or disk is full" in seen(app))
        assert "Nothing is lost" in seen(app)
        await pilot.press("space")
        await until(pilot, lambda: "The run waits" not in seen(app) and run.calls[-1] == "resume")


@pytest.mark.parametrize("pane", "12345")
async def test_a_terminal_that_shrinks_to_20_by_5_and_grows_again_shows_what_it_did(pane: str) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 20)
        await pilot.press(pane)
        await play(pilot, run, 0)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        before = (screen.transcript.rollout_id, app.focused, [pane.size for pane in screen.panes])
        for size in ((20, 5), (1, 1), (60, 15), (20, 5), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert isinstance(app.screen, TooSmall) == (size[0] < 60 or size[1] < 15)
            if size == (20, 5):  # what would be enough can be read there too
                await until(pilot, lambda: "60×15" in seen(app) and "20×5" in seen(app))
        await play(pilot, run, 0)
        assert app.screen is screen
        assert (screen.transcript.rollout_id, app.focused, [pane.size for pane in screen.panes]) == before
        assert "━ " + pane in seen(app)
        await pilot.press("space")
        assert run.state is RunState.PAUSED


async def test_a_paste_of_100_kb_into_a_prompt_is_taken_at_once() -> None:
    run = still()
    app = watching(run)
    text = ("A move a line. \x1b[2J" + "word " * 16 + "\n") * 1000
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 2)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, EditPrompt))
        area = app.screen.query_one(TextArea)
        area.load_text("")
        began = time.perf_counter()
        app.post_message(events.Paste(text))
        await until(pilot, lambda: len(area.text) > 90_000)
        await pilot.pause()
        assert time.perf_counter() - began < 3.0
        assert "\x1b" not in area.text
        assert area.text.count("A move a line.") == 1000
        assert len(area.text) <= LONGEST + 100
        began = time.perf_counter()
        await pilot.press("x", "y", "backspace")
        assert time.perf_counter() - began < 1.5
        await pilot.press("ctrl+s")
        await until(pilot, lambda: max(len(role.system_prompt) for role in run.roles.values()) > 90_000)
        await play(pilot, run, 2)
        assert isinstance(app.screen, RunScreen)


async def test_a_run_that_waits_is_found_as_it_was_left() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 40)
        for episode in list(run._playing):  # all in play end, as before a step that can't be written
            run._finish(episode)
        run.state = RunState.PAUSED
        run.emit(StateChanged(RunState.PAUSED, "/runs/nim-3: database or disk is full"))
        await until(pilot, lambda: "The run waits" in seen(app) and "0 in play" in seen(app))
        before = app.screen
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen is not before)
        await until(pilot, lambda: "The run waits" in seen(app) and "+1.00" in seen(app))
        assert isinstance(app.screen, RunScreen)
        assert app.screen.wall.rows.ids
        assert app.screen.transcript.rollout_id
        assert "No episode is in play yet" not in seen(app)
