"""Search in a run's transcripts: what was found while one writes, and when in the run it was said."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input
from textual.worker import Worker, WorkerError

from engine.reading.fulltext import Found, Hit
from engine.reading.query import QueryError, parse
from engine.types import EngineError
from tui.actions import bindings, everywhere
from tui.replay.feed import PIN
from tui.replay.pins import NOTE
from tui.replay.reading import SLICE, Reading
from tui.state import Store as State
from tui.text import clean, one_line, wrap
from tui.theme import Palette, palette, sign, style
from tui.widgets.ground import Column, Ground
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import Line, OneLine, cut, spread
from tui.widgets.picklist import PickList
from tui.words import plural, signed, sparkline

PAUSE = 0.15
"""Seconds without a key before what is written is searched for."""

BROADEST = 140
"""Cells that it takes of a broad terminal, as its style says."""

MORE = 500
"""Hits that are read at a time: further ones once the last of them is marked."""

AGAIN = 20
"""Slices of indexing after which what is shown is searched for once more."""

HELP = 'words  "a phrase"  begin*  -without  role:First  step:10-20  reward>0.5  illegal  eval'


@dataclass(slots=True)
class Searched:
    """What was looked for, what was found, and which of it was gone to."""

    text: str = ""
    found: Found = field(default_factory=lambda: Found([]))
    place: int = 0


class SearchScreen(Ground, ModalScreen[Searched | None]):
    """Dismissed with what was found and the place of the turn to go to."""

    CSS_PATH = "search.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("search"), *everywhere()]

    def __init__(self, reading: Reading, before: Searched, state: State) -> None:
        super().__init__()
        self.reading = reading
        self.searched = replace(before)
        self._state = state
        self._soon: Timer | None = None
        self._left = 1
        """Steps that the index lacks."""
        self._problem = ""

    def compose(self) -> ComposeResult:
        self.box = Input(self.searched.text, placeholder="search all transcripts", compact=True, id="query")
        self.told = OneLine(id="told")
        self.hits = PickList(tall=2, id="hits")
        with Column(classes="search"):
            yield self.box
            yield self.told
            yield self.hits
            yield KeyBar("search")

    def on_mount(self) -> None:
        self.box.focus()
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._draw))
        self.hits.visible = False  # in the first frame one can write, in the second there is what was found
        self.call_after_refresh(self._draw)
        self.run_worker(self._take_in(), group="take in", exit_on_error=False)

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    # Searching

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.value == self.searched.text and self.searched.found.hits and not self._problem:
            return
        if self._soon is not None:
            self._soon.stop()
        self._soon = self.set_timer(PAUSE, self._look)

    def _look(self) -> Worker[None]:
        if self._soon is not None:
            self._soon.stop()
        return self.run_worker(self._search(0), group="search", exclusive=True, exit_on_error=False)

    async def _search(self, place: int) -> None:
        text = self.box.value
        try:
            limit = MORE * ((place + 1) // MORE + 1)
            found = await self.reading.search(parse(text), limit)
        except QueryError as error:
            self._problem = f"{error}"
        except EngineError as error:
            self._problem = f"{error}"
        else:
            self._problem = ""
            self.searched = Searched(text, found, place)
        self._draw()

    async def _take_in(self) -> None:
        """Brings the index up to date, showing meanwhile what is found in the part there is."""
        slices = 0
        try:
            while self._left:
                self._left = await self.reading.take_in()
                slices += 1
                if self.box.value and (not self._left or slices % AGAIN == 0):
                    await self._search(self.hits.place)
                self._draw_told()
                await asyncio.sleep(SLICE if self._left else 0)
        except EngineError as error:
            self._problem = f"{error}"
            self._draw()

    # Drawing

    def _draw(self) -> None:
        self.hits.visible = True
        hits = self.searched.found.hits
        colours = palette(self.app.theme)
        words = HELP if self._problem or self._left else reply(self.searched.text)
        look = style(colours.soft)
        cells = max(min(self.size.width, BROADEST) - 3, 10)
        self.hits.nothing = [((f" {line}", look),) for line in wrap(words, cells)]
        self.hits.show(len(hits), lambda place, *how: paint(hits[place], self._state, *how), self.searched.place)
        self._draw_told()

    def _draw_told(self) -> None:
        colours = palette(self.app.theme)
        self.told.show(summary(self.searched.found, self._left, self._problem, self.told.size.width, colours))

    # Keys

    def action_move(self, by: int) -> None:
        self.hits.action_move(by)

    def action_page(self, by: int) -> None:
        self.hits.action_page(by)

    def action_goto(self) -> None:
        self.call_later(self._goto)  # here, so that keys behind it wait for what is found

    async def _goto(self) -> None:
        """Goes to the marked turn; of words that weren't searched for yet, to the first that is found."""
        if self.box.value != self.searched.text:
            with contextlib.suppress(WorkerError):  # told, or given up with the screen
                await self._look().wait()
        if self.box.value == self.searched.text and self.searched.found.hits:
            self.dismiss(replace(self.searched, place=self.hits.place))

    def action_close(self) -> None:
        self.dismiss(None)

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        self.searched.place = message.place
        found = self.searched.found
        if message.place + 1 == len(found.hits) and turns(found) < found.total:
            self.run_worker(self._search(message.place), group="search", exclusive=True, exit_on_error=False)
        if message.opened:
            self.action_goto()


