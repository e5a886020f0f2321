"""The scrubber: a track to drag along, or to click at, or to turn the wheel over."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.strip import Strip

from tui.replay.track import Track, lines
from tui.text import width
from tui.theme import style
from tui.widgets.painted import BLANK, Line, LineWidget, strip


class Scrubber(LineWidget):
    """Two lines. `Moved` tells where it was dragged to, `Turned` by how many steps the wheel turned."""

    DEFAULT_CSS = """
    Scrubber { height: 2; }
    """

    class Moved(Message):
        """To a place on the track."""

        def __init__(self, step: float) -> None:
            super().__init__()
            self.step = step

    class Turned(Message):
        """So many steps on or back."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.track = Track(0, 0)
        self.step = 0
        self.label = ""
        self._held = False

    def show(self, track: Track, step: int, label: str) -> None:
        if (track, step, label) != (self.track, self.step, self.label):
            self.track, self.step, self.label = track, step, label
            self.refresh()

    @property
    def _left(self) -> int:
        return width(self.label) + 3

    @property
    def _cells(self) -> int:
        return max(self.size.width - self._left - 1, 2)

    def render_line(self, y: int) -> Strip:
        told = lines(self.track, self.step, self._cells, self.colours)
        head: Line = ((f" {self.label}  ", style(self.colours.text, bold=True)),)
        line = (*(head if y == 0 else ((" " * self._left, None),)), *told[y]) if y < len(told) else BLANK
        return strip(line, self.across, self.ground)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._held = True
        self.capture_mouse()
        self._move(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held:
            self._move(event.x)

    def on_mouse_up(self) -> None:
        self._held = False
        self.release_mouse()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(self.Turned(1))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(self.Turned(-1))

    def _move(self, x: int) -> None:
        self.post_message(self.Moved(self.track.step(x - self._left, self._cells)))
