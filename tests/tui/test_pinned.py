"""A pinned episode in the list of its step: marked by a sign, at once, and no longer than it is pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, burst, until
from tests.tui.played import ILLEGAL, record
from tests.tui.test_replay import opened, settled
from tui.replay.feed import PIN
from tui.screens.recordpanes import FEED, PAGE
from tui.screens.replay import ReplayScreen
from tui.text import width


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return record(tmp_path / "nim-7")


def rows(screen: ReplayScreen) -> list[str]:
    """The list of episodes, as it is on the screen."""
    region = screen.page.content_region
    strips = screen._compositor.render_strips()[region.y : region.bottom]
    return [strip.crop(region.x, region.right).text for strip in strips][: screen.page.count]


def marked(screen: ReplayScreen) -> list[str]:
    """The episodes in it that have the sign, as it names them."""
    return [row.strip("› ").split()[0] for row in rows(screen) if PIN in row]


async def listed(pilot: Pilot[Any], folder: Path) -> ReplayScreen:
    """At the last step, its list of episodes in sight and with the focus."""
    screen = await opened(pilot, folder)
    await pilot.press(str(PAGE))
    await until(pilot, lambda: len(rows(screen)) == 8 and rows(screen)[0].startswith("›88"))
    return screen


@pytest.mark.parametrize("size", [(60, 20), *SIZES])
async def test_it_is_marked_as_soon_as_it_is_pinned_and_until_it_is_unpinned(
    folder: Path, size: tuple[int, int]
) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await listed(pilot, folder)
        before = rows(screen)
        assert marked(screen) == []
        await pilot.press("down", "b")
        await until(pilot, lambda: marked(screen) == ["89"])
        assert [row.replace(PIN, " ") for row in rows(screen)[2:]] == before[2:]
        assert [width(row) for row in rows(screen)] == [width(row) for row in before]
        await pilot.press("b")
        await until(pilot, lambda: marked(screen) == [])


async def test_a_note_marks_it_too(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await listed(pilot, folder)
        await pilot.press("e", *"why?", "enter")
        await until(pilot, lambda: app.screen is screen and marked(screen) == ["88"])


async def test_it_is_marked_in_its_own_step_alone_and_when_the_record_is_opened_again(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await listed(pilot, folder)
        await pilot.press("b")
        await until(pilot, lambda: marked(screen) == ["88"])
        await pilot.press("left")
        await settled(pilot, screen, 11)
        assert marked(screen) == []
        await pilot.press("escape")
        again = await opened(pilot, folder)
        await until(pilot, lambda: marked(again) == ["88"])


async def test_what_is_pinned_in_the_feed_is_marked_among_the_episodes_in_sight(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder)
        screen.go_to(9)
        await settled(pilot, screen, 9)
        place = next(at for at, entry in enumerate(screen.entries) if entry.rollout_id == ILLEGAL)
        await pilot.press(str(FEED), *["down"] * place)
        await pilot.press("b")
        await until(pilot, lambda: marked(screen) == [ILLEGAL])
        await pilot.press("b")
        await until(pilot, lambda: marked(screen) == [])


@pytest.mark.parametrize(("keys", "pinned"), [(("down", "b"), "89"), (("down", "down", "b"), "90")])
async def test_it_is_the_one_at_the_cursor_however_fast_one_goes_there(
    folder: Path, keys: tuple[str, ...], pinned: str
) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await listed(pilot, folder)
        burst(app, *keys)
        await until(pilot, lambda: marked(screen) == [pinned])


async def test_of_a_step_that_is_still_read_nothing_is_pinned_by_the_name_of_the_one_before(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await listed(pilot, folder)
        screen.go_to(3)
        screen.action_pin()
        await settled(pilot, screen, 3)
        assert screen.reading.pins.marked == {}
