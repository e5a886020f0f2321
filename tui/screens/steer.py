"""Steering a run: what can be set, what came of edits, and checkpoints to go back to or to fork from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.screen import Screen

from engine.events import RunState
from tui import commands, steering
from tui.actions import bindings
from tui.readouts import STATES
from tui.screens.branch import AskFork, Back, Branch, GoBack
from tui.session import Session
from tui.text import one_line, wrap
from tui.theme import palette, style
from tui.widgets.board import HIGH, WIDE
from tui.widgets.choice import Choice
from tui.widgets.divider import Divider
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import Line, OneLine, Painted, spread
from tui.widgets.pane import Pane
from tui.widgets.panetabs import PaneTabs
from tui.widgets.setter import Setter
from tui.widgets.stack import Stack

if TYPE_CHECKING:
    from engine.keeping import Kept

LOOK = 0.25
"""Seconds between two looks at what has changed."""

NAMES = ["Settings", "Edits", "Checkpoints"]


class SteerScreen(Screen[None]):
    """Changes a `Session`'s run. Going back and forks are asked of the app by messages."""

    CSS_PATH = "steer.tcss"
    BINDINGS = bindings("steer")

    class BackWanted(Message):
        """The run is to go on from a checkpoint."""

        def __init__(self, step: int, keep_edits: bool) -> None:
            super().__init__()
            self.step, self.keep_edits = step, keep_edits

    class ForkWanted(Message):
        """A run is to be made that begins from a checkpoint."""

        def __init__(self, step: int, branch: Branch) -> None:
            super().__init__()
            self.step, self.branch = step, branch

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self.store = session, session.store
        self.active = 1
        self.kept: Sequence[Kept] = ()
        self._shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        self.header = OneLine(id="steer-header")
        self.tabs = PaneTabs(NAMES)
        self.setter = Setter(id="setter")
        self.edit_list = Choice(id="edits")
        self.checkpoint_list = Choice(id="checkpoints")
        self.no_edits = Painted(id="no-edits", focusable=False)
        self.no_checkpoints = Painted(id="no-checkpoints", focusable=False)
        self.panes = [
            Pane(1, NAMES[0], self.setter, id="setting-pane"),
            Pane(2, NAMES[1], self.edit_list, self.no_edits, id="edit-pane"),
            Pane(3, NAMES[2], self.checkpoint_list, self.no_checkpoints, id="checkpoint-pane"),
        ]
        self.border, self.past = Divider("setting-pane"), Stack(*self.panes[1:], id="steer-past")
        yield self.header
        yield self.tabs
        with Horizontal(id="steer-body"):
            yield self.panes[0]
            yield self.border
            yield self.past
        self.keys = KeyBar("steer")
        yield self.keys

    async def on_mount(self) -> None:
        self.lists = [self.setter.choice, self.edit_list, self.checkpoint_list]
        self.lists[0].focus()
        self._arrange()
        self.set_interval(LOOK, self.look)

    def on_screen_resume(self) -> None:
        self.call_later(self.look)  # as soon as all has its size: the first key finds something to open

    def on_resize(self, event: events.Resize) -> None:
        self._arrange()
        self.call_after_refresh(self.look)

    def on_divider_moved(self) -> None:
        self._shown = ()
        self.call_after_refresh(self.look)

    # What is shown

    async def look(self) -> None:
        """Shows what has changed since the last look; nothing while another screen stands over this one."""
        if not self.is_mounted or not self.is_current:
            return
        run = self.session.run
        sizes = [pane.size for pane in self.panes]
        key = (self.store.facts, sizes, self.app.theme, self.session.state)
        if key == self._shown:
            return
        self._shown = key
        try:
            self.kept = await asyncio.to_thread(run.checkpoints)
        except Exception as error:  # a folder that can't be read leaves the rest of the screen
            commands.say(self, f"Checkpoints: {error}", "error")
        self._draw()

    def _draw(self) -> None:
        colours, store = palette(self.app.theme), self.store
        metric = store.verdict.metric if store.verdict is not None else store.metric
        found = steering.outcomes(store.edits, store.evaluations, metric)
        soft = style(colours.soft)
        self.setter.show(self.session.run.settings(), list(store.edits), self._cells(0))
        self.edit_list.show(steering.edit_entries(found, metric, self._cells(1), colours))
        self.checkpoint_list.show(
            steering.checkpoint_entries(self.kept, store.evaluations, metric, self._cells(2), colours)
        )
        for chosen, empty, words in (
            (self.edit_list, self.no_edits, "Nothing was edited yet. ⏎ on a setting changes it, p edits prompts."),
            (self.checkpoint_list, self.no_checkpoints, "No checkpoint yet. ^s keeps one."),
        ):
            chosen.display, empty.display = bool(chosen.ids), not chosen.ids
            empty.show([((f"  {line}", soft),) for line in wrap(words, self._cells(1) - 3)])
        counts = [f"{len(choice.ids)}" for choice in self.lists]
        for pane, count in zip(self.panes, counts, strict=True):
            pane.title.show(((count, soft),))
        self.tabs.show(self.active, ((counts[self.active - 1], soft),))
        over = {"pause"} if self.session.state in commands.ENDED else set()
        self.keys.leave_out(commands.idle(self.session) | over)
        self.keys.relabel("pause", "resume" if self.session.state is RunState.PAUSED else "pause")
        self._draw_header()

    def _draw_header(self) -> None:
        colours, run = palette(self.app.theme), self.session.run
        mark, words = STATES[self.session.state]
        origin = f"  from {one_line(run.origin, 40)}" if run.origin else ""
        left: Line = (
            (" Steer ", style(colours.accent, bold=True)),
            (one_line(run.name, 30), style(colours.text, bold=True)),
            (origin, style(colours.soft)),
        )
        right: Line = ((f"{mark} {words}  step {self.session.step}/{run.config.run.steps} ", style(colours.soft)),)
        self.header.show(spread(left, right, self.size.width))

    def _cells(self, place: int) -> int:
        return max(self.panes[place].size.width - 1, 30)

    # Panes

    @property
    def single(self) -> bool:
        return self.size.width < WIDE or self.size.height < HIGH

    def _arrange(self) -> None:
        self.set_class(self.single, "single")
        for pane in self.panes:
            pane.display = not self.single or pane.number == self.active
        self.past.display = not self.single or self.active > 1
        self.border.stand(not self.single)
        self.past.stand(not self.single)

    def action_pane(self, number: int) -> None:
        self.active = number
        self._arrange()
        self.lists[number - 1].focus(scroll_visible=False)
        self._shown = ()
        self.call_after_refresh(self.look)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for pane in self.panes:
            if pane in event.widget.ancestors:
                self.active = pane.number

    def on_pane_wanted(self, message: Pane.Wanted) -> None:
        self.action_pane(message.number)

    def on_pane_tabs_wanted(self, message: PaneTabs.Wanted) -> None:
        self.action_pane(message.number)

    # Settings

    def on_choice_moved(self, message: Choice.Moved) -> None:
        if message.opened and message.choice is self.setter.choice:
            self.action_change()

    def action_change(self) -> None:
        if self.active != 1:
            keys = {2: "u undoes the chosen edit.", 3: "b goes back to the chosen checkpoint, f forks from it."}
            commands.say(self, keys[self.active])
        elif not self.session.live:
            commands.say(self, "Settings can be changed while the run is at work.", "warning")
        else:
            self.setter.open()

    async def on_setter_wanted(self, message: Setter.Wanted) -> None:
        """Done before the next key is heard, which is for what comes of it: the list, or the field still."""
        key, value = message.key, message.value
        try:
            number = await self.session.run.set(key, value)
        except Exception as error:  # out of bounds, or refused in a run: told beside the field
            self.setter.refuse(f"{error}" or type(error).__name__)
            return
        self.setter.close()
        self.session.drain()
        self._draw()  # so that the field, opened again at once, has the value in force now
        commands.say(self, f"Edit {number}: {one_line(key, 60)} is {one_line(value, 60) or 'unset'} from now on.")

    # Edits and checkpoints

    def action_undo(self) -> None:
        if not self.edit_list.chosen:
            commands.say(self, "There is no edit to undo.")
        elif not self.session.live:
            commands.say(self, "Edits can be undone while the run is at work.", "warning")
        else:
            commands.give(self, self._undo(int(self.edit_list.chosen)))

    async def _undo(self, number: int) -> None:
        made = await self.session.run.undo(number)
        commands.say(self, f"Edit {made} undoes edit {number}.")

    def action_roll_back(self) -> None:
        step = self._step()
        if step is None:
            return
        since = sum(edit.step >= step for edit in self.store.edits)
        question = GoBack(self.session.run.name, step, self.session.step, since)

        def answered(chosen: Back | None) -> None:
            if chosen is not None:
                self.post_message(self.BackWanted(step, chosen == "keep"))

        self.app.push_screen(question, answered)

    def action_fork(self) -> None:
        step = self._step()
        if step is None:
            return
        run = self.session.run

        def answered(branch: Branch | None) -> None:
            if branch is not None:
                self.post_message(self.ForkWanted(step, branch))

        self.app.push_screen(AskFork(run.name, step, run.config.run.steps), answered)

    def _step(self) -> int | None:
        """Of the chosen checkpoint."""
        if not self.checkpoint_list.chosen:
            commands.say(self, "No checkpoint is kept yet.", "warning")
            return None
        return int(self.checkpoint_list.chosen)

    # The run

    def action_pause(self) -> None:
        commands.pause(self, self.session)

    def action_step(self) -> None:
        commands.step_once(self, self.session)

    def action_checkpoint(self) -> None:
        commands.checkpoint(self, self.session)

    def action_prompts(self) -> None:
        commands.prompts(self, self.session)

    def action_back(self) -> None:
        if self.setter.editing:
            self.setter.close()
        else:
            self.app.pop_screen()
