"""The lines of Home's lists, and all there is to say about one of them."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from textual.content import Content

from tui.interface import PresetInfo, RunInfo
from tui.text import fit, one_line, width, wrap
from tui.theme import Palette, style
from tui.widgets.painted import BLANK, Line, spread
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


def preset_entry(preset: PresetInfo, cells: int, colours: Palette) -> Content:
    """Two lines: its name, model and cost; what it teaches, or what is wrong with it."""
    soft = style(colours.soft)
    name, model = one_line(preset.name, 60), one_line(preset.model, 60)
    cost, source = one_line(preset.memory, 40), one_line(preset.source, 20)
    tail = " · ".join(text for text in (cost, source) if text)
    name = f" {fit(name, max(18, width(name)))}  "
    if width(name + model + tail) + 2 > cells:  # what it costs matters more than whose it is, or who made its model
        tail = cost
        model = fit(model, min(width(model), max(cells - width(name + tail) - 2, 8)))
    left: Line = ((name, style(colours.text, bold=True)), (model, soft))
    first = spread(left, ((tail + " ", soft),), cells)
    if preset.problem:
        return _content([first, ((" ! " + fit(one_line(preset.problem), cells - 4), style(colours.watch)),)])
    told = one_line(preset.teaches or preset.title)
    return _content([first, (("   " + fit(told, cells - 4), soft),)])


def run_entry(run: RunInfo, cells: int, colours: Palette) -> Content:
    """One line: its name, how it stands, its result, when it was last used."""
    soft = style(colours.soft)
    if run.problem:
        words = f" {fit(one_line(run.name, 60), 16)}  ! {one_line(run.problem)}"
        return _content([((fit(words, cells), style(colours.watch)),)])
    value = f"{one_line(label(run.metric), 24)} {number(run.value)}" if run.value is not None else ""
    left: Line = (
        (f" {fit(one_line(run.name, 60), 16)}  ", style(colours.text, bold=True)),
        (fit(one_line(run.state, 20), 12), style(_colour_of(run.state, colours))),
        (fit(f"step {run.step}/{run.steps}", 14) if run.steps else fit("", 14), soft),
        (value, style(colours.text)),
    )
    return _content([spread(left, ((one_line(run.when, 24) + " ", soft),), cells)])


def live_entry(live: Live, cells: int, colours: Palette) -> Content:
    """One line for the run at work."""
    left: Line = (
        (f" {fit(one_line(live.name, 60), 16)}  ", style(colours.text, bold=True)),
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
            problem, todo = item.problem, "enter starts a new run"
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
            problem, todo = item.problem, "enter opens it" if item.state == "finished" else "enter resumes it"
        case Live():
            title, told = item.title, ""
            rows = [("run", item.name), ("state", "at work"), ("step", f"{item.step} of {item.steps}")]
            problem, todo = None, "enter returns to it"
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
        lines.append(((f" {todo}", style(colours.accent)),))
    return lines
