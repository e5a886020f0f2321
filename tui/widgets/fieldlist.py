"""The rows of a form as one widget, with a cursor."""

from __future__ import annotations

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from tui.form.fields import Field
from tui.form.form import Form, Row
from tui.form.lines import columns, row_line
from tui.widgets.painted import BLANK, LineView, strip


class FieldList(LineView, can_focus=True):
    """Paints the rows in sight. The screen moves the cursor; a click asks for it."""

    class Picked(Message):
        """Somebody clicked a row."""

        def __init__(self, place: int, back: bool) -> None:
            super().__init__()
            self.place = place
            self.back = back
            """Whether it was before the value, where the sign is that leads to the choice before."""

    class Scrolled(Message):
        """Other rows are in sight now."""

    def __init__(self, form: Form, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.form = form
        self.rows: list[Row] = []
        self.cursor = 0

    @property
    def row(self) -> Row | None:
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def field(self) -> Field | None:
        """That under the cursor; None on a heading."""
        return self.row.field if self.row else None

    def show(self, form: Form, wanted: str) -> None:
        """The form's rows as they are now, the cursor on the row that had it, or the one in its place."""
        here = self.row.id if self.row else ""
        self.form, self.rows = form, form.rows(wanted)
        places = {row.id: place for place, row in enumerate(self.rows)}
        self.cursor = places.get(here, max(0, min(self.cursor, len(self.rows) - 1)))
        self.set_line_count(len(self.rows))
        self.refresh()

    def first(self) -> None:
        """Puts the cursor on the first field there is."""
        self.move(next((place for place, row in enumerate(self.rows) if row.field), 0))

    def find(self, name: str) -> None:
        """Puts the cursor on a field, if it is in sight."""
        self.move(next((place for place, row in enumerate(self.rows) if row.id == name), self.cursor))

    def move(self, place: int) -> None:
        """Puts the cursor on a row, and the row in sight."""
        self.cursor = max(0, min(place, len(self.rows) - 1))
        top, high = round(self.scroll_offset.y), self.size.height
        if not top <= self.cursor < top + high:
            self.scroll_to(y=self.cursor if self.cursor < top else self.cursor - high + 1, animate=False)
        if self.cursor == 1 and top:  # its heading with it
            self.scroll_to(y=0, animate=False)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def on_click(self, event: events.Click) -> None:
        place = event.y + round(self.scroll_offset.y)
        if place < len(self.rows):
            self.post_message(self.Picked(place, back=event.x <= columns(self.cells)[0]))

    def render_line(self, y: int) -> Strip:
        place = y + round(self.scroll_offset.y)
        if place >= len(self.rows):
            return strip(BLANK, self.across, self.ground)
        is_here = place == self.cursor
        line = row_line(self.form, self.rows[place], self.cells, self.colours, is_here)
        ground = self.ground + Style(bgcolor=self.colours.cursor) if is_here else self.ground
        return strip(line, self.across, ground)
