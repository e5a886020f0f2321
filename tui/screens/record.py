"""A run's record at one of its steps, read in threads; what keys do with it is `tui.screens.replay`'s."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from engine.types import EngineError
from tui.metrics.charts import charts
from tui.replay.pins import PinError
from tui.replay.reading import SLICE
from tui.replay.record import Facts, read_into, view
from tui.screens.recordpanes import PAGE, QUIET, RecordPanes
from tui.text import one_line

LOOK = 2.0
"""Seconds between two looks at whether the run has gone on."""

GLOW = 0.05
"""Seconds between two stretches of tokens that are spelt for their heat."""


class RecordScreen(RecordPanes):
    """Reads the run, which it never changes."""

    def on_mount(self) -> None:
        self.board.go(PAGE)
        self._tell("Reading the record …")
        self.run_worker(self._open(), group="open", exit_on_error=False)
        self.set_interval(LOOK, self._look_again)
        self._glowing = self.set_interval(GLOW, self.transcript.update, pause=True)
        self.app.theme_changed_signal.subscribe(self, lambda _: self.call_after_refresh(self._redraw))

    def on_unmount(self) -> None:
        self.reading.close()

    # Reading

    async def _open(self) -> None:
        try:
            self.reading.pins.load()
        except PinError as error:
            self._say(f"{error}", "warning")
        try:
            self._take(await self.reading.facts())
        except EngineError as error:
            self._tell(f"{error}", bad=True)
            self._say(f"{error}", "error")
            return
        self.go_to(self.facts.last if self.facts else 0)

    def _take(self, facts: Facts) -> None:
        self.facts = facts
        self._charts = charts(facts.state)
        self._state.roles = facts.state.roles  # a role keeps its sign and colour
        self.run_worker(self._look_through(facts), group="look", exclusive=True, exit_on_error=False)
        self._draw_soon()

    async def _look_through(self, facts: Facts) -> None:
        """Ratings, then the feed."""

        async def look() -> int:
            self._highlights, self.left = await self.reading.look_on(facts)
            self._draw_feed()
            return self.left

        self.left = len(facts.marks)
        await asyncio.sleep(QUIET)
        await self._all_of(lambda: self.reading.rate_on(facts))
        await self._rate()
        await self._all_of(look)
        self.left = 0
        self._draw_feed()

    async def _all_of(self, read: Callable[[], Awaitable[int]]) -> None:
        """Has all of the record read, a slice at a time, half of the time: a run may be at work beside it.

        `read` says how much is left. One damaged step is passed over.
        """
        left, failed = 1, False
        while left:
            try:
                left, failed = await read(), False
            except EngineError as error:
                if failed:
                    return
                failed = True
                self._say(f"{error}", "error")
            await asyncio.sleep(SLICE if left else 0)

    async def _rate(self) -> None:
        """The figures of the step, with the ratings as they were."""
        try:
            self._ratings = await self.reading.ratings(self.step)
        except EngineError as error:
            self._say(f"{error}", "error")
        self._draw_figures()

    async def _look_again(self) -> None:
        facts = self.facts
        if facts is None or not self.is_current:
            return
        try:
            if not await self.reading.grown(facts):
                return
            new = await self.reading.facts()
            follows = self.follows
            self._take(new)
        except EngineError as error:
            self._say(f"{error}", "error")
            return
        assert self.facts is not None
        if follows or self.step > self.facts.last:
            self.go_to(self.facts.last)
        else:
            self._draw_position()

    def go_to(self, step: float, rollout_id: str = "", turn: int = -1) -> None:
        """Shows a step, and an episode of it, from the turn that is given on."""
        if self.facts is None:
            return
        if not self.facts.steps:
            self._tell("No step is recorded yet. The first one is shown as soon as there is one.")
            return
        self.step = self.facts.nearest(step)
        self.by_hit("", None)
        self._draw_position()
        work = self._read_page(self.step, rollout_id, turn)
        self.run_worker(work, group="page", exclusive=True, exit_on_error=False)
        self._draw_soon()

    async def _read_page(self, step: int, wanted: str, turn: int) -> None:
        try:
            self.outlines = await self.reading.page(step)
        except EngineError as error:
            self._say(f"{error}", "error")
            return
        self.episodes = [view(outline) for outline in self.outlines]
        place = next((at for at, outline in enumerate(self.outlines) if outline.id == wanted), None)
        if wanted and place is None:
            self._say(f"Episode {one_line(wanted, 40)} is no longer in step {step}: the run went back since.")
        self.page.nothing = self._lines("No episode is recorded of this step.", self.page.cells)
        self.page.show(len(self.episodes), self._paint_episode, place or 0)
        await self._frame()
        await self._read_episode(turn)
        await self._frame()
        await self._rate()

    async def _read_episode(self, turn: int = -1) -> None:
        self._state.episodes.clear()
        shown = ""
        if self.outlines:
            outline = self.outlines[self.page.place]
            try:
                result = await self.reading.episode(outline)
            except EngineError as error:
                self._say(f"{error}", "error")
                return
            shown = read_into(self._state, result, outline.episode.parent).id
        self.transcript.read(shown, None if turn < 0 else turn)
        self._draw_gists()

    # Heat

    def heat(self) -> None:
        """Goes on to the next kind of heat; the first time the tokens' texts have to be found out."""
        if not self.transcript.next_heat():
            self._glowing.pause()
            return
        self._glowing.resume()
        if not self.reading.spells and self.facts is not None:
            work = self._learn_to_spell(self.facts.model)
            self.run_worker(work, group="spell", exclusive=True, exit_on_error=False)

    async def _learn_to_spell(self, model: str) -> None:
        try:
            await self.reading.learn_to_spell(model)
        except EngineError as error:
            self._say(f"{error}", "error")
        self.transcript.spell_anew()
