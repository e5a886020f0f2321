"""Borders between panes one under the other: their titles, dragged or moved by keys, remembered, never too far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widget import Widget

from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, play, seen, still, until, watching
from tests.tui.openers import opened
from tui.actions import Scope
from tui.memory import Memory
from tui.screens.run import RunScreen
from tui.widgets.divider import Divider
from tui.widgets.pane import Pane
from tui.widgets.stack import LEAST


def pane(pilot: Pilot[Any], name: str) -> Pane:
    return pilot.app.screen.query_one(f"#{name}", Pane)


def high(pilot: Pilot[Any], name: str) -> int:
    return pilot.app.screen.query_one(f"#{name}").size.height


async def drag(pilot: Pilot[Any], title: Widget, lines: int) -> None:
    """By the middle of a title, so many lines down."""
    x, y = title.region.width // 2, title.region.y
    await pilot.mouse_down(title, offset=(x, 0))
    screen = pilot.app.screen
    await pilot.hover(screen, offset=(title.region.x + x, y + lines))
    await pilot.mouse_up(screen, offset=(title.region.x + x, y + lines))
    await pilot.pause()


async def test_a_title_is_dragged_both_ways_and_where_it_was_left_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    run = still()
    app = watching(run, memory=Memory(file))
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 5)
        before = pane(pilot, "plots").region.y
        await drag(pilot, pane(pilot, "plots").title, 6)
        assert pane(pilot, "plots").region.y == before + 6
        bottom = pane(pilot, "health").region.bottom
        await drag(pilot, pane(pilot, "health").title, -3)
        assert pane(pilot, "health").region.bottom == bottom
        await drag(pilot, pane(pilot, "plots").title, -2)
        assert pane(pilot, "plots").region.y == before + 4
        await play(pilot, run, 5)  # what comes in doesn't push it back
        assert pane(pilot, "plots").region.y == before + 4
        heights = [high(pilot, name) for name in ("rewards", "plots", "health")]
    again = still()
    app = watching(again, memory=Memory(file))
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, again, 5)
        assert [high(pilot, name) for name in ("rewards", "plots", "health")] == heights


async def test_no_pane_is_dragged_away() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 5)
        column = app.screen.query_one("#numbers")
        for lines in (200, -200, 30):
            title = pane(pilot, "plots").title
            await drag(pilot, title, max(min(lines, 39 - title.region.y), -title.region.y))
            assert min(high(pilot, name) for name in ("rewards", "plots", "health")) >= LEAST
            assert pane(pilot, "health").region.bottom == column.region.bottom
        await pilot.resize_terminal(120, 28)
        await pilot.pause()
        assert min(high(pilot, name) for name in ("rewards", "plots", "health")) >= LEAST
        assert pane(pilot, "health").region.bottom == column.region.bottom


async def test_a_title_that_is_only_clicked_leads_to_its_pane() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 5)
        before = pane(pilot, "plots").region
        await pilot.click(pane(pilot, "plots").title)
        await pilot.pause()
        assert app.focused is not None
        assert pane(pilot, "plots") in app.focused.ancestors
        assert pane(pilot, "plots").region == before
        await drag(pilot, pane(pilot, "rewards").title, 3)  # nothing above it: no border
        assert pane(pilot, "plots").region == before


async def test_keys_move_the_border_below_the_pane_or_above_the_last(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "app.json")
    run = still()
    app = watching(run, memory=memory)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 5)
        before = pane(pilot, "plots").region.y
        await pilot.press("3", "shift+down", "shift+down", "shift+up")
        await pilot.pause()
        assert pane(pilot, "plots").region.y == before + 1
        at = pane(pilot, "health").region.y
        await pilot.press("5", "shift+up", "shift+up", "shift+up")
        await pilot.pause()
        assert pane(pilot, "health").region.y == at - 3
        assert memory.sizes("panes RunScreen").keys() == {"rewards height", "health height"}


@pytest.mark.parametrize("size", SIZES)
async def test_where_one_pane_is_alone_it_has_the_whole_screen(size: tuple[int, int], tmp_path: Path) -> None:
    memory = Memory(tmp_path / "app.json")
    memory.keep("panes RunScreen", {"rewards height": 0.5, "health height": 0.9})
    run = still()
    app = watching(run, memory=memory)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play(pilot, run, 5)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        await pilot.press("5")
        if not screen.single:
            await pilot.press("m")
        await pilot.pause()
        assert high(pilot, "health") == screen.query_one("#body").size.height
        await pilot.press("shift+up")
        await until(pilot, lambda: "no border to move" in seen(app))
        assert high(pilot, "health") == screen.query_one("#body").size.height


@pytest.mark.parametrize(
    ("scope", "name", "lines"),
    [("replay", "page-pane", 4), ("replay", "step-pane", -5), ("steer", "checkpoint-pane", -6)],
)
async def test_panes_of_other_screens_have_borders_too(scope: Scope, name: str, lines: int) -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, run, scope)
        before = pane(pilot, name).region.y
        await drag(pilot, pane(pilot, name).title, lines)
        assert pane(pilot, name).region.y == before + lines


async def test_homes_lists_share_the_room_as_one_likes() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        before = pane(pilot, "run-pane").region.y
        await drag(pilot, pane(pilot, "run-pane").title, -4)
        assert pane(pilot, "run-pane").region.y == before - 4
        await pilot.press("slash", "n")
        await pilot.pause()
        assert pane(pilot, "run-pane").region.y == before - 4


@pytest.mark.parametrize("width", [100, 160])
async def test_the_panes_of_why_have_a_border_beside_or_beneath(width: int) -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(width, 40)) as pilot:
        await opened(pilot, run, "why")
        before = pane(pilot, "others-pane").region
        if width == 100:
            await drag(pilot, pane(pilot, "others-pane").title, -6)
            assert pane(pilot, "others-pane").region.y == before.y - 6
        else:
            await pilot.press("shift+left", "shift+left")
            await pilot.pause()
            assert pane(pilot, "others-pane").region.x < before.x


@pytest.mark.parametrize(
    ("scope", "name"), [("home", "about"), ("form", "form-about"), ("metrics", "metric-choice")]
)
async def test_what_stands_beside_a_list_can_be_made_wider(scope: Scope, name: str) -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(160, 45), notifications=True) as pilot:
        await opened(pilot, run, scope)
        before = app.screen.query_one(f"#{name}").size.width
        divider = next(d for d in app.screen.query(Divider) if d.of == name)
        by = -20 if divider.right else 20
        await pilot.mouse_down(divider, offset=(0, 5))
        await pilot.hover(divider, offset=(by, 5))
        await pilot.mouse_up(divider, offset=(0, 5))
        await pilot.pause()
        assert abs(app.screen.query_one(f"#{name}").size.width - before - 20) <= 2
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert app.screen.query_one(f"#{name}").region.right <= 80
