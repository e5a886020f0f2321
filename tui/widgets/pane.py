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
from tui.widgets.painted import Line, LineWidget, cut, spread, strip


class PaneTitle(LineWidget):
    """`━ 1 Episodes ━━━━━━━━━ 64 in play ━`, heavy while the pane has the focus."""

    DEFAULT_CSS = """
    PaneTitle { height: 1; }
    """

    def __init__(self, number: int, name: str) -> None:
        super().__init__()
        self.number = number
        self.pane_name = name
        self.info: Line = ()

    def show(self, info: Line) -> None:
        if info != self.info:
            self.info = info
            self.refresh()

    def render_line(self, y: int) -> Strip:
        colours = self.colours
        pane = self.parent
        focused = isinstance(pane, Widget) and pane.has_focus_within
        rule = style(colours.accent if focused else colours.rule)
        bar = "━" if focused else "─"
        number = f"{self.number} " if self.number else ""
        left: Line = (
            (f"{bar} ", rule),
            (number, style(colours.soft)),
            (self.pane_name, style(colours.accent if focused else colours.text, bold=True)),
            (" ", None),
        )
        right: Line = ((" ", None), *self.info, (f" {bar}", rule)) if self.info else ((bar, rule),)
        room = self.size.width - sum(width(text) for text, _ in left) - 4
        if sum(width(text) for text, _ in right) > room + 3:
            right = ((" ", None), *cut(self.info, room), (f" {bar}", rule)) if room > 6 else ((bar, rule),)
        return strip(spread(left, right, self.size.width, bar, rule), self.size.width, self.ground)


class Pane(Vertical):
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
        """Lines it was given; None where its style decides."""

    def compose(self) -> ComposeResult:
        yield self.title
        yield from self.body

    def on_descendant_focus(self) -> None:
        self.title.refresh()

    def on_descendant_blur(self) -> None:
        self.title.refresh()

    def on_click(self, event: events.Click) -> None:
        if event.widget is self.title:
            self.post_message(self.Wanted(self.number))
