"""A run as lines of text, for a screen reader or a line printer: nothing moves, nothing is drawn over.

The same facts as in the app, each once, a line each; games read out when asked for; and commands typed as words.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from engine.events import (
    CheckpointSaved,
    CreditAssigned,
    EditApplied,
    Event,
    EventStream,
    HumanAnswered,
    RunState,
    StateChanged,
    StepFinished,
)
from engine.types import GenerateResult, Question
from tui import headless
from tui.plain_commands import Commands
from tui.text import clean, one_line
from tui.words import signed

if TYPE_CHECKING:
    from engine.run import Run

LONGEST = 300
"""Characters of a turn that are read out; `read` reads them all."""


async def drive(run: Run, out: TextIO, lines: TextIO | None) -> int:
    """See `headless.drive`. What is typed into `lines` are commands; `help` names them."""
    told = Told(run, out)
    run.attended = True
    hush = _listen(lines, Commands(run, told)) if lines is not None else None
    try:
        return await headless.drive(run, told)
    finally:
        if hush is not None:
            hush()
        run.unwatch(told.stream)


def _listen(lines: TextIO, commands: Commands) -> Callable[[], object]:
    """Has commands carried out as they are typed; returns what ends that."""
    loop = asyncio.get_running_loop()
    rest = b""

    def heard() -> bool:
        nonlocal rest
        data = os.read(lines.fileno(), 1 << 16)
        *whole, rest = (rest + data).split(b"\n") if data else (rest, b"")  # the last line may lack its end
        for line in whole:
            commands.do(line.decode(errors="replace"))
        if not data:
            loop.remove_reader(lines)  # nobody types any more; the run goes on
        return bool(data)

    try:
        loop.add_reader(lines, heard)
    except PermissionError:  # a file, or /dev/null: it can be read at once, but not before the run starts
        loop.call_soon(lambda: all(iter(heard, False)))
    return lambda: loop.remove_reader(lines)


class Told(headless.Progress):
    """Every fact on a line of its own, and one game a step where `games` are wanted."""

    def __init__(self, run: Run, out: TextIO) -> None:
        super().__init__(out)
        self._updating = False
        self.stream: EventStream = run.watch()
        self.game: GenerateResult | None = None
        """The latest that may be read out."""
        self.games = False
        self.steps = True
        self._asked: set[int] = set()

    def show(self, run: Run, events: list[Event]) -> None:
        for event in self.stream.drain():
            if isinstance(event, CreditAssigned):
                self._read_one(event)
            elif isinstance(event, HumanAnswered) and event.answer is None and run.state is RunState.RUNNING:
                self.say(f"question {event.question.id} is over without an answer")
        super().show(run, events)
        for question in run.questions:
            if question.id not in self._asked:
                self._asked.add(question.id)
                self.ask(question)

    def ask(self, question: Question) -> None:
        """A question with all there is to know of it."""
        self.say(f"question {question.id}: {one_line(question.text, 2000)}")
        for number, about in enumerate(question.about, 1):
            self.say(f"text {number}: {clean(about)}")
        for number, choice in enumerate(question.choices, 1):
            self.say(f"  {number}: {one_line(choice)}")
        wanted = "NUMBER" if question.choices else "TEXT"
        left = f", within {round(question.left)} seconds" if question.left is not None else ""
        self.say(f"answer with: answer {question.id} {wanted}; or skip {question.id}{left}")

    def read(self, game: GenerateResult, longest: int | None = None) -> None:
        """A game, a turn a line."""
        rollout = game.rollout
        self.say(f"game {rollout.id}")
        for turn in rollout.turns:
            text = one_line(turn.completion.text, 20_000)
            if longest and len(text) > longest:
                text = f"{text[:longest]} and {len(text) - longest} characters more"
            self.say(f"  {one_line(turn.role)}: {text}{' (illegal)' if turn.illegal else ''}")
        rewards = ", ".join(f"{one_line(role)} {signed(reward)}" for role, reward in rollout.rewards.items())
        self.say(f"  rewards: {rewards or one_line(rollout.error or 'none')}")

    def _read_one(self, event: CreditAssigned) -> None:
        played = [result for result in event.results if result.rollout.error is None]
        if played:
            self.game = played[0]
            if self.games:
                self.read(self.game, LONGEST)

    def _tell(self, run: Run, event: Event) -> None:
        match event:
            case StateChanged() if event.state is not RunState.FAILED:
                self.say(event.state.value + (f": {one_line(event.reason, 2000)}" if event.reason else ""))
            case EditApplied():
                self.say(f"edit {event.number}: {one_line(event.target)} is now {one_line(event.after)}")
            case CheckpointSaved() if event.reason == "auto":
                pass
            case StepFinished() if not self.steps and not event.skipped:
                pass
            case _:
                super()._tell(run, event)
