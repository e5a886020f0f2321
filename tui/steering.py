"""What can be steered and what was: settings in sections, edits with what came of them, checkpoints."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.style import Style

from engine.events import EditApplied, EvaluationFinished
from tui.text import fit, one_line, width, wrap
from tui.theme import Palette, style
from tui.widgets.choice import Entry
from tui.widgets.painted import Line, cut
from tui.words import label, number, plural

if TYPE_CHECKING:
    from engine.keeping import Kept
    from engine.steering.edits import Setting

ROLE = "role "
"""How the target of a prompt's edit begins."""

AFTER = 3
"""Evaluations after an edit that are shown of it."""

SECTIONS = {
    "train": "Learning",
    "rewards": "Weights of rewards",
    "tasks": "Shares of tasks",
    "past": "Earlier selves as opponents",
    "run": "The run",
    "credit": "Credit",
    "eval": "Evaluation",
    "checkpoint": "Checkpoints",
    "roles": "Role",
}
"""In the order of the list; roles come last, each with a section of its own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An edit, and what the metric that counts was before and after it."""

    edit: EditApplied
    before: EvaluationFinished | None
    after: tuple[EvaluationFinished, ...]
    undoes: int = 0
    """The edit that it takes back; 0 for none."""


@dataclass(frozen=True, slots=True)
class Version:
    """A prompt that was in force once."""

    text: str
    until: int
    """The number of the edit that ended it; 0 for the one in force."""
    step: int


def outcomes(edits: Iterable[EditApplied], evaluations: Sequence[EvaluationFinished], metric: str) -> list[Outcome]:
    """The newest first. Only evaluations that measured the metric count."""
    measured = [evaluation for evaluation in evaluations if metric in evaluation.metrics]
    steps = [evaluation.step for evaluation in measured]
    found: list[Outcome] = []
    for edit in edits:
        place = bisect_right(steps, edit.step)
        same = [o.edit for o in found if o.edit.target == edit.target]
        undone = [e for e in same if (e.before, e.after) == (edit.after, edit.before)]
        undoes = undone[-1].number if undone else 0
        after = tuple(measured[place : place + AFTER])
        found.append(Outcome(edit, measured[place - 1] if place else None, after, undoes))
    return found[::-1]


def versions(edits: Iterable[EditApplied], role: str, now: str) -> list[Version]:
    """The prompts a role had, the newest first; the one in force is the first."""
    of_role = [edit for edit in edits if edit.target == ROLE + role]
    return [Version(now, 0, 0), *(Version(edit.before, edit.number, edit.step) for edit in reversed(of_role))]


# Lines


def setting_entries(
    settings: Sequence[Setting], edits: Iterable[EditApplied], cells: int, colours: Palette
) -> list[Entry]:
    """A line each, in sections: name, value in force, and by which edit."""
    numbers = {edit.target: edit.number for edit in edits}
    order = list(SECTIONS)
    sections: dict[str, list[Setting]] = {}
    for setting in sorted(settings, key=lambda setting: _rank(setting.key, order)):
        sections.setdefault(_section(setting.key), []).append(setting)
    entries: list[Entry] = []
    names = max((width(one_line(_name(s.key), 40)) for s in settings), default=0)
    for title, members in sections.items():
        words = f" {one_line(title, 40)} "
        rule = "┄" * max(cells - width(words) - 1, 0)
        entries.append(Entry("", (((words, style(colours.accent)), (rule, style(colours.rule))),)))
        entries += [Entry(s.key, (_setting(s, names, numbers.get(s.key, 0), cells, colours),)) for s in members]
    return entries


def _setting(setting: Setting, names: int, edit: int, cells: int, colours: Palette) -> Line:
    told = f"edit {edit} " if edit else ""
    room = max(cells - names - 6 - width(told), 6)
    value = one_line(setting.value, 200) or "–"
    return (
        (f"   {fit(one_line(_name(setting.key), 40), names)}  ", style(colours.soft)),
        (fit(value, room), style(colours.text, bold=bool(edit))),
        (told, style(colours.accent)),
    )


def _section(key: str) -> str:
    first, *rest = key.split(".")
    return f"Role {rest[0]}" if first == "roles" else SECTIONS.get(first, first)


def _name(key: str) -> str:
    """What is not told by its section."""
    first, _, rest = key.partition(".")
    if first in ("rewards", "tasks"):
        return rest.removesuffix(".weight")
    return rest.rpartition(".")[2]


