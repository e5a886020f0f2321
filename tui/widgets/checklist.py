"""A list in which several lines can be chosen, under headings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from tui.text import fit, middle, one_line, width
from tui.theme import style
from tui.widgets.painted import BLANK, CURSOR, Line, LineView, spread, strip

CHOSEN, NOT_CHOSEN = "▣", "▢"


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the list; one without a key is a heading."""

    key: str
    text: str
    right: str = ""
    chosen: bool = False


class CheckList(LineView, can_focus=True):
    """Items with a cursor. It says which were chosen or are looked at; who hears it shows the new items."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR,
    ]

    class Toggled(Message):
        """An item was clicked: it is to be chosen, or not any more."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """The cursor is on another item."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items: list[Item] = []
        self.key = ""
        """Of the item with the cursor; empty where there is none."""

    def show(self, items: Sequence[Item], key: str | None = None) -> None:
        """Replaces the items; the cursor stays on its own, goes to that of `key`, or to the first."""
        before, self.items = self.key, list(items)
        keys = [item.key for item in self.items if item.key]
        wanted = self.key if key is None else key
        self.key = wanted if wanted in keys else next(iter(keys), "")
        self.set_line_count(len(self.items))
        self.refresh()
        if self.key != before:
            self._reveal()
            self.post_message(self.Moved(self.key))

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        if y >= len(self.items):
            return strip(BLANK, self.across, self.ground)
        item, colours, cells = self.items[y], self.colours, self.cells
        if not item.key:
            name = f" {fit(one_line(item.text), min(width(one_line(item.text)), cells - 4))} "
            line: Line = ((name, style(colours.accent)), ("┄" * (cells - width(name)), style(colours.faint)))
            return strip(line, self.across, self.ground)
        is_here = item.key == self.key
        mark = (f" {CHOSEN} ", style(colours.accent)) if item.chosen else (f" {NOT_CHOSEN} ", style(colours.faint))
        right = f" {one_line(item.right, 30)} " if item.right else ""
        room = max(cells - 3 - width(right), 4)
        name = middle(one_line(item.text), room)
        look = style(colours.text, bold=item.chosen or is_here)
        line = spread((mark, (name, look)), ((right, style(colours.soft)),), cells)
        ground = self.ground
        if is_here:
            ground += Style(bgcolor=colours.cursor, reverse=None)
            line = ((line[0][0].replace(" ", "▸", 1) if self.has_focus else line[0][0], line[0][1]), *line[1:])
        return strip(line, self.across, ground)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        y = event.y + self.scroll_offset.y
        if y < len(self.items) and self.items[y].key:
            self._go(self.items[y].key)
            self.post_message(self.Toggled(self.key))

    def action_move(self, by: int) -> None:
        keys = [item.key for item in self.items if item.key]
        if keys:
            place = keys.index(self.key) if self.key in keys else 0
            self._go(keys[max(0, min(place + by, len(keys) - 1))])

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(self.size.height - 1, 1))

    def _go(self, key: str) -> None:
        if key != self.key:
            self.key = key
            self.refresh()
            self._reveal()
            self.post_message(self.Moved(key))

    def _reveal(self) -> None:
        row = next((y for y, item in enumerate(self.items) if item.key == self.key), 0)
        top, high = self.scroll_offset.y, max(self.size.height, 1)
        if row < top:
            # with the heading above the first of its items
            self.scroll_to(y=row - (row > 0 and not self.items[row - 1].key), animate=False)
        elif row >= top + high:
            self.scroll_to(y=row - high + 1, animate=False)
