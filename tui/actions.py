"""Everything a key can do, in one table: bindings, key bar, help and command palette are all made from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from textual.binding import BindingType

Scope = Literal[
    "app", "home", "run", "edit", "ask", "steer", "form",
    "compare", "play", "why", "metrics", "replay", "search", "league",
]  # fmt: skip

SCOPES: dict[Scope, str] = {
    "home": "Home",
    "form": "Editing a preset",
    "compare": "Comparing runs",
    "run": "Run",
    "metrics": "Metrics",
    "league": "League",
    "steer": "Steering",
    "edit": "Editing a prompt",
    "ask": "Answering a question",
    "play": "Playing along",
    "why": "Why",
    "replay": "Replaying a run",
    "search": "Searching in transcripts",
    "app": "Everywhere",
}


@dataclass(frozen=True, slots=True)
class Action:
    """A named thing to do."""

    name: str
    """Also what a user's keymap calls it, and the `action_…` method, arguments apart."""
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
    def id(self) -> str:
        """`"run.pause"`: one name in all the table, also the binding's."""
        return f"{self.scope}.{self.name}"

    @property
    def action(self) -> str:
        return self.call or self.name

    @property
    def key(self) -> str:
        return self.keys.partition(",")[0]

    def keys_in(self, keymap: Mapping[str, str]) -> str:
        """Its keys where a user's keymap, by id, may have given it others."""
        return keymap.get(self.id, self.keys)


