"""A run as plain lines: every fact once, commands by words, and no cursor movement whatever a model writes."""

from __future__ import annotations

import asyncio
import io
import os
import unicodedata
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from engine.events import RunState, StateChanged
from engine.types import Question
from tests.tui.fake import FakeRun
from tests.tui.hostile import STRINGS
from tests.tui.test_hostile import FORBIDDEN, spoken
from tui import plain


class Seat:
    """A person at a run: what they type and what they hear."""

    def __init__(self, run: FakeRun) -> None:
        self.run, self.out = run, io.StringIO()
        reading, self._writing = os.pipe()
        self.lines = os.fdopen(reading)
        self.code: int | None = None

    def type(self, *lines: str) -> None:
        os.write(self._writing, "".join(f"{line}\n" for line in lines).encode())

    async def hear(self, text: str) -> None:
        async with asyncio.timeout(10):
            while text not in self.out.getvalue():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def seated(**more: Any) -> AsyncIterator[Seat]:
    run = FakeRun(seconds_per_tick=0.005, episodes=6, **more)
    run.evaluations = type("E", (), {"latest": {}})()  # type: ignore[attr-defined]
    watch = run.watch
    run.watch = lambda live=True: watch()  # type: ignore[method-assign]
    status = run.status
    seat = Seat(run)

    def with_state() -> Any:
        found = status()
        found.state = run.state  # type: ignore[attr-defined]
        return found

    run.status = with_state  # type: ignore[method-assign]
    driving = asyncio.create_task(plain.drive(run, seat.out, seat.lines))  # type: ignore[arg-type]
    try:
        yield seat
        if not driving.done():
            seat.type("quit")
        seat.code = await asyncio.wait_for(driving, 10)
    finally:
        driving.cancel()
        os.close(seat._writing)


async def test_facts_are_lines_and_commands_are_words() -> None:
    async with seated() as seat:
        await seat.hear("running")
        await seat.hear("step 1/100")
        seat.type("pause", "status", "prompts", "checkpoint")
        await seat.hear("paused")
        await seat.hear("paused: step")
        await seat.hear("First: You play Nim")
        await seat.hear("checkpoint (manual)")
        seat.type("prompt First Play well.", "resume", "nonsense", "help")
        await seat.hear("edit 1: role First is now Play well.")
        await seat.hear("there is no command nonsense; help names them all")
        await seat.hear("pause: hold the run")
        assert seat.run.roles["First"].system_prompt == "Play well."
        assert seat.run.attended
    assert "\x1b" not in seat.out.getvalue()
    assert "\r" not in seat.out.getvalue()
    assert seat.run.state is RunState.STOPPED


async def test_a_pause_before_the_model_is_there_is_refused_in_words() -> None:
    async with seated() as seat:
        await seat.hear("step 1/100")
        seat.run.state = RunState.LOADING
        seat.type("pause")
        await seat.hear("not done: the model is still loading")
        seat.run.state = RunState.RUNNING
    assert "pause" not in seat.run.calls


async def test_a_game_is_read_when_asked_for_and_steps_can_be_left_out() -> None:
    async with seated() as seat:
        seat.type("read")
        await seat.hear("no step has been played yet")
        await seat.hear("step 1/100")
        assert "game" not in seat.out.getvalue()
        seat.type("read")
        await seat.hear("rewards: First")
        seat.type("games", "quiet")
        await seat.hear("steps are not told")
        said = seat.out.getvalue().count("step ")
        await seat.hear("evaluation after step 10")
        assert seat.out.getvalue().count("game ") > 5
        assert seat.out.getvalue().count("step ") == said + 1


async def test_a_question_is_read_with_its_choices_and_answered_by_number() -> None:
    async with seated() as seat:
        await seat.hear("running")
        seat.run.questions = [Question(4, "17", "Which is better?", ("the first", "the second"), ("a", "b"))]
        await seat.hear("2: the second")
        seat.type("answer 9 x", "answer 4 2")
        await seat.hear("there is no open question 9")
        await seat.hear("question 4 is answered")
        assert seat.run.answers == {4: "the second"}


async def test_reasons_and_failures_are_told() -> None:
    async with seated() as seat:
        await seat.hear("running")
        seat.run.emit(StateChanged(RunState.PAUSED, "disk is full"))
        await seat.hear("paused: disk is full")
        seat.run.fail("no memory")
        await seat.hear("failed: no memory")
    assert seat.code == 1


async def test_nothing_a_model_writes_is_more_than_letters() -> None:
    async with seated(reply=spoken(STRINGS), tokens_per_tick=10_000) as seat:
        seat.type("games")
        await seat.hear("step 12/100")
        for text in STRINGS[:60]:
            seat.run.notice(text)
        await asyncio.sleep(0.5)
    bad = {c for c in seat.out.getvalue() if unicodedata.category(c) in FORBIDDEN} - {"\n"}
    assert bad == set()
