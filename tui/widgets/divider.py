"""The border between two panes side by side: dragged, or moved by keys, it makes one wider, the other narrower."""

from __future__ import annotations

from rich.style import Style
from textual import events
from textual.css.scalar import Scalar
from textual.strip import Strip
from textual.widget import Widget

from tui.memory import Memory
from tui.theme import style
from tui.widgets.painted import LineWidget, strip

LEAST, MOST = 0.12, 0.7
"""Shares of the width that a pane can be given."""

STEP = 0.03
"""Of the width, that a key moves it."""


class Divider(LineWidget):
    """Sets the width of the sibling named `of`, which stands to its left or, with `right`, to its right.

    Beside a sibling of `1fr` the other side takes what is left.
    """

    DEFAULT_CSS = """
    Divider { width: 1; height: 1fr; pointer: ew-resize; }
    """

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

    def stand(self, is_needed: bool) -> None:
        """Where one pane is shown alone there is no border, and no width but the whole."""
        self.display = is_needed
        if not is_needed:
            self.pane.styles.width = None
        elif self.share:
            self.pane.styles.width = Scalar.parse(f"{100 * self.share:.1f}%")

    def _give(self, share: float) -> None:
        self.share = min(max(share, LEAST), MOST)
        self.stand(True)
        if (memory := _memory(self)) is not None:
            memory.keep(self._kept_as, {**memory.sizes(self._kept_as), self.of: round(self.share, 3)})

    @property
    def _kept_as(self) -> str:
        return f"panes {type(self.screen).__name__}"

    def on_mount(self) -> None:
        memory = _memory(self)
        self.share = memory.sizes(self._kept_as).get(self.of, 0.0) if memory else 0.0
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

    def on_enter(self) -> None:
        self.refresh()

    def on_leave(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        lit = self._held or self.mouse_hover
        look: Style = style(self.colours.accent if lit else self.colours.rule)
        return strip(((("┃" if lit else " "), look),), self.size.width, self.ground)


def _memory(widget: Widget) -> Memory | None:
    memory = getattr(widget.app, "memory", None)
    return memory if isinstance(memory, Memory) else None


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