ACTIONS: tuple[Action, ...] = (
    Action("start", "enter", "start", "Start the chosen preset, or resume or open the chosen run", "home", bar=9),
    Action("filter", "slash", "filter", "Filter the presets and runs", "home", bar=7),
    Action("edit", "e", "edit", "Edit the chosen preset, or a run's configuration, in a form", "home", bar=8),
    Action("mark", "space", "mark", "Mark the chosen run to be compared, or unmark it", "home", bar=4),
    Action("compare", "c", "compare", "Compare the marked runs with the chosen one", "home", bar=5),
    Action("delete", "d,delete", "delete", "Delete the chosen run or preset of yours; asks first", "home", bar=2),
    Action("refresh", "r", "refresh", "Read the lists again", "home", bar=3),
    Action("start", "ctrl+r", "start", "Start a run as the form says", "form", bar=9, priority=True),
    Action("save", "ctrl+s", "save as", "Save it as a preset of your own", "form", bar=8, priority=True),
    Action("filter", "ctrl+f", "filter", "Filter the keys by name or what they do", "form", bar=7, priority=True),
    Action("add", "ctrl+n", "add", "Put in a reward or a task, from a list", "form", "table('add')", 7, True),
    Action("out", "ctrl+t", "take out", "Take out that table, or put it back", "form", "table('out')", 4, True),
    Action("undo", "ctrl+z", "undo", "Give the field back what the preset says", "form", bar=6, priority=True),
    Action("default", "ctrl+d", "default", "Give the field its default", "form", "undo(True)", 3, True),
    Action("back", "escape", "home", "Leave the filter, or the form; asks if something was changed", "form", bar=7),
    Action("metric_next", "right,m", "next metric", "Show the next metric", "compare", bar=9, call="metric(1)"),
    Action("metric_before", "left", "metric before", "Show the metric before", "compare", bar=8, call="metric(-1)"),
    Action("back", "escape", "home", "Back to Home", "compare", bar=7),
    Action("pause", "space", "pause", "Pause the run, or resume it", "run", bar=9),
    Action("prompts", "p", "prompts", "Edit a role's prompt, in force from the next episode", "run", bar=8),
    Action("steer", "s", "steer", "Change settings, see what came of edits, go back, fork", "run", bar=7),
    Action("step", "n", "one step", "From a pause, learn one step and pause again", "run"),
    Action("answer", "a", "answer", "Answer what episodes ask you", "run"),
    Action("play", "x", "play", "Sit down and play against the policy or a checkpoint", "run", bar=5),
    Action("checkpoint", "ctrl+s", "checkpoint", "Save a checkpoint now, kept forever", "run", bar=6),
    Action("follow", "f", "follow", "Follow an episode in play to its end, then the next, or stop", "run", bar=7),
    Action("maximise", "m", "maximise", "Show one pane alone, or all again", "run", bar=4),
    Action("pane_1", "1", "episodes", "Go to the episodes", "run", call="pane(1)"),
    Action("pane_2", "2", "transcript", "Go to the transcript", "run", call="pane(2)"),
    Action("pane_3", "3", "rewards", "Go to the rewards", "run", call="pane(3)"),
    Action("pane_4", "4", "plots", "Go to the plots", "run", call="pane(4)"),
    Action("pane_5", "5", "health", "Go to the health of the run", "run", call="pane(5)"),
    Action("copy", "y", "copy", "Copy the transcript to the clipboard", "run", bar=3),
    Action("why", "w", "why", "How the turn's reward became its advantage", "run", bar=7, call="read('why')"),
    Action("heat", "h", "heat", "Show how likely tokens were, or became by learning", "run", call="read('heat')"),
    Action("turn_before", "left_square_bracket", "turn", "Go to the turn before", "run", call="read('before')"),
    Action("turn_after", "right_square_bracket", "turn", "Go to the turn after", "run", call="read('after')"),
    Action("copy_turn", "Y", "copy turn", "Copy the turn under the cursor", "run", call="read('copy')"),
    Action("back", "escape", "home", "End the filter, show all panes, or go Home; the run goes on", "run", bar=2),
    Action("metrics", "g", "metrics", "See any metric in large charts, beside other runs", "run"),
    Action("filter", "slash", "filter", "Filter episodes by role, reward, word and more", "run", "wall('filter')"),
    Action("fold", "left", "fold", "Fold what an episode spawned, or go to its parent", "run", "wall('fold')"),
    Action("unfold", "right", "unfold", "Show again what an episode spawned", "run", "wall('unfold')"),
    Action("fold_all", "z", "fold all", "Fold all trees of episodes, or show all", "run", "wall('fold_all')"),
    Action("league", "l", "league", "Ratings of who met, and the games they played", "run", bar=4),
    Action("open", "enter", "open", "Go to the marked pair's games, or read the marked game", "league", bar=9),
    Action("kind", "n", "next kind", "Go on to the games of another kind of episode", "league", bar=6),
    Action("copy", "y", "copy", "Copy ratings and payoffs as a table", "league", bar=5),
    Action("pane_1", "1", "ratings", "Go to the ratings", "league", call="pane(1)"),
    Action("pane_2", "2", "payoffs", "Go to the payoff matrix", "league", call="pane(2)"),
    Action("pane_3", "3", "games", "Go to the games of the marked pair", "league", call="pane(3)"),
    Action("maximise", "m", "maximise", "Show one pane alone, or all again", "league", bar=3),
    Action("back", "escape", "back", "Show all panes again, or go back to the run", "league", bar=8),
    Action("choose", "space,enter", "choose", "Draw the marked metric, or take it away", "metrics", bar=9),
    Action("filter", "slash", "filter", "Filter the metrics by name or meaning", "metrics", bar=8),
    Action("cursor_right", "right", "cursor", "Point at the next step", "metrics", call="cursor(1)", bar=4),
    Action("cursor_left", "left", "cursor", "Point at the step before", "metrics", call="cursor(-1)"),
    Action("zoom_in", "plus,equals_sign", "closer", "See fewer steps", "metrics", call="zoom(1)", bar=6),
    Action("zoom_out", "minus", "wider", "See more steps", "metrics", call="zoom(-1)", bar=5),
    Action("pan_right", "right_square_bracket", "later", "Move on to later steps", "metrics", call="pan(1)"),
    Action("pan_left", "left_square_bracket", "earlier", "Move back to earlier steps", "metrics", call="pan(-1)"),
    Action("reset", "0", "reset", "All steps, no cursor, nothing smoothed, a plain axis", "metrics", bar=4),
    Action("smooth", "s", "smooth", "Smooth the curves more, or not at all", "metrics", bar=7),
    Action("log", "l", "log", "A logarithmic axis, or a plain one", "metrics", bar=7),
    Action("join", "o", "one chart", "All chosen metrics in one chart, or a chart each", "metrics", bar=5),
    Action("runs", "r", "runs", "Draw other runs beside this one", "metrics", bar=7),
    Action("maximise", "m", "maximise", "Charts alone, or with the list", "metrics", bar=3),
    Action("copy", "y", "copy", "Copy the numbers in sight as a table", "metrics", bar=5),
    Action("copy_picture", "Y", "copy SVG", "Copy the chart as SVG", "metrics"),
    Action("save_svg", "v", "save SVG", "Save the charts as SVG in the run's folder exports", "metrics", bar=4),
    Action("save_png", "g", "save PNG", "Save the charts as PNG in the run's folder exports", "metrics"),
    Action("save_table", "c", "save CSV", "Save the numbers as CSV in the run's folder exports", "metrics", bar=3),
    Action("back", "escape", "back", "Show the list again, or go back to the run", "metrics", bar=8),
    Action("apply", "ctrl+s", "apply", "Apply the prompt", "edit", bar=9, priority=True),
    Action("editor", "ctrl+e", "$EDITOR", "Write the prompt in your own editor", "edit", bar=5, priority=True),
    Action("earlier", "ctrl+r", "earlier", "Take up an earlier version", "edit", bar=6, priority=True),
    Action("other_role", "f2,ctrl+pageup", "next role", "Go on to the next role's prompt", "edit"),
    Action("cancel", "escape", "cancel", "Leave without a change", "edit", bar=8, priority=True),
    Action("change", "enter", "change", "Change the chosen setting", "steer", bar=9),
    Action("undo", "u", "undo", "Undo the chosen edit, by a new one", "steer", bar=8),
    Action("roll_back", "b", "go back", "Go back to the chosen checkpoint; asks first", "steer", bar=7),
    Action("fork", "f", "fork", "Make a new run that begins from the chosen checkpoint", "steer", bar=7),
    Action("checkpoint", "ctrl+s", "checkpoint", "Save a checkpoint now, kept forever", "steer", bar=6),
    Action("pause", "space", "pause", "Pause the run, or resume it", "steer", bar=5),
    Action("step", "n", "one step", "From a pause, learn one step and pause again", "steer", bar=4),
    Action("prompts", "p", "prompts", "Edit a role's prompt, in force from the next episode", "steer", bar=4),
    Action("pane_1", "1", "settings", "Go to the settings", "steer", call="pane(1)"),
    Action("pane_2", "2", "edits", "Go to the edits", "steer", call="pane(2)"),
    Action("pane_3", "3", "checkpoints", "Go to the checkpoints", "steer", call="pane(3)"),
    Action("back", "escape", "back", "Leave the field, or go back to the run", "steer", bar=3),
    *(
        Action(f"choose_{n}", f"{n}", "choose", f"Give the answer numbered {n}", "ask", call=f"choose({n})")
        for n in range(1, 10)
    ),
    Action("send", "enter", "answer", "Give the answer that is marked or written", "ask"),
    Action("skip", "ctrl+k", "skip", "Leave the question without an answer", "ask", priority=True),
    Action("next", "ctrl+n", "next", "Look at the next question", "ask", priority=True),
    Action("page_up", "pageup", "page", "A page of the texts up", "ask", call="scroll_texts(-1)", priority=True),
    Action("page_down", "pagedown", "page", "A page of the texts down", "ask", "scroll_texts(1)", priority=True),
    Action("later", "escape", "later", "Back to the run; the questions stay", "ask", priority=True),
    Action("say", "enter", "play", "Begin; make the move or reply; play again", "play", bar=9, priority=True),
    Action("mark", "space", "mark", "Mark the chosen role to speak for, or unmark it", "play", bar=4),
    Action("odds", "ctrl+g", "odds", "How likely the policy is to make each move", "play", bar=7, priority=True),
    Action("uncover", "ctrl+r", "uncover", "Show or hide what your role can't hear", "play", bar=5, priority=True),
    Action("learn", "ctrl+l", "learn", "Have the run learn from what you play", "play", bar=3, priority=True),
    Action("newline", "ctrl+j,shift+enter", "new line", "A new line in what you say", "play", priority=True),
    Action("leave", "escape", "leave", "Leave what is played, or go back to the run", "play", bar=8, priority=True),
    Action("replay", "o", "replay", "Read the chosen run's record, step by step; changes nothing", "home", bar=6),
    Action("replay", "o", "replay", "Read the run's record: any step, what stands out, search", "run"),
    Action("back_one", "left", "step", "One step back", "replay", call="move(-1)", bar=9, priority=True),
    Action("on_one", "right", "step", "One step on", "replay", call="move(1)", bar=9, priority=True),
    Action("leap_back", "shift+left", "leap", "Ten steps back or more", "replay", "leap(-1)", priority=True),
    Action("leap_on", "shift+right", "leap", "Ten steps on or more", "replay", "leap(1)", priority=True),
    Action("first", "home", "first", "To the first step", "replay", call="end(-1)", priority=True),
    Action("last", "end", "last", "To the last step, and follow the run", "replay", call="end(1)", priority=True),
    Action("stop_before", "comma", "mark", "To the mark before", "replay", call="stop(-1)"),
    Action("stop_next", "full_stop", "mark", "To the next evaluation, edit, checkpoint", "replay", "stop(1)"),
    Action("play", "space", "play", "Show one step after the other, or rest", "replay", bar=6),
    Action("search", "slash", "search", "Search in all transcripts of the run", "replay", bar=8),
    Action("hit_next", "n", "next hit", "Go to the next turn that was found", "replay", call="hit(1)", bar=4),
    Action("hit_before", "N", "hit before", "Go to the turn that was found before", "replay", call="hit(-1)"),
    Action("pin", "b", "pin", "Pin the episode, or unpin it; pins stand first in the feed", "replay", bar=7),
    Action("note", "e", "note", "Write a note to the episode, which pins it; search finds it", "replay", bar=4),
    Action("heat", "h", "heat", "Show how likely tokens were, or became by learning", "replay", bar=4),
    Action("turn_before", "left_square_bracket", "turn", "Go to the turn before", "replay", call="turn(-1)"),
    Action("turn_after", "right_square_bracket", "turn", "Go to the turn after", "replay", call="turn(1)"),
    Action("why", "w", "why", "How the turn's reward became its advantage", "replay", bar=5),
    Action("copy", "y", "copy", "Copy the transcript to the clipboard", "replay", bar=3),
    Action("maximise", "m", "maximise", "Show one pane alone, or all again", "replay", bar=3),
    Action("pane_1", "1", "interesting", "Go to what is interesting", "replay", call="pane(1)"),
    Action("pane_2", "2", "episodes", "Go to the step's episodes", "replay", call="pane(2)"),
    Action("pane_3", "3", "transcript", "Go to the transcript", "replay", call="pane(3)"),
    Action("pane_4", "4", "plots", "Go to the plots", "replay", call="pane(4)"),
    Action("pane_5", "5", "step", "Go to the step's figures", "replay", call="pane(5)"),
    Action("back", "escape", "back", "Show all panes again, or leave the record", "replay", bar=5),
    Action("goto", "enter", "go to", "Go to the marked turn in the record", "search", bar=9, priority=True),
    Action("move_up", "up", "up", "Mark the turn before", "search", call="move(-1)", priority=True),
    Action("move_down", "down", "down", "Mark the next turn", "search", call="move(1)", bar=7, priority=True),
    Action("page_up", "pageup", "page", "A page of turns up", "search", call="page(-1)", priority=True),
    Action("page_down", "pagedown", "page", "A page of turns down", "search", call="page(1)", priority=True),
    Action("close", "escape", "close", "Back to the record", "search", bar=8, priority=True),
    Action("go", "enter", "read", "Read the chosen episode", "why", bar=9),
    Action("turn_before", "left_square_bracket", "before", "Explain the turn before", "why", "turn(-1)", bar=5),
    Action("turn_after", "right_square_bracket", "after", "Explain the turn after", "why", "turn(1)", bar=6),
    Action("copy", "y", "copy", "Copy the path to the clipboard", "why", bar=5),
    Action("back", "escape", "back", "Back to the transcript", "why", bar=8),
    Action("theme", "t", "theme", "Next theme", "app", bar=1),
    Action("jump", "ctrl+o", "jump", "Put a letter on every pane and field: typed, it leads there", "app"),
    Action("resize_left", "shift+left", "resize", "Move this pane's border left", "app", call="resize(-1)"),
    Action("resize_right", "shift+right", "resize", "Move this pane's border right", "app", call="resize(1)"),
    Action("resize_up", "shift+up", "resize", "Move the border below this pane up", "app", call="resize(0, -1)"),
    Action("resize_down", "shift+down", "resize", "Move the border below this pane down", "app", "resize(0, 1)"),
    Action("notices", "f8", "notices", "Notices on the desktop when a run ends or needs you: on or off", "app"),
    Action("help", "question_mark,f1", "help", "What the keys do", "app", bar=6),
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
    "full_stop": ".",
    "comma": ",",
    "semicolon": ";",
    "colon": ":",
    "plus": "+",
    "equals_sign": "=",
    "minus": "-",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
}


