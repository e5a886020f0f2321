"""Metrics, looked at closely: every one the run has, large charts of those chosen, beside other runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Static

from engine.store import StoreError
from tui import clipboard
from tui.actions import bindings
from tui.drawing import files
from tui.drawing.model import ChartModel
from tui.drawing.svg import svg
from tui.drawing.table import rows, written
from tui.interface import RunInfo
from tui.metrics import lines, overlay
from tui.metrics.board import Board
from tui.metrics.charts import charts
from tui.screens.beside import RunChoice
from tui.session import Session
from tui.text import one_line
from tui.theme import palette, style
from tui.widgets.chart import Chart
from tui.widgets.checklist import CheckList
from tui.widgets.closeup import Closeup
from tui.widgets.divider import Divider
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import BLANK, OneLine, Painted
from tui.widgets.plots import Plots
from tui.words import plural

EVERY = 0.5
"""Seconds between looks at whether there is anything new to draw."""

STEP = 0.25
"""Share of the steps in sight that a key moves on by."""

CLOSER = 0.6
"""Steps in sight after a key saw closer, as a share of those before."""


class MetricsScreen(Screen[None]):
    """Shows a `Board` over a session. `runs` lists the runs there are, on any thread."""

    CSS_PATH = "metrics.tcss"
    BINDINGS = bindings("metrics")

    def __init__(
        self, session: Session, metrics: Sequence[str] = (), runs: Callable[[], list[RunInfo]] = list
    ) -> None:
        super().__init__()
        self.session = session
        self.runs = runs
        known = session.store.series
        self.board = Board(session.store, session.run.name, [name for name in metrics if name in known])
        self.board.joined = len(self.board.chosen) > 1
        self._drawn: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="metrics-header")
        self.filter = Input(placeholder="filter by name or meaning", compact=True, id="metric-filter")
        self.list = CheckList(id="metric-list")
        self.meaning = Painted(id="metric-meaning", focusable=False)
        self.charts = Plots(id="metric-charts", kind=Closeup, high=1000)
        self.nothing = Painted(id="metric-nothing", focusable=False)
        yield self.header
        with Horizontal(id="metrics-body"):
            with Vertical(id="metric-choice"):
                with Horizontal(id="metric-filter-row"):
                    yield Static(Content(" / "), id="metric-filter-sign")
                    yield self.filter
                yield self.list
                yield self.meaning
            yield Divider("metric-choice")
            yield self.charts
            yield self.nothing
        yield KeyBar("metrics")

    async def on_mount(self) -> None:
        self.board.chosen = self.board.chosen or next((m.metrics for m in charts(self.session.store)), [])
        self.list.focus()
        self.set_interval(EVERY, self._look)
        self.call_after_refresh(self._list, next(iter(self.board.chosen), None))
        self.call_after_refresh(self._draw)

    def on_resize(self) -> None:
        self.call_after_refresh(self._list)
        self.call_after_refresh(self._draw)

    on_divider_moved = on_resize

    # Drawing

    async def _look(self) -> None:
        """Draws again if the run went on, or the theme changed."""
        if self.is_current and self._drawn != (self.session.store.facts, self.app.theme):
            self._list()
            await self._draw()

    async def _draw(self) -> None:
        if not self.is_mounted:
            return
        self._drawn = (self.session.store.facts, self.app.theme)
        models = self.board.models()
        self.charts.display, self.nothing.display = bool(models), not models
        await self.charts.show(models)
        colours = palette(self.app.theme)
        if not models:
            words = "Choose a metric on the left with space." if self.board.names() else "Nothing was measured yet."
            self.nothing.show([BLANK, ((f"  {words}", style(colours.soft)),)])
        self.header.show(lines.header(self.board, self.size.width, colours))

    def _list(self, key: str | None = None) -> None:
        if not self.is_mounted:
            return
        self.list.show(lines.items(self.board, self.filter.value.lstrip("/")), key)
        self._mean()

    def _mean(self) -> None:
        """What the metric with the cursor means."""
        colours, cells = palette(self.app.theme), self.meaning.cells - 1
        self.meaning.show(lines.about(self.board, self.list.key, bool(self.filter.value), cells, colours))

    # What is chosen

    def on_check_list_moved(self) -> None:
        self._mean()

    async def on_check_list_toggled(self, message: CheckList.Toggled) -> None:
        await self._toggle(message.key)

    def on_input_changed(self) -> None:
        self._list()

    async def on_input_submitted(self) -> None:
        self.list.focus()
        await self.action_choose()

    def on_key(self, event: events.Key) -> None:
        if self.filter.has_focus and event.key in ("down", "escape"):
            if event.key == "escape":
                self.filter.value = ""
            self.list.focus()
            event.stop()

    def action_filter(self) -> None:
        self.remove_class("alone")
        self.filter.focus()

    async def action_choose(self) -> None:
        if self.list.key:
            await self._toggle(self.list.key)

    async def _toggle(self, name: str) -> None:
        self.board.toggle(name)
        self._list()
        await self._draw()

    def action_runs(self) -> None:
        """Asks which runs to draw beside this one."""
        self._work(self._choose_runs())

    async def _choose_runs(self) -> None:
        found = await asyncio.to_thread(self.runs)
        own = self.session.run.folder
        others = [run for run in found if run.folder != own and run.name != self.session.run.name]
        if not others:
            self._say("There is no other run to draw beside this one.")
            return
        chosen = [other.folder for other in self.board.others]
        self.app.push_screen(RunChoice(others, chosen), self._beside)

    def _beside(self, folders: list[Path] | None) -> None:
        if folders is not None:
            self._work(self._read(folders))

    async def _read(self, folders: list[Path]) -> None:
        """Reads the records anew, off the event loop; one that can't be read is told, and the others drawn."""
        found = []
        for folder in folders:
            try:
                found.append(await asyncio.to_thread(overlay.read, folder))
            except StoreError as error:
                self._say(f"{error}", "error")
        self.board.others = found
        self._list()
        await self._draw()

    # How it is drawn

    async def action_join(self) -> None:
        self.board.joined = not self.board.joined
        if len(self.board.chosen) < 2:
            self._say("With two metrics or more: all in one chart, or a chart each.")
        await self._draw()

    async def action_smooth(self) -> None:
        self.board.next_strength()
        await self._draw()

    async def action_log(self) -> None:
        self.board.is_log = not self.board.is_log
        await self._draw()

    async def action_zoom(self, closer: int) -> None:
        self.board.zoom(CLOSER if closer > 0 else 1 / CLOSER)
        await self._draw()

    async def action_pan(self, by: int) -> None:
        self.board.pan(by * STEP)
        await self._draw()

    async def action_cursor(self, by: int) -> None:
        self.board.move(by)
        await self._draw()

    async def action_reset(self) -> None:
        self.board.reset()
        await self._draw()

    def action_maximise(self) -> None:
        self.toggle_class("alone")
        (self.charts if self.has_class("alone") else self.list).focus()

    async def on_chart_clicked(self, message: Chart.Clicked) -> None:
        self.board.point(message.step)
        await self._draw()

    async def on_closeup_zoomed(self, message: Closeup.Zoomed) -> None:
        self.board.zoom(message.factor, message.step)
        await self._draw()

    async def on_closeup_panned(self, message: Closeup.Panned) -> None:
        self.board.pan(message.share)
        await self._draw()

    def action_back(self) -> None:
        if self.has_class("alone"):
            self.action_maximise()
        else:
            self.app.pop_screen()

    # Taking it away

    def action_copy(self) -> None:
        if models := self._models():
            steps = len(rows(models)) - 1
            self._work(self._copy(written(models, "\t"), f"{plural(steps, 'step')} as a table"))

    def action_copy_picture(self) -> None:
        if models := self._models():
            shown = self.charts.at_top or models[0]
            self._work(self._copy(svg(shown), f"{one_line(shown.title, 40)} as SVG"))

    def action_save_svg(self) -> None:
        self._save(files.save_svg)

    def action_save_png(self) -> None:
        self._save(files.save_png)

    def action_save_table(self) -> None:
        self._save(files.save_csv)

    def _models(self) -> list[ChartModel]:
        models = [model for model in self.board.models() if model.curves]
        if not models:
            self._say("There is no chart yet: choose a metric first.", "warning")
        return models

    async def _copy(self, text: str, what: str) -> None:
        by = await clipboard.copy(text, self.app.copy_to_clipboard)
        self._say(f"{what} copied by {by}.")

    def _save(self, save: Callable[[Path, list[ChartModel]], list[Path]]) -> None:
        if models := self._models():
            self._work(self._saved(save, models))

    async def _saved(self, save: Callable[[Path, list[ChartModel]], list[Path]], models: list[ChartModel]) -> None:
        try:
            paths = await asyncio.to_thread(save, self.session.run.folder, models)
        except files.DrawingError as error:
            self._say(f"{error}", "error")
            return
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        self._say(f"Saved {paths[0]}{more}")

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        self.run_worker(work, group="metrics")

    def _say(self, text: str, severity: str = "information") -> None:
        self.app.call_later(getattr(self.app, "say"), text, severity)  # noqa: B009
