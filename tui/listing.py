"""The lines of Home's lists, and all there is to say about one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style
from textual.content import Content

from tui.interface import PresetInfo, RunInfo
from tui.spark import spark
from tui.text import fit, middle, one_line, width, wrap
from tui.theme import Palette, style
from tui.widgets.painted import BLANK, Line, cut, span, spread
from tui.words import label, number


@dataclass(frozen=True, slots=True)
class Live:
    """The run at work, if there is one."""

    name: str
    title: str
    step: int
    steps: int


def _content(lines: list[Line]) -> Content:
    parts: list[tuple[str, str]] = []
    for index, line in enumerate(lines):
        if index:
            parts.append(("\n", ""))
        parts += [(text, _markup(look)) for text, look in line]
    return Content.assemble(*parts)


def _markup(look: Style | None) -> str:
    """A style as Textual's own, which knows no `Style` of rich's here."""
    if look is None or look.color is None:
        return ""
    return ("bold " if look.bold else "") + str(look.color.name)


NAME, TOLD = 32, 12
"""Most cells of a preset's name, and the fewest that are worth filling with what it teaches."""

SPARK, SPARK_LEAST = 20, 4
"""Most cells of a spark line, and the fewest that are worth drawing in."""

ROOMY = 90
"""Cells from which on a run's line has room for words between its numbers."""

MARK = "✓"
"""Of a run that is to be compared."""

BRIEF = 2
"""Lines below the lists, where details don't stand beside them; one more tells what can be done."""

ALONG = "pocket"
"""The model that needs no download."""


def groups(presets: Sequence[PresetInfo]) -> dict[str, list[PresetInfo]]:
    """Presets by the model they are for, and one's own together, in the order in which they come."""
    found: dict[str, list[PresetInfo]] = {}
    for preset in presets:
        name = "yours" if preset.source == "yours" else preset.model or "of no known model"
        found.setdefault(name, []).append(preset)
    return found


def group_entry(name: str, cells: int, colours: Palette, right: str = "") -> Content:
    """The line above a group; `right` is above the ends of its lines."""
    told = f"{name}, a tiny model that comes along" if name == ALONG else one_line(name, 80)
    words = f" {fit(told, min(width(told), cells - 4))} "
    right = f" {right} " if right and width(words) + width(right) + 6 < cells else ""
    line = "┄" * (cells - width(words) - width(right) - 1)
    accent, faint = style(colours.accent), style(colours.faint)
    return _content([((words, accent), (line, faint), (right, style(colours.soft)))])


def name_cells(presets: Sequence[PresetInfo]) -> int:
    """Cells that the names take, so that what stands behind them is in one column."""
    return min(max((width(one_line(preset.name, 60)) for preset in presets), default=0), NAME)


def preset_entry(preset: PresetInfo, names: int, cells: int, colours: Palette) -> Content:
    """One line: its name in `names` cells, or as many as it needs, what it teaches or what is wrong, its cost."""
    name, cost = one_line(preset.name, 60), one_line(preset.memory, 40)
    name = f"   {fit(name, max(names, width(name)))}  "
    room = cells - width(name) - width(cost) - 3
    told, colour = one_line(preset.teaches or preset.title), colours.soft
    if preset.problem:
        told, colour = f"! {one_line(preset.problem)}", colours.watch
    left: Line = ((name, style(colours.text, bold=True)),)
    if room >= TOLD:
        left = (*left, (fit(told, room), style(colour)))
    return _content([spread(cut(left, cells - width(cost) - 2), ((cost + " ", style(colours.soft)),), cells)])


def _named(run: str, cells: int) -> str:
    """A run's name in `cells` cells, with its end: runs of one preset differ in the number there."""
    return fit(middle(one_line(run, 60), cells), cells)


def run_entry(run: RunInfo, cells: int, colours: Palette, *, is_marked: bool = False) -> Content:
    """One line: its mark, its name, how it stands, its result and how it came to it, when it was last used."""
    soft = style(colours.soft)
    mark = MARK if is_marked else " "
    if run.problem:
        words = f"{mark}{_named(run.name, 16)}  ! {one_line(run.problem)}"
        return _content([((fit(words, cells), style(colours.watch)),)])
    value = f"{one_line(label(run.metric), 24)} {number(run.value)}" if run.value is not None else ""
    names, step, steps, values = (16, "step ", 14, 24) if cells >= ROOMY else (14, "", 10, width(value))
    left: Line = (
        (mark, style(colours.accent, bold=True)),
        (f"{_named(run.name, names)}  ", style(colours.text, bold=True)),
        (fit(one_line(run.state, 20), 12), style(_colour_of(run.state, colours))),
        (fit(f"{step}{run.step}/{run.steps}" if run.steps else "", steps), soft),
        (fit(value, max(values, width(value))), style(colours.text)),
    )
    when = f"{one_line(run.when, 24)} "
    room = min(cells - span(left) - width(when) - 2, SPARK)
    if room >= SPARK_LEAST and (drawn := spark(run.course, room)):
        left = (*left, (f" {drawn}", style(colours.accent)))
    return _content([spread(cut(left, cells), ((when, soft),), cells)])


