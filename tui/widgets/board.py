"""Panes in columns, side by side where there is room for all, one at a time where there isn't."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widget import Widget

from tui.widgets.divider import Divider
from tui.widgets.ground import Ground
from tui.widgets.pane import Pane
from tui.widgets.stack import Stack

WIDE, HIGH = 110, 28
"""A terminal at least so large shows all panes at once."""


class Board(Ground, Horizontal):
    """Columns of panes, each by its name; the middle one takes what the others leave.

    `Arranged` tells that other panes are in sight than before. They come into sight a column a frame, that of the
    pane at work first: all at once would keep keys waiting for some 20 ms.
    """

    class Arranged(Message):
        """What is in sight changed."""

    def __init__(self, left: Sequence[Pane], middle: Pane, right: Sequence[Pane], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.panes = [*left, middle, *right]
        self.columns: list[Widget] = [Stack(*left, id="left"), middle, Stack(*right, id="right")]
        self.active = 1
        self.maximised = False
        self._coming = list(self.columns)
        self._in_sight: list[Pane] = []
        for column in self.columns:
            column.visible = False

    def compose(self) -> ComposeResult:
        left, middle, right = self.columns
        yield left
        yield Divider("left")
        yield middle
        yield Divider("right", right=True)
        yield right

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
        self._focus()

    def maximise(self) -> bool:
        """Shows the pane at work alone, or all again; False where one is shown alone anyway."""
        if not self.narrow:
            self.maximised = not self.maximised
            self.lay_out()
        return not self.narrow

    def restore(self) -> bool:
        """Shows all again where a pane was maximised; False where none was."""
        return self.maximised and self.maximise()

    def lay_out(self) -> None:
        self.screen.set_class(self.single, "single")
        for pane in self.panes:
            pane.display = self.shows(pane.number)
        for column in self.columns:
            column.display = any(pane.display for pane in self.panes if column in pane.ancestors_with_self)
        for border in (*self.query(Divider), *self.query(Stack)):
            border.stand(not self.single)
        in_sight = [pane for pane in self.panes if pane.display and pane.visible]
        if in_sight != self._in_sight:
            self._in_sight = in_sight
            self.post_message(self.Arranged())

    def on_mount(self) -> None:
        self.lay_out()
        self.call_after_refresh(self._bring)

    def _bring(self) -> None:
        """The next column comes into sight, that of the pane at work first."""
        wanted = [column for column in self._coming if column in self._pane.ancestors_with_self]
        column = (wanted or self._coming)[0]
        self._coming.remove(column)
        column.visible = True
        self.lay_out()
        if wanted:
            self._focus()
        if self._coming:
            self.call_after_refresh(self._bring)

    @property
    def _pane(self) -> Pane:
        """The one at work."""
        return self.panes[self.active - 1]

    def _focus(self) -> None:
        self._pane.body[0].focus(scroll_visible=False)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for pane in self.panes:
            if pane in event.widget.ancestors and pane.number != self.active:
                self.active = pane.number
                self.lay_out()

    def on_divider_moved(self, message: Divider.Moved) -> None:
        message.stop()
        self.post_message(self.Arranged())

    def on_pane_wanted(self, message: Pane.Wanted) -> None:
        message.stop()
        self.go(message.number)
