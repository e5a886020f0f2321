"""Jump mode: a letter on everything that can have the focus; typed, it does. The last line says so."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from tui.actions import key_name
from tui.theme import style
from tui.widgets.painted import Line, LineWidget, strip
from tui.widgets.pane import Pane

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


class Hint(LineWidget):
    """That letters jump now, in the key bar's place: its keys do nothing meanwhile."""

    def render_line(self, y: int) -> Strip:
        key, soft = style(self.colours.accent, bold=True), style(self.colours.soft)
        line: Line = ((" jump: ", key), ("press a letter · ", soft), (key_name("escape"), key), (" back", soft))
        return strip(line, self.across, self.ground)


class Jump(ModalScreen[Widget | None]):
    """Returns the widget whose letter was typed; None for any other key, or a click."""

    CSS_PATH = "jump.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Leave", show=False)]

    def __init__(self, targets: list[tuple[Offset, Widget]]) -> None:
        super().__init__()
        self.targets = dict(zip(LETTERS, targets, strict=False))

    def compose(self) -> ComposeResult:
        yield Hint(id="hint")
        for letter, (offset, _) in self.targets.items():
            label = Static(Content(f" {letter} "), classes="letter")
            label.styles.offset = offset
            yield label

    def on_key(self, event: events.Key) -> None:
        event.stop()
        chosen = self.targets.get(event.character or "")
        self.dismiss(chosen[1] if chosen else None)

    def on_click(self) -> None:
        self.dismiss(None)

    def on_resize(self, event: events.Resize) -> None:
        if self.is_mounted and event.size != self._size_before:
            self.dismiss(None)  # the letters would stand in the wrong places

    def on_mount(self) -> None:
        self._size_before = self.app.size


def targets(screen: Screen[object]) -> list[tuple[Offset, Widget]]:
    """What can be jumped to, each with the place of its letter: panes, and fields that are in none."""
    found: list[tuple[Offset, Widget]] = []
    in_panes: set[Widget] = set()
    for pane in screen.query(Pane):
        inside = [widget for widget in pane.query(Widget) if widget.focusable]
        in_panes.update(inside)
        if inside and pane.region.area and pane.display:
            found.append((pane.region.offset + Offset(1, 0), inside[0]))
    found += [
        (widget.region.offset, widget)
        for widget in screen.query(Widget)
        if widget.focusable and widget not in in_panes and widget.region.area
    ]
    return found
