"""A list to choose from that paints only what is in sight, however long it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tui.theme import Palette
from tui.widgets.painted import BLANK, CURSOR, Line, LineView, strip

Paint = Callable[[int, int, Palette, bool], list[Line]]
"""(place, cells, colours, chosen) → the lines of that entry."""


class PickList(LineView, can_focus=True):
    """Entries of `tall` lines each. `Picked` tells that a person moved to one, `opened` that they asked for it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR,
        Binding("enter", "open", "Open", show=False),
    ]

    class Picked(Message):
        """An entry was chosen."""

        def __init__(self, picklist: PickList, place: int, opened: bool) -> None:
            super().__init__()
            self.picklist = picklist
            self.place = place
            self.opened = opened

        @property
        def control(self) -> PickList:
            return self.picklist

    def __init__(self, *, tall: int = 1, id: str | None = None) -> None:
        super().__init__(id=id)
        self.tall = tall
        self.count = 0
        self.place = 0
        self.nothing: list[Line] = []
        """What is shown where there is nothing to choose."""
        self._paint: Paint | None = None

    def show(self, count: int, paint: Paint, place: int | None = None) -> None:
        """Other entries; the cursor stays where it is unless `place` says where to."""
        self.count, self._paint = count, paint
        self.set_line_count(max(count * self.tall, len(self.nothing) if not count else 0))
        self.go_to(self.place if place is None else place)
        self.refresh()

    def go_to(self, place: int) -> None:
        """Moves the cursor, without a message."""
        before, self.place = self.place, max(0, min(place, self.count - 1))
        for changed in {before, self.place}:
            for y in range(changed * self.tall, (changed + 1) * self.tall):
                self.refresh_line(y)
        self._reveal()

    def render_line(self, y: int) -> Strip:
        place, part = divmod(y + self.scroll_offset.y, self.tall)
        width = self.size.width
        if self._paint is None or place >= self.count:
            at = y + self.scroll_offset.y
            told = self.nothing[at] if not self.count and at < len(self.nothing) else BLANK
            return strip(told, width, self.ground)
        chosen = place == self.place
        lines = self._paint(place, self.cells, self.colours, chosen)
        ground = self.ground + Style(bgcolor=self.colours.cursor) if chosen else self.ground
        return strip(lines[part] if part < len(lines) else BLANK, width, ground)

    def action_move(self, by: int) -> None:
        if self.count:
            self._pick(self.place + by, opened=False)

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(self.size.height // self.tall - 1, 1))

    def action_open(self) -> None:
        if self.count:
            self._pick(self.place, opened=True)

    def on_click(self, event: events.Click) -> None:
        place = (event.y + self.scroll_offset.y) // self.tall
        if place < self.count:
            self._pick(place, opened=event.chain > 1)

    def on_resize(self) -> None:
        self._reveal()

    def _pick(self, place: int, opened: bool) -> None:
        self.go_to(place)
        self.post_message(self.Picked(self, self.place, opened))

    def _reveal(self) -> None:
        first, last = self.place * self.tall, (self.place + 1) * self.tall
        top, height = self.scroll_offset.y, self.size.height
        if first < top:
            self.scroll_to(y=first, animate=False)
        elif height and last > top + height:
            self.scroll_to(y=last - height, animate=False)