def reply(text: str) -> str:
    """What stands where there are no hits."""
    if text.strip() and parse(text).is_empty:
        return f"This names no word to find, and no filter. Write: {HELP}"
    return "Nothing was found." if text.strip() else HELP


def turns(found: Found) -> int:
    """How many of the hits are turns; the others are notes, which aren't counted in its total."""
    return sum(hit.turn != NOTE for hit in found.hits)


def summary(found: Found, left: int, problem: str, cells: int, colours: Palette) -> Line:
    """How much was found and when, or why nothing can be."""
    if problem:
        return cut(((f" ✗ {one_line(problem)}", style(colours.bad)),), cells)
    soft = style(colours.soft)
    late: Line = ((f"{left:,} steps to index ", style(colours.watch)),) if left else ()
    shown = turns(found)
    if not found.total:
        notes = len(found.hits) - shown
        return spread(((f" {plural(notes, 'note')} of yours" if notes else " ", style(colours.text)),), late, cells)
    first, last = min(found.by_step), max(found.by_step)
    when = f"in step {first}" if first == last else f"from step {first} to {last}"
    more = f", the first {shown:,} shown" if shown < found.total else ""
    line: Line = ((f" {plural(found.total, 'turn')} {when}{more}  ", style(colours.text)),)
    return spread((*line, (course(found.by_step, 20), style(colours.accent))), late or ((" ", soft),), cells)


def course(by_step: dict[int, int], cells: int) -> str:
    """How often it was said over the steps it was said in, as bars."""
    first, last = min(by_step), max(by_step)
    many = min(cells, last - first + 1)
    counts = [0.0] * many
    for step, count in by_step.items():
        counts[(step - first) * many // (last - first + 1)] += count
    return sparkline(counts, cells)


def paint(hit: Hit, state: State, cells: int, colours: Palette, chosen: bool) -> list[Line]:
    """Two lines: who said it, where, and what it got; and the text around it."""
    soft = style(colours.soft)
    left: Line = (
        ("›" if chosen else " ", style(colours.accent, bold=True)),
        (f"step {hit.step} ", style(colours.text)),
        (f"· {one_line(hit.rollout_id, 24)} · ", soft),
    )
    if hit.turn == NOTE:
        left = (*left, (f"{PIN} your note", style(colours.accent)))
    else:
        place = state.sign_of(hit.role)
        left = (
            *left,
            (f"turn {hit.turn + 1} ", soft),
            (f"{sign(place)} {one_line(hit.role, 24)}", colours.role(place)),
            (" ✗ ruled out" if hit.illegal else "", style(colours.bad)),
        )
    right: Line = ((f"{signed(hit.reward)} ", soft),) if hit.reward is not None else ((" ", None),)
    bold = style(colours.accent, bold=True)
    said: Line = tuple((clean(text).replace("\n", " "), bold if found else soft) for text, found in hit.snippet)
    return [cut(spread(left, right, cells), cells), cut((("   ", None), *said), cells)]
