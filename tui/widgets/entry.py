"""The field of a form that is being typed in: it lies over the value in its row."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

from tui.form.fields import Field
from tui.form.lines import columns
from tui.text import clean
from tui.widgets.fieldlist import FieldList


class Entry(Input):
    """An input without a place of its own. What is only shown otherwise than it is said is no edit."""

    _said = ("", "")
    """The field it lies over, and that field's text when it last did."""

    _under: FieldList | None = None

    def lie_over(self, f: Field, fields: FieldList) -> None:
        """Shows a field's text where the row under the cursor has its value."""
        self._under = fields
        # what was typed since stays: the form is about to hear of it
        if (f.name, f.text) != self._said and self.value not in (_shown(f), f.text):
            with self.prevent(Input.Changed):
                self.value = _shown(f)
            self.cursor_position = len(self.value)
        self._said = (f.name, f.text)
        start, cells = columns(fields.cells)
        self.styles.width = cells
        self.styles.offset = (start, fields.cursor - round(fields.scroll_offset.y))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._roll(event, -1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._roll(event, 1)

    def _roll(self, event: events.MouseEvent, direction: int) -> None:
        """The wheel is for what lies under it."""
        event.stop()
        if self._under is not None:
            self._under.scroll_relative(y=direction * self.app.scroll_sensitivity_y, animate=False)

    def edits(self, f: Field) -> bool:
        """Whether something else stands here than the field's text."""
        return self.value != _shown(f)


def _shown(f: Field) -> str:
    return clean(f.text).replace("\n", " ")
