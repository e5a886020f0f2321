"""What of the run screen is drawn in which frame."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.events import RunState
from tui import commands, readouts
from tui.health import findings
from tui.screens import following
from tui.text import one_line
from tui.theme import palette, style
from tui.widgets.painted import Line, Painted, spread

if TYPE_CHECKING:
    from tui.drawing.model import ChartModel
    from tui.screens.run import RunScreen
    from tui.state import Store

NAMED = 17
"""Cells that the name of the episodes' pane takes, and the rule around it."""

SHARE = 0.3
"""Of the screen's height, that rewards and health may take each beside the plots."""

LISTS_EVERY = 0.2
"""Seconds between two times that all but wall, transcript and plots is drawn, at least."""

PLOTS_EVERY = 0.5

RESUMED = (RunState.PAUSED, RunState.STOPPED, RunState.FAILED)
"""States out of which space goes on."""


class Frames:
    """Draws a `RunScreen`, a little each time."""

    def __init__(self, screen: RunScreen, clock: Callable[[], float] = time.monotonic) -> None:
        self._screen, self._clock = screen, clock
        self._frame = 0
        self._listed = self._plotted_at = -math.inf
        self._plotted: tuple[object, ...] = ()

    async def draw(self, everything: bool = False) -> None:
        """One frame, of what is due; nothing that is hidden.

        The wall is the dearest, and comes with every second frame: what else there is to draw waits for one without
        it, so that no frame is long enough to keep a key waiting.
        """
        screen = self._screen
        if not screen.is_mounted or not screen.is_current:
            return
        self._frame += 1
        wall = self._seen(1) and (everything or self._frame % 2 == 0)
        following.look(screen)
        if wall:
            screen.wall.update()
        if self._seen(2) and (everything or not wall):
            screen.transcript.update()
        now = self._clock()
        if everything or (not wall and now - self._listed >= LISTS_EVERY):
            self._listed = now
            self.draw_lists()
        if self._seen(4) and (everything or (not wall and now - self._plotted_at >= PLOTS_EVERY)):
            self._plotted_at = now
            await self._draw_plots(everything)

    def draw_lists(self) -> None:
        screen, store, session = self._screen, self._screen.store, self._screen.session
        colours = palette(screen.app.theme)
        status = session.status()
        found = findings(store, status, session.left_out)
        if self._seen(3):
            self._fill(3, screen.rewards, readouts.rewards(store, screen.rewards.cells, colours))
        if self._seen(5):
            self._fill(5, screen.health, readouts.health(found, screen.health.cells, colours))
        asked = len(session.run.questions)
        screen.status_line.show(
            readouts.status(session.state, session.step, status, screen.size.width, colours, asked)
        )
        self._draw_header()
        self._draw_banner()
        shown = screen.transcript.episode
        cells = screen.tabs.room if screen.single else screen.wall.size.width - NAMED
        info = readouts.gists(store, shown, screen.follow, found, cells, colours, screen.wall.told)
        for pane, line in zip(screen.panes, info, strict=True):
            pane.title.show(line)
        screen.tabs.show(screen.active, info[screen.active - 1])
        screen.keys.leave_out(commands.idle(session) | (set() if shown else {"why", "copy"}))
        screen.keys.relabel("pause", "resume" if session.state in RESUMED else "pause")
        screen.keys.relabel("follow", "following" if screen.follow else "follow")

    async def _draw_plots(self, everything: bool) -> None:
        screen = self._screen
        key = (screen.store.facts, screen.plots.size, screen.app.theme)
        if key != self._plotted or everything:
            self._plotted = key
            await screen.plots.show(_charts(screen.store))

    def _draw_header(self) -> None:
        screen = self._screen
        colours = palette(screen.app.theme)
        name: Line = (
            (f" {one_line(screen.session.run.name, 30)}", style(colours.accent, bold=True)),
            (f"  {one_line(screen.session.title, 60)}", style(colours.soft)),
        )
        brief = screen.size.width < 70
        verdict = readouts.verdict(screen.store, colours, brief)
        screen.header.show(spread(name, (*verdict, (" ", None)), screen.size.width))

    def _draw_banner(self) -> None:
        screen = self._screen
        state, reason = screen.session.state, screen.store.reason or screen.session.run.reason
        waits = state is RunState.PAUSED and bool(reason)
        screen.banner.display = waits or state is RunState.FAILED
        if screen.banner.display:
            cells, colours = screen.size.width - 2, palette(screen.app.theme)
            kept = screen.store.checkpoint.step if screen.store.checkpoint else None
            folder = str(screen.session.run.folder)
            lines = (
                readouts.held_up(reason, cells, colours)
                if waits
                else readouts.failure(reason, folder, kept, cells, colours)
            )
            screen.banner.styles.height = len(lines)
            screen.banner.show(lines)

    def _fill(self, number: int, body: Painted, lines: list[Line]) -> None:
        """Shows lines; beside other panes, in a pane just high enough, up to a share of the screen."""
        screen = self._screen
        body.show(lines)
        high = None if screen.single else min(len(lines) + 1, round(SHARE * screen.size.height))
        screen.numbers.want(screen.panes[number - 1], high)

    def _seen(self, number: int) -> bool:
        return not self._screen.single or self._screen.active == number


def _charts(store: Store) -> list[ChartModel]:
    if not store.series:
        return []
    from tui.metrics.charts import charts  # with numpy, for which a run's first frame would wait

    return charts(store)
