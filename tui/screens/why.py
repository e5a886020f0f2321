"""Why: the path from a turn's reward functions to what the loss made of it, and the group it was compared with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from tui import clipboard
from tui.actions import bindings
from tui.commands import give, say
from tui.text import fit, one_line, wrap
from tui.theme import Palette, palette, style
from tui.why import Other, Sum, Why, explain
from tui.widgets.divider import Divider
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import BLANK, Line, OneLine, Painted, cut
from tui.widgets.pane import Pane
from tui.widgets.stack import Stack

if TYPE_CHECKING:
    from engine.reading.tracing import Trace

BROAD = 110
"""Cells from which on the group stands beside the path."""

LABEL = 14
"""Cells of what a sum is of."""

BESIDE_PATH = 8
"""Lines of the group below the path, its title among them."""

AGAIN = 1.0
"""Seconds after which a turn that hasn't been learnt from is looked up again."""


class Place(NamedTuple):
    """A turn of an episode."""

    rollout_id: str
    turn: int | None
    """Its index; None for the last one."""


class WhyScreen(Screen[Place | None]):
    """Returns the turn to read, or None."""

    CSS_PATH = "why.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("why")

    def __init__(self, place: Place, look_up: Callable[[str], Awaitable[Trace | None]]) -> None:
        super().__init__()
        self.place = place
        self.why: Why | None = None
        self.trace: Trace | None = None
        self._refused = ""
        """Why the record told nothing when it was last asked."""
        self._look_up = look_up

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="why-header")
        self.path = Fitted(self._path, id="why-path")
        self.others = Others(id="why-others")
        yield self.header
        self.pane = Pane(2, "Compared with", self.others, id="others-pane")
        self.border = Divider("others-pane", right=True)
        self.stack = Stack(Pane(1, "Why", self.path, id="why-pane"), self.border, self.pane, id="why-body")
        yield self.stack
        yield KeyBar("why")

    def on_mount(self) -> None:
        self.others.focus()
        self._read()
        self.set_interval(AGAIN, self._read_again)

    def on_resize(self) -> None:
        broad = self.size.width >= BROAD
        self.set_class(broad, "broad")
        self.border.stand(broad)
        self.stack.stand(not broad)
        self.call_after_refresh(self._tell)

    def _read(self) -> None:
        self.run_worker(self._find(self.place), group="why", exclusive=True, exit_on_error=False)

    def _read_again(self) -> None:
        if self.is_current and (self.why is None or not self.why.is_settled):
            self._read()

    async def _find(self, place: Place) -> None:
        try:
            trace = await self._look_up(place.rollout_id)
        except Exception as error:  # the record may be unreadable in any way: say so, and stay
            before, self._refused = self._refused, f"{error}" or type(error).__name__
            if self._refused != before:  # it is asked again every second
                say(self, self._refused, "error")
            self.path.fit()
            return
        self._refused = ""
        if trace is not None and place == self.place:
            self.trace = trace
            self._explain()

    def _explain(self) -> None:
        turns = self.trace.episode.rollout.turns if self.trace is not None else []
        turn = next((turn for turn in turns if turn.index == self.place.turn), None)
        if self.trace is not None and turn is not None:
            self.why = explain(self.trace, turn)
            self._tell()

    def _tell(self) -> None:
        if not self.is_mounted:
            return
        colours = palette(self.app.theme)
        head: Line = (
            (f" episode {one_line(self.place.rollout_id, 30)}", style(colours.accent, bold=True)),
            (f" · turn {(self.place.turn or 0) + 1}", style(colours.text)),
        )
        if self.why is not None:
            about = f" of {one_line(self.why.role, 30)} · {one_line(self.why.about)}"
            head = (*head, (about, style(colours.soft)))
            self.others.show_others(self.why.others)
            self._title(self.why, colours)
        self.path.fit()
        self.header.show(cut(head, self.size.width))

    def _path(self, cells: int) -> list[Line]:
        colours = palette(self.app.theme)
        if self.why is None:
            look = style(colours.bad if self._refused else colours.soft)
            told = one_line(self._refused or "Looking it up in the record …")
            return [BLANK, *(((f"  {line}", look),) for line in wrap(told, max(cells - 3, 2)))]
        return path_lines(self.why, cells, colours)

    def _title(self, why: Why, colours: Palette) -> None:
        members = sum(other.relation == "group" for other in why.others)
        told = f"{one_line(why.group, 60)} · {members}" if members else "the tree" if why.others else "nobody"
        self.pane.title.show(((told, style(colours.soft)),))
        self.stack.want(self.pane, min(len(why.others) + 1, BESIDE_PATH))

    # What is done

    def on_others_chosen(self, message: Others.Chosen) -> None:
        self._go(message.rollout_id)

    def action_go(self) -> None:
        if (other := self.others.chosen) is not None:
            self._go(other.rollout_id)
        else:
            say(self, "There is nobody to go to.")

    def _go(self, rollout_id: str) -> None:
        """To where that episode is read: to the same turn, where it has one."""
        self.dismiss(Place(rollout_id, self.place.turn if rollout_id == self.place.rollout_id else None))

    def action_turn(self, by: int) -> None:
        turns = self.trace.episode.rollout.turns if self.trace is not None else []
        indices = [turn.index for turn in turns]
        if self.place.turn in indices:
            at = min(max(indices.index(self.place.turn) + by, 0), len(indices) - 1)
            self.place = Place(self.place.rollout_id, indices[at])
            self._explain()

    def action_scroll_path(self, pages: int) -> None:
        self.path.scroll_relative(y=pages * max(self.path.size.height - 1, 1), animate=False)

    def action_copy(self) -> None:
        if self.why is not None:
            give(self, self._copy(self.why.text()))

    async def _copy(self, text: str) -> None:
        say(self, f"The path is copied by {await clipboard.copy(text, self.app.copy_to_clipboard)}.")

    def action_back(self) -> None:
        self.dismiss(None)


