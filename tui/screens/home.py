"""Where one begins: what there is to train, and what was begun before."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.actions import bindings
from tui.interface import PresetInfo, RunInfo, Sources
from tui.text import fit, one_line, width, wrap
from tui.theme import Palette, palette, style
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import BLANK, Line, OneLine, Painted, spread
from tui.widgets.pane import Pane
from tui.words import label, number

WIDE = 110
"""A terminal at least so wide shows details beside the lists."""


@dataclass(frozen=True, slots=True)
class Live:
    """The run at work, if there is one."""

    name: str
    title: str
    step: int
    steps: int


class HomeScreen(Screen[None]):
    """Two lists and a filter. `Chosen` tells what was picked; the app does the rest."""

    CSS_PATH = "home.tcss"
    BINDINGS = bindings("home")

    class Chosen(Message):
        """A preset to start, or a run to resume or open."""

        def __init__(self, item: PresetInfo | RunInfo | Live) -> None:
            super().__init__()
            self.item = item

    def __init__(self, sources: Sources) -> None:
        super().__init__()
        self.sources = sources
        self.live: Live | None = None
        self.presets: list[PresetInfo] = []
        self.runs: list[RunInfo] = []
        self._shown: dict[str, PresetInfo | RunInfo | Live] = {}

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="home-header")
        self.filter = Input(placeholder="filter by name, title or model", compact=True, id="filter")
        self.preset_list = OptionList(id="presets", markup=False, compact=True)
        self.run_list = OptionList(id="runs", markup=False, compact=True)
        self.no_presets = Painted(id="no-presets", focusable=False)
        self.no_runs = Painted(id="no-runs", focusable=False)
        self.details = Painted(id="details", focusable=False)
        self.preset_pane = Pane(0, "Presets", self.preset_list, self.no_presets, id="preset-pane")
        self.run_pane = Pane(0, "Runs", self.run_list, self.no_runs, id="run-pane")
        yield self.header
        with Horizontal(id="filter-row"):
            yield Static(Content(" / "), id="filter-sign")
            yield self.filter
        with Horizontal(id="home-body"):
            with Vertical(id="lists"):
                yield self.preset_pane
                yield self.run_pane
            yield Pane(0, "About", self.details, id="about")
        yield KeyBar("home")

    def on_mount(self) -> None:
        self.action_refresh()
        (self.preset_list if self.presets or not self.runs else self.run_list).focus()

    def on_screen_resume(self) -> None:
        self.action_refresh()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self.call_after_refresh(self.fill)

    # What is shown

    def action_refresh(self) -> None:
        """Reads both lists again."""
        self.presets = self.sources.presets()
        self.runs = self.sources.runs()
        self.fill()

    def fill(self) -> None:
        """Shows what passes the filter, keeping the highlighted lines."""
        if not self.is_mounted:
            return
        colours = palette(self.app.theme)
        words = self.filter.value.lower().split()
        presets = [p for p in self.presets if _passes(words, p.name, p.title, p.teaches, p.model, p.source)]
        runs = [r for r in self.runs if _passes(words, r.name, r.title, r.state)]
        if self.live is not None:
            runs = [r for r in runs if r.name != self.live.name]
        self._shown = {f"preset:{p.name}": p for p in presets}
        self._shown |= {f"run:{r.folder}": r for r in runs}
        # one cell for a scrollbar that may come
        cells = max(self.preset_pane.size.width - 1, 40)
        _refill(self.preset_list, [Option(_preset(p, cells, colours), id=f"preset:{p.name}") for p in presets])
        options = [Option(_run(r, cells, colours), id=f"run:{r.folder}") for r in runs]
        if self.live is not None:
            self._shown["live"] = self.live
            options.insert(0, Option(_live(self.live, cells, colours), id="live"))
        _refill(self.run_list, options)
        self._tell_empty(bool(presets), bool(options), cells, colours)
        title: Line = ((" selfplay-tui", style(colours.accent, bold=True)),)
        about: Line = (("a language model improves by playing itself ", style(colours.soft)),)
        self.header.show(spread(title, about, self.size.width))
        self.preset_pane.title.show(((_of(len(presets), len(self.presets)), style(colours.soft)),))
        self.run_pane.title.show(((_of(len(options), len(self.runs)), style(colours.soft)),))
        self._describe()

    def _tell_empty(self, presets: bool, runs: bool, cells: int, colours: Palette) -> None:
        self.preset_list.display, self.no_presets.display = presets, not presets
        self.run_list.display, self.no_runs.display = runs, not runs
        soft = style(colours.soft)
        missing = "No preset passes the filter: clear it with / and backspace."
        if not self.presets:
            missing = "No presets were found: is the installation complete? `selfplay-tui doctor` tells."
        none = "Nothing yet. Choose a preset above and press enter: its run is kept here, to resume or to read."
        if self.runs:
            none = "No run passes the filter."
        self.no_presets.show([((f"  {line}", soft),) for line in wrap(missing, cells - 3)])
        self.no_runs.show([((f"  {line}", soft),) for line in wrap(none, cells - 3)])

    def _describe(self) -> None:
        if self.has_class("wide"):
            item = self._highlighted()
            colours = palette(self.app.theme)
            self.details.show(describe(item, self.details.cells, colours) if item is not None else [])

    def _highlighted(self) -> PresetInfo | RunInfo | Live | None:
        focused = self.run_list if self.run_list.has_focus else self.preset_list
        for chosen in (focused, self.preset_list, self.run_list):
            option = chosen.highlighted_option
            if option is not None and option.id in self._shown:
                return self._shown[option.id]
        return None

    # What is done

    def on_option_list_option_highlighted(self) -> None:
        self._describe()

    def on_descendant_focus(self) -> None:
        self._describe()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_id in self._shown:
            self.post_message(self.Chosen(self._shown[event.option_id]))

    def on_input_changed(self) -> None:
        self.fill()

    def on_input_submitted(self) -> None:
        self.action_start()

    def on_key(self, event: events.Key) -> None:
        if self.filter.has_focus and event.key in ("down", "escape"):
            if event.key == "escape":
                self.filter.value = ""
            (self.preset_list if self.preset_list.display else self.run_list).focus()
            event.stop()

    def action_filter(self) -> None:
        self.filter.focus()

    def action_start(self) -> None:
        item = self._highlighted()
        if item is not None:
            self.post_message(self.Chosen(item))


def _passes(words: list[str], *texts: str) -> bool:
    whole = " ".join(texts).lower()
    return all(word in whole for word in words)


def _of(shown: int, whole: int) -> str:
    return str(whole) if shown >= whole else f"{shown} of {whole}"


def _refill(options: OptionList, new: list[Option]) -> None:
    """Replaces the options, keeping the highlight on the one that had it."""
    held = options.highlighted_option
    options.clear_options()
    options.add_options(new)
    if new:
        ids = [option.id for option in new]
        options.highlighted = ids.index(held.id) if held is not None and held.id in ids else 0


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


def _preset(preset: PresetInfo, cells: int, colours: Palette) -> Content:
    soft = style(colours.soft)
    name = one_line(preset.name, 60)
    left: Line = (
        (f" {fit(name, max(16, width(name)))}  ", style(colours.text, bold=True)),
        (one_line(preset.model, 60), soft),
    )
    tail = " · ".join(text for text in (one_line(preset.memory, 40), one_line(preset.source, 20)) if text)
    first = spread(left, ((tail + " ", soft),), cells)
    if preset.problem:
        return _content([first, ((" ! " + fit(one_line(preset.problem), cells - 4), style(colours.watch)),)])
    told = one_line(preset.teaches or preset.title)
    return _content([first, (("   " + fit(told, cells - 4), soft),)])


def _run(run: RunInfo, cells: int, colours: Palette) -> Content:
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


def _live(live: Live, cells: int, colours: Palette) -> Content:
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
