"""One episode, read in full: who said what, streaming, how sure it was, and what it was worth."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from tui.state import Store
from tui.text import wrap
from tui.theme import style
from tui.transcript.columns import BESIDE, RULE, Spot, bands, beside, columns
from tui.transcript.heat import MODES, legend
from tui.transcript.turns import heading, outcome, turn_lines
from tui.views import EpisodeView, TurnView, recorded
from tui.widgets.heated import Heated
from tui.widgets.painted import BLANK, Line, Painted, cut, strip

if TYPE_CHECKING:
    from engine.reading.tracing import Trace

LATEST = 200
"""Turns shown; the first ones of a longer episode are left out, and said to be."""

LookUp: TypeAlias = "Callable[[str], Awaitable[Trace | None]]"


class Transcript(Painted):
    """The focused episode. Follows its end while the reader is there, and never pulls back one who scrolled up.

    A cursor is on one of its turns, always one in sight. `trace` looks up an episode that memory has not.
    """

    DEFAULT_CSS = """
    Transcript { overflow-y: scroll; }  /* a bar that comes and goes with each episode lays the screen out anew */
    """

    class Opened(Message):
        """The turn under the cursor was clicked a second time."""

    class ScrolledUp(Message):
        """The reader left the end."""

    def __init__(self, store: Store, *, trace: LookUp | None = None, id: str | None = None) -> None:
        super().__init__(id=id)
        self.store = store
        self.rollout_id = ""
        self.nothing = "No episode is in play yet."
        self.heated = Heated(store.decode)
        self._trace = trace
        self._episode: EpisodeView | None = None
        self._shown: tuple[object, ...] = ()
        self._blocks: dict[int, tuple[tuple[object, ...], list[Line]]] = {}
        self._bands: dict[int, tuple[list[list[Line]], list[Line]]] = {}
        self._spots: list[Spot] = []
        self._cursor: int | None = None
        """The index of a turn; None for the last one, whichever that is."""
        self._sticks = True
        self._looked_up = ""

    # What is read

    @property
    def episode(self) -> EpisodeView | None:
        """What is being read: held on to, so that it stays though the store forgets it."""
        self._episode = self.store.episodes.get(self.rollout_id, self._episode)
        return self._episode

    @property
    def turn(self) -> TurnView | None:
        """The turn under the cursor."""
        turns = self.episode.turns if self.episode is not None else []
        return next((turn for turn in turns if turn.index == self._cursor), turns[-1] if turns else None)

    def focus_on(self, rollout_id: str, turn: int | None = None) -> None:
        """Reads an episode, from its end or from a turn of it."""
        if rollout_id != self.rollout_id:
            self._begin(rollout_id)
        if turn is not None:
            self.go_to(turn)

    def read(self, rollout_id: str, turn: int | None = None) -> None:
        """Reads an episode, also another one of the same id, from its beginning or from a turn of it."""
        self._begin(rollout_id, 0)
        if turn is not None:
            self.go_to(turn)

    def _begin(self, rollout_id: str, cursor: int | None = None) -> None:
        self.rollout_id, self._episode, self._spots = rollout_id, None, []
        for known in (self.heated, self._blocks, self._bands):
            known.clear()
        self._cursor, self._sticks, self._looked_up, self._shown = cursor, cursor is None, "", ()
        if cursor is not None:
            self.scroll_to(y=0, animate=False, immediate=True)
        self.update()

    def follow_end(self) -> None:
        self._sticks, self._cursor = True, None
        self.scroll_to(y=self.max_scroll_y, animate=False)

    def go_to(self, turn: int) -> None:
        """Puts the cursor on a turn, and the turn in sight."""
        episode = self.episode
        if episode is None or not episode.turns:
            return
        if turn == episode.turns[-1].index:
            self.follow_end()
        else:
            if self._sticks and self.is_mounted:
                self.post_message(self.ScrolledUp())
            self._cursor, self._sticks = turn, False
        self.update()
        spot = next((spot for spot in self._spots if spot.turn == self._cursor), None)
        if spot is not None:
            top, high = self.scroll_offset.y, max(self.size.height, 1)
            if spot.top < top or spot.end > top + high:
                y = spot.top if spot.top < top else min(spot.top, spot.end - high)
                self.scroll_to(y=y, animate=False, immediate=True)

    def move(self, by: int) -> None:
        """Moves the cursor by turns."""
        turn, episode = self.turn, self.episode
        if turn is not None and episode is not None:
            indices = [other.index for other in episode.turns[-LATEST:]]
            at = indices.index(turn.index) if turn.index in indices else 0
            self.go_to(indices[min(max(at + by, 0), len(indices) - 1)])

    def next_heat(self) -> str:
        """Goes on to the next of `MODES`."""
        self.heated.mode = MODES[(MODES.index(self.heated.mode) + 1) % len(MODES)]
        self.update()
        self.refresh()
        return self.heated.mode

    def spell_anew(self) -> None:
        """Tokens that had no text have one now."""
        for known in (self.heated, self._blocks, self._bands):
            known.clear()
        self.update()

    # Painting

    def update(self) -> None:
        """Repaints what changed since the last time."""
        episode = self.episode
        if episode is None:
            self._look_up()
        elif self.heated.mode:
            if self.heated.lacks(episode):
                self._look_up()
            self.heated.go_on(episode, self._in_sight())
        key = (
            self.rollout_id,
            -1 if episode is None else episode.revision,
            episode is not None and episode.live,
            self.cells,
            self.app.theme,
            self._cursor,
            self.heated.mode,
            self.heated.revision,
        )
        if key == self._shown:
            return
        self._shown = key
        if self.heated.mode:
            self.refresh_line(self.scroll_offset.y + self.size.height - 1)  # the legend
        held = None if self._sticks else self._at_top()
        self.show(self._lines(episode))
        if self._sticks:
            self.scroll_to(y=self.max_scroll_y, animate=False)
        elif held is not None:
            self._hold(*held)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and new_value < self.max_scroll_y:
            if self._sticks and self.is_mounted:
                self.post_message(self.ScrolledUp())
            self._sticks = False
        elif new_value >= self.max_scroll_y:
            self._sticks = True
        self._keep_cursor_in_sight()

    def on_click(self, event: events.Click) -> None:
        x, y = event.x, event.y + self.scroll_offset.y
        for spot in self._spots:
            if spot.top <= y < spot.end and spot.left <= x < spot.right:
                self.go_to(spot.turn)
                if event.chain > 1:
                    self.post_message(self.Opened())

    def render_line(self, y: int) -> Strip:
        if self.heated.mode and y == self.size.height - 1:
            line = cut(legend(self.heated.mode, self.colours, self.heated.lacking(self.turn)), self.cells)
            return strip(line, self.across, self.ground + Style(bgcolor=self.colours.panel))
        return super().render_line(y)

    def _lines(self, episode: EpisodeView | None) -> list[Line]:
        self._spots = []
        if episode is None:
            return self._nothing()
        colours, turns, chosen = self.colours, episode.turns[-LATEST:], self.turn
        lines = heading(episode, self.store, colours)
        if len(episode.turns) > LATEST:
            lines.append(((f"  … {len(episode.turns) - LATEST:,} turns before these", style(colours.faint)),))
        met = {turn.role for turn in episode.turns[: -len(turns) or None]} if len(episode.turns) > LATEST else set()
        sides = columns(episode) if self.cells >= BESIDE else {}
        broad = (self.cells - len(RULE)) // 2 if sides else self.cells
        for band in bands(turns, sides):
            blocks = []
            for turn in band:
                blocks.append(self._block(turn, episode, broad, turn.role not in met, turn is chosen))
                met.add(turn.role)
                left = sides.get(turn.role, 0) * (broad + len(RULE))
                top = len(lines)
                self._spots.append(Spot(turn.index, top, top + len(blocks[-1]), left, left + broad))
            lines += self._beside(band, blocks, sides, broad) if sides else blocks[0]
        lines += outcome(episode, self.store, self.cells, colours)
        return [*lines, BLANK] if self.heated.mode else lines  # the legend stands on the last one

    def _block(self, turn: TurnView, episode: EpisodeView, cells: int, first: bool, chosen: bool) -> list[Line]:
        colours = self.colours
        edit = episode.edits.get(turn.role)
        key = (turn.revision, cells, colours.name, first, chosen, edit, self.heated.key(turn))
        known = self._blocks.get(turn.index)
        if known is None or known[0] != key:
            lines = turn_lines(
                turn,
                self.store,
                cells,
                colours,
                first,
                edits=episode.edits,
                chosen=chosen,
                reply=self.heated.reply(turn, cells - 5, colours),
            )
            known = self._blocks[turn.index] = (key, lines)
        return known[1]

    def _beside(
        self, band: list[TurnView], blocks: list[list[Line]], sides: dict[str, int], broad: int
    ) -> list[Line]:
        known = self._bands.get(band[0].index)
        if (
            known is None
            or len(known[0]) != len(blocks)
            or any(a is not b for a, b in zip(known[0], blocks, strict=True))
        ):
            lines = beside(band, blocks, sides, broad, style(self.colours.rule))
            known = self._bands[band[0].index] = (blocks, lines)
        return known[1]

    def _nothing(self) -> list[Line]:
        words = "Looking it up in the record …" if self.rollout_id else self.nothing
        return [BLANK, *(((f"  {line}", style(self.colours.soft)),) for line in wrap(words, self.cells - 4))]

    # Keeping still

    def _in_sight(self) -> set[int]:
        top, end = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        return {spot.turn for spot in self._spots if spot.top < end and spot.end > top}

    def _at_top(self) -> tuple[int, int] | None:
        """The first turn in sight, and how far above it the view begins."""
        top = self.scroll_offset.y
        spot = next((spot for spot in self._spots if spot.end > top), None)
        return (spot.turn, top - spot.top) if spot is not None else None

    def _hold(self, turn: int, above: int) -> None:
        """Keeps what is read where it is, whatever changed before it: a width, turns left out."""
        spot = next((spot for spot in self._spots if spot.turn == turn), None)
        if spot is not None:
            y = min(spot.top + min(above, spot.end - spot.top - 1), self.max_scroll_y)
            if y != self.scroll_offset.y:
                self.scroll_to(y=y, animate=False)

    def _keep_cursor_in_sight(self) -> None:
        turn, seen = self.turn, self._in_sight()
        if turn is None or turn.index in seen or not seen:
            return
        nearest = min(seen, key=lambda index: abs(index - turn.index))
        assert self.episode is not None
        self._cursor = nearest if nearest != self.episode.turns[-1].index else None
        self.update()

    # What memory has not

    def _look_up(self) -> None:
        if self._trace is not None and self.rollout_id and self._looked_up != self.rollout_id:
            self._looked_up = self.rollout_id
            self.run_worker(self._read(self._trace, self.rollout_id), group="trace", exclusive=True)

    async def _read(self, trace: LookUp, rollout_id: str) -> None:
        found = await trace(rollout_id)
        if found is not None and rollout_id == self.rollout_id:
            self._episode = self._episode or recorded(found.episode)
            self.heated.take(found.episode.rollout.turns)
            self.update()
