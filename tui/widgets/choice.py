"""A list to choose from: entries of one or more painted lines, headings between them, and a cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from tui.widgets.painted import BLANK, CURSOR, Line, LineView, strip


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands together in the list."""

    id: str
    """Empty for a heading, which can't be chosen."""
    lines: tuple[Line, ...]


class Choice(LineView, can_focus=True):
    """Keeps its cursor on the entry of one id, whatever comes and goes around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR,
    ]

    class Moved(Message):
        """The cursor is on another entry; `opened` where it was clicked while it was there already."""

        def __init__(self, choice: Choice, opened: bool = False) -> None:
            super().__init__()
            self.choice = choice
            self.opened = opened

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: list[Entry] = []
        self.chosen = ""
        """The id of the entry under the cursor; empty where there is none."""
        self._rows: list[tuple[str, Line]] = []

    def show(self, entries: Sequence[Entry]) -> None:
        """Replaces what is there, and repaints what differs."""
        before, held = self._rows, self.chosen
        self.entries = list(entries)
        self._rows = [(entry.id, line) for entry in entries for line in entry.lines]
        ids = self.ids
        if self.chosen not in ids:
            self.chosen = ids[0] if ids else ""
        self.set_line_count(len(self._rows))
        top = self.scroll_offset.y
        for y in range(top, top + self.size.height):
            old, new = (rows[y] if y < len(rows) else None for rows in (before, self._rows))
            if old != new or (new is not None and new[0] in (held, self.chosen)):
                self.refresh_line(y)

    @property
    def ids(self) -> list[str]:
        return [entry.id for entry in self.entries if entry.id]

    def choose(self, entry_id: str) -> None:
        """Moves the cursor there, and brings it into sight."""
        if entry_id != self.chosen and entry_id in self.ids:
            self.chosen = entry_id
            self.refresh()
            self.post_message(self.Moved(self))
        self._reveal()

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        entry_id, line = self._rows[y] if y < len(self._rows) else ("", BLANK)
        chosen = bool(entry_id) and entry_id == self.chosen
        ground = self.ground
        if chosen:
            # without colour the cursor is still to be seen
            ground += Style(bgcolor=self.colours.cursor, bold=self.has_focus or None)
            first = y == 0 or self._rows[y - 1][0] != entry_id
            line = (("▸" if first else "│", None), *_after_first_cell(line))
        return strip(line, self.across, ground)

    def action_move(self, entries: int) -> None:
        ids = self.ids
        if ids:
            here = ids.index(self.chosen) if self.chosen in ids else 0
            self.choose(ids[max(0, min(here + entries, len(ids) - 1))])

    def action_page(self, pages: int) -> None:
        lines = len(self._rows) / max(len(self.ids), 1)
        self.action_move(pages * max(1, int(self.size.height / max(lines, 1)) - 1))

    def on_click(self, event: events.Click) -> None:
        y = event.y + self.scroll_offset.y
        entry_id = self._rows[y][0] if y < len(self._rows) else ""
        if entry_id and entry_id == self.chosen:
            self.post_message(self.Moved(self, opened=True))
        elif entry_id:
            self.choose(entry_id)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def _reveal(self) -> None:
        places = [y for y, (entry_id, _) in enumerate(self._rows) if entry_id == self.chosen]
        if not places:
            return
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        first, last = places[0], places[-1]
        if first > 0 and not self._rows[first - 1][0]:
            first -= 1  # its heading, too
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif last >= top + height:
            self.scroll_to(y=last - height + 1, animate=False)


def _after_first_cell(line: Line) -> Line:
    """Every entry's line begins with a blank cell, the cursor's place."""
    if not line:
        return line
    (text, look), *rest = line
    return ((text[1:], look), *rest)
