"""Every key, from the one table of actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.actions import SCOPES, Action, Scope, actions, key_name
from tui.keymap import in_force
from tui.text import fit, wrap
from tui.theme import PALETTES, Palette, palette, style
from tui.widgets.painted import BLANK, Line, Painted

NUMBERED: dict[Scope, tuple[str, str]] = {
    "run": ("1 … 5", "Go to episodes, transcript, rewards, plots, health"),
    "steer": ("1 … 3", "Go to settings, edits, checkpoints"),
    "replay": ("1 … 5", "Go to what is interesting, episodes, transcript, plots, the step's figures"),
    "league": ("1 … 3", "Go to ratings, payoffs, games"),
    "ask": ("1 … 9", "Give the answer of that number"),
}
"""Actions whose keys are numbers, told in one line."""

MOUSE = ("", "mouse", "a click chooses, a second one opens; titles and borders can be dragged, keys clicked")
TAB = ("tab", "tab", "next pane, list, field or button")
SCROLL = ("up,down", "↑ ↓", "choose a line; where there is none to choose, scroll")

MOVING: dict[Scope, tuple[tuple[str, str, str], ...]] = {
    "run": (
        ("", "↑ ↓", "choose an episode; in other panes, scroll"),
        ("", "⏎", "read the chosen episode; on plots, see the metrics"),
        TAB,
        MOUSE,
    ),
    "compare": (SCROLL, MOUSE),
    "edit": (("", "↑ ↓ ← →", "move in the text"), TAB, MOUSE),
}
"""By screen, each led by the keys, as Textual writes them, that a screen may use otherwise: then it isn't told."""

ELSEWHERE = (SCROLL, ("enter", "⏎", "open or change the chosen line"), TAB, MOUSE)

WRITING = ("writing", "in a field, letters are written and ⇧ arrows select; the other keys are heard")

KEYS = 8
"""Cells of the keys of an action."""

SIGNS = (
    ("● ○ ◆", "roles, in the order they are named above the episodes"),
    ("e3", "an evaluation's episode: nothing is learnt from it"),
    ("✗[7]", "a reply that was ruled out as illegal"),
    ("▾ ▸", "before an episode's number: what it spawned is shown, or folded away"),
    ("▸", "in a transcript: the turn that w, Y, [ and ] are about"),
    ("✓ ! ✗", "well, to be watched, to be mended"),
    ("╵ ▴ ✎ ⚑", "in a replay: an evaluation, something interesting, an edit, a pinned episode"),
    ("◆ ★ ┊ ×", "on plots: a checkpoint by hand, the best one, an edit, a step that changed nothing"),
)


class Help(ModalScreen[None]):
    """What the keys do. Any of the keys that opened it closes it."""

    CSS_PATH = "help.tcss"

    def __init__(self, here: Scope = "app") -> None:
        super().__init__()
        self.here: Scope = here
        self._actions: list[Action | None] = []
        """That of each line, if it can be done here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Close", show=False),
        *(Binding(a.keys, "dismiss", "Close", show=False, id=a.id) for a in actions("app") if a.name == "help"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="help"):
            yield Static(Content("Keys"), classes="title")
            yield Painted(id="keys")
            yield Static(Content("esc closes · ↑ ↓ scroll · a click on a line does it"), classes="note")

    def on_mount(self) -> None:
        self.query_one(Painted).focus()

    def on_click(self, event: events.Click) -> None:
        keys = self.query_one(Painted)
        place = event.y + keys.scroll_offset.y
        if event.widget is self:  # beside it
            self.dismiss()
        elif event.widget is keys and place < len(self._actions) and (action := self._actions[place]) is not None:
            app, below = self.app, self.app.screen_stack[-2]
            self.dismiss()
            app.call_after_refresh(app.run_action, action.action, app if action.scope == "app" else below)

    def on_resize(self) -> None:
        self.call_after_refresh(self._tell)

    def _tell(self) -> None:
        keys = self.query_one(Painted)
        found = rows(self.here, keys.cells, palette(self.app.theme), in_force(self.app))
        self._actions = [action if action and action.scope in (self.here, "app") else None for _, action in found]
        keys.show([line for line, _ in found])


def rows(here: Scope, cells: int, colours: Palette, keymap: Mapping[str, str]) -> list[tuple[Line, Action | None]]:
    """The table as lines: the scope one is in, what holds everywhere, the others; how to move, what signs mean.

    Each with the action that it tells of, if it does. Keys of the app that the scope has for itself are left out.
    """
    key_look, heading = style(colours.accent, bold=True), style(colours.text, bold=True)
    shown: list[tuple[Line, Action | None]] = []

    def section(title: str, entries: list[tuple[str, str]], told: Sequence[Action] = ()) -> None:
        shown.append((((title, heading),), None))
        for place, (key, words) in enumerate(entries):
            action = told[place] if place < len(told) else None
            shown.extend((line, action) for line in _entry(key, words, cells, key_look, style(colours.soft)))
        shown.append((BLANK, None))

    taken = (
        {key for action in actions(here) for key in action.keys_in(keymap).split(",")} if here != "app" else set()
    )
    for scope in sorted(SCOPES, key=lambda scope: (scope != here, scope != "app")):
        numbered = scope in NUMBERED
        told = [action for action in actions(scope) if not (numbered and action.keys_in(keymap).isdecimal())]
        if scope == "app":
            told = [action for action in told if not taken.issuperset(action.keys_in(keymap).split(","))]
        entries = [(_keys(action.keys_in(keymap)), action.help) for action in told]
        if numbered:
            entries.append(NUMBERED[scope])
        if scope == "app":
            entries.append(WRITING)
        section(SCOPES[scope], entries, told)
        if scope == here:
            moving = [entry for entry in MOVING.get(here, ELSEWHERE) if not taken.issuperset(entry[0].split(","))]
            section("Moving", [(key, words) for _, key, words in moving])
    section("Signs", list(SIGNS))
    themes = ", ".join(p.title for p in PALETTES.values())
    section("Themes", [("t", themes)])
    return shown[:-1]


def _keys(keys: str) -> str:
    return " ".join(key_name(key) for key in keys.split(","))


def _entry(key: str, words: str, cells: int, key_look: Style, look: Style) -> list[Line]:
    indent = KEYS + 3
    first, *more = wrap(words, cells - indent)
    return [((f"  {fit(key, KEYS)} ", key_look), (first, look)), *(((" " * indent + line, look),) for line in more)]
