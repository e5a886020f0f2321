"""Marked runs laid over each other: a metric of their evaluations, and where their configurations differ."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from textual import work
from textual.app import ComposeResult
from textual.screen import Screen

from tui import comparing
from tui.actions import bindings
from tui.comparing import Compared
from tui.interface import RunInfo
from tui.text import one_line
from tui.theme import SIGNS, palette, style
from tui.widgets.chart import Chart
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import OneLine, Painted, spread
from tui.widgets.pane import Pane
from tui.widgets.stack import Stack
from tui.words import label, plural

MOST = len(SIGNS)
"""Runs that can be told apart without colour."""


class CompareScreen(Screen[None]):
    """Reads the runs' records in a thread, then shows one metric at a time."""

    CSS_PATH = "compare.tcss"
    BINDINGS = bindings("compare")

    def __init__(self, runs: Sequence[RunInfo]) -> None:
        super().__init__()
        self.chosen = runs
        self.runs: list[Compared] = []
        self.metrics: list[str] = []
        self.place = 0
        """Of the metric shown."""

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="compare-header")
        self.chart = Chart(id="compare-chart")
        self.table = Painted(id="compare-table")
        yield self.header
        yield Stack(self.chart, Pane(0, "Where they differ", self.table, id="compare-pane"), id="compare-body")
        yield KeyBar("compare")

    def on_mount(self) -> None:
        self.table.focus()
        self._read()

    def on_resize(self) -> None:
        self.call_after_refresh(self.fill)

    @work(exclusive=True)
    async def _read(self) -> None:
        for run in self.chosen:
            self.runs.append(await asyncio.to_thread(comparing.read, run.name, run.folder))
        self.metrics = comparing.metrics(self.runs)
        self.fill()

    @property
    def metric(self) -> str:
        return self.metrics[self.place] if self.metrics else ""

    def fill(self) -> None:
        """Shows what has been read."""
        if not self.is_mounted:
            return
        colours = palette(self.app.theme)
        names = " · ".join(one_line(run.name, 24) for run in self.chosen)
        place = f"{label(self.metric)}, metric {self.place + 1} of {len(self.metrics)} " if self.metrics else ""
        title = (
            (f" {plural(len(self.chosen), 'run')}  ", style(colours.accent, bold=True)),
            (names, style(colours.soft)),
        )
        self.header.show(spread(title, ((one_line(place) + " ", style(colours.text)),), self.size.width))
        if len(self.runs) < len(self.chosen):
            self.table.show([((" Reading …", style(colours.soft)),)])
            return
        if self.metrics:
            self.chart.show(comparing.chart(self.runs, self.metric))
        self.chart.display = bool(self.metrics)
        self.table.show(comparing.table(self.runs, self.metric, self.table.cells, colours))

    def on_chart_clicked(self, message: Chart.Clicked) -> None:
        self.chart.cursor = message.step

    def action_metric(self, step: int) -> None:
        if self.metrics:
            self.place = (self.place + step) % len(self.metrics)
            self.fill()

    def action_back(self) -> None:
        self.dismiss()
