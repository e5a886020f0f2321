"""Where there is room for one pane: the names of all, the one that is shown, and its gist."""

from __future__ import annotations

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from tui.text import width
from tui.theme import style
from tui.widgets.painted import BLANK, Line, LineWidget, spread, strip


class PaneTabs(LineWidget):
    """`1 Episodes  2 Transcript …`; a click asks for the pane."""

    DEFAULT_CSS = """
    PaneTabs { height: 1; display: none; }
    """

    class Wanted(Message):
        """Somebody clicked a pane's name."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = names
        self.active = 1
        self.info: Line = BLANK
        self._places: list[tuple[int, int, int]] = []

    def show(self, active: int, info: Line) -> None:
        if (active, info) != (self.active, self.info):
            self.active, self.info = active, info
            self.refresh()

    @property
    def room(self) -> int:
        """Cells that the names leave to the gist."""
        return self.size.width - sum(width(f"[{number} {name}]") for number, name in enumerate(self.names, 1)) - 2

    def render_line(self, y: int) -> Strip:
        colours = self.colours
        pieces: list[tuple[str, Style | None]] = []
        self._places = []
        at = 0
        for number, name in enumerate(self.names, 1):
            chosen = number == self.active
            text = f"[{number} {name}]" if chosen else f" {number} {name} "
            look = style(colours.accent, bold=True) if chosen else style(colours.soft)
            pieces.append((text, look))
            self._places.append((at, at + width(text), number))
            at += width(text)
        return strip(
            spread(tuple(pieces), (*self.info, (" ", None)), self.size.width), self.size.width, self.ground
        )

    def on_click(self, event: events.Click) -> None:
        for start, end, number in self._places:
            if start <= event.x < end:
                self.post_message(self.Wanted(number))
