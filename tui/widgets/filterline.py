"""A line to write a filter of the wall in, what came of it beside."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Input

from engine.reading.query import QueryError
from tui.text import one_line, wrap
from tui.theme import palette, style
from tui.wall.filter import HELP, parse
from tui.widgets.painted import Line, Painted
from tui.widgets.wall import Wall

PAUSE = 0.15
"""Seconds without a key before what is written filters: half a word is none."""


class FilterLine(Vertical):
    """Filters as one writes. Enter and escape go back to the wall, the filter stays, until escape there ends it.

    There while it is written or in force.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back to the wall", show=False)]
    DEFAULT_CSS = """
    FilterLine { height: auto; background: $surface; }
    FilterLine Painted { height: 1; }
    FilterLine Input { height: 1; border: none; padding: 0 1; background: $surface; }
    """

    def __init__(self, wall: Wall) -> None:
        super().__init__()
        self.wall = wall
        self.box = Input(placeholder="filter: role:First reward<0 illegal live", compact=True)
        self.told = Painted(focusable=False)
        self._problem = ""
        self._soon: Timer | None = None

    def compose(self) -> ComposeResult:
        yield self.box
        yield self.told

    def on_mount(self) -> None:
        self.write()
        self.set_interval(0.5, self.tell)

    def write(self) -> None:
        """Opens it, or goes back to it."""
        self.display = True
        self.box.focus()
        self.tell()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._soon is not None:
            self._soon.stop()
        self._soon = self.set_timer(PAUSE, self._look)

    def _look(self) -> None:
        if self._soon is not None:
            self._soon.stop()
        self._soon = None
        try:
            wanted = parse(self.box.value)
        except QueryError as error:
            self._problem = f"{error}"
        else:
            self._problem = ""
            if wanted.text != self.wall.filter.text:
                self.wall.only(wanted)
        self.tell()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._look()
        if not self._problem:
            self._leave()

    def action_leave(self) -> None:
        self._look()
        if self._problem:  # what has no sense isn't kept
            self.box.value, self._problem = self.wall.filter.text, ""
        self._leave()

    def clear(self) -> bool:
        """Ends the filter; False where none is in force."""
        if self.wall.filter.is_empty:
            return False
        self.box.value = ""
        self._look()
        self._leave()
        return True

    def _leave(self) -> None:
        self.display = not self.wall.filter.is_empty
        if self.box.has_focus:
            self.wall.focus()
        self.tell()

    def on_descendant_focus(self) -> None:
        self.tell()

    def on_descendant_blur(self) -> None:
        self.tell()

    def tell(self) -> None:
        """What is wrong with it, or what may be written, or how much was found."""
        if not self.display:
            return
        colours = palette(self.app.theme)
        if self._problem:
            words, look = f"✗ {one_line(self._problem)}", style(colours.bad)
        elif self.wall.filter.is_empty:
            words, look = HELP, style(colours.faint)
        else:
            words = f"{self.wall.told} · {'⏎ keeps it' if self.box.has_focus else '/ changes it · esc ends it'}"
            look = style(colours.soft)
        lines: list[Line] = [((f" {line}", look),) for line in wrap(words, max(self.wall.size.width - 2, 10))]
        if self.told.size.height != len(lines):
            self.told.styles.height = len(lines)
        self.told.show(lines)


def open_line(wall: Wall) -> FilterLine:
    """The filter line above a wall, made if it isn't there yet."""
    for line in wall.screen.query(FilterLine):
        line.write()
        return line
    line = FilterLine(wall)
    wall.screen.mount(line, before=wall)
    return line
