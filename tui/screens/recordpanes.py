"""The panes of a run's record: what is known of it at one of its steps, drawn. `tui.screens.record` reads it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from textual.app import ComposeResult
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from engine.reading.highlights import Highlight
from engine.reading.outlines import Outline
from tui.metrics.charts import ChartModel
from tui.replay import feed, figures, headings
from tui.replay.feed import Entry
from tui.replay.reading import Reading
from tui.replay.record import Facts
from tui.replay.strength import Ratings
from tui.state import Store as State
from tui.text import clean, wrap
from tui.theme import Palette, palette, style
from tui.views import EpisodeView
from tui.wall.line import row
from tui.widgets.board import Board
from tui.widgets.ground import Ground
from tui.widgets.keybar import KeyBar
from tui.widgets.marked import Marked
from tui.widgets.painted import Line, OneLine, Painted
from tui.widgets.pane import Pane
from tui.widgets.panetabs import PaneTabs
from tui.widgets.picklist import PickList
from tui.widgets.plots import Plots
from tui.widgets.scrubber import Scrubber

NAMES = ["Interesting", "Episodes", "Transcript", "Plots", "Step"]
IDS = ["feed-pane", "page-pane", "read-pane", "plots-pane", "step-pane"]
FEED, PAGE, READ, PLOTS, STEP = range(1, 6)

QUIET = 0.15
"""Seconds that the scrubber rests before the plots are drawn again."""


class RecordPanes(Ground, Screen[None]):
    """Of the run in `folder`; `cache` and `home` as in `Reading`."""

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
        self.way = ""
        """How one came to the episode that is read, where that isn't plain."""
        self._ratings: Ratings = {}
        self._highlights: Sequence[Highlight] = ()
        self._state = State(self.reading.decode, lambda: 0.0)
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
        self.transcript = Marked(self._state, id="reader")
        self.transcript.nothing = "No episode is chosen."
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

    def by_hit(self, way: str, pattern: re.Pattern[str] | None) -> None:
        """How one comes to what is read next, and what to mark in it."""
        self.way = way
        self.transcript.mark(pattern)

    async def _frame(self) -> None:
        """Until all so far is on the screen: drawn at once with what comes next, it would keep keys waiting."""
        drawn = asyncio.Event()
        self.call_after_refresh(drawn.set)
        await drawn.wait()

    async def _redraw(self) -> None:
        """After other panes came into sight, or all have other sizes."""
        self._draw_feed()
        self._draw_figures()
        await self._draw_plots()
        self.transcript.update()

    @property
    def follows(self) -> bool:
        """Whether a further step of the run is shown as it comes; not to who reads a transcript."""
        return self.facts is not None and self.step == self.facts.last and not self.transcript.has_focus

    def on_descendant_focus(self) -> None:
        self._draw_position()

    def _draw_position(self) -> None:
        facts, colours = self.facts, palette(self.app.theme)
        if facts is not None and facts.steps:
            name = self.reading.folder.name
            self.header.show(headings.header(name, facts, self.follows, self.size.width, colours))
            track = headings.scrubbed(facts, self.entries, self.reading.pins.steps)
            self.scrubber.show(track, self.step, headings.where(facts, self.step))

    def _draw_pins(self) -> None:
        """Wherever pins are shown, after one was put or taken away."""
        self._draw_feed()
        self.page.refresh()

    def _draw_figures(self) -> None:
        if self.facts is not None:
            cells, colours = self.figures.cells, palette(self.app.theme)
            self.figures.show(figures.lines(self.facts, self.step, self._ratings, cells, colours))

    def _draw_feed(self) -> None:
        before, entries = self.entries, feed.entries(self._highlights, self.reading.pins.marked)
        self.entries = entries
        words = "Looking through the run …" if self.left else "Nothing stands out so far."
        self.feed.nothing = self._lines(words, self.feed.cells)
        self.feed.tall = 3 if self.feed.cells < feed.BROAD else 2
        # what is found meanwhile moves the entry that somebody marked, and the cursor with it
        at, is_used = self.feed.place, self.feed.has_focus or self.feed.place > 0
        marked = before[at] if is_used and at < len(before) else None
        place = entries.index(marked) if marked in entries else None
        self.feed.show(len(entries), lambda place, *how: feed.paint(entries[place], *how), place)
        self._draw_gists()
        self._draw_position()

    def _paint_episode(self, place: int, cells: int, colours: Palette, chosen: bool) -> list[Line]:
        outline = self.outlines[place]
        mark = feed.PIN if self.reading.pins.of(outline.id, outline.episode.step) is not None else ""
        return [row(self.episodes[place], self._state, cells, colours, chosen, 1, mark=mark)]

    def _draw_soon(self) -> None:
        """The plots follow once the scrubber rests."""
        if self._plotting is not None:
            self._plotting.stop()
        self._plotting = self.set_timer(QUIET, self._draw_plots)

    async def _draw_plots(self) -> None:
        key = (self.facts, self.step, self.plots.size, self.app.theme)
        if self.facts is not None and self.plots.size and key != self._plotted:
            self._plotted = key
            await self.plots.show([replace(one, cursor=float(self.step)) for one in self._charts])

    def _draw_gists(self) -> None:
        shown, colours = self.transcript.episode, palette(self.app.theme)
        pin = self.reading.pins.of(shown.id, self.step) if shown is not None else None
        read = headings.reading(shown, pin, self.way, colours)
        told = headings.gists(self.entries, self.left, len(self.episodes), read, self.step, colours)
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
