"""A run's record at one of its steps, read in threads and drawn; what keys do with it is `tui.screens.replay`'s."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from textual.app import ComposeResult
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from engine.ratings import Rating
from engine.reading.highlights import Highlight
from engine.reading.outlines import Outline
from engine.types import EngineError
from tui.metrics.charts import ChartModel, charts
from tui.replay import feed, figures, headings
from tui.replay.feed import Entry
from tui.replay.pins import PinError
from tui.replay.reading import SLICE, Reading
from tui.replay.record import Facts, read_into, view
from tui.state import Store as State
from tui.text import clean, one_line, wrap
from tui.theme import Palette, palette, style
from tui.views import EpisodeView
from tui.wall.line import row
from tui.widgets.board import Board
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import Line, OneLine, Painted
from tui.widgets.pane import Pane
from tui.widgets.panetabs import PaneTabs
from tui.widgets.picklist import PickList
from tui.widgets.plots import Plots
from tui.widgets.scrubber import Scrubber
from tui.widgets.transcript import Transcript

NAMES = ["Interesting", "Episodes", "Transcript", "Plots", "Step"]
IDS = ["feed-pane", "page-pane", "read-pane", "plots-pane", "step-pane"]
FEED, PAGE, READ, PLOTS, STEP = range(1, 6)

QUIET = 0.15
"""Seconds that the scrubber rests before the plots are drawn again."""

LOOK = 2.0
"""Seconds between two looks at whether the run has gone on."""


class RecordScreen(Screen[None]):
    """Reads the run in `folder`, which it never changes; `cache` and `home` as in `Reading`."""

    CSS_PATH = "replay.tcss"
    AUTO_FOCUS = ""

    def __init__(self, folder: Path, cache: Path | None = None, home: Path | None = None) -> None:
        super().__init__()
        self.reading = Reading(folder, cache, home)
        self.facts: Facts | None = None
        self.step = 0
        self.entries: list[Entry] = []
        self.outlines: list[Outline] = []
        self.episodes: list[EpisodeView] = []
        self.left = 0
        """Steps that are not looked through yet."""
        self._ratings: Mapping[str, Rating] = {}
        self._highlights: Sequence[Highlight] = ()
        self._state = State(lambda _: "", lambda: 0.0)
        """Holds the one episode that is read."""
        self._plotting: Timer | None = None
        self._charts: list[ChartModel] = []
        self._plotted: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="header")
        self.scrubber = Scrubber(id="scrubber")
        self.tabs = PaneTabs(NAMES)
        self.feed = PickList(tall=2, id="feed")
        self.page = PickList(id="page")
        self.transcript = Transcript(self._state, id="reader")
        self.plots = Plots(id="charts")
        self.figures = Painted(id="figures")
        self.keys = KeyBar("replay")
        bodies: list[Widget] = [self.feed, self.page, self.transcript, self.plots, self.figures]
        panes = [
            Pane(number, name, body, id=pane)
            for number, (name, body, pane) in enumerate(zip(NAMES, bodies, IDS, strict=True), 1)
        ]
        self.board = Board(panes[:2], panes[2], panes[3:], id="body")
        yield self.header
        yield self.scrubber
        yield self.tabs
        yield self.board
        yield self.keys

    def on_mount(self) -> None:
        self.board.go(PAGE)
        self._tell("Reading the record …")
        self.run_worker(self._open(), group="open", exit_on_error=False)
        self.set_interval(LOOK, self._look_again)
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._redraw))

    def on_unmount(self) -> None:
        self.reading.close()

    # Reading

    async def _open(self) -> None:
        try:
            self.reading.pins.load()
        except PinError as error:
            self._say(f"{error}", "warning")
        try:
            self._take(await self.reading.facts())
        except EngineError as error:
            self._tell(f"{error}", bad=True)
            self._say(f"{error}", "error")
            return
        self.go_to(self.facts.last if self.facts else 0)

    def _take(self, facts: Facts) -> None:
        self.facts = facts
        self._charts = charts(facts.state)
        self._state.roles = facts.state.roles  # a role keeps its sign and colour
        self.run_worker(self._look_through(facts), group="look", exclusive=True, exit_on_error=False)
        self._draw_soon()

    async def _look_through(self, facts: Facts) -> None:
        """Fills the feed, a slice at a time, half of the time: a run may be at work beside it."""
        self.left, failed = 1, False
        while self.left:
            try:
                self._highlights, self.left = await self.reading.look_on(facts)
                failed = False
            except EngineError as error:
                if failed:
                    return
                failed = True  # one damaged step is passed over
                self._say(f"{error}", "error")
            self._draw_feed()
            await asyncio.sleep(SLICE if self.left else 0)

    async def _look_again(self) -> None:
        facts = self.facts
        if facts is None or not self.is_current:
            return
        try:
            if not await self.reading.grown(facts):
                return
            self._take(await self.reading.facts())
        except EngineError as error:
            self._say(f"{error}", "error")
            return
        assert self.facts is not None
        if self.step == facts.last or self.step > self.facts.last:
            self.go_to(self.facts.last)
        else:
            self._draw_position()

    def go_to(self, step: float, rollout_id: str = "", turn: int = -1) -> None:
        """Shows a step, and an episode of it, from the turn that is given on."""
        if self.facts is None:
            return
        if not self.facts.steps:
            self._tell("No step is recorded yet. The first one is shown as soon as there is one.")
            return
        self.step = self.facts.nearest(step)
        self._draw_position()
        work = self._read_page(self.facts, self.step, rollout_id, turn)
        self.run_worker(work, group="page", exclusive=True, exit_on_error=False)
        self._draw_soon()

    async def _read_page(self, facts: Facts, step: int, wanted: str, turn: int) -> None:
        try:
            self.outlines, ratings = await self.reading.page(facts, step)
        except EngineError as error:
            self._say(f"{error}", "error")
            return
        self.episodes = [view(outline) for outline in self.outlines]
        place = next((at for at, outline in enumerate(self.outlines) if outline.id == wanted), None)
        if wanted and place is None:
            self._say(f"Episode {one_line(wanted, 40)} is no longer in step {step}: the run went back since.")
        self.page.nothing = self._lines("No episode is recorded of this step.", self.page.cells)
        self.page.show(len(self.episodes), self._paint_episode, place or 0)
        self._ratings = ratings
        self._draw_figures()
        await self._read_episode(turn)

    async def _read_episode(self, turn: int = -1) -> None:
        self._state.episodes.clear()
        shown = ""
        if self.outlines:
            outline = self.outlines[self.page.place]
            try:
                result = await self.reading.episode(outline)
            except EngineError as error:
                self._say(f"{error}", "error")
                return
            shown = read_into(self._state, result, outline.episode.parent).id
        self.transcript.focus_on("")  # the same id may be another episode in another step
        self.transcript.focus_on(shown)
        self.call_after_refresh(self._read_from, turn)
        self._draw_gists()

    def _read_from(self, turn: int) -> None:
        """From the turn that was looked for, else from the beginning."""
        self.transcript.go_to(max(turn, 0))
        if turn < 0:
            self.transcript.scroll_to(y=0, animate=False)

    # Drawing

    async def _redraw(self) -> None:
        """After other panes came into sight, or all have other sizes."""
        self._draw_feed()
        self._draw_figures()
        await self._draw_plots()
        self.transcript.update()

    def _draw_position(self) -> None:
        facts, colours = self.facts, palette(self.app.theme)
        if facts is not None and facts.steps:
            name = self.reading.folder.name
            self.header.show(headings.header(name, facts, self.step, self.size.width, colours))
            track = headings.scrubbed(facts, self.entries, self.reading.pins.steps.values())
            self.scrubber.show(track, self.step, headings.where(facts, self.step))

    def _draw_figures(self) -> None:
        if self.facts is not None:
            cells, colours = self.figures.cells, palette(self.app.theme)
            self.figures.show(figures.lines(self.facts, self.step, self._ratings, cells, colours))

    def _draw_feed(self) -> None:
        entries = self.entries = feed.entries(self._highlights, self.reading.pins.steps)
        words = "Looking through the run …" if self.left else "Nothing stands out so far."
        self.feed.nothing = self._lines(words, self.feed.cells)
        self.feed.tall = 3 if self.feed.cells < feed.BROAD else 2
        self.feed.show(len(entries), lambda place, *how: feed.paint(entries[place], *how))
        self._draw_gists()
        self._draw_position()

    def _paint_episode(self, place: int, cells: int, colours: Palette, chosen: bool) -> list[Line]:
        return [row(self.episodes[place], self._state, cells, colours, chosen, 1)]

    def _draw_soon(self) -> None:
        """The plots follow once the scrubber rests."""
        if self._plotting is not None:
            self._plotting.stop()
        self._plotting = self.set_timer(QUIET, self._draw_plots)

    async def _draw_plots(self) -> None:
        key = (self.facts, self.step, self.plots.size, self.app.theme)
        if self.facts is not None and self.board.shows(PLOTS) and key != self._plotted:
            self._plotted = key
            await self.plots.show([replace(one, cursor=float(self.step)) for one in self._charts])

    def _draw_gists(self) -> None:
        shown, colours = self.transcript.episode, palette(self.app.theme)
        pins, many = self.reading.pins.steps, len(self.episodes)
        told = headings.gists(self.entries, self.left, many, shown, pins, self.step, colours)
        for pane, line in zip(self.board.panes, told, strict=True):
            pane.title.show(line)
        self.tabs.show(self.board.active, told[self.board.active - 1])

    def _lines(self, words: str, cells: int) -> list[Line]:
        look = style(palette(self.app.theme).soft)
        return [((f" {line}", look),) for line in wrap(clean(words), max(cells - 2, 10))]

    def _tell(self, words: str, bad: bool = False) -> None:
        """In the header, and in full where the episodes would be."""
        self.header.show(headings.trouble(self.reading.folder.name, words, palette(self.app.theme), bad))
        self.page.nothing = self._lines(words, self.page.cells)
        self.page.show(0, self._paint_episode)

    def _say(self, text: str, severity: str = "information") -> None:
        self.app.call_later(getattr(self.app, "say"), text, severity)  # noqa: B009