def live_entry(live: Live, cells: int, colours: Palette, *, is_marked: bool = False) -> Content:
    """One line for the run at work."""
    left: Line = (
        (MARK if is_marked else " ", style(colours.accent, bold=True)),
        (f"{_named(live.name, 16 if cells >= ROOMY else 14)}  ", style(colours.text, bold=True)),
        (fit("▸ at work", 12), style(colours.good, bold=True)),
        (f"step {live.step}/{live.steps}", style(colours.soft)),
    )
    return _content([spread(left, (("enter returns to it ", style(colours.soft)),), cells)])


def _colour_of(state: str, colours: Palette) -> str:
    if state == "failed":
        return colours.bad
    return colours.good if state in ("finished", "running") else colours.soft


def describe(item: PresetInfo | RunInfo | Live, cells: int, colours: Palette) -> list[Line]:
    """All there is to say about a line of the lists."""
    rows: list[tuple[str, str]]
    match item:
        case PresetInfo():
            title, told = item.title or item.name, item.teaches
            rows = [("preset", item.name), ("model", item.model), ("memory", item.memory), ("from", item.source)]
            problem = item.problem
        case RunInfo():
            title, told = item.title or item.name, ""
            value = f"{label(item.metric)} {number(item.value)}" if item.value is not None else ""
            rows = [
                ("run", item.name),
                ("state", item.state),
                ("step", f"{item.step} of {item.steps}" if item.steps else ""),
                ("result", value),
                ("used", item.when),
                ("folder", str(item.folder)),
                ("why", item.reason),
            ]
            course = spark(item.course, cells - 12)
            rows.insert(4, ("course", course))
            problem = item.problem
        case Live():
            title, told = item.title, ""
            rows = [("run", item.name), ("state", "at work"), ("step", f"{item.step} of {item.steps}")]
            problem = None
    soft, plain = style(colours.soft), style(colours.text)
    lines: list[Line] = [BLANK, ((" " + fit(one_line(title), cells - 2), style(colours.text, bold=True)),), BLANK]
    if told:
        lines += [((f" {line}", soft),) for line in wrap(one_line(told), cells - 2)]
        lines.append(BLANK)
    for name, value in rows:
        if value:
            first, *more = wrap(one_line(value), cells - 11)
            lines.append(((f" {fit(name, 8)} ", soft), (first, plain)))
            lines += [((" " * 10 + line, plain),) for line in more]
    lines.append(BLANK)
    if problem:
        lines += [((f" {line}", style(colours.watch)),) for line in wrap(f"! {one_line(problem)}", cells - 2)]
    else:
        lines += [((f" {line}", style(colours.accent)),) for line in wrap(to_do(item), cells - 2)]
    return lines


def opens(item: PresetInfo | RunInfo | Live) -> str:
    """What enter does with it, in a word."""
    match item:
        case PresetInfo():
            return "start"
        case RunInfo():
            return "open" if item.state == "finished" else "resume"
        case Live():
            return "return"


def to_do(item: PresetInfo | RunInfo | Live) -> str:
    """What can be done with it."""
    if isinstance(item, PresetInfo):
        return "enter starts a new run · e edits it first"
    if isinstance(item, Live):
        return "enter returns to it"
    if item.state == "running":  # not here, or it would be `Live`
        return "another process runs it · o follows its record · enter resumes it afterwards"
    return f"enter {opens(item)}s it · o replays its record · space marks it to be compared"


def brief(item: PresetInfo | RunInfo | Live, cells: int, colours: Palette) -> list[Line]:
    """Of a line of the lists what there isn't room for in it: its title and what it teaches, or what is wrong."""
    soft, look = style(colours.soft), style(colours.watch)
    match item:
        case PresetInfo():
            told = f"{item.title or item.name}: {item.teaches}" if item.teaches else item.title
        case RunInfo():
            told = item.reason or f"{item.title} · {item.folder}"
        case Live():
            told = item.title
    problem = None if isinstance(item, Live) else item.problem
    lines = wrap(one_line(f"! {problem}" if problem else told), cells - 2)
    shown = (
        lines[:BRIEF]
        if len(lines) <= BRIEF
        else [*lines[: BRIEF - 1], fit(" ".join(lines[BRIEF - 1 :]), cells - 2)]
    )
    told_lines: list[Line] = [((f" {line}", look if problem else soft),) for line in shown]
    return told_lines if problem else [*told_lines, ((f" {fit(to_do(item), cells - 2)}", style(colours.accent)),)]
