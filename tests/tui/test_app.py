"""The app around its screens: leaving, asking, themes, help, palette, and what it needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from textual.command import CommandPalette

from engine.events import RunState
from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, cells, play, seen, still, until, watching
from tui.actions import ACTIONS
from tui.screens.dialog import Confirm, TooSmall
from tui.screens.help import NUMBERED, Help
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen
from tui.theme import PALETTES


@pytest.mark.parametrize("size", SIZES)
async def test_quitting_stops_the_run_and_says_where_it_is(
    size: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 3)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    assert run.calls == ["start", "stop"]
    assert run.state is RunState.STOPPED
    assert app.return_code == 0
    assert "nim-3 is saved in runs/nim-3" in capsys.readouterr().err


async def test_ctrl_c_asks_and_says_that_the_state_is_saved() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and "its state is" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert "stop" not in run.calls
        await pilot.press("ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: app._exit)
    assert run.calls == ["start", "stop"]


async def test_ctrl_c_asks_in_a_text_field_too_unless_text_is_selected() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", "a", "b", "ctrl+c")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.press("shift+home", "ctrl+c")
        await until(pilot, lambda: app.clipboard == "ab")
        assert isinstance(app.screen, HomeScreen)


async def test_quitting_twice_leaves_at_once() -> None:
    run = still()

    async def never() -> None:
        import asyncio

        await asyncio.Event().wait()

    run.stop = never  # type: ignore[method-assign]
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: "leaves at once" in seen(app))
        assert not app._exit
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    assert app.return_code == 1


async def test_a_run_that_cannot_be_stopped_keeps_nobody_in() -> None:
    run = still()

    async def broken() -> None:
        raise OSError("the disk is gone")

    run.stop = broken  # type: ignore[method-assign]
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        app.leaving.leave(128 + 15)  # as a signal asks, once
        await until(pilot, lambda: app._exit)
    assert app.return_code == 128 + 15


async def test_a_toast_is_shown_to_its_last_word() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.pause()
        app.say("The run has finished. To go on: selfplay-tui resume kuhn_poker-1 --steps MORE", "warning")
        await until(pilot, lambda: "The run has finished" in seen(app))
        assert "MORE" in seen(app)


async def test_a_failed_run_is_the_return_code() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        run.fail("no memory")
        await until(pilot, lambda: "no memory" in seen(app))
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    assert app.return_code == 1


@pytest.mark.parametrize("size", SIZES)
async def test_the_theme_changes_everywhere(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 5)
        grounds = set()
        for _ in PALETTES:
            grounds.add(str(cells(app)[5][0].style))
            await pilot.press("t")
            await pilot.pause(0.1)
        assert len(grounds) == len(PALETTES)


@pytest.mark.parametrize("size", [*SIZES, (160, 45)])
async def test_help_tells_every_key(size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, Help) and "Filter the presets" in seen(app))
        told = "\n".join("".join(text for text, _ in line) for line in app.screen.query_one("#keys").lines)  # type: ignore[attr-defined]
        for action in ACTIONS:
            if not action.key.isdecimal():
                assert action.help.split()[-1] in told, action.name
        assert told.count("1 … ") == len(NUMBERED)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_the_palette_knows_the_actions_of_the_screen() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 3)
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert "Pause the run, or resume it" in titles
        assert "Filter the presets and runs" not in titles
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        await pilot.press(*"pause the run")
        await until(pilot, lambda: "Pause" in seen(app))
        await pilot.pause(0.3)
        await pilot.press("down", "enter")
        await until(pilot, lambda: run.state is RunState.PAUSED)


async def test_a_click_on_a_key_does_what_the_key_does() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 3)
        await pilot.click("KeyBar", offset=(3, 0))
        await until(pilot, lambda: run.state is RunState.PAUSED)


async def test_too_small_a_terminal_says_what_it_needs() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        await pilot.resize_terminal(50, 12)
        await until(pilot, lambda: isinstance(app.screen, TooSmall) and "needs 60×15" in seen(app))
        await pilot.resize_terminal(60, 15)
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_it_opens_in_too_small_a_terminal() -> None:
    app = demo_app()
    async with app.run_test(size=(40, 8)) as pilot:
        await until(pilot, lambda: "this has 40×8" in seen(app))


async def test_without_colour_no_cell_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 20)
        colours = {
            colour.name
            for line in cells(app)
            for segment in line
            if segment.style is not None
            for colour in (segment.style.color, segment.style.bgcolor)
            if colour is not None
        }
        assert colours <= {"default"}
        shown = seen(app)
        assert "●" in shown
        assert "○" in shown
        assert "›" in shown
        assert "━ 1 Episodes" in shown


async def test_notices_are_shown_a_few_at_a_time_and_as_plain_text() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play(pilot, run, 1)
        for number in range(40):
            run.notice(f"[notice {number}]", "warning")
        await until(pilot, lambda: "[notice 2]" in seen(app))
        assert "and 37 more notices" in seen(app)


def test_the_app_is_imported_without_a_model_library() -> None:
    code = (
        "import sys, tui.app; "
        "print([name for name in ('mlx', 'mlx_lm', 'transformers', 'torch', 'wandb') if name in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert told.stdout.strip() == "[]"


def test_a_runs_first_frame_waits_for_no_screen_that_a_key_opens() -> None:
    code = (
        "import sys, tui.app, tui.screens.run, tui.screens as screens; "
        "print('numpy' in sys.modules, *sorted(set(sys.argv[1:]) & set(vars(screens))))"
    )
    opened = ("run", "prompt", "why", "form", "steer", "branch", "replay", "search", "metrics", "league", "play")
    told = subprocess.run([sys.executable, "-c", code, *opened], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "run"]
