"""A run, watched and steered: the episodes, one of them in full, and what they add up to."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from engine.events import RunState
from tui import commands, readouts
from tui.actions import bindings
from tui.health import findings
from tui.metrics.charts import charts
from tui.screens import reading, walling
from tui.screens.play import PlayScreen
from tui.screens.questions import Questions
from tui.screens.replay import ReplayScreen
from tui.screens.steer import SteerScreen
from tui.session import Session
from tui.text import one_line
from tui.theme import palette, style
from tui.views import EpisodeView
from tui.widgets.divider import Divider
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import Line, OneLine, Painted, spread
from tui.widgets.pane import Pane
from tui.widgets.panetabs import PaneTabs
from tui.widgets.plots import Plots
from tui.widgets.transcript import Transcript
from tui.widgets.wall import Wall

LINGER = 2.5
"""Seconds that following stays with an episode after it ended, so that its end can be read."""

WIDE, HIGH = 110, 28
"""A terminal at least so large shows all panes at once."""

NAMED = 32
"""Cells that the names of all panes take more than that of one."""

SHARE = 0.3
"""Of the screen's height, that rewards and health may take each beside the plots."""

NAMES = ["Episodes", "Transcript", "Rewards", "Plots", "Health"]

ENDED = (RunState.FINISHED, RunState.STOPPED, RunState.FAILED)

RESUMED = (RunState.PAUSED, RunState.STOPPED, RunState.FAILED)
"""States out of which space goes on."""


