"""Replay: what keys and mouse do with a run's record."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual import events
from textual.app import App
from textual.timer import Timer

from engine.reading import tracing
from engine.reading.query import parse
from engine.reading.tracing import Trace
from tui import clipboard
from tui.actions import bindings
from tui.interface import PresetInfo, RunInfo
from tui.listing import Live
from tui.replay.pins import PinError
from tui.screens.record import RecordScreen
from tui.screens.recordpanes import READ
from tui.screens.search import Searched, SearchScreen
from tui.screens.texts import AskName
from tui.screens.why import Place, WhyScreen
from tui.text import one_line
from tui.transcript.turns import plain
from tui.widgets.board import Board
from tui.widgets.chart import Chart
from tui.widgets.panetabs import PaneTabs
from tui.widgets.picklist import PickList
from tui.widgets.scrubber import Scrubber

LEAP, SHARE = 10, 50
"""Steps of a leap; in a long run a `SHARE`th of it."""

LONGEST = 500
"""Characters of a note."""

PACE = 0.4
"""Seconds that a step is shown when the run is played on."""


class ReplayScreen(RecordScreen):
    """A finished or running run, to be read."""

    BINDINGS = bindings("replay")

    def __init__(self, folder: Path, cache: Path | None = None, home: Path | None = None) -> None:
        super().__init__(folder, cache, home)
        self.searched = Searched()
        self._playing: Timer | None = None

    # Steps

    def action_move(self, by: int) -> None:
        if self.facts is not None:
            self.go_to(self.facts.moved(self.step, by))

    def action_leap(self, direction: int) -> None:
        if self.facts is not None:
            self.action_move(direction * max(LEAP, len(self.facts.steps) // SHARE))

    def action_end(self, direction: int) -> None:
        if self.facts is not None:
            self.action_move(direction * len(self.facts.steps))

    def action_stop(self, direction: int) -> None:
        if self.facts is not None:
            self.go_to(self.facts.next_stop(self.step, direction > 0))

    def action_play(self) -> None:
        """Shows one step after the other, until the end or until asked again."""
        if self._playing is not None:
            self._rest()
        elif self.facts is not None:
            if self.step == self.facts.last:
                self.action_end(-1)
            self._playing = self.set_interval(PACE, self._play_on)
            self.keys.relabel("play", "rest")

    def _play_on(self) -> None:
        self.action_move(1)
        if self.facts is None or self.step == self.facts.last:
            self._rest()

    def _rest(self) -> None:
        if self._playing is not None:
            self._playing.stop()
            self._playing = None
        self.keys.relabel("play", "play")

    def on_scrubber_moved(self, message: Scrubber.Moved) -> None:
        if self.facts is not None and self.facts.nearest(message.step) != self.step:
            self.go_to(message.step)

    def on_scrubber_turned(self, message: Scrubber.Turned) -> None:
        self.action_move(message.by)

    def on_chart_clicked(self, message: Chart.Clicked) -> None:
        if message.step is not None:
            self.go_to(message.step)

    # Episodes

    async def on_pick_list_picked(self, message: PickList.Picked) -> None:
        if message.picklist is self.page:
            self.by_hit("", None)
            self.run_worker(self._read_episode(), group="page", exclusive=True, exit_on_error=False)
            if message.opened:
                self.action_pane(READ)
        elif message.opened:
            entry = self.entries[message.place]
            self.go_to(entry.step, entry.rollout_id)
            if entry.rollout_id:
                self.action_pane(READ)

    def action_pin(self) -> None:
        meant = self._meant()
        if meant is None:
            self._say("There is no episode here to pin.", "warning")
            return
        pins, (rollout_id, step) = self.reading.pins, meant
        note = pin.note if (pin := pins.of(rollout_id, step)) is not None else ""
        try:
            marked = pins.toggle(rollout_id, step)
        except PinError as error:
            self._say(f"{error}", "error")
            return
        name = one_line(rollout_id, 30)
        if marked:
            self._say(f"Pinned {name}: it now stands first in the list. Press e to write a note to it.")
        else:
            self._say(f"{name} is unpinned." + (" The same key brings it back, with its note." if note else ""))
        self._draw_pins()

    def action_note(self) -> None:
        """A note to an episode, which pins it."""
        meant = self._meant()
        if meant is None:
            self._say("There is no episode here to write a note to.", "warning")
            return
        rollout_id, step = meant
        pin = self.reading.pins.of(rollout_id, step)

        def written(note: str | None) -> None:
            if note is None or (pin is None and not note):
                return
            try:
                self.reading.pins.annotate(rollout_id, step, note)
            except PinError as error:
                self._say(f"{error}", "error")
            self._draw_pins()

        title = f"Note to {one_line(rollout_id, 30)} of step {step}"
        words = "It is kept beside the run, pins the episode, and is found by search."
        self.app.push_screen(AskName(title, words, pin.note if pin is not None else "", LONGEST), written)

    def _meant(self) -> tuple[str, int] | None:
        """The episode marked in the feed while one is there, else the one at the cursor of the list, which may not
        be read yet; and its step. None while the list is still that of another step."""
        if self.feed.has_focus and self.feed.place < len(self.entries):
            entry = self.entries[self.feed.place]
            return (entry.rollout_id, entry.step) if entry.rollout_id else None
        meant = self.outlines[self.page.place] if self.page.place < len(self.outlines) else None
        return (meant.id, self.step) if meant is not None and meant.episode.step == self.step else None

    def action_heat(self) -> None:
        self.heat()

    def action_turn(self, by: int) -> None:
        self.transcript.move(by)

    def on_transcript_opened(self) -> None:
        self.action_why()

    def action_why(self) -> None:
        """From the record, whatever the run has gone on to do."""
        shown, turn = self.transcript.episode, self.transcript.turn
        if shown is None or turn is None:
            self._say("There is no turn here to explain.")
            return
        folder = self.reading.folder

        async def look_up(rollout_id: str) -> Trace | None:
            return await asyncio.to_thread(tracing.read, folder, rollout_id)

        def chosen(place: Place | None) -> None:
            if place is not None:
                self.go_to(self.step, place.rollout_id, -1 if place.turn is None else place.turn)

        self.app.push_screen(WhyScreen(Place(shown.id, turn.index), look_up), chosen)

    def action_copy(self) -> None:
        if self.transcript.episode is None:
            self._say("There is no transcript to copy.", "warning")
        else:
            self.run_worker(self._copy(), group="copy", exit_on_error=False)

    async def _copy(self) -> None:
        shown = self.transcript.episode
        assert shown is not None
        by = await clipboard.copy(plain(shown, self._state), self.app.copy_to_clipboard)
        self._say(f"Transcript of {one_line(shown.id, 30)} copied by {by}.")

    # Search

    def action_search(self) -> None:
        self._rest()
        self.app.push_screen(SearchScreen(self.reading, self.searched, self._state), self._found)

    def action_hit(self, by: int) -> None:
        """The next turn that was found, or the one before."""
        hits = self.searched.found.hits
        if not hits:
            self._say("Nothing was searched for yet: press / first.")
            return
        place = self.searched.place + by
        if 0 <= place < len(hits):
            self.searched.place = place
            self._found(self.searched)
        else:
            self._say("That is the last one: / finds more." if by > 0 else "That is the first one that was found.")

    def _found(self, searched: Searched | None) -> None:
        if searched is None or not searched.found.hits:
            return
        self.searched = searched
        hit = searched.found.hits[searched.place]
        self.go_to(hit.step, hit.rollout_id, hit.turn)
        way = f"hit {searched.place + 1:,} of {len(searched.found.hits):,}"
        self.by_hit(way, parse(searched.text).pattern())
        self.action_pane(READ)

    # Panes

    def action_pane(self, number: int) -> None:
        self.board.go(number)

    def action_maximise(self) -> None:
        if not self.board.maximise():
            self._say("One pane is shown at a time in a terminal this small.")

    def action_back(self) -> None:
        if not self.board.restore():
            self._rest()
            self.app.pop_screen()

    def on_board_arranged(self, message: Board.Arranged) -> None:
        self.call_after_refresh(self._redraw)

    def on_pane_tabs_wanted(self, message: PaneTabs.Wanted) -> None:
        self.action_pane(message.number)

    def on_resize(self, event: events.Resize) -> None:
        self.board.lay_out()
        self.call_after_refresh(self._redraw)


def open_record(app: App[None], item: PresetInfo | RunInfo | Live | None) -> None:
    """Shows the record of what is chosen on Home, or says why there is none."""
    if isinstance(item, RunInfo):
        app.push_screen(ReplayScreen(item.folder))
    elif isinstance(item, Live):
        app.push_screen(ReplayScreen(getattr(app, "session").run.folder))  # noqa: B009
    else:
        app.notify("Only runs have a record to read: choose one in the list of runs.", markup=False)
