"""Charts as widgets: what neighbours rely on."""

from __future__ import annotations

import numpy as np
from textual.app import App, ComposeResult

from tui.drawing.cells import LABEL
from tui.drawing.model import ChartModel, Curve
from tui.widgets.chart import Chart
from tui.widgets.plots import Plots

STEPS = np.arange(101.0)


def model(title: str, value: float) -> ChartModel:
    return ChartModel(title, (Curve(title, STEPS, np.full(101, value)),), x_range=(0, 100))


class Alone(App[None]):
    def compose(self) -> ComposeResult:
        yield Chart()


class Several(App[None]):
    def compose(self) -> ComposeResult:
        yield Plots()


def lines(chart: Chart) -> list[str]:
    return [chart.render_line(y).text for y in range(chart.size.height)]


async def test_a_cursor_is_put_and_taken_away() -> None:
    app = Alone()
    async with app.run_test(size=(60, 12)) as pilot:
        chart = app.query_one(Chart)
        chart.cursor = 5  # there is nothing to point at yet
        assert chart.cursor is None
        chart.show(model("a", 1.0))
        await pilot.pause()
        assert "▲" not in "".join(lines(chart))
        chart.cursor = 50
        assert "▲50" in lines(chart)[-1]
        chart.cursor = None
        assert "▲" not in "".join(lines(chart))


async def test_a_column_tells_its_step_and_the_margins_none() -> None:
    app = Alone()
    async with app.run_test(size=(60, 12)) as pilot:
        chart = app.query_one(Chart)
        assert chart.step_at(20) is None
        chart.show(model("a", 1.0))
        await pilot.pause()
        first, last = LABEL + 1, chart.size.width - 2
        assert (chart.step_at(first), chart.step_at(last)) == (0, 100)
        assert chart.step_at(first - 1) is None
        assert chart.step_at(last + 1) is None


async def test_plots_point_all_of_their_charts_at_a_step_and_show_fewer_again() -> None:
    app = Several()
    async with app.run_test(size=(60, 30)) as pilot:
        plots = app.query_one(Plots)
        await plots.show([model("a", 1.0), model("b", 2.0), model("c", 3.0)])
        await pilot.pause()
        plots.move_cursor(30)
        assert [chart.cursor for chart in plots.query(Chart)] == [30, 30, 30]
        await plots.show([model("d", 4.0)])
        await pilot.pause()
        (chart,) = [chart for chart in plots.query(Chart) if chart.display]
        assert lines(chart)[0].split() == ["d", "4"]
        assert plots.at_top is not None
        assert plots.at_top.title == "d"
