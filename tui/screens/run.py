"""A run, watched and steered: the episodes, one of them in full, and what they add up to."""

from __future__ import annotations

from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen
from textual.widget import Widget

from engine.events import RunState
from tui import commands
from tui.actions import bindings
from tui.compositor import FrontFirst
from tui.screens import following, reading, walling
from tui.screens.frames import Frames
from tui.screens.questions import Questions
from tui.session import Session
from tui.widgets.board import HIGH, WIDE
from tui.widgets.divider import Divider
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import OneLine, Painted
from tui.widgets.pane import Pane
from tui.widgets.panetabs import PaneTabs
from tui.widgets.plots import Plots
from tui.widgets.stack import Stack
from tui.widgets.transcript import Transcript
from tui.widgets.wall import Wall

NAMES = ["Episodes", "Transcript", "Rewards", "Plots", "Health"]


class RunScreen(Screen[None]):
    """Shows a `Session`. The app calls `draw` for every frame."""

    CSS_PATH = "run.tcss"
    BINDINGS = bindings("run")

    class Again(Message):
        """A run that failed or was stopped is to be resumed."""

    class Left(Message):
        """A run that was only read is read no more."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._compositor = FrontFirst()
        self.session = session
        self.store = session.store
        self.follow = True
        self.maximised = False
        self.active = 1
        self.frames = Frames(self)

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="header")
        self.tabs = PaneTabs(NAMES)
        self.banner = Painted(id="banner", focusable=False)
        self.wall = Wall(self.store, id="wall")
        self.transcript = Transcript(self.store, trace=partial(reading.trace, self), id="reader")
        if self.session.state is RunState.FINISHED:
            self.transcript.nothing = "The run has finished. o reads its episodes from the record."
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
        self.numbers = Stack(*self.panes[2:], id="numbers")
        yield self.header
        yield self.banner
        yield self.tabs
        with Horizontal(id="body"):
            yield self.panes[0]
            yield Divider("episodes")
            yield self.panes[1]
            yield Divider("numbers", right=True)
            yield self.numbers
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

    async def draw(self, everything: bool = False) -> None:
        """One frame. See `Frames.draw`."""
        await self.frames.draw(everything)

    # Which episode

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
        self.frames.draw_lists()
        if message.opened:
            self.action_pane(2)

    def on_transcript_opened(self) -> None:
        self.action_read("why")

    def on_transcript_scrolled_up(self) -> None:
        self.follow = False
        self.frames.draw_lists()

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
        self.numbers.display = not single or self.active > 2
        self.numbers.stand(not single)
        for divider in self.query(Divider):
            divider.stand(not single)

    # Steering

    def action_pause(self) -> None:
        if self.session.state in (RunState.STOPPED, RunState.FAILED):
            self.post_message(self.Again())
        else:
            commands.pause(self, self.session)
        self.frames.draw_lists()

    def action_follow(self) -> None:
        if self.session.state in commands.ENDED:
            commands.say(self, f"The run has {self.session.state}: no episode is in play.", "warning")
            return
        following.toggle(self)
        self.frames.draw_lists()

    def action_checkpoint(self) -> None:
        commands.checkpoint(self, self.session)

    def action_step(self) -> None:
        commands.step_once(self, self.session)
        self.frames.draw_lists()

    def action_steer(self) -> None:
        from tui.screens.steer import SteerScreen

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
        from tui.screens.replay import ReplayScreen

        self.app.push_screen(ReplayScreen(self.session.run.folder))

    def action_play(self) -> None:
        from tui.screens.play import PlayScreen

        self.app.push_screen(PlayScreen(self.session))

    def action_answer(self) -> None:
        if self.session.run.questions:
            self.app.push_screen(Questions(self.session.run))
        else:
            commands.say(self, "No episode asks you anything now.")

    def on_click(self, event: events.Click) -> None:
        if event.widget is self.status_line and self.session.run.questions:
            self.action_answer()
        elif event.widget is self.header:
            self.action_metrics()

    def action_copy(self) -> None:
        reading.act(self, "copy_all")

    def action_read(self, what: str) -> None:
        reading.act(self, what)

    def action_back(self) -> None:
        if walling.end_filter(self):
            return
        if self.maximised and not self.narrow:
            self.action_maximise()
        elif self.session.only_read:
            self.post_message(self.Left())
        else:
            self.app.pop_screen()
