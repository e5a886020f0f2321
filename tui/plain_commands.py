"""What can be typed where a run is told as plain lines."""

from __future__ import annotations

import asyncio
import difflib
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from engine.config import ConfigError
from engine.events import RunState
from engine.store import StoreError
from engine.types import EngineError, Question, RunError
from tui import headless
from tui.text import clean, one_line
from tui.words import plural

if TYPE_CHECKING:
    from engine.run import Run
    from tui.plain import Told

REFUSALS = (EngineError, RunError, ConfigError, StoreError)


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
        known = dict(self._all())
        command = known.get(name.lower())
        if command is None:
            near = difflib.get_close_matches(name.lower(), known, n=1)
            hint = f"did you mean {near[0]}? help" if near else "help"
            self._told.say(f"there is no command {one_line(name)}; {hint} names them all")
            return
        try:
            work = command(rest.strip())
        except REFUSALS as error:
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
        except REFUSALS as error:
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

    def the_step(self, _: str) -> None:
        """from a pause, learn one step and pause again"""
        self._run.step_once()

    def the_status(self, _: str) -> None:
        """say how the run is getting on"""
        asked = len(self._run.questions)
        self._told.say(headless.glance(self._run) + (f"  {plural(asked, 'question')} for you" if asked else ""))

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
        known = [name for name in self._run.roles if rest.startswith(f"{name} ")]  # a name may have spaces in it
        role = max(known, key=len, default=rest.partition(" ")[0])
        text = rest.removeprefix(role).strip()
        if not text:
            raise RunError("prompt wants a role and a text: prompt ROLE TEXT")
        return self._edit(role, text)

    def the_set(self, rest: str) -> Awaitable[None]:
        """KEY VALUE: change a setting, such as train.learning_rate"""
        key, _, value = rest.replace("=", " ", 1).partition(" ")
        return self._set(key, value.strip())

    def the_undo(self, rest: str) -> Awaitable[None]:
        """NUMBER: give back what an edit changed"""
        if not rest.isdecimal():
            raise RunError("undo wants the number of an edit: undo NUMBER")
        return self._undo(int(rest))

    def the_checkpoint(self, _: str) -> Awaitable[None]:
        """keep a checkpoint now"""
        return self._checkpoint()

    def the_answer(self, rest: str) -> None:
        """NUMBER TEXT: answer a question of an episode; a choice by its number or its words"""
        number, _, text = rest.partition(" ")
        question, text = self._question(number), text.strip()
        choices = question.choices
        if text.isdecimal() and text not in choices and 0 < int(text) <= len(choices):
            text = choices[int(text) - 1]
        self._run.answer(question.id, text)
        self._told.say(f"question {question.id} is answered" + (f": {one_line(text)}" if choices else ""))

    def the_skip(self, rest: str) -> None:
        """NUMBER: leave a question without an answer"""
        self._run.answer(self._question(rest).id, None)  # which is told as a fact

    def the_questions(self, _: str) -> None:
        """read again the questions that are open"""
        for question in self._run.questions:
            self._told.ask(question)
        if not self._run.questions:
            self._told.say("no question is open")

    def the_quit(self, _: str) -> Awaitable[None]:
        """stop the run, its state saved"""
        return self._run.stop()

    def the_help(self, _: str) -> None:
        """name the commands"""
        for name, method in self._all():
            self._told.say(f"{name}: {method.__doc__}")

    def _question(self, number: str) -> Question:
        asked = {str(question.id): question for question in self._run.questions}
        if number not in asked:
            raise RunError(f"there is no open question {one_line(number) or 'without a number'}")
        return asked[number]

    async def _edit(self, role: str, text: str) -> None:
        await self._run.edit_role(role, text)

    async def _checkpoint(self) -> None:
        await self._run.checkpoint()  # which is told as a fact

    async def _set(self, key: str, value: str) -> None:
        await self._run.set(key, value)

    async def _undo(self, number: int) -> None:
        await self._run.undo(number)