def key_name(key: str) -> str:
    """How a key is written for people: `"ctrl+s"` is `"^s"`, `"shift+left"` is `"⇧←"`."""
    for modifier, mark in (("ctrl+", "^"), ("shift+", "⇧")):
        if key.startswith(modifier):
            return mark + key_name(key.removeprefix(modifier))
    return KEY_NAMES.get(key, key)


def actions(scope: Scope) -> list[Action]:
    return [action for action in ACTIONS if action.scope == scope]


def scope_of(screen: object) -> Scope | None:
    """The scope whose keys a screen has, by the ids of its bindings; None for one without a part in the table."""
    for binding in getattr(screen, "BINDINGS", ()):
        scope = (getattr(binding, "id", None) or "").partition(".")[0]
        if scope in SCOPES and scope != "app":
            return scope
    return None


def bindings(scope: Scope) -> list[BindingType]:
    """The table's part for one screen, as Textual takes it."""
    return [_binding(action, action.action) for action in actions(scope)]


def everywhere() -> list[BindingType]:
    """The app's part, for a modal screen: keys that such a screen doesn't bind go no further."""
    return [_binding(action, f"app.{action.action}") for action in actions("app")]


def _binding(action: Action, call: str) -> BindingType:
    from textual.binding import Binding

    return Binding(action.keys, call, action.label, show=action.bar > 0, priority=action.priority, id=action.id)
