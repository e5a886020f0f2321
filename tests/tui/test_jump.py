"""Jump mode says that it is on and how to leave it, and hides no letter by that."""

from __future__ import annotations

from typing import Any

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot

from tests.tui.demo import app as demo_app
from tests.tui.look import seen, still, until, watching
from tests.tui.openers import opened
from tui.actions import SCOPES, Scope
from tui.app import SelfPlayApp
from tui.screens.jump import Jump

HINT = " jump: press a letter · esc back"


def last_line(app: SelfPlayApp) -> str:
    return seen(app).split("\n")[-1]


def at(app: SelfPlayApp, place: Offset, cells: int = 3) -> str:
    """What is on the screen in so many cells from a place on."""
    return app.screen._compositor.render_strips()[place.y].crop(place.x, place.x + cells).text


async def jumping(pilot: Pilot[Any]) -> Jump:
    await pilot.press("ctrl+o")
    await until(pilot, lambda: isinstance(pilot.app.screen, Jump))
    jump = pilot.app.screen
    assert isinstance(jump, Jump)
    await pilot.pause()
    return jump


@pytest.mark.parametrize("size", [(60, 20), pytest.param((120, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("scope", SCOPES)
async def test_on_every_screen_it_says_what_to_press_and_every_letter_is_seen(
    scope: Scope, size: tuple[int, int]
) -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, run, scope)
        jump = await jumping(pilot)
        assert last_line(app).rstrip() == HINT
        assert jump.targets
        for letter, (place, _) in jump.targets.items():
            assert at(app, place) == f" {letter} "


@pytest.mark.parametrize("key", ["escape", "5", "s", "click"])
async def test_it_no_longer_says_so_once_it_is_left(key: str) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "start" in last_line(app))
        before = last_line(app)
        await jumping(pilot)
        assert last_line(app) != before
        await (pilot.click(offset=(40, 23)) if key == "click" else pilot.press(key))
        await until(pilot, lambda: last_line(app) == before if key != "s" else app.focused is app.home.run_list)
        assert "press a letter" not in seen(app)


async def test_a_letter_in_the_last_line_lies_over_what_is_said_there() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "start" in last_line(app))
        await app.push_screen(Jump([(Offset(0, 23), app.home.run_list), (Offset(4, 3), app.home.preset_list)]))
        await until(pilot, lambda: "press a letter" in last_line(app))
        assert last_line(app).startswith(" a ")


async def test_what_is_told_meanwhile_lies_not_over_it() -> None:
    app = demo_app()
    async with app.run_test(size=(60, 20), notifications=True) as pilot:
        await until(pilot, lambda: "start" in last_line(app))
        await jumping(pilot)
        app.say("The run has finished. To go on: selfplay-tui resume kuhn_poker-1 --steps MORE", "warning")
        await until(pilot, lambda: "MORE" in seen(app))
        assert last_line(app).rstrip() == HINT
