"""The metrics screen: its keys and its mouse, and what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from engine.events import StepFinished
from tests.tui.clock import Clock
from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tests.tui.look import SIZES, play, play_to, seen, still, until, watching
from tests.tui.recorded import record
from tui import clipboard
from tui.app import SelfPlayApp
from tui.drawing.cells import LABEL
from tui.interface import RunInfo
from tui.screens.beside import RunChoice
from tui.screens.metrics import MetricsScreen
from tui.screens.run import RunScreen
from tui.widgets.chart import Chart
from tui.widgets.checklist import CheckList
from tui.widgets.closeup import Closeup
from tui.widgets.plots import Plots


async def close_look(pilot: Pilot[Any], run: FakeRun, steps: int = 34, key: str = "g") -> MetricsScreen:
    """Plays to a step, with an edit before it, and opens the metrics."""
    await play_to(pilot, run, min(21, steps))
    await run.edit_role("First", "Play well.")
    await play_to(pilot, run, steps)
    await pilot.press(key)
    return await shown(pilot)


async def shown(pilot: Pilot[Any]) -> MetricsScreen:
    await until(pilot, lambda: isinstance(pilot.app.screen, MetricsScreen))
    screen = pilot.app.screen
    assert isinstance(screen, MetricsScreen)
    await until(pilot, lambda: screen.board.chosen and screen.list.key == screen.board.chosen[0])
    await pilot.pause()
    screen.filter.cursor_blink = False
    return screen


async def press(pilot: Pilot[Any], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


# Ways in and out


@pytest.mark.parametrize("size", SIZES)
async def test_it_opens_on_the_metric_that_counts_and_goes_back_to_the_run(size: tuple[int, int]) -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        screen = await close_look(pilot, run)
        assert screen.board.chosen == ["eval/win_vs_random"]
        await until(pilot, lambda: "Share of evaluation games" in seen(app))
        await press(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


@pytest.mark.parametrize("size", SIZES)
async def test_enter_on_the_plots_opens_the_chart_at_the_top(size: tuple[int, int]) -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play_to(pilot, run, 5)
        await press(pilot, "4")
        plots = app.screen.query_one(Plots)
        await until(pilot, lambda: len(plots.query(Chart)) > 2 and plots.virtual_size.height > 16)
        plots.scroll_to(y=plots.query(Chart)[1].virtual_region.y, animate=False)
        await press(pilot, "enter")
        screen = await shown(pilot)
        assert screen.board.chosen == ["reward/First", "reward/Second"]
        assert [len(model.curves) for model in screen.board.models()] == [2]  # as they were: in one chart


async def test_a_click_on_a_chart_opens_it() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play_to(pilot, run, 5)
        chart = app.screen.query(Chart)[1]
        await pilot.click(chart, offset=(20, 3))
        assert (await shown(pilot)).board.chosen == ["reward/First", "reward/Second"]


async def test_before_anything_was_measured_it_says_so() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await play(pilot, run, 0)
        app.screen.store.series.clear()  # type: ignore[attr-defined]
        await press(pilot, "g")
        await until(pilot, lambda: "Nothing was measured yet." in seen(app))
        await press(pilot, "right", "plus", "minus", "o", "s", "l", "left_square_bracket", "y", "v", "0", "space")
        await until(pilot, lambda: isinstance(app.screen, MetricsScreen))


async def test_it_goes_on_with_the_run() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await close_look(pilot, run, 22)
        await until(pilot, lambda: "steps 0 to 22" in seen(app))
        while run.status().step < 30:
            run.advance()
        await until(pilot, lambda: "steps 0 to 30" in seen(app))


# What is chosen


async def test_space_draws_the_marked_metric_or_takes_it_away() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        await press(pilot, "down", "space", "down", "enter")
        assert screen.board.chosen == ["eval/win_vs_random", "reward/First", "reward/Second"]
        assert sum(chart.display for chart in screen.query(Closeup)) == 3
        await press(pilot, "space", "up", "space")
        assert screen.board.chosen == ["eval/win_vs_random"]
        assert sum(chart.display for chart in screen.query(Closeup)) == 1
        await press(pilot, "up", "space")
        await until(pilot, lambda: "Choose a metric on the left with space." in seen(app))


async def test_a_click_chooses_too() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        row = next(y for y, item in enumerate(screen.list.items) if item.key == "loss")
        await pilot.click(CheckList, offset=(5, row))
        await pilot.pause()
        assert screen.board.chosen[-1] == "loss"


async def test_the_filter_finds_by_meaning_and_enter_draws_the_first_it_found() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await close_look(pilot, run)
        await press(pilot, "slash", *"nats")
        assert [item.key for item in screen.list.items] == ["", "entropy"]
        await press(pilot, "enter")
        assert screen.board.chosen[-1] == "entropy"
        assert screen.list.has_focus
        await press(pilot, "slash", *"xyz")
        await until(pilot, lambda: "No metric passes the filter." in seen(app))
        await press(pilot, "escape")
        assert screen.filter.value == ""
        assert len(screen.list.items) > 10


async def test_names_of_rewards_can_be_told_apart_where_the_list_is_narrow() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await close_look(pilot, run)
        functions = ("illegal_move_of_the_opponent", "illegal_move_of_ones_own", "outcome")
        own = {f"reward/{role}/{name}": 0.0 for role in ("First", "Second") for name in functions}
        run.emit(StepFinished(35, own))
        await until(pilot, lambda: "reward/Second/outcome" in {item.key for item in screen.list.items})
        await press(pilot, "slash", *"reward/")
        names = {item.key for item in screen.list.items if item.key}
        rows = [line[:30] for line in seen(app).splitlines()]
        shown = {row.split("▢")[1].rsplit(maxsplit=1)[0].strip() for row in rows if "▢" in row}
        assert names >= own.keys()
        assert len(shown) == len(names)
        assert not any(name.endswith("…") for name in shown)


async def test_o_draws_all_in_one_chart() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        await press(pilot, "down", "space", "o")
        (chart,) = [chart for chart in screen.query(Closeup) if chart.display]
        assert chart.model is not None
        assert chart.model.title == "win vs random, reward · First"
        assert "● win vs random" in seen(app)
        assert "○ reward · First" in seen(app)


async def test_the_list_can_be_gone_through_by_pages_and_to_its_ends() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await close_look(pilot, run)
        keys = [item.key for item in screen.list.items if item.key]
        await press(pilot, "end")
        assert screen.list.key == keys[-1]
        await press(pilot, "pageup", "home")
        assert screen.list.key == keys[0]
        assert screen.list.scroll_offset.y == 0  # the heading is in sight again
        await press(pilot, "pagedown")
        assert keys.index(screen.list.key) > 5


# How it is drawn


async def test_s_smooths_and_says_how_much_and_l_makes_the_axis_logarithmic() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await close_look(pilot, run)
        await press(pilot, "s")
        assert "smoothed: EMA 0.6, raw faint" in seen(app)
        await press(pilot, "s", "l")
        assert "smoothed: EMA 0.9, raw faint  log axis" in seen(app)
        await press(pilot, "0")
        assert "EMA" not in seen(app)
        assert "log axis" not in seen(app)


async def test_keys_zoom_pan_and_reset() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        await press(pilot, "plus", "plus")
        low, high = screen.board.sight
        assert high - low == pytest.approx(34 * 0.36)
        assert "zoomed in" in seen(app)
        await press(pilot, "right_square_bracket")
        assert screen.board.sight[0] == pytest.approx(low + (high - low) / 4)
        await press(pilot, "left_square_bracket")
        assert screen.board.sight == pytest.approx((low, high))
        await press(pilot, "minus")
        assert screen.board.sight[1] - screen.board.sight[0] == pytest.approx(34 * 0.6)
        await press(pilot, "0")
        assert screen.board.window is None


async def test_the_cursor_moves_by_keys_and_reads_out() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        await press(pilot, "left", "left")
        assert screen.board.cursor == 20
        value = dict(zip(*[run_series(app, "eval/win_vs_random")[k] for k in (0, 1)], strict=True))[20]
        assert f"{value:.3f}" in seen(app)
        assert "▲20" in seen(app)
        await press(pilot, "right")
        assert screen.board.cursor == 30


def run_series(app: SelfPlayApp, name: str) -> tuple[list[float], list[float]]:
    assert app.session is not None
    series = app.session.store.series[name]
    return series.xs, series.ys


async def test_the_wheel_zooms_at_the_pointer_and_with_shift_it_pans() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        chart = screen.query_one(Closeup)

        def wheel(kind: type[events.MouseEvent], x: int, shift: bool = False) -> None:
            place = chart.region.offset
            chart.post_message(kind(chart, x, 5, 0, 0, 0, shift, False, False, place.x + x, place.y + 5))

        wide = chart.size.width - LABEL - 2
        x = LABEL + 1 + wide // 4
        under = chart.step_at(x)
        wheel(events.MouseScrollUp, x)
        await pilot.pause()
        low, high = screen.board.sight
        assert high - low == pytest.approx(34 * 0.8)
        assert chart.step_at(x) == pytest.approx(under)
        wheel(events.MouseScrollDown, x, shift=True)
        await pilot.pause()
        assert screen.board.sight[0] == pytest.approx(low + 2.72)
        wheel(events.MouseScrollLeft, x)
        await pilot.pause()
        assert screen.board.sight[0] == pytest.approx(low)
        wheel(events.MouseScrollRight, x)
        wheel(events.MouseScrollDown, x)
        wheel(events.MouseScrollDown, x)
        await pilot.pause()
        assert screen.board.window is None


async def test_a_click_points_and_a_drag_moves_on() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        chart = screen.query_one(Closeup)
        wide = chart.size.width - LABEL - 2
        await pilot.click(chart, offset=(LABEL + 1 + round((wide - 1) * 20 / 34), 5))
        await pilot.pause()
        assert screen.board.cursor == 20
        await press(pilot, "plus")
        low, high = screen.board.sight
        await pilot.mouse_down(chart, offset=(30, 5))
        await pilot.hover(chart, offset=(40, 5))
        await pilot.mouse_up(chart, offset=(40, 5))
        await pilot.pause()
        assert screen.board.sight[0] == pytest.approx(low - (high - low) * 10 / wide, abs=1e-6)
        assert screen.board.cursor == 20


async def test_m_shows_the_charts_alone() -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await close_look(pilot, run)
        await press(pilot, "m")
        assert screen.query_one(Closeup).size.width >= 78
        await press(pilot, "escape")
        assert isinstance(app.screen, MetricsScreen)
        assert screen.list.has_focus
        await press(pilot, "m", "slash")
        assert screen.query_one(Input).has_focus


# Beside other runs


async def test_other_runs_are_chosen_from_a_list_and_drawn_beside(tmp_path: Path) -> None:
    record(tmp_path / "nim-1", [0.5, 0.6, 0.7])
    (tmp_path / "odd").mkdir()
    run = still(episodes=12)
    app = demo_app(start=run)
    app.sources = app.sources.__class__(
        app.sources.presets,
        lambda: [
            RunInfo("nim-1", tmp_path / "nim-1", title="Nim", step=12, when="yesterday"),
            RunInfo("odd", tmp_path / "odd"),
            RunInfo("broken", tmp_path / "broken", problem="damaged"),
            RunInfo(run.name, run.folder),
        ],
        app.sources.create,
        app.sources.resume,
    )
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run, 22)
        await press(pilot, "r")
        await until(pilot, lambda: isinstance(app.screen, RunChoice) and "nim-1" in seen(app))
        assert "broken" not in seen(app)
        assert "1 can't be read" in seen(app)
        await press(pilot, "space", "down", "space", "enter")
        await until(pilot, lambda: [other.name for other in screen.board.others] == ["nim-1"])
        await until(pilot, lambda: "odd: not a run" in seen(app))
        (model,) = screen.board.models()
        assert [c.label for c in model.curves] == ["nim-3", "nim-1"]
        await until(pilot, lambda: "beside 1 other run" in seen(app) and "○ nim-1" in seen(app))
        await press(pilot, "r")
        await until(pilot, lambda: isinstance(app.screen, RunChoice) and "▣ nim-1" in seen(app))
        await pilot.click(CheckList, offset=(5, 0))
        await press(pilot, "escape")
        await until(pilot, lambda: not screen.board.others)


async def test_without_another_run_it_says_so() -> None:
    run = still(episodes=12)
    app = demo_app(start=run, empty=True)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await close_look(pilot, run, 3)
        await press(pilot, "r")
        await until(pilot, lambda: "no other run" in seen(app))


# Taking it away


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []

    async def copy(text: str, by_terminal: Callable[[str], None]) -> str:
        texts.append(text)
        return "a test"

    monkeypatch.setattr(clipboard, "copy", copy)
    return texts


async def test_y_copies_the_numbers_in_sight_and_shift_y_the_picture(copied: list[str]) -> None:
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await close_look(pilot, run)
        await press(pilot, "y")
        await until(pilot, lambda: "4 steps as a table copied by a test." in seen(app))
        head, *lines = copied[0].splitlines()
        assert head == "step\teval/win_vs_random"
        xs, ys = run_series(app, "eval/win_vs_random")
        assert [tuple(map(float, line.split("\t"))) for line in lines] == list(zip(xs, ys, strict=True))
        await press(pilot, "Y")
        await until(pilot, lambda: len(copied) == 2)
        assert copied[1].startswith("<svg")
        assert ">win vs random</text>" in copied[1]
        screen.board.chosen = []
        await press(pilot, "y")
        await until(pilot, lambda: "There is no chart yet" in seen(app))


async def test_files_are_saved_in_the_runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = still(episodes=12)
    run.folder = tmp_path
    app = watching(run)
    monkeypatch.setitem(__import__("sys").modules, "resvg_py", None)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await close_look(pilot, run)
        await press(pilot, "down", "space", "v")
        names = {"win-vs-random-to-step-34.svg", "reward-first-to-step-34.svg"}
        await until(pilot, lambda: names == {path.name for path in (tmp_path / "exports").glob("*.svg")})
        await press(pilot, "c")
        await until(pilot, lambda: [*(tmp_path / "exports").glob("*.csv")])
        (table,) = (tmp_path / "exports").glob("*.csv")
        assert table.read_text().startswith("step,eval/win_vs_random,reward/First\n")
        await press(pilot, "g")
        await until(pilot, lambda: "pip install" in seen(app))
        assert not [*(tmp_path / "exports").glob("*.png")]


async def test_a_disk_that_takes_nothing_is_told_and_the_app_goes_on(tmp_path: Path) -> None:
    (tmp_path / "exports").write_text("in the way")
    run = still(episodes=12)
    run.folder = tmp_path
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await close_look(pilot, run)
        await press(pilot, "v")
        await until(pilot, lambda: "nothing was" in seen(app))
        assert isinstance(app.screen, MetricsScreen)


# Pictures


def picture(snap_compare: Callable[..., bool], size: tuple[int, int], *keys: str, theme: str = "dusk") -> bool:
    async def before(pilot: Pilot[Any]) -> None:
        pilot.app.theme = theme
        await close_look(pilot, pilot.app.session.run)  # type: ignore[attr-defined]
        await press(pilot, *keys)
        await pilot.app.screen._look()  # type: ignore[attr-defined]
        await pilot.pause()

    return snap_compare(watching(still(episodes=24), clock=Clock()), terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_the_screen(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    assert picture(snap_compare, size, "down", "space", "down", "space", "left", "left", "s")


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_the_screen_with_all_in_one_chart(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    keys = ("down", "space", "down", "space", "o", "plus", "m")
    assert picture(snap_compare, size, *keys, theme="paper")
