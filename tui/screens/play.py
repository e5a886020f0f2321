"""Sit down with the run's players: choose, play, read how it ended, play again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import Worker

from engine.types import POLICY
from tui.actions import bindings
from tui.playing import Board, hint
from tui.screens.dialog import Confirm
from tui.session import Session
from tui.text import one_line
from tui.theme import palette, style
from tui.widgets.keybar import KeyBar
from tui.widgets.painted import Line, OneLine, Painted, spread
from tui.widgets.reply import Reply
from tui.widgets.seating import Seating
from tui.words import elapsed

if TYPE_CHECKING:
    from engine.sitting.seats import Ask

Phase = Literal["choosing", "loading", "playing", "over"]

FRAME = 0.1
"""Seconds between two looks at what happened."""


class PlayScreen(Screen[None]):
    """A person and the players of one run, for as many episodes as they like."""

    CSS_PATH = "play.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("play"),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("pageup", "turn_page(-1)", show=False, priority=True),
        Binding("pagedown", "turn_page(1)", show=False, priority=True),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self.table = session, session.run.table
        self.phase: Phase = "choosing"
        self.board: Board | None = None
        self.learn = self.weighs = self.uncovered = False
        self.odds: dict[str, dict[str, float]] = {}
        """Player → legal reply → its probability, of what is asked now."""
        self._asked: Ask | None = None
        self._refused = ""
        """What isn't legal, and is said all the same if it is said again."""
        self._loading: Worker[None] | None = None
        self._began = 0.0
        self._shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        self.header, self.note, self.keys = OneLine(id="play-header"), Static(id="play-note"), KeyBar("play")
        self.seating = Seating(self.table.places(), self.table.opponents(), id="seating")
        self.paper = Painted(id="paper", focusable=False)
        self.reply = Reply(id="reply")
        yield self.header
        yield self.seating
        yield self.paper
        yield self.reply
        yield self.note
        yield self.keys

    def on_mount(self) -> None:
        self._enter("choosing")
        self.set_interval(FRAME, self.look)

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self.look)

    # What is shown

    def look(self) -> None:
        """One frame: what has happened, and what is different on the screen."""
        if not self.is_mounted or not self.is_current:
            return
        board = self.board
        if board is not None:
            board.drain()
            if self.phase == "playing" and board.sitting.over:
                self._enter("over")
            elif self.phase == "playing" and board.sitting.asked is not self._asked:
                self._ask(board.sitting.asked)
        self._tell()
        if board is not None and self.paper.display:
            self._draw(board)

    def _draw(self, board: Board) -> None:
        shown = (board, board.revision, self.phase, self.uncovered, self.weighs, self.paper.cells, self.app.theme)
        high = self.paper.size.height
        if (*shown, high) != self._shown:
            self._shown = (*shown, high)
            colours = palette(self.app.theme)
            self.paper.show(board.lines(self.paper.cells, colours, uncovered=self.uncovered, odds=self.weighs))
            self.paper.scroll_to(y=self.paper.max_scroll_y, animate=False)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.seating.display = phase in ("choosing", "loading")
        self.paper.display = phase in ("playing", "over")
        self._ask(None)
        if phase == "choosing":
            self.seating.begin()
        elif phase == "over":
            self.set_focus(None)
        self.keys.relabel("say", {"choosing": "begin", "playing": "play", "over": "again"}.get(phase, "…"))
        self.call_after_refresh(self.look)

    def _ask(self, asked: Ask | None) -> None:
        """The person is asked something else than a moment ago, or nothing any more."""
        self._asked, self.odds, self._refused = asked, {}, ""
        self.reply.ask(asked.legal if asked else None)
        if asked is not None and asked.legal and self.weighs:
            self._weigh()
        self.call_after_refresh(self.look)

    def _tell(self) -> None:
        """The first line, and the last before the keys."""
        colours = palette(self.app.theme)
        left: Line = ((f" Play {one_line(self.session.run.name, 30)}", style(colours.accent, bold=True)),)
        if self.board is not None and self.paper.display:
            sitting = self.board.sitting
            against = f"  as {one_line(', '.join(sitting.roles), 40)} against {one_line(sitting.opponent, 24)}"
            left = (*left, (against, style(colours.soft)))
        step, steps = self.session.step, self.session.status().steps
        right: Line = ((f"{self.session.state.value} · step {step} of {steps} ", style(colours.soft)),)
        self.header.show(spread(left, right, self.header.size.width))
        self.note.update(Content(self._note()))
        self.keys.leave_out({"learn"} if self.table.no_lesson and not self.learn else ())
        for name, on in (("odds", self.weighs), ("uncover", self.uncovered), ("learn", self.learn)):
            self.keys.relabel(name, f"{name} ✓" if on else name)

    def _note(self) -> str:
        if self.phase == "loading":
            passed = elapsed(self._clock() - self._began)
            return f"Loading {one_line(self.session.run.config.model.source, 60)} … {passed} · esc gives it up"
        if self.phase == "choosing":
            speed = "" if self.table.is_ready else "The model isn't in memory: it is loaded first. "
            lesson = "the run learns from it" if self.learn else "nothing is learnt from it"
            return f"{speed}It is recorded; {lesson}. Space marks several roles."
        if self.phase == "over":
            return "⏎ plays another one, esc chooses anew."
        return hint(self.board.sitting, self.reply.menu, self.odds) if self.board else ""

    # What is said

    def action_say(self) -> None:
        if self.phase in ("choosing", "over"):
            self._sit_down()
        elif self.phase == "playing" and self._asked is not None:
            self._answer(self.reply.text)

    def on_seating_wanted(self) -> None:
        self.action_say()

    def on_reply_chosen(self, message: Reply.Chosen) -> None:
        self._answer(message.text)

    def _answer(self, text: str) -> None:
        if self.board is None or not text.strip():
            self.notify("Nothing is chosen or written yet.", markup=False)
            return
        asked, insists = self._asked, text == self._refused
        try:
            self.board.sitting.answer(text, anyway=insists)
        except Exception as error:  # what was said stays in its field
            may_insist = asked is not None and asked.legal and not asked.strict and text not in asked.legal
            self._refused = text if may_insist else ""
            self._complain(f"{error}." + (" ⏎ again says it all the same." if may_insist else ""))
        self.look()

    def action_move(self, by: int) -> None:
        self.reply.move(by)

    def action_newline(self) -> None:
        self.reply.newline()

    def action_turn_page(self, pages: int) -> None:
        self.paper.scroll_relative(y=pages * max(self.paper.size.height - 1, 1), animate=False)

    # What is asked for

    def action_mark(self) -> None:
        if self.phase == "choosing":
            self.seating.mark()

    def action_learn(self) -> None:
        if not self.learn and (why := self.table.no_lesson):
            self.notify(one_line(f"Nothing can be learnt from it: {why}."), severity="warning", markup=False)
        else:
            self.learn = not self.learn
            self._tell()

    def action_uncover(self) -> None:
        self.uncovered = not self.uncovered
        self.look()

    def action_odds(self) -> None:
        self.weighs = not self.weighs
        if self.weighs and self._asked is not None:
            self._weigh()
        elif not self.weighs:
            self._show_odds({})
        self.look()

    def _weigh(self) -> None:
        self.run_worker(self._weighed(), group="odds", exclusive=True, exit_on_error=False)

    async def _weighed(self) -> None:
        assert self.board is not None
        sitting, asked = self.board.sitting, self._asked
        try:
            found = {player: await sitting.odds(player) for player in dict.fromkeys((POLICY, sitting.opponent))}
        except Exception as error:
            self._complain(error)
            return
        if asked is self._asked and self.weighs:
            self._show_odds(found)

    def _show_odds(self, odds: dict[str, dict[str, float]]) -> None:
        self.odds = odds
        self.reply.show_odds(odds)
        self._tell()

    # Sitting down and leaving

    def _sit_down(self) -> None:
        self._began = self._clock()
        self.board = None
        self._enter("loading")
        self._loading = self.run_worker(self._sit(), group="sit", exclusive=True, exit_on_error=False)

    async def _sit(self) -> None:
        chosen = self.seating
        try:
            sitting = await self.table.sit(
                roles=chosen.roles, task=chosen.place.task, opponent=chosen.opponent, learn=self.learn
            )
        except asyncio.CancelledError:
            self._enter("choosing")
            raise
        except Exception as error:  # of loading, or of the task; another choice may do
            self._complain(error)
            self._enter("choosing")
        else:
            self.board = Board(sitting, self.table.decode, self.session.run.roles, self._clock)
            self._enter("playing")

    def action_leave(self) -> None:
        if self.phase == "loading" and self._loading is not None:
            self._loading.cancel()
        elif self.phase == "playing":
            question = Confirm("Leave?", "It isn't over. Nothing of it is kept then.", "Leave", "Play on")
            self.app.push_screen(question, self._left)
        elif self.phase == "over":
            self.seating.offer(self.table.opponents())
            self._enter("choosing")
        else:
            self.dismiss()

    def _left(self, yes: bool | None) -> None:
        if yes and self.board is not None and self.phase == "playing":
            self.run_worker(self.board.sitting.leave(), group="leave", exit_on_error=False)
            self._enter("choosing")

    def _clock(self) -> float:
        return self.session.store.clock()

    def _complain(self, error: Exception | str) -> None:
        text = one_line(f"{error}") or type(error).__name__
        self.notify(text, severity="error", markup=False, timeout=10)
