"""A run as plain lines: every fact once, commands by words, and no cursor movement whatever a model writes."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest

from engine.events import HumanAnswered, RunState, StateChanged
from engine.types import Question, Role
from tests.tui.fake import FakeRun
from tests.tui.hostile import STRINGS
from tests.tui.test_hostile import FORBIDDEN, spoken
from tui import plain
from tui.cli import showing


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
        await until(lambda: text in self.out.getvalue())


FREE = Question(5, "18", "Why?")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)


def fake(**more: Any) -> FakeRun:
    """A run with what `headless` asks of one."""
    run = FakeRun(seconds_per_tick=0.005, episodes=6, **more)
    run.evaluations = type("E", (), {"latest": {}})()  # type: ignore[attr-defined]
    watch = run.watch
    run.watch = lambda live=True: watch()  # type: ignore[method-assign]
    status = run.status

    def with_state() -> Any:
        found = status()
        found.state = run.state  # type: ignore[attr-defined]
        return found

    run.status = with_state  # type: ignore[method-assign]
    return run


@asynccontextmanager
async def seated(**more: Any) -> AsyncIterator[Seat]:
    run = fake(**more)
    seat = Seat(run)
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
    assert seat.code == 0  # it ended as it was told to


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
        await seat.hear("question 4 is answered: the second")
        assert seat.run.answers == {4: "the second"}


async def test_a_question_says_what_it_is_about_and_how_long_it_waits() -> None:
    async with seated() as seat:
        await seat.hear("running")
        seat.run.questions = [Question(4, "17", "Which?", ("x",), ("sticks", "move"), 300, 299.6), FREE]
        await seat.hear("text 1: sticks\ntext 2: move\n")
        await seat.hear("answer with: answer 4 NUMBER; or skip 4, within 300 seconds\n")
        await seat.hear("answer with: answer 5 TEXT; or skip 5\n")
        seat.type("status")
        await seat.hear("2 questions for you")


async def test_questions_are_read_again_skipped_and_told_when_they_are_over() -> None:
    async with seated() as seat:
        await seat.hear("running")
        seat.type("questions")
        await seat.hear("no question is open")
        seat.run.questions = [FREE]
        await seat.hear("question 5: Why?")
        seat.type("questions", "skip 7", "skip 5")
        await seat.hear("not done: there is no open question 7")
        assert seat.out.getvalue().count("question 5: Why?") == 2
        await until(lambda: seat.run.answers == {5: None})
        seat.run.emit(HumanAnswered(FREE, None))
        await seat.hear("question 5 is over without an answer")


async def test_settings_are_changed_and_edits_undone_in_words() -> None:
    async with seated() as seat:
        await seat.hear("running")
        seat.type("set train.learning_rate 1e-3")
        await seat.hear("edit 1: train.learning_rate is now 0.001")
        seat.type("set train.kl = 0.5", "undo 1", "undo it", "set train.learning_rat 1")
        await seat.hear("edit 2: train.kl is now 0.5")
        await seat.hear("edit 3: train.learning_rate is now ")
        await seat.hear("not done: undo wants the number of an edit")
        await seat.hear("did you mean train.learning_rate?")
        seat.type("step")
        await seat.hear("not paused: pause it to go on by single steps")


async def test_a_prompt_without_a_text_is_not_taken_for_an_empty_one() -> None:
    async with seated() as seat:
        await seat.hear("running")
        seat.type("prompt First", "prompt", "hepl")
        await seat.hear("there is no command hepl; did you mean help?")
        assert seat.out.getvalue().count("not done: prompt wants a role and a text") == 2
        assert "You play Nim" in seat.run.roles["First"].system_prompt


async def test_a_role_with_spaces_in_its_name_is_given_a_prompt() -> None:
    async with seated() as seat:
        await seat.hear("running")
        seat.run.roles["First player"] = Role("First player", system_prompt="before")
        seat.type("prompt First player Think twice.")
        await seat.hear("role First player is now Think twice.")
        assert seat.run.roles["First player"].system_prompt == "Think twice."


async def test_what_is_typed_may_come_from_a_file_and_lack_its_last_line_end(tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    typed.write_text("status\nprompts")
    with typed.open() as lines:
        assert "First: You play Nim" in await told_with(lines)


async def test_a_file_that_says_quit_stops_the_run_it_was_given_to(tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    typed.write_text("quit\n")
    with typed.open() as lines:
        told = await told_with(lines)
    assert "stopped" in told
    assert "step 3/100" not in told


async def test_a_run_goes_on_where_nobody_can_type() -> None:
    with Path(os.devnull).open() as nothing:
        assert "step 3/100" in await told_with(nothing)
    assert "step 3/100" in await told_with(None)


async def told_with(lines: TextIO | None) -> str:
    """What is told by the end of step 3, with these lines to read commands from."""
    run, out = fake(), io.StringIO()
    driving = asyncio.create_task(plain.drive(run, out, lines))  # type: ignore[arg-type]
    await until(lambda: "step 3/100" in out.getvalue() or driving.done())
    await run.stop()
    await asyncio.wait_for(driving, 10)
    return out.getvalue()


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


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
def test_a_stream_that_is_closed_is_no_terminal(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, Terminal())
    assert showing.has_terminal()
    monkeypatch.setattr(sys, stream, None)
    assert not showing.has_terminal()
