"""A run as lines of text, for a screen reader or a line printer: nothing moves, nothing is drawn over.

The same facts as in the app, each once, a line each; games read out when asked for; and commands typed as words.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TextIO

from engine.events import (
    CheckpointSaved,
    CreditAssigned,
    EditApplied,
    Event,
    EventStream,
    RunState,
    StateChanged,
    StepFinished,
)
from engine.types import EngineError, GenerateResult, RunError
from tui import headless
from tui.text import clean, one_line
from tui.words import signed

if TYPE_CHECKING:
    from engine.run import Run

LONGEST = 300
"""Characters of a turn that are read out; `read` reads them all."""


async def drive(run: Run, out: TextIO, lines: TextIO) -> int:
    """See `headless.drive`. What is typed into `lines` are commands; `help` names them."""
    told = Told(run, out)
    loop = asyncio.get_running_loop()
    commands = Commands(run, told)

    rest = b""

    def heard() -> None:
        nonlocal rest
        data = os.read(lines.fileno(), 1 << 16)
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            commands.do(line.decode(errors="replace"))
        if not data:
            loop.remove_reader(lines)  # nobody types any more; the run goes on

    loop.add_reader(lines, heard)
    run.attended = True
    try:
        return await headless.drive(run, told)
    finally:
        loop.remove_reader(lines)
        run.unwatch(told.stream)


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
        super().show(run, events)
        for question in run.questions:
            if question.id not in self._asked:
                self._asked.add(question.id)
                self.say(f"question {question.id}: {one_line(question.text, 2000)}")
                for about in question.about:
                    self.say(clean(about))
                for number, choice in enumerate(question.choices, 1):
                    self.say(f"  {number}: {one_line(choice)}")
                self.say(f"answer with: answer {question.id} TEXT")

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


class Commands:
    """What can be typed: the methods' names and first lines."""

    def __init__(self, run: Run, told: Told) -> None:
        self._run, self._told = run, told
        self._work: set[asyncio.Task[None]] = set()

    def do(self, line: str) -> None:
        """Carries out a line; what is wrong with it is told, and the run goes on."""
        name, _, rest = line.strip().partition(" ")
        if not name:
            return
        command = dict(self._all()).get(name.lower())
        if command is None:
            self._told.say(f"there is no command {one_line(name)}; help names them all")
            return
        try:
            work = command(rest.strip())
        except (EngineError, RunError) as error:
            self._told.say(f"not done: {one_line(str(error), 2000)}")
            return
        if work is not None:
            task = asyncio.ensure_future(self._reported(work))
            self._work.add(task)
            task.add_done_callback(self._work.discard)

    def _all(self) -> list[tuple[str, Callable[[str], Awaitable[None] | None]]]:
        return [
            (name[4:], method) for name, method in inspect.getmembers(self, inspect.ismethod) if name[:4] == "the_"
        ]

    async def _reported(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (EngineError, RunError) as error:
            self._told.say(f"not done: {one_line(str(error), 2000)}")

    def the_pause(self, _: str) -> None:
        """hold the run"""
        if self._run.state is RunState.LOADING:
            self._told.say("not done: the model is still loading")
        else:
            self._run.pause()

    def the_resume(self, _: str) -> None:
        """go on after a pause"""
        self._run.resume()

    def the_status(self, _: str) -> None:
        """say how the run is getting on"""
        self._told.say(headless.glance(self._run))

    def the_read(self, _: str) -> None:
        """read a game of the last step, whole"""
        if self._told.game is None:
            self._told.say("no step has been played yet")
        else:
            self._told.read(self._told.game)

    def the_games(self, _: str) -> None:
        """read one game of every step, or stop that"""
        self._told.games = not self._told.games
        self._told.say("a game of every step is read" if self._told.games else "games are read when you say read")

    def the_quiet(self, _: str) -> None:
        """leave out the lines of steps, or have them again; evaluations, edits and notices stay"""
        self._told.steps = not self._told.steps
        self._told.say("steps are told" if self._told.steps else "steps are not told")

    def the_prompts(self, _: str) -> None:
        """read the prompts of all roles"""
        for name, role in self._run.roles.items():
            self._told.say(f"{one_line(name)}: {clean(role.system_prompt)}")

    def the_prompt(self, rest: str) -> Awaitable[None]:
        """ROLE TEXT: give a role another prompt"""
        role, _, text = rest.partition(" ")
        return self._edit(role, text)

    def the_checkpoint(self, _: str) -> Awaitable[None]:
        """keep a checkpoint now"""
        return self._checkpoint()

    def the_answer(self, rest: str) -> None:
        """NUMBER TEXT: answer a question of an episode; a choice by its number or its words"""
        number, _, text = rest.partition(" ")
        asked = {str(question.id): question for question in self._run.questions}
        if number not in asked:
            self._told.say(f"there is no open question {one_line(number) or 'without a number'}")
            return
        choices = asked[number].choices
        if text.isdecimal() and text not in choices and 0 < int(text) <= len(choices):
            text = choices[int(text) - 1]
        self._run.answer(int(number), text)
        self._told.say(f"question {number} is answered")

    def the_quit(self, _: str) -> Awaitable[None]:
        """stop the run, its state saved"""
        return self._run.stop()

    def the_help(self, _: str) -> None:
        """name the commands"""
        for name, method in self._all():
            self._told.say(f"{name}: {method.__doc__}")

    async def _edit(self, role: str, text: str) -> None:
        await self._run.edit_role(role, text)

    async def _checkpoint(self) -> None:
        await self._run.checkpoint()  # which is told as a fact