def _rank(key: str, order: list[str]) -> tuple[int, str]:
    first = key.partition(".")[0]
    whose = key.split(".")[1] if first == "roles" else ""
    return (order.index(first) if first in order else len(order), whose)


def edit_entries(found: Sequence[Outcome], metric: str, cells: int, colours: Palette) -> list[Entry]:
    """Two lines each: what was changed, and what the metric was before and after."""
    return [Entry(f"{outcome.edit.number}", _edit(outcome, metric, cells, colours)) for outcome in found]


def _edit(outcome: Outcome, metric: str, cells: int, colours: Palette) -> tuple[Line, Line]:
    edit, soft = outcome.edit, style(colours.soft)
    undoes = f"  undoes edit {outcome.undoes}" if outcome.undoes else ""
    what: Line = (
        (f" {edit.number:>3}  ", style(colours.accent, bold=True)),
        (f"step {edit.step}  ", soft),
        (f"{one_line(told_of(edit.target), 60)}  ", style(colours.text, bold=True)),
        (change(edit), style(colours.text)),
        (undoes, soft),
    )
    return cut(what, cells), cut(((" " * 6, None), *_course(outcome, metric, colours)), cells)


def told_of(target: str) -> str:
    """`role First` is `First's prompt`; a key stays as it is."""
    return f"{target.removeprefix(ROLE)}'s prompt" if target.startswith(ROLE) else target


def change(edit: EditApplied) -> str:
    """`0.001 → 0.01`; of a prompt, how many words went and came."""
    if not edit.target.startswith(ROLE):
        return f"{one_line(edit.before, 60) or 'unset'} → {one_line(edit.after, 60) or 'unset'}"
    gone, come = words_changed(edit.before, edit.after)
    return f"−{gone} +{plural(come, 'word')}"


def words_changed(before: str, after: str) -> tuple[int, int]:
    """How many words went, and how many came; where they stand doesn't matter."""
    old, new = (Counter(re.findall(r"\S+", text)) for text in (before, after))
    return (old - new).total(), (new - old).total()


def _course(outcome: Outcome, metric: str, colours: Palette) -> Line:
    soft, plain = style(colours.soft), style(colours.text)
    if not metric:
        return (("the run measures nothing that counts (eval.metric)", soft),)
    before = number(outcome.before.metrics[metric]) if outcome.before else "–"
    line: list[tuple[str, Style | None]] = [(f"{one_line(label(metric), 40)} ", soft), (f"{before} → ", plain)]
    if not outcome.after:
        line.append(("not measured since", soft))
    for place, evaluation in enumerate(outcome.after):
        comma = ", " if place else ""
        line += [(f"{comma}{number(evaluation.metrics[metric])}", plain), (f" at {evaluation.step}", soft)]
    return tuple(line)


def checkpoint_entries(
    kept: Sequence[Kept], evaluations: Sequence[EvaluationFinished], metric: str, cells: int, colours: Palette
) -> list[Entry]:
    """A line each: step, why it is kept, and the metric where it was measured."""
    values = {evaluation.step: evaluation.metrics.get(metric) for evaluation in evaluations}
    entries: list[Entry] = []
    for checkpoint in kept:
        value = values.get(checkpoint.step)
        sound = "unsound" not in checkpoint.reasons
        line: Line = (
            (f"   step {checkpoint.step:<6}", style(colours.text, bold=True)),
            (fit(", ".join(checkpoint.reasons), 18) + " ", style(colours.soft if sound else colours.watch)),
            (f"{one_line(label(metric), 40)} " if value is not None else "", style(colours.soft)),
            (
                number(value) if value is not None else "not measured",
                style(colours.text if value else colours.soft),
            ),
        )
        entries.append(Entry(f"{checkpoint.step}", (cut(line, cells),)))
    return entries


def about(setting: Setting, error: str, cells: int, colours: Palette) -> list[Line]:
    """Under the list: the key, what a right value is and what it does; first of all what was wrong with one."""
    lines: list[Line] = [
        ((f" {one_line(setting.key, 60)}", style(colours.text, bold=True)),),
    ]
    if error:
        told, look = [f"✗ {one_line(error)}"], style(colours.bad, bold=True)
    else:
        own = "; empty for the task's own, or the loss's" if setting.optional else ""
        told, look = [f"{one_line(setting.wants)}{own}", one_line(setting.help)], style(colours.soft)
    return [*lines, *(((f" {line}", look),) for words in told for line in wrap(words, cells - 2))][:4]
