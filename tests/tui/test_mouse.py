"""The mouse: a click chooses, a second one opens, on every screen alike."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import OptionList

from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, play, seen, still, until, watching
from tests.tui.openers import opened
from tui.actions import SCOPES, Scope, scope_of
from tui.screens.help import Help
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen
from tui.widgets.keybar import KeyBar
from tui.widgets.seating import Seating


async def click(pilot: Pilot[Any], widget: Widget, x: int, y: int, times: int = 1) -> None:
    await pilot.click(widget, offset=(x, y), times=times)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_a_click_on_home_chooses_and_only_a_second_starts(size: tuple[int, int]) -> None:
    app = demo_app(make=still)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "kuhn-pocket" in seen(app))
        home = app.home
        await click(pilot, home.preset_list, 5, 2)
        assert isinstance(app.screen, HomeScreen)
        assert "Bluffing" in seen(app)
        await click(pilot, home.preset_list, 5, 0, times=2)  # a heading
        await click(pilot, home.run_list, 5, 1)
        assert isinstance(app.screen, HomeScreen)
        await click(pilot, home.preset_list, 5, 2, times=2)
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_a_second_click_on_a_turn_asks_why() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, run, "run")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        await until(pilot, lambda: screen.transcript._spots)
        spot = screen.transcript._spots[0]
        screen.transcript.scroll_to(y=0, animate=False)
        await click(pilot, screen.transcript, spot.left + 2, spot.top)
        assert scope_of(app.screen) == "run"
        await click(pilot, screen.transcript, spot.left + 2, spot.top, times=2)
        await until(pilot, lambda: scope_of(app.screen) == "why")


async def test_a_click_on_the_runs_first_line_leads_to_its_metrics() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, run, "run")
        await click(pilot, app.screen.query_one("#header"), 60, 0)
        await until(pilot, lambda: scope_of(app.screen) == "metrics")


async def test_opponents_and_roles_are_taken_by_a_second_click() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, run, "play")
        seating = app.screen.query_one(Seating)
        roles = seating.query_one("#roles", OptionList)
        await click(pilot, roles, 3, 0)
        assert seating.marked == set()
        await click(pilot, roles, 3, 0, times=2)
        assert seating.marked == {"First"}
        await click(pilot, seating.query_one("#players", OptionList), 3, 0)
        assert seating.display
        await click(pilot, seating.query_one("#players", OptionList), 3, 0, times=2)
        await until(pilot, lambda: not seating.display)


async def test_help_goes_with_a_click_beside_it_and_does_what_is_clicked() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, run, "run")
        for place, scope in ((None, "run"), ("Change settings", "steer")):
            await pilot.press("question_mark")
            await until(pilot, lambda: isinstance(app.screen, Help) and "Change settings" in seen(app))
            if place is None:
                await click(pilot, app.screen, 1, 1)
            else:
                keys = app.screen.query_one("#keys")
                line = next(y for y, told in enumerate(seen(app).splitlines()) if place in told)
                await click(pilot, keys, 20, line - keys.region.y)
            await until(pilot, lambda scope=scope: scope_of(app.screen) == scope)


@pytest.mark.parametrize("scope", ["form", "search"])
async def test_where_one_writes_no_letter_is_told_as_a_key(scope: Scope) -> None:
    assert scope in SCOPES
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(160, 45)) as pilot:
        await opened(pilot, run, scope)
        await play(pilot, run, 0)
        bar = app.screen.query_one(KeyBar).render_line(0).text
        assert "f1 help" in bar
        assert "t theme" not in bar
        assert "esc" in bar
