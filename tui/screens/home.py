"""Where one begins: what there is to train, and what was begun before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from engine.config import ConfigError
from engine.store import StoreError
from presets import PresetError
from tui.actions import bindings
from tui.found import Found, configuration_of
from tui.interface import PresetInfo, RunInfo, Sources
from tui.listing import MARK, Live, brief, describe, live_entry, name_cells, opens, run_entry
from tui.screens import marking, removal
from tui.screens.lists import of, passes, preset_options, refill
from tui.text import one_line, wrap
from tui.theme import Palette, palette, style
from tui.widgets.divider import Divider
from tui.widgets.entries import Entries
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import Line, OneLine, Painted, spread
from tui.widgets.pane import Pane
from tui.widgets.stack import Stack

WIDE = 110
"""A terminal at least so wide shows details beside the lists."""

HIGH = 20
"""One at least so high has lines for some of them below, where it isn't wide."""

RUNS, SHARE = 5, 0.4
"""Lines that the runs take at least, and the share of the screen that they take at most."""


class HomeScreen(Screen[None]):
    """Two lists and a filter. `Chosen` tells what was picked; the app does the rest."""

    CSS_PATH = "home.tcss"
    AUTO_FOCUS = "#presets"
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
        self.marked: dict[Path, RunInfo] = {}
        """Runs to be compared."""
        self._just_read = True
        """A screen is resumed right after it was mounted, too."""
        self._are_read = False
        self._counted = ""
        self._found = Found()

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="home-header")
        self.filter = Input(placeholder="filter by name, title or model", compact=True, id="filter")
        self.preset_list = Entries(id="presets", markup=False, compact=True)
        self.run_list = Entries(id="runs", markup=False, compact=True)
        self.no_presets = Painted(id="no-presets", focusable=False)
        self.no_runs = Painted(id="no-runs", focusable=False)
        self.details = Painted(id="details", focusable=False)
        self.brief = Painted(id="brief", focusable=False)
        self.preset_pane = Pane(0, "Presets", self.preset_list, self.no_presets, id="preset-pane")
        self.run_pane = Pane(0, "Runs", self.run_list, self.no_runs, id="run-pane")
        self.stack = Stack(self.preset_pane, self.run_pane, id="home-stack")
        yield self.header
        with Horizontal(id="filter-row"):
            yield Static(Content(" / "), id="filter-sign")
            yield self.filter
        with Horizontal(id="home-body"):
            with Vertical(id="lists"):
                yield self.stack
                yield self.brief
            yield Divider("about", right=True)
            yield Pane(0, "About", self.details, id="about")
        self.keys = KeyBar("home")
        yield self.keys

    def on_mount(self) -> None:
        self.presets = self.sources.presets()
        self._read(anew=False)

    def on_screen_resume(self) -> None:
        if not self._just_read:
            self.action_refresh()
        self._just_read = False

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self.query_one(Divider).stand(self.size.width >= WIDE)
        self.set_class(self.size.height < HIGH, "low")
        self.call_after_refresh(self.fill)

    on_divider_moved = on_resize

    # What is shown

    def action_refresh(self) -> None:
        self._read(anew=True)

    @work(exclusive=True, group="lists")
    async def _read(self, *, anew: bool) -> None:
        """All of it off the loop, for a run may be at work; what takes longest comes last."""
        try:
            if anew:
                self.presets = await asyncio.to_thread(self.sources.presets)
            self.runs = await asyncio.to_thread(self.sources.runs)
        except OSError as error:  # a folder that may not be looked into
            self.say(f"{error}", "error")
        if not self._are_read and self.runs and not self.presets:
            self.run_list.focus()
        self._are_read = True
        self.marked = {r.folder: r for r in self.runs if r.folder in self.marked}
        self._show_details()
        drawn = asyncio.Event()
        self.app.call_after_refresh(drawn.set)  # the first frame would share Python with what follows
        await drawn.wait()
        if self.sources.judge is not None:
            await asyncio.to_thread(self._found.judge, self.presets, self.sources.judge)
            self._show_details()
        await asyncio.to_thread(self._found.read_courses, self.runs)
        self._show_details()

    def _show_details(self) -> None:
        """The lists, with what has been found out of files."""
        self.presets, self.runs = self._found.added(self.presets, self.runs)
        self.fill()

    def fill(self) -> None:
        """Shows what passes the filter, keeping the highlighted lines."""
        if not self.is_mounted:
            return
        colours = palette(self.app.theme)
        words = self.filter.value.lower().lstrip("/").split()  # the key that leads here, pressed twice
        presets = [p for p in self.presets if passes(words, p.name, p.title, p.teaches, p.model, p.source)]
        runs = [r for r in self.runs if passes(words, r.name, r.title, r.state)]
        if self.live is not None:
            runs = [r for r in runs if r.name != self.live.name]
        self._shown = {f"preset:{p.name}": p for p in presets}
        self._shown |= {f"run:{r.folder}": r for r in runs}
        # one cell for a scrollbar that may come
        cells = max(self.preset_pane.size.width - 1, 40)
        refill(self.preset_list, preset_options(presets, name_cells(self.presets), cells, colours))
        options = [
            Option(run_entry(r, cells, colours, is_marked=r.folder in self.marked), id=f"run:{r.folder}")
            for r in runs
        ]
        if self.live is not None:
            self._shown["live"] = self.live
            is_marked = self.live.name in {r.name for r in self.marked.values()}
            options.insert(0, Option(live_entry(self.live, cells, colours, is_marked=is_marked), id="live"))
        refill(self.run_list, options, newcomer="live")
        self.stack.want(self.run_pane, max(RUNS, min(len(options) + 1, round(SHARE * self.size.height))))
        self._tell_empty(bool(presets), bool(options), cells, colours)
        if self.focused is None:
            self._to_lists()
        title: Line = ((" selfplay-tui", style(colours.accent, bold=True)),)
        about: Line = (("a language model improves by playing itself ", style(colours.soft)),)
        self.header.show(spread(title, about, self.size.width))
        self.preset_pane.title.show(((of(len(presets), len(self.presets)), style(colours.soft)),))
        self._counted = of(len(options), len(self.runs))
        self._describe()

    def _tell_empty(self, presets: bool, runs: bool, cells: int, colours: Palette) -> None:
        self.preset_list.display, self.no_presets.display = presets, not presets
        self.run_list.display, self.no_runs.display = runs, not runs
        soft = style(colours.soft)
        missing = "No preset passes the filter: esc clears it."
        if not self.presets:
            missing = "No presets were found: is the installation complete? `selfplay-tui doctor` tells."
        none = "Nothing yet. Choose a preset above and press enter: its run is kept here, to resume or to read."
        if self.runs or not self._are_read:
            none = "No run passes the filter." if self.runs else "Reading …"
        self.no_presets.show([((f"  {line}", soft),) for line in wrap(missing, cells - 3)])
        self.no_runs.show([((f"  {line}", soft),) for line in wrap(none, cells - 3)])

    def _title_runs(self, colours: Palette) -> None:
        """How many there are, how many are marked, and how to get to them."""
        marked = f"{MARK} {len(self.marked)} marked · " if self.marked else ""
        way = "" if self.run_list.has_focus or not self.run_list.display else "tab leads here · "
        self.run_pane.title.show(((marked + way + self._counted, style(colours.soft)),))

    def _describe(self) -> None:
        item, colours = self._highlighted(), palette(self.app.theme)
        self.keys.relabel("start", opens(item) if item is not None else "start")
        self._title_runs(colours)
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
        self._to_lists()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and (self.filter.has_focus or self.filter.value):
            self.filter.value = ""
        elif event.key != "down" or not self.filter.has_focus:
            return
        self._to_lists()
        event.stop()

    def _to_lists(self) -> None:
        """From the filter to what it left, or from what it hid."""
        if self.filter.has_focus or self.focused is None:
            shown = [listed for listed in (self.preset_list, self.run_list) if listed.display]
            self.set_focus(shown[0] if shown else None)

    def action_filter(self) -> None:
        self.filter.focus()

    def action_start(self) -> None:
        item = self._highlighted()
        if item is not None:
            self.post_message(self.Chosen(item))

    async def action_edit(self) -> None:
        item = self._highlighted()
        if not isinstance(item, PresetInfo | RunInfo):
            self.say("Choose a preset or a run to edit first.", "error")
            return
        try:
            config = await asyncio.to_thread(configuration_of, item)
        except (PresetError, ConfigError, StoreError) as error:
            self.say(f"{error}", "error")
            return
        from tui.screens.form import FormScreen

        self.app.push_screen(FormScreen(item.name, config, self.sources.judge))

    def action_replay(self) -> None:
        from tui.screens.replay import open_record

        open_record(self.app, self._highlighted())

    def chosen_run(self) -> RunInfo | None:
        """The chosen line's run, be it the one at work."""
        item = self._highlighted()
        if isinstance(item, Live):
            return next((r for r in self.runs if r.name == item.name), None)
        return item if isinstance(item, RunInfo) else None

    def action_mark(self) -> None:
        marking.mark(self)

    def action_compare(self) -> None:
        marking.compare(self)

    async def action_delete(self) -> None:
        item = self._highlighted()
        if isinstance(item, RunInfo):
            await removal.of_run(self, item)
        elif isinstance(item, PresetInfo):
            removal.of_preset(self, item)
        else:
            self.say("It is at work: stop it first.", "error")

    def say(self, text: str, severity: Literal["information", "error"] = "information") -> None:
        self.notify(one_line(text), severity=severity, markup=False)