class RunScreen(Screen[None]):
    """Shows a `Session`. The app calls `draw` for every frame."""

    CSS_PATH = "run.tcss"
    BINDINGS = bindings("run")

    class Again(Message):
        """A run that failed or was stopped is to be resumed."""

    def __init__(self, session: Session, fps: int = 10) -> None:
        super().__init__()
        self.session = session
        self.store = session.store
        self.follow = True
        self.maximised = False
        self.active = 1
        ticks = 2 * fps
        self._lists_every = max(1, 2 * round(ticks / 10))
        """Frames: lists 5 times a second, plots twice, both even so that neither meets the wall."""
        self._plots_every = max(1, 2 * round(ticks / 4))
        self._frame = 0
        self._plotted: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="header")
        self.tabs = PaneTabs(NAMES)
        self.banner = Painted(id="banner", focusable=False)
        self.wall = Wall(self.store, id="wall")
        self.transcript = Transcript(self.store, trace=partial(reading.trace, self), id="reader")
        self.rewards = Painted(id="reward-table")
        self.plots = Plots(id="charts")
        self.health = Painted(id="findings")
        self.status_line = OneLine(id="status")
        self.keys = KeyBar("run")
        bodies: list[Widget] = [self.wall, self.transcript, self.rewards, self.plots, self.health]
        ids = ["episodes", "transcript", "rewards", "plots", "health"]
        self.panes = [
            Pane(number, name, body, id=name_id)
            for number, (name, body, name_id) in enumerate(zip(NAMES, bodies, ids, strict=True), 1)
        ]
        self.bodies = bodies
        yield self.header
        yield self.banner
        yield self.tabs
        with Horizontal(id="body"):
            yield self.panes[0]
            yield Divider("episodes")
            yield self.panes[1]
            yield Divider("numbers", right=True)
            with Vertical(id="numbers"):
                yield from self.panes[2:]
        yield self.status_line
        yield self.keys

    async def on_mount(self) -> None:
        self.wall.focus()
        self._arrange()
        self.call_after_refresh(self.draw, True)

    async def on_screen_resume(self) -> None:
        await self.draw(True)

    async def on_resize(self, event: events.Resize) -> None:
        self._arrange()
        self.call_after_refresh(self.draw, True)

    # Drawing

    async def draw(self, everything: bool = False) -> None:
        """One frame, of what is due; nothing that is hidden.

        The wall is the dearest, so what else there is to draw waits for a frame without it: no frame is long
        enough to keep a key waiting.
        """
        if not self.is_mounted or not self.is_current:
            return
        self._frame += 1
        wall = self._seen(1) and (everything or self._frame % 2 == 0)
        self._follow()
        if wall:
            self.wall.update()
        if self._seen(2) and (everything or not wall):
            self.transcript.update()
        if everything or (self._frame - 1) % self._lists_every == 0:
            self._draw_lists()
        if self._seen(4) and (everything or (self._frame - 3) % self._plots_every == 0):
            await self._draw_plots(everything)

    def _draw_lists(self) -> None:
        colours = palette(self.app.theme)
        store, session = self.store, self.session
        status = session.status()
        found = findings(store, status, session.left_out)
        if self._seen(3):
            self._fill(3, self.rewards, readouts.rewards(store, self.rewards.cells, colours))
        if self._seen(5):
            self._fill(5, self.health, readouts.health(found, self.health.cells, colours))
        asked = len(session.run.questions)
        self.status_line.show(readouts.status(session.state, session.step, status, self.size.width, colours, asked))
        self._draw_header()
        self._draw_banner()
        shown = self.transcript.episode
        cells = self.wall.size.width - (NAMED if self.single else 0)
        info = readouts.gists(store, shown, self.follow, found, cells, colours, self.wall.told)
        for pane, line in zip(self.panes, info, strict=True):
            pane.title.show(line)
        self.tabs.show(self.active, info[self.active - 1])
        self.keys.relabel("pause", "resume" if session.state in RESUMED else "pause")
        self.keys.relabel("follow", "following" if self.follow else "follow")

    async def _draw_plots(self, everything: bool) -> None:
        key = (self.store.facts, self.plots.size, self.app.theme)
        if key != self._plotted or everything:
            self._plotted = key
            await self.plots.show(charts(self.store))

    def _draw_header(self) -> None:
        colours = palette(self.app.theme)
        name: Line = (
            (f" {one_line(self.session.run.name, 30)}", style(colours.accent, bold=True)),
            (f"  {one_line(self.session.title, 60)}", style(colours.soft)),
        )
        brief = self.size.width < 70
        verdict = readouts.verdict(self.store, colours, brief)
        self.header.show(spread(name, (*verdict, (" ", None)), self.size.width))

    def _draw_banner(self) -> None:
        state, reason = self.session.state, self.store.reason or self.session.run.reason
        waits = state is RunState.PAUSED and bool(reason)
        self.banner.display = waits or state is RunState.FAILED
        if self.banner.display:
            cells, colours = self.size.width - 2, palette(self.app.theme)
            kept = self.store.checkpoint.step if self.store.checkpoint else None
            folder = str(self.session.run.folder)
            lines = (
                readouts.held_up(reason, cells, colours)
                if waits
                else readouts.failure(reason, folder, kept, cells, colours)
            )
            self.banner.styles.height = len(lines)
            self.banner.show(lines)

    def _fill(self, number: int, body: Painted, lines: list[Line]) -> None:
        """Shows lines; beside other panes, in a pane just high enough, up to a share of the screen."""
        body.show(lines)
        pane = self.panes[number - 1]
        high = None if self.single else min(len(lines) + 1, round(SHARE * self.size.height))
        if pane.fixed != high:
            pane.fixed = high
            pane.styles.height = high

    def _seen(self, number: int) -> bool:
        return not self.single or self.active == number

    # Which episode

    def _follow(self) -> None:
        """While following, moves on to an episode in play once the last one has been read."""
        shown = self.transcript.episode
        if shown is not None and (not self.follow or shown.ended is None):
            return
        if shown is not None and shown.ended is not None and self.store.clock() - shown.ended < LINGER:
            return
        chosen = self._next()
        if chosen is not None and (self.follow or not self.transcript.rollout_id):
            self._focus_on(chosen.id)

    def _next(self) -> EpisodeView | None:
        """The episode to follow: one whose row is in sight, so that the wall keeps still, or else any."""
        self.wall.update()
        episodes = self.store.episodes
        seen = [episodes[name] for name in self.wall.in_sight() if name in episodes]
        return following([e for e in seen if e.live]) or following(self.store.live())

    def read(self, rollout_id: str, turn: int | None = None) -> None:
        """Reads an episode, at its end or at a turn, until something else is chosen."""
        self.follow = False
        self.wall.focus_on(rollout_id)
        self.transcript.focus_on(rollout_id, turn)
        self.action_pane(2)

    def _focus_on(self, rollout_id: str) -> None:
        self.wall.focus_on(rollout_id)
        self.transcript.focus_on(rollout_id)

    def on_wall_selected(self, message: Wall.Selected) -> None:
        self.follow = False
        self.transcript.focus_on(message.rollout_id)
        self._draw_lists()
        if message.opened:
            self.action_pane(2)

    def on_transcript_scrolled_up(self) -> None:
        self.follow = False
        self._draw_lists()

    # Panes

    @property
    def narrow(self) -> bool:
        return self.size.width < WIDE or self.size.height < HIGH

    @property
    def single(self) -> bool:
        """Whether one pane is shown alone."""
        return self.narrow or self.maximised

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for pane in self.panes:
            if pane in event.widget.ancestors:
                self.active = pane.number

    def on_pane_wanted(self, message: Pane.Wanted) -> None:
        self.action_pane(message.number)

    def on_pane_tabs_wanted(self, message: PaneTabs.Wanted) -> None:
        self.action_pane(message.number)

    def action_pane(self, number: int) -> None:
        self.active = number
        if self.single:
            self._arrange()
            self.call_after_refresh(self.draw, True)
        self.bodies[number - 1].focus(scroll_visible=False)

    def action_maximise(self) -> None:
        if self.narrow:
            self.app.notify("One pane is shown at a time in a terminal this small.", markup=False)
            return
        self.maximised = not self.maximised
        self._arrange()
        self.call_after_refresh(self.draw, True)

    def _arrange(self) -> None:
        single = self.single
        self.set_class(single, "single")
        for pane in self.panes:
            pane.display = not single or pane.number == self.active
        self.query_one("#numbers").display = not single or self.active > 2
        for divider in self.query(Divider):
            divider.stand(not single)

    # Steering

    def action_pause(self) -> None:
        run, state = self.session.run, self.session.state
        if state is RunState.FINISHED:
            self._say("The run has finished: there is nothing to pause.", "warning")
        elif state in ENDED:
            self.post_message(self.Again())
        elif state is RunState.PAUSED:
            run.resume()
        elif state is RunState.RUNNING:
            run.pause()
        else:
            self._say("The model is still loading.")
        self.session.drain()
        self._draw_lists()

    def action_follow(self) -> None:
        self.follow = not self.follow
        if self.follow:
            self.transcript.follow_end()
            shown = self.transcript.episode
            chosen = self._next()
            if chosen is not None and (shown is None or not shown.live):
                self._focus_on(chosen.id)
        self._draw_lists()

    def action_checkpoint(self) -> None:
        commands.checkpoint(self, self.session)

    def action_step(self) -> None:
        commands.step_once(self, self.session)
        self._draw_lists()

    def action_steer(self) -> None:
        self.app.push_screen(SteerScreen(self.session))

    def action_prompts(self) -> None:
        shown = self.transcript.episode
        role = shown.turns[-1].role if shown is not None and shown.turns else ""
        commands.prompts(self, self.session, role)

    def on_plots_opened(self, message: Plots.Opened) -> None:
        from tui.screens.metrics import MetricsScreen  # the first frame doesn't wait for it

        runs = getattr(self.app, "sources").runs  # noqa: B009
        self.app.push_screen(MetricsScreen(self.session, message.model.metrics if message.model else (), runs))

    def action_wall(self, what: str) -> None:
        walling.act(self, what)

    def action_league(self) -> None:
        walling.league(self)

    def action_metrics(self) -> None:
        self.plots.action_open()

    def action_replay(self) -> None:
        self.app.push_screen(ReplayScreen(self.session.run.folder))

    def action_play(self) -> None:
        self.app.push_screen(PlayScreen(self.session))

    def action_answer(self) -> None:
        if self.session.run.questions:
            self.app.push_screen(Questions(self.session.run))
        else:
            self._say("No episode asks you anything now.")

    def on_click(self, event: events.Click) -> None:
        if event.widget is self.status_line and self.session.run.questions:
            self.action_answer()

    def action_copy(self) -> None:
        reading.act(self, "copy_all")

    def action_read(self, what: str) -> None:
        reading.act(self, what)

    def action_back(self) -> None:
        if self.maximised and not self.narrow:
            self.action_maximise()
        else:
            self.app.pop_screen()

    def _steer(self, work: Coroutine[Any, Any, None]) -> None:
        self.run_worker(self._reported(work), group="steer", exit_on_error=False)

    async def _reported(self, work: Coroutine[Any, Any, None]) -> None:
        """A command that fails is told to who gave it; the run and the app go on."""
        try:
            await work
        except Exception as error:
            self._say(f"{error}" or type(error).__name__, "error")

    def _say(self, text: str, severity: str = "information") -> None:
        self.app.call_later(getattr(self.app, "say"), text, severity)  # noqa: B009


def following(live: list[EpisodeView]) -> EpisodeView | None:
    """The episode to follow: the one begun last, of those that are learnt from where there are any."""
    for candidates in ([e for e in live if e.is_trainable and not e.depth], live):
        if candidates:
            return max(candidates, key=lambda episode: episode.begun)
    return None
