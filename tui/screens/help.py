"""Every key, from the one table of actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions import SCOPES, Scope, actions, key_name
from tui.keymap import in_force
from tui.text import fit, wrap
from tui.theme import PALETTES, Palette, palette, style
from tui.widgets.painted import BLANK, Line, Painted

NUMBERED: dict[Scope, tuple[str, str]] = {
    "run": ("1 … 5", "Go to episodes, transcript, rewards, plots, health"),
    "steer": ("1 … 3", "Go to settings, edits, checkpoints"),
    "replay": ("1 … 5", "Go to what is interesting, episodes, transcript, plots, the step's figures"),
    "ask": ("1 … 9", "Give the answer of that number"),
}
"""Actions whose keys are numbers, told in one line."""

MOVING = (
    ("↑ ↓", "choose an episode; in other panes, scroll"),
    ("⏎", "read the chosen episode"),
    ("tab", "next pane"),
    ("mouse", "click a row, a pane's title or a key; the wheel scrolls"),
)

SIGNS = (
    ("● ○ ◆", "roles, in the order they are named above the episodes"),
    ("e3", "an evaluation's episode: nothing is learnt from it"),
    ("▸", "the turn that w, Y, [ and ] are about"),
    ("✓ ! ✗", "well, to be watched, to be mended"),
    ("◆ ★ ┊ ×", "on plots: a checkpoint by hand, the best one, an edit, a step that published nothing"),
)


class Help(ModalScreen[None]):
    """What the keys do. Any of the keys that opened it closes it."""

    CSS_PATH = "help.tcss"

    def __init__(self, here: Scope = "app") -> None:
        super().__init__()
        self.here: Scope = here

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", "Close", show=False)
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="help"):
            yield Static(Content("Keys"), classes="title")
            yield Painted(id="keys")
            yield Static(Content("esc closes · ↑ ↓ scroll"), classes="note")

    def on_mount(self) -> None:
        self.query_one(Painted).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._tell)

    def _tell(self) -> None:
        keys = self.query_one(Painted)
        keys.show(lines(self.here, keys.cells, palette(self.app.theme), in_force(self.app)))


def lines(here: Scope, cells: int, colours: Palette, keymap: Mapping[str, str]) -> list[Line]:
    """The table as lines: the scope one is in, what holds everywhere, the others; how to move, what signs mean."""
    key_look, heading = style(colours.accent, bold=True), style(colours.text, bold=True)
    shown: list[Line] = []

    def section(title: str, entries: list[tuple[str, str]]) -> None:
        shown.extend([((title, heading),)])
        for key, words in entries:
            shown.extend(_entry(key, words, cells, key_look, style(colours.soft)))
        shown.append(BLANK)

    for scope in sorted(SCOPES, key=lambda scope: (scope != here, scope != "app")):
        keys = [(action.keys_in(keymap), action.help) for action in actions(scope)]
        entries = [(_keys(key), words) for key, words in keys if not key.isdecimal()]
        if scope in NUMBERED:
            entries.append(NUMBERED[scope])
        section(SCOPES[scope], entries)
        if scope == here:
            section("Moving", list(MOVING))
    section("Signs", list(SIGNS))
    themes = ", ".join(p.title for p in PALETTES.values())
    section("Themes", [("t", themes)])
    return shown[:-1]


def _keys(keys: str) -> str:
    return " ".join(key_name(key) for key in keys.split(","))


def _entry(key: str, words: str, cells: int, key_look: Style, look: Style) -> list[Line]:
    first, *more = wrap(words, cells - 10)
    return [((f"  {fit(key, 7)} ", key_look), (first, look)), *(((" " * 10 + line, look),) for line in more)]
