"""Where one begins: what there is to train, and what was begun before."""

from __future__ import annotations

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
from tui.listing import (
    Live,
    brief,
    describe,
    group_entry,
    groups,
    live_entry,
    name_cells,
    preset_entry,
    run_entry,
)
from tui.text import wrap
from tui.theme import Palette, palette, style
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import Line, OneLine, Painted, spread
from tui.widgets.pane import Pane

WIDE = 110
"""A terminal at least so wide shows details beside the lists."""

HIGH = 20
"""One at least so high has lines for some of them below, where it isn't wide."""

RUNS, SHARE = 5, 0.4
"""Lines that the runs take at least, and the share of the screen that they take at most."""


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
        self._just_read = True
        """A screen is resumed right after it was mounted, too."""

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="home-header")
        self.filter = Input(placeholder="filter by name, title or model", compact=True, id="filter")
        self.preset_list = OptionList(id="presets", markup=False, compact=True)
        self.run_list = OptionList(id="runs", markup=False, compact=True)
        self.no_presets = Painted(id="no-presets", focusable=False)
        self.no_runs = Painted(id="no-runs", focusable=False)
        self.details = Painted(id="details", focusable=False)
        self.brief = Painted(id="brief", focusable=False)
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
                yield self.brief
            yield Pane(0, "About", self.details, id="about")
        yield KeyBar("home")

    def on_mount(self) -> None:
        self.action_refresh()
        (self.preset_list if self.presets or not self.runs else self.run_list).focus()

    def on_screen_resume(self) -> None:
        if not self._just_read:
            self.action_refresh()
        self._just_read = False

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self.set_class(self.size.height < HIGH, "low")
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
        words = self.filter.value.lower().lstrip("/").split()  # the key that leads here, pressed twice
        presets = [p for p in self.presets if _passes(words, p.name, p.title, p.teaches, p.model, p.source)]
        runs = [r for r in self.runs if _passes(words, r.name, r.title, r.state)]
        if self.live is not None:
            runs = [r for r in runs if r.name != self.live.name]
        self._shown = {f"preset:{p.name}": p for p in presets}
        self._shown |= {f"run:{r.folder}": r for r in runs}
        # one cell for a scrollbar that may come
        cells = max(self.preset_pane.size.width - 1, 40)
        _refill(self.preset_list, self._preset_options(presets, cells, colours))
        options = [Option(run_entry(r, cells, colours), id=f"run:{r.folder}") for r in runs]
        if self.live is not None:
            self._shown["live"] = self.live
            options.insert(0, Option(live_entry(self.live, cells, colours), id="live"))
        _refill(self.run_list, options)
        self.run_pane.styles.height = max(RUNS, min(len(options) + 1, round(SHARE * self.size.height)))
        self._tell_empty(bool(presets), bool(options), cells, colours)
        title: Line = ((" selfplay-tui", style(colours.accent, bold=True)),)
        about: Line = (("a language model improves by playing itself ", style(colours.soft)),)
        self.header.show(spread(title, about, self.size.width))
        self.preset_pane.title.show(((_of(len(presets), len(self.presets)), style(colours.soft)),))
        self.run_pane.title.show(((_of(len(options), len(self.runs)), style(colours.soft)),))
        self._describe()

    def _preset_options(self, presets: list[PresetInfo], cells: int, colours: Palette) -> list[Option]:
        names = name_cells(self.presets)
        options: list[Option] = []
        for group, members in groups(presets).items():
            options.append(Option(group_entry(group, cells, colours), disabled=True))
            options += [Option(preset_entry(p, names, cells, colours), id=f"preset:{p.name}") for p in members]
        return options

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
        item, colours = self._highlighted(), palette(self.app.theme)
        if self.has_class("wide"):
            self.details.show(describe(item, self.details.cells, colours) if item is not None else [])
        else:
            self.brief.show(brief(item, self.brief.cells, colours) if item is not None else [])

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
    ids = [option.id for option in new if not option.disabled]
    if ids:
        wanted = held.id if held is not None and held.id in ids else ids[0]
        options.highlighted = [option.id for option in new].index(wanted)
