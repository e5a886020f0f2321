"""Panes in columns, side by side where there is room for all, one at a time where there isn't."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message

from tui.widgets.divider import Divider
from tui.widgets.pane import Pane

WIDE, HIGH = 110, 28
"""A terminal at least so large shows all panes at once."""


class Board(Horizontal):
    """Columns of panes, each by its name; the middle one takes what the others leave.

    `Arranged` tells that other panes are in sight than before, or another is the one at work.
    """

    class Arranged(Message):
        """What is in sight changed."""

    def __init__(self, left: Sequence[Pane], middle: Pane, right: Sequence[Pane], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.left, self.middle, self.right = left, middle, right
        self.panes = [*left, middle, *right]
        self.active = 1
        self.maximised = False

    def compose(self) -> ComposeResult:
        with Vertical(id="left"):
            yield from self.left
        yield Divider("left")
        yield self.middle
        yield Divider("right", right=True)
        with Vertical(id="right"):
            yield from self.right

    @property
    def narrow(self) -> bool:
        return self.screen.size.width < WIDE or self.screen.size.height < HIGH

    @property
    def single(self) -> bool:
        """Whether one pane is shown alone."""
        return self.narrow or self.maximised

    def shows(self, number: int) -> bool:
        return not self.single or number == self.active

    def go(self, number: int) -> None:
        """To a pane; it takes the focus."""
        self.active = number
        self.lay_out()
        self.panes[number - 1].body[0].focus(scroll_visible=False)

    def maximise(self, wanted: bool) -> None:
        self.maximised = wanted
        self.lay_out()

    def lay_out(self) -> None:
        self.screen.set_class(self.single, "single")
        for pane in self.panes:
            pane.display = self.shows(pane.number)
        for name, column in (("#left", self.left), ("#right", self.right)):
            self.query_one(name).display = any(pane.display for pane in column)
        for divider in self.query(Divider):
            divider.stand(not self.single)
        self.post_message(self.Arranged())

    def on_mount(self) -> None:
        self.lay_out()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for pane in self.panes:
            if pane in event.widget.ancestors and pane.number != self.active:
                self.active = pane.number
                self.lay_out()

    def on_pane_wanted(self, message: Pane.Wanted) -> None:
        message.stop()
        self.go(message.number)