class Fitted(Painted):
    """Lines that are made again whenever their width is another."""

    def __init__(self, make: Callable[[int], list[Line]], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._make = make

    def fit(self) -> None:
        self.show(self._make(self.cells))

    def on_resize(self) -> None:
        self.fit()


class Others(Painted):
    """Episodes to go to, one of them under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("home", "move(-100000)", "First", show=False),
        Binding("end", "move(100000)", "Last", show=False),
        Binding("pageup", "screen.scroll_path(-1)", "Path up", show=False),
        Binding("pagedown", "screen.scroll_path(1)", "Path down", show=False),
    ]

    class Chosen(Message):
        """An episode was clicked twice."""

        def __init__(self, rollout_id: str) -> None:
            super().__init__()
            self.rollout_id = rollout_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: list[Other] = []
        self.at = 0

    @property
    def chosen(self) -> Other | None:
        return self.entries[self.at] if self.entries else None

    def show_others(self, entries: list[Other]) -> None:
        """Shows them, the cursor on the same one as before, or at first on the one that is here."""
        before = self.chosen
        same = [i for i, other in enumerate(entries) if before and other.rollout_id == before.rollout_id]
        here = [i for i, other in enumerate(entries) if other.is_here]
        self.entries, self.at = entries, next(iter(same + here), 0)
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def action_move(self, by: int) -> None:
        if self.entries:
            self.at = min(max(self.at + by, 0), len(self.entries) - 1)
            self._paint()

    def on_click(self, event: events.Click) -> None:
        y = event.y + self.scroll_offset.y
        if y < len(self.entries):
            self.at = y
            self._paint()
            if event.chain > 1:
                self.post_message(self.Chosen(self.entries[y].rollout_id))

    def _paint(self) -> None:
        colours = self.colours
        self.show([other_line(o, i == self.at, self.cells, colours) for i, o in enumerate(self.entries)] or [BLANK])
        top, high = self.scroll_offset.y, max(self.size.height, 1)
        if not top <= self.at < top + high:
            self.scroll_to(y=self.at if self.at < top else self.at - high + 1, animate=False)


SIGNS = {"group": " ", "parent": "↑", "child": "└"}


def other_line(other: Other, chosen: bool, cells: int, colours: Palette) -> Line:
    """`› ▸ 17      R +1.00  baseline +0.12  A +0.88`: the one looked at is marked."""
    ground = colours.cursor if chosen else None
    mark = "▸" if other.is_here else SIGNS[other.relation]
    look = style(colours.text, bold=other.is_here, ground=ground)
    line: Line = (
        ("› " if chosen else "  ", style(colours.accent, bold=True, ground=ground)),
        (f"{mark} {fit(one_line(other.rollout_id), 9)} ", look),
        (fit(one_line(other.told), max(cells - 14, 1)), style(colours.soft, ground=ground)),
    )
    return cut(line, cells)


def path_lines(why: Why, cells: int, colours: Palette) -> list[Line]:
    """The parts one after the other, sums with their values in bold."""
    title, soft = style(colours.accent, bold=True), style(colours.soft)
    shown: list[Line] = []
    for number, part in enumerate(why.parts):
        arrow = " " if not number else "→"
        shown.append(((f"{arrow} {one_line(part.title, 80)}", title),))
        for row in part.rows:
            if isinstance(row, Sum):
                shown += _sum_lines(row, cells, colours)
            else:
                shown += [((f"   {line}", soft),) for line in wrap(one_line(row), max(cells - 4, 2))]
        shown.append(BLANK)
    return shown[:-1]


def _sum_lines(row: Sum, cells: int, colours: Palette) -> list[Line]:
    """`what    written = value  note`, each in its look; what doesn't fit goes on below."""
    label, room = f"   {fit(one_line(row.what, 60), LABEL)} ", max(cells - LABEL - 5, 8)
    written, equals, value = row.shown.rpartition("= ")
    plain, bold, faint = style(colours.text), style(colours.text, bold=True), style(colours.faint)
    *before, last = wrap(f"{written}{equals}{value}", room)
    lines: list[Line] = [((" " * len(label), None), (line, plain)) for line in before]
    head, _, tail = last.rpartition(value)
    note: list[tuple[str, Style | None]] = []
    below: list[Line] = []
    if row.note:
        if len(last) + 2 + len(row.note) <= room:
            note.append((f"  {row.note}", faint))
        else:
            below = [((" " * len(label), None), (line, faint)) for line in wrap(row.note, room)]
    lines.append(((" " * len(label), None), (head, plain), (value, bold), (tail, plain), *note))
    lines[0] = ((label, style(colours.soft)), *lines[0][1:])
    return lines + below
