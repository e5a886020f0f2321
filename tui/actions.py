"""Everything a key can do, in one table: bindings, key bar, help and command palette are all made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from textual.binding import BindingType

Scope = Literal["app", "home", "run", "edit", "ask"]

SCOPES: dict[Scope, str] = {
    "home": "Home",
    "run": "Run",
    "edit": "Editing a prompt",
    "ask": "Answering a question",
    "app": "Everywhere",
}


@dataclass(frozen=True, slots=True)
class Action:
    """A named thing to do."""

    name: str
    """Also the binding's id, which a user's keymap refers to, and the `action_…` method, arguments apart."""
    keys: str
    """As Textual writes them, separated by commas; the first is the one that is shown."""
    label: str
    """One or two words, for the key bar."""
    help: str
    """A sentence without its full stop, for help and palette."""
    scope: Scope
    call: str = ""
    """The action string, where it isn't the name."""
    bar: int = 0
    """Its rank in the key bar: lower ones go first where there isn't room for all; 0 is never shown."""
    priority: bool = False
    """Whether it is heard before the widget that has the focus."""

    @property
    def action(self) -> str:
        return self.call or self.name

    @property
    def key(self) -> str:
        return self.keys.partition(",")[0]


ACTIONS: tuple[Action, ...] = (
    Action("start", "enter", "start", "Start the chosen preset, or resume or open the chosen run", "home", bar=9),
    Action("filter", "slash", "filter", "Filter the presets and runs", "home", bar=7),
    Action("refresh", "r", "refresh", "Read the lists again", "home", bar=3),
    Action("pause", "space", "pause", "Pause the run, or resume it", "run", bar=9),
    Action("prompts", "p", "prompts", "Edit a role's prompt, in force from the next episode", "run", bar=8),
    Action("answer", "a", "answer", "Answer what episodes ask you", "run"),
    Action("checkpoint", "ctrl+s", "checkpoint", "Save a checkpoint now, kept forever", "run", bar=6),
    Action("follow", "f", "follow", "Follow an episode in play, and its end", "run", bar=7),
    Action("maximise", "m", "maximise", "Show one pane alone, or all again", "run", bar=4),
    Action("pane_1", "1", "episodes", "Go to the episodes", "run", call="pane(1)"),
    Action("pane_2", "2", "transcript", "Go to the transcript", "run", call="pane(2)"),
    Action("pane_3", "3", "rewards", "Go to the rewards", "run", call="pane(3)"),
    Action("pane_4", "4", "plots", "Go to the plots", "run", call="pane(4)"),
    Action("pane_5", "5", "health", "Go to the health of the run", "run", call="pane(5)"),
    Action("copy", "y", "copy", "Copy the transcript to the clipboard", "run", bar=3),
    Action("back", "escape", "home", "Show all panes again, or go Home; the run goes on", "run", bar=2),
    Action("apply", "ctrl+s", "apply", "Apply the prompt", "edit", bar=9, priority=True),
    Action("cancel", "escape", "cancel", "Leave without a change", "edit", bar=8, priority=True),
    *(
        Action(f"choose_{n}", f"{n}", "choose", f"Give the answer numbered {n}", "ask", call=f"choose({n})")
        for n in range(1, 10)
    ),
    Action("send", "enter", "answer", "Give the answer that is marked or written", "ask"),
    Action("skip", "ctrl+k", "skip", "Leave the question without an answer", "ask", priority=True),
    Action("next", "ctrl+n", "next", "Look at the next question", "ask", priority=True),
    Action("later", "escape", "later", "Back to the run; the questions stay", "ask", priority=True),
    Action("theme", "t", "theme", "Next theme", "app", bar=1),
    Action("help", "question_mark", "help", "What the keys do", "app", bar=6),
    Action("command_palette", "ctrl+p", "commands", "Find a command by name", "app", bar=1),
    Action(
        "quit", "ctrl+q", "quit", "Quit; a run is stopped cleanly and its state saved", "app", bar=8, priority=True
    ),
    Action("interrupt", "ctrl+c", "ask", "Copy what is selected, or ask whether to quit", "app", priority=True),
)

KEY_NAMES = {
    "slash": "/",
    "question_mark": "?",
    "escape": "esc",
    "enter": "⏎",
    "space": "space",
}


def key_name(key: str) -> str:
    """How a key is written for people: `"ctrl+s"` is `"^s"`."""
    if key.startswith("ctrl+"):
        return "^" + key.removeprefix("ctrl+")
    return KEY_NAMES.get(key, key)


def actions(scope: Scope) -> list[Action]:
    return [action for action in ACTIONS if action.scope == scope]


def bindings(scope: Scope) -> list[BindingType]:
    """The table's part for one screen, as Textual takes it."""
    from textual.binding import Binding

    return [
        Binding(
            action.keys, action.action, action.label, show=action.bar > 0, priority=action.priority, id=action.name
        )
        for action in actions(scope)
    ]
