"""Runs side by side: their metric in one chart, and where their configurations differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.events import EditApplied
from engine.store import Store
from tests.tui.look import SIZES, seen, still, until
from tests.tui.recorded import METRIC, record, rising
from tui import comparing
from tui.app import SelfPlayApp
from tui.interface import RunInfo
from tui.screens.compare import CompareScreen
from tui.screens.home import HomeScreen
from tui.theme import DUSK
from tui.widgets.chart import Chart
from tui.widgets.painted import Line, span

Compare = Callable[..., bool]


def text(lines: list[Line]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


@pytest.fixture
def runs(tmp_path: Path) -> list[RunInfo]:
    return [
        record(tmp_path / "nim-1", rising(9), seed=1),
        record(tmp_path / "nim-2", rising(5, 0.4, 0.7), seed=2),
        record(tmp_path / "nim-3", rising(9), seed=1),
    ]


def app(runs: list[RunInfo]) -> SelfPlayApp:
    return SelfPlayApp(
        presets=lambda: [], runs=lambda: runs, create=lambda _: still(), resume=lambda _: still(), judge=None
    )


def test_courses_are_read_in_pages_and_whole(tmp_path: Path) -> None:
    values = [place / 1000 for place in range(1000)]
    run = record(tmp_path / "long", values, every=1)
    read = comparing.read(run.name, run.folder)
    assert read.courses[METRIC] == list(enumerate(values))


def test_an_edit_of_a_run_is_a_difference(runs: list[RunInfo]) -> None:
    with Store.open(runs[2].folder) as store:
        store.record_edit(EditApplied(1, 20, "train.learning_rate", "0.001", "0.0003"))
        store.record_edit(EditApplied(2, 30, "role First", "Nim.", "Win."))
    first, third = (comparing.read(run.name, run.folder) for run in (runs[0], runs[2]))
    shown = text(comparing.table([first, third], METRIC, 120, DUSK))
    assert "train.learning_rate" in shown
    assert "0.0003" in shown
    assert "Win." in shown
    assert "run.seed" not in shown


@pytest.mark.parametrize("cells", [40, 78, 158])
def test_what_came_of_each_and_what_differs_is_told(runs: list[RunInfo], cells: int) -> None:
    read = [comparing.read(run.name, run.folder) for run in runs]
    lines = comparing.table(read, METRIC, cells, DUSK)
    shown = text(lines)
    assert "run.seed" in shown
    assert "at step 80" in shown
    assert "at step 40" in shown
    assert "run.steps" not in shown
    assert all(span(line) <= cells for line in lines)


def test_equal_configurations_are_said_to_be(runs: list[RunInfo]) -> None:
    read = [comparing.read(run.name, run.folder) for run in (runs[0], runs[2])]
    assert "configurations are the same" in text(comparing.table(read, METRIC, 100, DUSK))


def test_a_run_that_cannot_be_read_says_so_beside_the_others(runs: list[RunInfo], tmp_path: Path) -> None:
    read = [comparing.read(run.name, run.folder) for run in runs]
    read.insert(1, comparing.read("gone", tmp_path / "gone"))
    assert "gone: " in text(comparing.table(read, METRIC, 120, DUSK))
    chart = comparing.chart(read, METRIC)
    assert {curve.label: len(curve.xs) for curve in chart.curves} == {"nim-1": 9, "gone": 0, "nim-2": 5, "nim-3": 9}
    assert chart.x_range == (0, 80)


@pytest.mark.parametrize("size", SIZES)
async def test_marked_runs_are_compared(size: tuple[int, int], runs: list[RunInfo]) -> None:
    made = app(runs)
    async with made.run_test(size=size) as pilot:
        await until(pilot, lambda: "nim-1" in seen(made))
        await pilot.press("space", "down", "space")
        await until(pilot, lambda: "✓ 2 marked" in seen(made) and "✓nim-1" in seen(made))
        await pilot.press("c")
        await until(pilot, lambda: isinstance(made.screen, CompareScreen) and "run.seed" in seen(made))
        assert "win vs random" in seen(made)
        await pilot.press("right")
        await until(pilot, lambda: "optimal moves, metric 2 of 2" in seen(made))
        await pilot.press("left")
        await until(pilot, lambda: "win vs random, metric 1 of 2" in seen(made))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(made.screen, HomeScreen))
        await pilot.press("space")
        await until(pilot, lambda: "✓ 1 marked" in seen(made))


async def test_a_click_reads_every_curve_at_its_step(runs: list[RunInfo]) -> None:
    made = app(runs)
    async with made.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "nim-1" in seen(made))
        await pilot.press("space", "down", "space", "c")
        await until(pilot, lambda: isinstance(made.screen, CompareScreen) and "run.seed" in seen(made))
        chart = made.screen.query_one(Chart)
        await pilot.click(chart, offset=(30, 6))
        await until(pilot, lambda: chart.cursor is not None and "▲" in seen(made))


async def test_one_mark_and_the_chosen_run_are_two(runs: list[RunInfo]) -> None:
    made = app(runs)
    async with made.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "nim-1" in seen(made))
        await pilot.press("c")
        await until(pilot, lambda: "Mark two runs or more" in seen(made))
        await pilot.press("space", "down", "c")
        await until(pilot, lambda: isinstance(made.screen, CompareScreen) and "nim-2" in seen(made))


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_compared(snap_compare: Compare, size: tuple[int, int], runs: list[RunInfo]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: "nim-1" in seen(made))
        await pilot.press("space", "down", "space", "down", "space", "c")
        await until(pilot, lambda: isinstance(made.screen, CompareScreen) and "run.seed" in seen(made))
        await pilot.pause()

    made = app(runs)
    assert snap_compare(made, terminal_size=size, run_before=before)
