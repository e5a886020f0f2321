"""Every screen as a picture, from fixed data and a clock that stands still.

After a change of looks: `pytest tests/tui/test_snapshots.py --snapshot-update`, and look at the pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from engine.types import Question
from tests.tui.clock import Clock
from tests.tui.demo import app as demo_app
from tests.tui.fake import talk
from tests.tui.look import play, play_to, seen, still, until, watching
from tests.tui.test_questions import RATING, WORDS
from tui.app import SelfPlayApp
from tui.screens.prompt import EditPrompt
from tui.screens.questions import Questions
from tui.screens.run import RunScreen

Compare = Callable[..., bool]
SIZES = [(80, 24), (160, 45)]


def held(cursor: Input | TextArea) -> None:
    """A cursor that blinks would be there half of the time."""
    cursor.cursor_blink = False


async def played(pilot: Pilot[Any], steps: int) -> None:
    """Plays to a step and a little on, and follows an episode half way through."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    assert app.session is not None
    run: Any = app.session.run
    await play_to(pilot, run, steps - 3)
    await run.edit_role("First", "Play well.")
    await play_to(pilot, run, steps)
    await play(pilot, run, 25)
    assert isinstance(app.screen, RunScreen)
    chosen = max(app.session.store.live(), key=lambda episode: (len(episode.turns), episode.id))
    app.screen._focus_on(chosen.id)
    await app.screen.draw(True)
    await pilot.pause()


async def at_home(pilot: Pilot[Any], text: str) -> None:
    """Home, laid out and filled in."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    held(app.home.query_one(Input))
    await until(pilot, lambda: app.home.preset_pane.size.width > 50)
    await pilot.pause()
    app.home.fill()
    await until(pilot, lambda: text in seen(app))
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
def test_home(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await at_home(pilot, "enter starts a new run" if size == SIZES[1] else "Nim: A tiny model")

    assert snap_compare(demo_app(), terminal_size=size, run_before=before)


def test_home_with_nothing(snap_compare: Compare) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await at_home(pilot, "Nothing yet.")

    assert snap_compare(demo_app(empty=True), terminal_size=(80, 24), run_before=before)


@pytest.mark.parametrize("size", SIZES)
def test_run(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await played(pilot, 21)

    app = watching(still(episodes=24), clock=Clock())
    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("pane", [2, 3, 4, 5])
def test_run_in_a_small_terminal(snap_compare: Compare, pane: int) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await played(pilot, 11)
        await pilot.press(str(pane))
        await until(pilot, lambda: pilot.app.screen.active == pane)  # type: ignore[attr-defined]
        await pilot.app.screen.draw(True)  # type: ignore[attr-defined]

    app = watching(still(episodes=24, reply=talk, tokens_per_tick=6), clock=Clock())
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)


@pytest.mark.parametrize("theme", ["paper", "clear"])
def test_run_in_other_themes(snap_compare: Compare, theme: str) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        pilot.app.theme = theme
        await played(pilot, 11)

    app = watching(still(episodes=24, reply=talk, tokens_per_tick=6), clock=Clock())
    assert snap_compare(app, terminal_size=(120, 40), run_before=before)


def test_a_failed_run(snap_compare: Compare) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        run: Any = pilot.app.session.run  # type: ignore[attr-defined]
        await played(pilot, 11)
        run.fail("the device thread ended: out of memory (asked for 14.2 GB, 8.0 GB there are)")
        for _ in range(3):  # the banner takes lines from the panes, and those from the charts
            await play(pilot, run, 0)

    app = watching(still(episodes=24), clock=Clock())
    assert snap_compare(app, terminal_size=(120, 40), run_before=before)


@pytest.mark.parametrize("size", SIZES)
def test_prompt_editor(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await played(pilot, 3)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(pilot.app.screen, EditPrompt))
        held(pilot.app.screen.query_one(TextArea))
        await pilot.press(*" Think first.")
        await pilot.pause()

    app = watching(still(episodes=24), clock=Clock())
    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("question", [RATING, WORDS], ids=["rating", "words"])
def test_a_question(snap_compare: Compare, size: tuple[int, int], question: Question) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        run: Any = pilot.app.session.run  # type: ignore[attr-defined]
        await played(pilot, 3)
        app.telling.asked_before = True  # no toast, which would be there or not
        run.questions = [question, replace(question, id=9)]
        await play(pilot, run, 0)
        await pilot.press("a")
        await until(pilot, lambda: isinstance(pilot.app.screen, Questions))
        held(pilot.app.screen.query_one(Input))
        shown = ("Question 1 of 2", f"│ {question.about[0]}", question.text, "page up and down")
        await until(pilot, lambda: all(text in seen(app) for text in shown))
        await pilot.pause()

    app = watching(still(episodes=24), clock=Clock())
    assert snap_compare(app, terminal_size=size, run_before=before)


def test_a_run_that_asks(snap_compare: Compare) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        run: Any = pilot.app.session.run  # type: ignore[attr-defined]
        await played(pilot, 3)
        run.questions = [RATING, WORDS]
        await play(pilot, run, 0)
        await until(pilot, lambda: "2 questions for you" in seen(app) and "An episode asks you" in seen(app))

    app = watching(still(episodes=24), clock=Clock())
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)


@pytest.mark.parametrize("size", SIZES)
def test_help(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await at_home(pilot, "Runs")
        await pilot.press("question_mark")
        await until(pilot, lambda: "Filter the presets" in seen(app))
        await pilot.pause()

    app = demo_app()
    assert snap_compare(app, terminal_size=size, run_before=before)


def test_quitting_is_asked(snap_compare: Compare) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await played(pilot, 3)
        await pilot.press("ctrl+c")
        await pilot.pause()

    app = watching(still(episodes=24), clock=Clock())
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)
