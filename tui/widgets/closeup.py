"""A chart that can be moved about in: the wheel sees fewer or more steps, dragging moves on, a click points."""

from __future__ import annotations

from textual import events
from textual.message import Message

from tui.drawing.cells import LABEL
from tui.widgets.chart import Chart

CLOSER = 0.8
"""Steps in sight after a turn of the wheel, as a share of those before."""

ASIDE = 0.1
"""Share of the steps in sight by which a turn of the wheel with shift moves on."""


class Closeup(Chart):
    """Says by what the steps in sight are to change; who hears it shows another model."""

    class Zoomed(Message):
        """See `factor` times as many steps, with `step` where it is."""

        def __init__(self, factor: float, step: float | None) -> None:
            super().__init__()
            self.factor = factor
            self.step = step

    class Panned(Message):
        """Move on by a share of the steps in sight."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._held: int | None = None
        """The column where a button was pressed; dragging goes on from it."""
        self._dragged = False

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, CLOSER, -ASIDE)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1 / CLOSER, ASIDE)

    def on_mouse_scroll_left(self, event: events.MouseScrollLeft) -> None:
        self._aside(event, -ASIDE)

    def on_mouse_scroll_right(self, event: events.MouseScrollRight) -> None:
        self._aside(event, ASIDE)

    def _wheel(self, event: events.MouseEvent, factor: float, aside: float) -> None:
        if event.shift or event.ctrl:
            self._aside(event, aside)
        else:
            event.stop()
            self.post_message(self.Zoomed(factor, self.step_at(event.x)))

    def _aside(self, event: events.MouseEvent, share: float) -> None:
        event.stop()
        self.post_message(self.Panned(share))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._held, self._dragged = event.x, False
        self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held is not None and event.x != self._held:
            self._dragged = True
            wide = max(self.size.width - LABEL - 2, 1)
            self.post_message(self.Panned((self._held - event.x) / wide))
            self._held = event.x

    def on_mouse_up(self) -> None:
        self._held = None
        self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        if self._dragged:
            event.prevent_default()  # the end of a drag points at nothing
            event.stop()
