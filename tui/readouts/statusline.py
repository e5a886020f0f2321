"""The last line but one: what the run is at, in numbers."""

from __future__ import annotations

from engine.events import RunState
from tui.interface import StatusLike
from tui.readouts.roomy import roomy
from tui.theme import Palette, style
from tui.widgets.painted import Line, span
from tui.words import count, elapsed, memory, plural

STATES = {
    RunState.LOADING: ("…", "loading"),
    RunState.RUNNING: ("▸", "running"),
    RunState.PAUSED: ("‖", "paused"),
    RunState.STOPPED: ("■", "stopped"),
    RunState.FINISHED: ("✓", "finished"),
    RunState.FAILED: ("✗", "failed"),
}


def status(state: RunState, step: int, found: StatusLike, cells: int, colours: Palette, questions: int = 0) -> Line:
    """The status line: what fits, the state and the step always, least telling numbers first to go."""
    mark, word = STATES[state]
    good = state in (RunState.RUNNING, RunState.FINISHED)
    look = style(colours.good if good else colours.bad if state is RunState.FAILED else colours.watch, bold=True)
    line: Line = ((f" {mark} {word}", look),)
    if questions:
        line += ((f"  ? {plural(questions, 'question')} for you · press a", style(colours.watch, bold=True)),)
    soft, plain = style(colours.soft), style(colours.text)
    parts: list[tuple[int, Line]] = [
        (0, (("  step ", soft), (f"{step}/{found.steps}", plain))),
        (7, ((" " + _bar(step, found.steps, 12), style(colours.accent)),)),
        (3, (("  policy ", soft), (f"v{found.version}", plain))),
        (1, (("  play ", soft), (count(found.generation_rate), plain), (" tok/s", soft))),
        (2, (("  learn ", soft), (count(found.training_rate), plain), (" tok/s", soft))),
        (8, (("  queue ", soft), (str(found.queued), plain))),
        (6, (("  stale ", soft), (str(found.stale), plain))),
        (5, (("  ", soft), (memory(found.memory), plain))),
        (4, (("  ", soft), (elapsed(found.seconds), plain))),
    ]
    if not found.version and not found.generation_rate:
        parts = parts[:2]  # not loaded: it has no other numbers
    return (*line, *roomy(parts, cells - span(line)))


def _bar(done: int, whole: int, cells: int) -> str:
    filled = round(cells * min(done / whole, 1.0)) if whole else 0
    return "━" * filled + "┄" * (cells - filled)
