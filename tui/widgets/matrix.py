"""A table of who got what against whom, one cell of it under the cursor."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tui.league.lines import COLUMN, NAME, heading, payoffs
from tui.league.standings import Cell, League, Player
from tui.widgets.painted import BLANK, Line, Painted
from tui.words import plural


class Matrix(Painted):
    """Payoffs. `Picked` tells that another cell is under the cursor, `opened` that its games are asked for."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1, 0)", "Up", show=False),
        Binding("down,j", "move(1, 0)", "Down", show=False),
        Binding("left,h", "move(0, -1)", "Left", show=False),
        Binding("right", "move(0, 1)", "Right", show=False),
        Binding("home", "move(-1000, -1000)", "First", show=False),
        Binding("end", "move(1000, 1000)", "Last", show=False),
    ]

    class Picked(Message):
        """A cell was chosen."""

        def __init__(self, opened: bool) -> None:
            super().__init__()
            self.opened = opened

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.league: League | None = None
        self.nothing: list[Line] = []
        """What is shown where there is no league."""
        self._pair: tuple[Player, Player] | None = None
        self._left = 0
        """The first column in sight."""

    @property
    def pair(self) -> tuple[Player, Player] | None:
        """Row and column under the cursor."""
        return self._pair

    @property
    def cell(self) -> Cell | None:
        return self.league.cells.get(self._pair) if self.league is not None and self._pair is not None else None

    def fill(self, league: League | None) -> None:
        """Shows a league, the cursor on the same pair as before, or at first where games are."""
        self.league = league
        pairs = [(row, column) for row in league.rows for column in league.columns] if league is not None else []
        if self._pair not in pairs:
            known = [pair for pair in pairs if league is not None and pair in league.cells]
            self._pair = next(iter([*reversed(known), *pairs]), None)
        self.paint()

    def on_resize(self) -> None:
        self.paint()

    def action_move(self, down: int, right: int) -> None:
        league = self.league
        if league is None or self._pair is None:
            return
        row = league.rows.index(self._pair[0]) + down
        column = league.columns.index(self._pair[1]) + right
        self._go(row, column)

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y - 1
        column = (event.x - NAME - 1) // COLUMN + self._left
        league = self.league
        if league is not None and 0 <= row < len(league.rows) and self._left <= column < len(league.columns):
            self._go(row, column, opened=event.chain > 1)
        elif league is not None and row == len(league.rows):  # what says that there are more columns
            self.action_move(0, 1)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        event.stop()
        self.action_move(0, -1)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        event.stop()
        self.action_move(0, 1)

    def _go(self, row: int, column: int, opened: bool = False) -> None:
        league = self.league
        assert league is not None
        row, column = max(0, min(row, len(league.rows) - 1)), max(0, min(column, len(league.columns) - 1))
        self._pair = league.rows[row], league.columns[column]
        self.paint()
        self.post_message(self.Picked(opened))

    def paint(self) -> None:
        """Shows it again: the columns that fit, the cursor's among them."""
        league = self.league
        if league is None or self._pair is None:
            self.show(self.nothing or [BLANK])
            return
        room = max((self.cells - NAME - 1) // COLUMN, 1)
        row, column = league.rows.index(self._pair[0]), league.columns.index(self._pair[1])
        self._left = max(0, min(self._left, column, len(league.columns) - room))
        self._left = max(self._left, column - room + 1)
        columns = league.columns[self._left : self._left + room]
        chosen = column - self._left
        lines = [heading(columns, self.colours, chosen)]
        for place, player in enumerate(league.rows):
            lines.append(payoffs(league, player, columns, chosen if place == row else None, self.colours))
        more = len(league.columns) - len(columns)
        if more:
            lines.append(((f" {plural(more, 'more column')}: ← →", None),))
        self.show(lines)
        top, high = self.scroll_offset.y, max(self.size.height, 1)
        if not top <= row + 1 < top + high:
            self.scroll_to(y=row if row < top else row + 2 - high, animate=False)
