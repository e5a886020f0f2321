"""The border between two panes side by side: dragged, or moved by keys, it makes one wider, the other narrower."""

from __future__ import annotations

from rich.style import Style
from textual import events
from textual.css.scalar import Scalar
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tui.theme import style
from tui.widgets.ground import Ground
from tui.widgets.painted import LineWidget, strip
from tui.widgets.sizes import keep, kept

LEAST, MOST = 0.12, 0.7
"""Shares of the width that a pane can be given."""

STEP = 0.03
"""Of the width, that a key moves it."""


class Divider(Ground, LineWidget):
    """Sets the width of the sibling named `of`, which stands to its left or, with `right`, to its right.

    Beside a sibling of `1fr` the other side takes what is left.
    """

    DEFAULT_CSS = """
    Divider { width: 1; height: 1fr; pointer: ew-resize; }
    """

    class Moved(Message):
        """The panes have other widths: what was laid out for the old ones is to be laid out anew."""

    def __init__(self, of: str, *, right: bool = False) -> None:
        super().__init__()
        self.of = of
        self.right = right
        self.share = 0.0
        """What the pane was given; 0 where its style decides."""
        self._held = False

    @property
    def pane(self) -> Widget:
        assert isinstance(self.parent, Widget)
        return self.parent.get_child_by_id(self.of)

    def move(self, steps: int) -> None:
        """To the right, or with a negative number to the left."""
        assert isinstance(self.parent, Widget)
        here = self.pane.outer_size.width / max(self.parent.size.width, 1)
        self._give(here + (-steps if self.right else steps) * STEP)
        keep(self, {self.of: self.share})

    def stand(self, is_needed: bool) -> None:
        """Where one pane is shown alone there is no border, and no width but the whole."""
        if self.display != is_needed:
            self.display = is_needed
        if not is_needed:
            self.pane.styles.width = self.pane.styles.max_width = None
        elif self.share:
            self.pane.styles.max_width = "100%"  # what a style keeps small may be wanted larger
            self.pane.styles.width = Scalar.parse(f"{100 * self.share:.1f}%")

    def _give(self, share: float) -> None:
        self.share = min(max(share, LEAST), MOST)
        self.stand(True)
        self.post_message(self.Moved())

    def on_mount(self) -> None:
        self.share = kept(self).get(self.of, 0.0)
        self.stand(self.display)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._held = True
        self.capture_mouse()
        self.refresh()
        event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._held:
            assert isinstance(self.parent, Widget)
            region = self.parent.content_region
            at = event.screen_x - region.x
            self._give(((region.width - at - 1) if self.right else at) / max(region.width, 1))

    def on_mouse_up(self) -> None:
        if self._held:
            self._held = False
            self.release_mouse()
            self.refresh()
            if self.share:
                keep(self, {self.of: self.share})

    def on_enter(self) -> None:
        self.refresh()

    def on_leave(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        lit = self._held or self.mouse_hover
        look: Style = style(self.colours.accent if lit else self.colours.rule)
        return strip(((("┃" if lit else " "), look),), self.across, self.ground)


def beside(widget: Widget | None) -> Divider | None:
    """The divider next to a widget, or to what it is in: rather the one that sets its own width."""
    while widget is not None and isinstance(widget.parent, Widget):
        siblings = list(widget.parent.children)
        found = [sibling for sibling in siblings if isinstance(sibling, Divider) and sibling.display]
        if found:
            own = [divider for divider in found if divider.of == widget.id]
            place = siblings.index(widget)
            return own[0] if own else min(found, key=lambda divider: abs(siblings.index(divider) - place))
        widget = widget.parent
    return None
