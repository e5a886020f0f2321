"""The wall on the screen: trees folded by keys and mouse, and a filter written above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.events import EpisodeFinished, EpisodeStarted, TurnFinished, TurnStarted
from engine.types import Completion, GenerateResult, Rollout, Turn
from tests.tui.clock import Clock
from tests.tui.fake import FakeRun
from tests.tui.look import SIZES, burst, play, seen, still, until, watching
from tui.app import SelfPlayApp
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen
from tui.widgets.filterline import FilterLine


def screen_of(app: SelfPlayApp) -> RunScreen:
    assert isinstance(app.screen, RunScreen)
    return app.screen


async def trees(pilot: Pilot[Any], run: FakeRun, count: int = 3) -> RunScreen:
    """Three tournaments, or so many, of two matches each in play, and one match that has ended."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await play(pilot, run, 0)
    for tree in (f"t{number}" for number in range(1, count + 1)):
        run.emit(EpisodeStarted(tree, "cup", None, True, {"Host": "policy"}))
        for match in (0, 1):
            name = f"{tree}.{match}"
            run.emit(EpisodeStarted(name, "match", tree, True, {"First": "policy", "Second": "policy"}))
            run.emit(TurnStarted(name, 0, "First", "policy", [{"role": "user", "content": "Begin."}]))
            run.emit(TurnFinished(name, 0, "First", f"zugzwang in {name}", 3, "stop"))
    ended = Rollout("t3.1", "match", rewards={"First": -1.0, "Second": 1.0})
    ended.turns.append(Turn("First", 0, [{"role": "user", "content": "Begin."}], Completion("zugzwang in t3.1")))
    run.emit(EpisodeFinished(GenerateResult(ended)))
    assert app.session is not None
    app.session.drain()
    screen = screen_of(app)
    await screen.draw(True)
    await pilot.pause()
    screen.wall.focus_on("t1")
    return screen


ALL = ["t1", "t1.0", "t1.1", "t2", "t2.0", "t2.1", "t3", "t3.0", "t3.1"]


@pytest.mark.parametrize("size", SIZES)
async def test_left_folds_and_right_unfolds(size: tuple[int, int]) -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        screen = await trees(pilot, run)
        assert screen.wall.rows.ids == ALL
        await pilot.press("left")
        assert screen.wall.rows.ids == ["t1", *ALL[3:]]
        await screen.draw(True)
        await until(pilot, lambda: "▸t1" in seen(app) and "+2" in seen(app) and "2 folded" in seen(app))
        await pilot.press("right")
        assert screen.wall.rows.ids == ALL
        await pilot.press("down", "down", "left")
        assert screen.wall.rows.ids == ["t1", *ALL[3:]]
        assert screen.wall.focused_id == "t1"


async def test_all_fold_and_unfold_by_one_key() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await trees(pilot, run)
        await pilot.press("z")
        assert screen.wall.rows.ids == ["t1", "t2", "t3"]
        await pilot.press("z")
        assert screen.wall.rows.ids == ALL


async def test_what_unfolds_comes_into_sight_and_the_cursor_stays_there() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await trees(pilot, run, 40)
        await pilot.press("m", "z", "end")
        wall = screen.wall
        assert wall.rows.ids == [f"t{number}" for number in range(1, 41)]
        await pilot.press("right")
        assert wall.in_sight()[-3:] == ["t40", "t40.0", "t40.1"]
        await pilot.press("z")
        await pilot.pause()
        assert "t40" in wall.in_sight()
        await pilot.press("z")
        await pilot.pause()
        assert "t40" in wall.in_sight()


async def test_a_click_on_its_sign_folds_a_tree_and_one_beside_it_reads() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await trees(pilot, run)
        await pilot.click("#wall", offset=(1, 3))
        assert screen.wall.rows.ids == [*ALL[:4], *ALL[6:]]
        await pilot.click("#wall", offset=(1, 3))
        assert screen.wall.rows.ids == ALL
        await pilot.click("#wall", offset=(10, 3))
        assert screen.wall.focused_id == "t2"
        assert screen.wall.rows.ids == ALL


async def test_folds_are_for_the_pane_with_the_cursor_only() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await trees(pilot, run)
        await pilot.press("5", "left", "right")
        assert screen.wall.rows.ids == ALL


@pytest.mark.parametrize("size", SIZES)
async def test_a_filter_is_written_kept_changed_and_ended(size: tuple[int, int]) -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        screen = await trees(pilot, run)
        await pilot.press("slash")
        await pilot.press(*"reward<0")
        await until(pilot, lambda: screen.wall.rows.ids == ["t3", "t3.1"])
        await screen.draw(True)
        await until(pilot, lambda: "1 found" in seen(app))
        await pilot.press("enter")
        assert app.focused is screen.wall
        await until(pilot, lambda: "reward<0" in seen(app))
        await pilot.press("slash", "end", *" zzz", "escape")  # leaves the field; what is written counts
        await until(pilot, lambda: app.focused is screen.wall and not screen.wall.rows.ids)
        await pilot.press("slash", "end", *["backspace"] * 4, "escape")
        await until(pilot, lambda: screen.wall.rows.ids == ["t3", "t3.1"])
        await pilot.press("escape")  # ends the filter
        await pilot.pause()
        assert app.screen is screen
        assert screen.wall.rows.ids == ALL
        assert app.focused is screen.wall
        assert not screen.query_one(FilterLine).display
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_a_term_without_a_sense_is_told_beside_it_and_changes_nothing() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await trees(pilot, run)
        burst(app, "/", *"live step:x")  # at one go: half of it would have a sense, and be kept
        await until(pilot, lambda: "step:x is no step" in seen(app))
        await pilot.press("enter")
        assert app.focused is not screen.wall
        await pilot.press("escape")  # what has no sense isn't kept
        await until(pilot, lambda: app.focused is screen.wall and "step:x" not in seen(app))
        assert screen.wall.filter.text == ""
        assert app.screen is screen


async def test_escape_in_another_pane_goes_home_and_the_filter_stays() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await trees(pilot, run)
        burst(app, "/", *"reward<0", "enter", "2", "escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        assert screen.wall.filter.text == "reward<0"


async def test_where_nothing_meets_a_filter_the_wall_says_so() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await trees(pilot, run)
        await pilot.press("slash")
        await pilot.press(*"role:Nobody")
        await until(pilot, lambda: "None of 9 episodes in memory meets it." in seen(app))


async def test_it_is_written_from_any_pane_and_goes_to_the_wall() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await trees(pilot, run)
        await pilot.press("5", "slash")
        await pilot.press(*"zugzwang")
        await until(pilot, lambda: screen.active == 1 and "zugzwang" in seen(app))


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_how_it_looks(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        screen = await trees(pilot, run)
        screen.wall.focus_on("t2")
        await pilot.press("left", "slash")
        await pilot.press(*"zugzwang")
        await until(pilot, lambda: "found" in seen(app))
        await pilot.press("enter")
        await screen.draw(True)
        await pilot.pause()

    run = still(episodes=8)
    app = watching(run, clock=Clock())
    assert snap_compare(app, terminal_size=size, run_before=before)
