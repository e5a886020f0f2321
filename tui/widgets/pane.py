"""A pane: one line that names it and says the gist, and what it holds."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.text import one_line, width
from tui.theme import style
from tui.widgets.ground import Ground
from tui.widgets.painted import Line, LineWidget, cut, spread, strip

WORD = 16
"""Cells of a title's piece from which on it is a text."""


class PaneTitle(LineWidget):
    """`━ 1 Episodes ━━━━━━━━━ 64 in play ━`, heavy while the pane has the focus."""

    DEFAULT_CSS = """
    PaneTitle { height: 1; }
    PaneTitle.border { pointer: ns-resize; }
    """

    class Dragged(Message):
        """Somebody drags it, to a line of the screen."""

        def __init__(self, title: PaneTitle, y: int, is_over: bool) -> None:
            super().__init__()
            self.title = title
            self.y = y
            self.is_over = is_over
            """Whether it was let go there."""

    def __init__(self, number: int, name: str) -> None:
        super().__init__()
        self.number = number
        self.pane_name = name
        self.info: Line = ()
        self.is_border = False
        """Whether there is something above that it parts the pane from."""
        self.was_dragged = False
        """Whether the button that is, or was last, pressed on it moved it: then it is no click."""
        self._held: int | None = None
        """The line of the screen at which it is held."""

    def part(self, is_border: bool) -> None:
        """Whether it can be dragged."""
        self.is_border = is_border
        self.set_class(is_border, "border")

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.was_dragged = False
        if self.is_border:
            self._held = event.screen_y
            self.capture_mouse()
            self.refresh()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held is not None and event.screen_y != self._held:
            self._held, self.was_dragged = event.screen_y, True
            self.post_message(self.Dragged(self, self._held, is_over=False))

    def on_mouse_up(self) -> None:
        if self._held is not None:
            if self.was_dragged:
                self.post_message(self.Dragged(self, self._held, is_over=True))
            self._held = None
            self.release_mouse()
            self.refresh()

    def on_enter(self) -> None:
        self.refresh()

    def on_leave(self) -> None:
        self.refresh()

    def show(self, info: Line) -> None:
        if info != self.info:
            self.info = info
            self.refresh()

    def render_line(self, y: int) -> Strip:
        colours = self.colours
        pane = self.parent
        focused = isinstance(pane, Widget) and pane.has_focus_within
        lit = focused or (self.is_border and (self._held is not None or self.mouse_hover))
        rule = style(colours.accent if lit else colours.rule)
        bar = "━" if lit else "─"
        number = f"{self.number} " if self.number else ""
        left: Line = (
            (f"{bar} ", rule),
            (number, style(colours.soft)),
            (self.pane_name, style(colours.accent if focused else colours.text, bold=True)),
            (" ", None),
        )
        right: Line = ((" ", None), *self.info, (f" {bar}", rule)) if self.info else ((bar, rule),)
        room = self.across - sum(width(text) for text, _ in left) - 4
        if sum(width(text) for text, _ in right) > room + 3:
            right = ((" ", None), *_fitted(self.info, room), (f" {bar}", rule)) if room > 6 else ((bar, rule),)
        return strip(spread(left, right, self.across, bar, rule), self.across, self.ground)


def _fitted(info: Line, cells: int) -> Line:
    """As much of it as there is room for: the last piece is cut if it is a text, and left out if it is a word."""
    kept = cut(info, cells)
    is_cut = len(kept) > 1 and kept[-1] != info[len(kept) - 1]
    return kept[:-1] if is_cut and width(info[len(kept) - 1][0]) <= WORD else kept


class Pane(Ground, Vertical):
    """A title and a body. A click on the title asks for the pane."""

    DEFAULT_CSS = """
    Pane { height: 1fr; }
    """

    class Wanted(Message):
        """Somebody clicked the title."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, number: int, name: str, *body: Widget, id: str) -> None:
        super().__init__(id=id)
        self.number = number
        self.title = PaneTitle(number, one_line(name))
        self.body = body
        self.fixed: int | None = None
        """Lines that it has use for; None where its style decides."""

    def compose(self) -> ComposeResult:
        yield self.title
        yield from self.body

    def on_descendant_focus(self) -> None:
        self.title.refresh()

    def on_descendant_blur(self) -> None:
        self.title.refresh()

    def on_click(self, event: events.Click) -> None:
        if event.widget is self.title and not self.title.was_dragged:
            self.post_message(self.Wanted(self.number))
