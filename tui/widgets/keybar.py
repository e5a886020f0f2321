"""The last line: what the keys do here. A click does the same."""

from __future__ import annotations

from collections.abc import Collection

from rich.style import Style
from textual import events
from textual.keys import key_to_character
from textual.strip import Strip

from tui.actions import Action, Scope, actions, key_name
from tui.keymap import in_force
from tui.text import width
from tui.theme import style
from tui.widgets.painted import LineWidget, strip

WRITTEN: tuple[Scope, ...] = ("form", "edit", "ask", "search")
"""Screens on which a field has the focus, so that a letter is a letter."""


class KeyBar(LineWidget):
    """Keys of a screen and of the app, those of lower rank left out where there isn't room."""

    DEFAULT_CSS = """
    KeyBar { height: 1; dock: bottom; background: $surface; }
    """

    def __init__(self, scope: Scope) -> None:
        super().__init__()
        self.is_written = scope in WRITTEN
        self.table = [action for action in (*actions(scope), *actions("app")) if action.bar]
        self.labels: dict[str, str] = {}
        """Labels that say more than the table's for now, by action."""
        self.idle: frozenset[str] = frozenset()
        """Names of actions that could do nothing now, and are left out."""
        self._places: list[tuple[int, int, str]] = []

    def relabel(self, name: str, label: str) -> None:
        if self.labels.get(name) != label:
            self.labels[name] = label
            self.refresh()

    def leave_out(self, names: Collection[str]) -> None:
        if self.idle != (idle := frozenset(names)):
            self.idle = idle
            self.refresh()

    def render_line(self, y: int) -> Strip:
        colours = self.colours
        pieces: list[tuple[str, Style | None]] = []
        self._places = []
        at = 0
        for action in self._shown():
            key, label = f" {self._key(action)} ", f"{self._label(action)} "
            pieces += [(key, style(colours.accent, bold=True)), (label, style(colours.soft))]
            end = at + width(key) + width(label)
            self._places.append((at, end, action.action))
            at = end
        return strip(tuple(pieces), self.across, self.ground)

    def _key(self, action: Action) -> str:
        return key_name(self._keys(action)[0])

    def _keys(self, action: Action) -> list[str]:
        """Those that do it here: where one writes, none that would be written."""
        keys = action.keys_in(in_force(self.app)).split(",")
        return [key for key in keys if not (self.is_written and (key_to_character(key) or "\n").isprintable())]

    def _label(self, action: Action) -> str:
        return self.labels.get(action.name, action.label)

    def _shown(self) -> list[Action]:
        room = self.size.width
        chosen: set[str] = set()
        for action in sorted(self.table, key=lambda action: -action.bar):
            if action.name in self.idle or not self._keys(action):
                continue
            room -= width(self._key(action)) + width(self._label(action)) + 3
            if room < 0:
                break
            chosen.add(action.name)
        return [action for action in self.table if action.name in chosen]

    async def on_click(self, event: events.Click) -> None:
        for start, end, action in self._places:
            if start <= event.x < end:
                await self.screen.run_action(action) if hasattr(
                    self.screen, f"action_{action.partition('(')[0]}"
                ) else await self.app.run_action(action)
                return
