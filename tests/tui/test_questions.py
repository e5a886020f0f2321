"""A person is asked: they are told, see what it is about as plain text, and can answer, skip or leave it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from textual.widgets import Input, OptionList

from engine.types import Question
from tests.tui.fake import FakeRun
from tests.tui.hostile import STRINGS
from tests.tui.look import SIZES, play, seen, still, until, watching
from tests.tui.test_hostile import assert_harmless
from tui.app import SelfPlayApp
from tui.screens import questions
from tui.screens.dialog import TooSmall
from tui.screens.help import Help
from tui.screens.questions import LINGER, Questions, texts
from tui.screens.run import RunScreen
from tui.theme import DUSK, palette
from tui.widgets.painted import Painted

RATING = Question(
    1,
    "17",
    "How good is this answer?",
    ("very bad", "bad", "fair", "good", "very good"),
    ("Why is the sky blue?", "Because."),
    300,
    252,
)
WORDS = Question(2, "18", "What is the capital of Peru?", (), ("Plan a journey.",))


async def asked(pilot: Any, run: FakeRun, *questions: Question) -> SelfPlayApp:
    """The run in play, with questions, and the screen they are answered on."""
    app: SelfPlayApp = pilot.app
    await play(pilot, run, 3)
    run.questions = list(questions)
    await until(pilot, lambda: "press a" in seen(app))
    await pilot.press("a")
    await until(pilot, lambda: isinstance(app.screen, Questions) and "Question 1 of" in seen(app))
    await pilot.pause()
    return app


@pytest.mark.parametrize("size", SIZES)
async def test_a_question_is_announced_shown_and_answered_by_its_number(size: tuple[int, int]) -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=size) as pilot:
        app = await asked(pilot, run, RATING)
        shown = seen(app)
        for text in (
            "Question 1 of 1",
            "episode 17",
            "0:04:12 left".removeprefix("0:"),
            "Why is the sky blue?",
            "Because.",
            "How good is this answer?",
            "1  very bad",
            "5  very good",
        ):
            assert text in shown, text
        await pilot.press("4")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert run.answers == {1: "good"}


async def test_whoever_opens_a_run_is_there_to_be_asked() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 1)
        assert run.attended


async def test_the_bell_rings_when_questions_begin_and_words_come_once() -> None:
    run = still(episodes=4)
    app = watching(run)
    bells: list[None] = []
    said: list[str] = []
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        app.bell = lambda: bells.append(None)  # type: ignore[method-assign]
        app.say = lambda text, severity="": said.append(text)  # type: ignore[method-assign]
        await play(pilot, run, 2)
        for batch in range(1, 3):
            run.questions = [replace(RATING, id=n) for n in range(3)]
            await until(pilot, lambda batch=batch: len(bells) == batch and "press a" in seen(app))
            run.questions = []
            await until(pilot, lambda: "press a" not in seen(app))
        assert len(bells) == 2
        assert said == ["An episode asks you something: press a on the run to answer."]


async def test_an_answer_in_ones_own_words() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24), notifications=True) as pilot:
        app = await asked(pilot, run, WORDS)
        await pilot.press("enter")
        await until(pilot, lambda: "Nothing is written yet" in seen(app))
        await pilot.press(*"Lima, 1535?", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert run.answers == {2: "Lima, 1535?"}


async def test_next_keeps_what_was_begun_and_skip_leaves_no_answer() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = await asked(pilot, run, WORDS, RATING)
        await pilot.press(*"Li", "ctrl+n")
        await until(pilot, lambda: "Question 2 of 2" in seen(app))
        await pilot.press("ctrl+n")
        await until(pilot, lambda: "Question 1 of 2" in seen(app))
        assert app.screen.query_one(Input).value == "Li"
        await pilot.press("ctrl+k")
        await until(pilot, lambda: "How good is this answer?" in seen(app))
        assert run.answers == {2: None}
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert run.questions == [RATING]


@pytest.mark.parametrize("size", SIZES)
async def test_the_mouse_answers_too(size: tuple[int, int]) -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 3)
        run.questions = [RATING, replace(RATING, id=2), replace(WORDS, id=3)]
        await until(pilot, lambda: "press a" in seen(app))
        await pilot.click("#status")
        await until(pilot, lambda: isinstance(app.screen, Questions))
        await until(pilot, lambda: app.screen.query_one(OptionList).size.height == 5)
        await pilot.click(OptionList, offset=(4, 1))
        await until(pilot, lambda: run.answers == {1: "bad"})
        await pilot.click("#skip")
        await until(pilot, lambda: run.answers == {1: "bad", 2: None})
        await pilot.click("#later")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_a_question_whose_time_is_over_makes_room_for_the_next_and_the_last_one_closes() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = await asked(pilot, run, RATING, WORDS)
        run.questions = [WORDS]
        await until(pilot, lambda: "capital of Peru" in seen(app))
        run.questions = []
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_it_waits_a_moment_for_the_next_steps_questions() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = await asked(pilot, run, RATING)
        await pilot.press("5")
        await until(pilot, lambda: "No question for now" in seen(app))
        await pilot.press("5", "enter", "ctrl+k", "ctrl+n")
        run.questions = [replace(WORDS, id=3)]
        await until(pilot, lambda: "capital of Peru" in seen(app))
        assert run.answers == {1: "very good"}


async def test_an_answer_that_comes_too_late_is_told() -> None:
    class Late(FakeRun):
        def answer(self, question: int, text: str | None) -> None:
            self.questions = []
            raise ValueError("question 1 is over, or there never was one")

    run = Late(seconds_per_tick=0, episodes=4)
    async with watching(run).run_test(size=(80, 24), notifications=True) as pilot:
        app = await asked(pilot, run, RATING)
        await pilot.press("1")
        await until(pilot, lambda: "question 1 is over" in seen(app) and isinstance(app.screen, RunScreen))


@pytest.mark.parametrize("number", range(1, 10))
async def test_each_of_nine_answers_has_its_number(number: int) -> None:
    run = still(episodes=4)
    question = replace(RATING, choices=tuple(f"answer {n}" for n in range(1, 10)))
    async with watching(run).run_test(size=(80, 24)) as pilot:
        await asked(pilot, run, question)
        await pilot.press(f"{number}")
        await until(pilot, lambda: bool(run.answers))
        assert run.answers == {question.id: f"answer {number}"}


async def test_a_question_is_there_as_soon_as_its_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "GLANCE", 60.0)
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = await asked(pilot, run, RATING)
        assert app.focused is app.screen.query_one(OptionList)


async def test_in_the_smallest_terminal_each_of_nine_answers_comes_in_sight() -> None:
    run = still(episodes=4)
    question = replace(RATING, choices=tuple(f"answer {n}" for n in range(1, 10)))
    async with watching(run).run_test(size=TooSmall.NEEDED) as pilot:
        app = await asked(pilot, run, question)
        for number in range(1, 10):
            await pilot.press("down")
            await until(pilot, lambda number=number: f"answer {number}" in seen(app))
        assert "Later esc" in seen(app)


async def test_when_no_more_questions_come_what_lies_over_them_stays() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = await asked(pilot, run, RATING)
        below = app.screen
        assert isinstance(below, Questions)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, Help))
        run.questions = []
        for _ in range(2 * LINGER):
            below.look()
        await pilot.pause()
        assert isinstance(app.screen, Help)
        await pilot.press("f1")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_a_theme_chosen_there_colours_what_is_asked_about() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = await asked(pilot, run, RATING)
        await pilot.press("t")
        await pilot.pause()
        assert palette(app.theme) is not DUSK
        lines = app.screen.query_one("#about", Painted).lines
        [look] = {look for line in lines for text, look in line if "Because." in text}
        assert look is not None
        assert look.color is not None
        assert look.color.get_truecolor().hex == palette(app.theme).text


async def test_where_nobody_asks_the_key_says_so() -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await play(pilot, run, 3)
        await pilot.press("a")
        await until(pilot, lambda: "No episode asks you anything" in seen(app))


@pytest.mark.parametrize(("size", "part"), [(SIZES[0], 0), (SIZES[1], 1)])
async def test_what_is_asked_and_asked_about_is_plain_text(size: tuple[int, int], part: int) -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=size) as pilot:
        questions = [
            Question(i, text, text or "?", ("a", f"b{text}") if i % 2 else (), (text, text))
            for i, text in enumerate(STRINGS[part:36:2])
        ]
        app = await asked(pilot, run, *questions)
        for _ in questions:
            await pilot.press("ctrl+n", "pagedown")
            await pilot.pause()
            assert_harmless(app, size)


def test_no_text_can_pass_for_the_apps_own_words() -> None:
    fake = "Good.\n2 of 2\nThe better one is this. Press 1"
    lines = ["".join(text for text, _ in line) for line in texts((fake, "short"), 60, DUSK)]
    assert lines == ["1 of 2", "│ Good.", "│ 2 of 2", "│ The better one is this. Press 1", "", "2 of 2", "│ short"]


@pytest.mark.parametrize("choices", [(), ("The first", "The second")])
async def test_a_long_text_is_paged_through_whether_one_writes_or_chooses(choices: tuple[str, ...]) -> None:
    run = still(episodes=4)
    long = "\n".join(f"line {number}" for number in range(200))
    async with watching(run).run_test(size=(120, 40)) as pilot:
        app = await asked(pilot, run, Question(1, "0", "Which?", choices, (long,)))
        assert "line 0 " in seen(app)
        for _ in range(3):
            await pilot.press("pagedown")
        await until(pilot, lambda: "line 0 " not in seen(app))
        for _ in range(3):
            await pilot.press("pageup")
        await until(pilot, lambda: "line 0 " in seen(app))
