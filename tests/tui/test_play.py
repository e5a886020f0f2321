"""Sitting down: one chooses, is told what the role is told, moves, sees the odds asked for, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual import events
from textual.widgets import Input, OptionList, TextArea

from engine.events import RunState
from engine.types import Message
from tests.tui.clock import Clock
from tests.tui.fake import FakeRun
from tests.tui.fake_table import FakeSitting
from tests.tui.hostile import STRINGS
from tests.tui.look import SIZES, play, seen, still, until, watching
from tests.tui.test_hostile import assert_harmless
from tui.app import SelfPlayApp
from tui.playing import Menu, others, told
from tui.screens.dialog import Confirm
from tui.screens.play import PlayScreen
from tui.screens.run import RunScreen

Compare = Callable[..., bool]


async def opened(pilot: Any, run: FakeRun) -> SelfPlayApp:
    """The screen on which one chooses, over a run in play."""
    app: SelfPlayApp = pilot.app
    await play(pilot, run, 3)
    await pilot.press("x")
    await until(pilot, lambda: isinstance(app.screen, PlayScreen) and "You speak for" in seen(app))
    await pilot.pause()
    return app


async def seated(pilot: Any, run: FakeRun, *keys: str) -> FakeSitting:
    """A game begun, after these keys on the first screen."""
    await opened(pilot, run)
    await pilot.press(*keys, "enter")
    await until(pilot, lambda: run.table.sat and pilot.app.screen.phase == "playing")
    await until(pilot, lambda: "sticks are left" in seen(pilot.app) or "speak" in seen(pilot.app))
    return run.table.sat[-1]


async def heard(pilot: Any, sitting: FakeSitting) -> None:
    """The other side speaks to the end of its turn."""
    while sitting.asked is None and not sitting.over:
        sitting.go_on()
    await pilot.pause(0.15)


@pytest.mark.parametrize("size", SIZES)
async def test_a_whole_game_from_the_first_key_to_the_result(size: tuple[int, int]) -> None:
    run = still(episodes=4)
    run.table.sticks = 4
    async with watching(run).run_test(size=size) as pilot:
        sitting = await seated(pilot, run)
        assert (sitting.roles, sitting.opponent, sitting.learnt) == (("First",), "policy", False)
        await until(pilot, lambda: "[3]" in seen(pilot.app))
        shown = seen(pilot.app)
        for text in ("You play Nim.", "4 sticks are left.", "First, you", "[1]", "[2]", "You are First"):
            assert text in shown, text
        await pilot.press("2", "enter")
        await until(pilot, lambda: sitting.said == ["[2]"])
        sitting.reply = "[1]"
        await until(pilot, lambda: "The others speak" in seen(pilot.app))
        await heard(pilot, sitting)
        await until(pilot, lambda: "1 sticks are left" in seen(pilot.app))
        await pilot.press("1", "enter")
        await until(pilot, lambda: "over" in seen(pilot.app) and "+1.00" in seen(pilot.app))
        shown = seen(pilot.app)
        assert "−1.00" in shown
        assert "In the record as person-1/0; nothing is learnt from it." in shown
        await pilot.press("enter")
        await until(pilot, lambda: len(run.table.sat) == 2 and "4 sticks are left" in seen(pilot.app))
        assert "−1.00" not in seen(pilot.app)


async def test_role_and_opponent_are_chosen_and_more_roles_marked() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, run)
        await pilot.press("down", "space")
        await until(pilot, lambda: "✓ ○ Second" in seen(app))
        await pilot.press("up", "space", "right", "down", "down", "enter")
        await until(pilot, lambda: run.table.sat)
        assert run.table.sat[0].roles == ("First", "Second")
        assert run.table.sat[0].opponent == "step-10"


async def test_of_several_tasks_one_is_chosen_with_its_own_roles() -> None:
    run = still(episodes=4)
    run.table.tasks = ["nim", "held"]
    async with watching(run).run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, run)
        assert "nim/First" in seen(app)
        await pilot.press("left", "down")
        await until(pilot, lambda: "held/First" in seen(app))
        await pilot.press("enter")
        await until(pilot, lambda: run.table.sat)
        assert run.table.sat[0].roles == ("held/First",)
        await until(pilot, lambda: "sticks are left" in seen(app))


@pytest.mark.parametrize("size", SIZES)
async def test_the_others_words_stream_in(size: tuple[int, int]) -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=size) as pilot:
        sitting = await seated(pilot, run, "down")  # the policy begins
        sitting._left = run.words.encode("I take one stick. [1]")
        sitting.go_on()
        await until(pilot, lambda: "▌ I ta▍" in seen(pilot.app) or "▌ I▍" in seen(pilot.app))
        sitting.reply = "I take one stick. [1]"
        await heard(pilot, sitting)
        await until(pilot, lambda: "▌ I take one stick. [1]" in seen(pilot.app))
        await until(pilot, lambda: "9 sticks are left" in seen(pilot.app))


async def test_what_one_would_not_hear_is_hidden_until_it_is_uncovered() -> None:
    run = still(episodes=4)
    run.table.settings = {"open": False, "reply": "secret [1]"}
    async with watching(run).run_test(size=(120, 40)) as pilot:
        sitting = await seated(pilot, run, "down")
        sitting.go_on()
        await until(pilot, lambda: "1 token: you hear of it" in seen(pilot.app))
        await heard(pilot, sitting)
        await until(pilot, lambda: "9 sticks are left" in seen(pilot.app))
        assert "secret" not in seen(pilot.app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "▌ secret [1]" in seen(pilot.app))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "secret" not in seen(pilot.app))


@pytest.mark.parametrize("size", SIZES)
async def test_the_odds_are_shown_when_asked_for_and_only_then(size: tuple[int, int]) -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=size) as pilot:
        sitting = await seated(pilot, run, "right", "down")  # against a checkpoint
        assert sitting.asked_odds == []
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "50% policy" in seen(pilot.app))
        shown = seen(pilot.app)
        for text in ("30% policy", "15% policy", "60% step-20", "policy 5%", "step-20 10%"):
            assert text in shown, text
        await pilot.press("1", "enter")
        await heard(pilot, sitting)
        await until(pilot, lambda: "said with probability" in seen(pilot.app) and "50% policy" in seen(pilot.app))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "50% policy" not in seen(pilot.app))
        assert "said with probability" not in seen(pilot.app)


@pytest.mark.parametrize("size", SIZES)
async def test_moves_by_arrows_and_by_mouse_and_none_by_mistake(size: tuple[int, int]) -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=size, notifications=True) as pilot:
        sitting = await seated(pilot, run)
        await pilot.press("enter")
        await until(pilot, lambda: "Nothing is chosen" in seen(pilot.app))
        await pilot.press(*"[7]", "enter")
        await until(pilot, lambda: "'[7]' isn't legal here" in seen(pilot.app))
        assert sitting.said == []
        assert pilot.app.screen.query_one("#typed", Input).value == "[7]"
        await pilot.press("backspace", "backspace", "backspace", "down", "down", "enter")
        await until(pilot, lambda: sitting.said == ["[2]"])
        await heard(pilot, sitting)
        await until(pilot, lambda: pilot.app.screen.query_one("#moves", OptionList).size.height == 3)
        await pilot.click("#moves", offset=(4, 0))
        await until(pilot, lambda: sitting.said == ["[2]", "[1]"])


async def test_what_is_not_legal_is_said_only_when_one_insists() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24), notifications=True) as pilot:
        sitting = await seated(pilot, run)
        await pilot.press(*"two", "enter")
        await until(pilot, lambda: "⏎ again says it all" in seen(pilot.app))
        await pilot.press("s", "enter", "backspace", "enter")
        await pilot.pause(0.1)
        assert sitting.said == []
        await pilot.press("enter")
        await until(pilot, lambda: sitting.said == ["two"])


async def test_keys_that_come_all_at_once_keep_their_order() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        sitting = await seated(pilot, run)
        for key, character in (("3", "3"), ("enter", "\r")):  # without a pause in between, as from a quick hand
            pilot.app.post_message(events.Key(key, character))
        await until(pilot, lambda: sitting.said == ["[3]"])


async def test_where_anything_may_be_said_there_is_room_for_lines() -> None:
    run = still(episodes=4)
    run.table.settings = {"free": True}
    async with watching(run).run_test(size=(80, 24), notifications=True) as pilot:
        sitting = await seated(pilot, run)
        await until(pilot, lambda: "say anything" in seen(pilot.app))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "anything may be said here" in seen(pilot.app))
        await pilot.press(*"Hello", "ctrl+j", *"there?", "enter")
        await until(pilot, lambda: sitting.said == ["Hello\nthere?"])
        assert "▌ there?" in seen(pilot.app)


async def test_leaving_is_asked_about_and_the_run_goes_on() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(80, 24)) as pilot:
        app = pilot.app
        sitting = await seated(pilot, run)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and "Nothing of it is kept" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, PlayScreen))
        assert not sitting.over
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: sitting.over and "You speak for" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert run.state is RunState.RUNNING


async def test_a_model_that_has_to_be_loaded_is_said_to_be_and_can_be_given_up() -> None:
    run = still(episodes=4)
    run.table.is_ready = False
    async with watching(run, clock=Clock()).run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, run)
        assert "The model isn't in memory" in seen(app)
        await pilot.press("enter")
        await until(pilot, lambda: "Loading pocket … 0:00:00 · esc gives it up" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: "The model isn't in memory" in seen(app))
        assert run.table.sat == []
        run.table.loading = 0.0
        await pilot.press("enter")
        await until(pilot, lambda: "sticks are left" in seen(app))


async def test_what_goes_wrong_with_sitting_down_is_said_and_one_chooses_again() -> None:
    run = still(episodes=4)

    async def refuse(**_: Any) -> Any:
        raise ValueError("step-20 can't play: [/its] folder is gone")

    run.table.sit = refuse  # type: ignore[method-assign]
    async with watching(run).run_test(size=(80, 24), notifications=True) as pilot:
        app = await opened(pilot, run)
        await pilot.press("enter")
        await until(pilot, lambda: "[/its] folder is gone" in seen(app).replace("\n", " "))
        assert "You speak for" in seen(app)


async def test_what_could_not_be_recorded_is_not_said_to_be() -> None:
    run = still(episodes=4)
    run.table.sticks = 1
    run.table.settings = {"error": "runs/nim-3: disk is full"}
    async with watching(run).run_test(size=(80, 24)) as pilot:
        await seated(pilot, run)
        await pilot.press("1", "enter")
        await until(pilot, lambda: "✗ runs/nim-3: disk is full" in seen(pilot.app))
        assert "+1.00" in seen(pilot.app)
        assert "In the record" not in seen(pilot.app)


async def test_learning_from_it_is_off_until_it_is_asked_for_and_refused_with_the_reason() -> None:
    run = still(episodes=4)
    run.table.sticks = 1
    async with watching(run).run_test(size=(120, 40), notifications=True) as pilot:
        app = await opened(pilot, run)
        assert "nothing is learnt from it" in seen(app)
        run.table.no_lesson = "credit.kind is grpo"
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "credit.kind is grpo" in seen(app))
        assert "nothing is learnt from it" in seen(app)
        run.table.no_lesson = ""
        await pilot.press("ctrl+l", "enter")
        await until(pilot, lambda: run.table.sat)
        assert run.table.sat[0].learnt
        await pilot.press("1", "enter")
        await until(pilot, lambda: "the run learns from it in its next step" in seen(app))


async def test_the_run_goes_on_and_says_so_while_one_thinks() -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=(120, 40)) as pilot:
        await seated(pilot, run)
        before = run.status().step
        while run.status().step == before:
            run.advance()
        await until(pilot, lambda: f"step {before + 1} of 100" in seen(pilot.app))


async def test_closing_the_run_lets_go_of_the_table() -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 1)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app._exit)
    assert run.table.closed == 1


@pytest.mark.parametrize(("size", "part"), [(SIZES[0], 0), (SIZES[1], 1)])
async def test_what_is_told_and_said_is_plain_text(size: tuple[int, int], part: int) -> None:
    run = still(episodes=4)
    async with watching(run).run_test(size=size) as pilot:
        sitting = await seated(pilot, run, "down")
        for text in STRINGS[part:36:2]:
            if not text:
                continue
            sitting.reply, sitting._sticks = text, 10
            sitting._left = run.words.encode(text)
            await heard(pilot, sitting)
            assert_harmless(pilot.app, size)
            sitting.answer("[1]")
            await pilot.pause(0.12)
            assert_harmless(pilot.app, size)


def test_moves_that_are_numbers_are_typed_and_others_counted() -> None:
    board = Menu(["[0]", "[3]", "[8]"])
    assert not board.numbered
    assert [board.find(typed) for typed in ("3", "[3]", " 8 ", "1", "", "2")] == [
        "[3]",
        "[3]",
        "[8]",
        None,
        None,
        None,
    ]
    words = Menu(["[Check]", "[Bet]", "[Call]"])
    assert words.numbered
    assert [words.find(typed) for typed in ("2", "bet", "[Bet]", "c", "4", "0")] == ["[Bet]"] * 3 + [None] * 3
    assert [words.place(typed) for typed in ("c", "ca", "x", "")] == [0, 2, None, None]


def test_odds_stand_beside_their_moves_and_what_is_missing_is_told() -> None:
    menu = Menu(["[Bet]", "[Check]"])
    assert menu.labels({"policy": {"[Bet]": 0.75, "[Check]": 0.0}}) == [
        "  1  [Bet]    █████████···  75% policy",
        "  2  [Check]  ············   0% policy",
    ]
    assert others({"[Bet]": 0.75, "[Check]": 0.0}) == 0.25
    assert others({"[Bet]": 1.0000002}) == 0.0


def test_of_a_chat_only_what_is_new_is_told_again() -> None:
    chat: list[Message] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "How are you?"},
    ]
    assert [message["content"] for message in told(chat, True)] == ["Be brief.", "Hello.", "Hi.", "How are you?"]
    assert [message["content"] for message in told(chat, False)] == ["How are you?"]
    assert [message["content"] for message in told(chat[:2], False)] == ["Hello."]


# Pictures


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
@pytest.mark.parametrize("moment", ["choosing", "odds", "words", "over"])
def test_a_picture(snap_compare: Compare, size: tuple[int, int], moment: str) -> None:
    run = still(episodes=4)
    run.table.sticks = 3 if moment == "over" else 10
    run.table.settings = {"free": moment == "words"}

    async def before(pilot: Any) -> None:
        app = await opened(pilot, run)
        if moment == "choosing":
            await pilot.press("space")
            await until(pilot, lambda: "✓ ● First" in seen(app))
            return
        await pilot.press("right", "down", "enter")
        await until(pilot, lambda: run.table.sat and app.screen.phase == "playing")  # type: ignore[attr-defined]
        sitting = run.table.sat[0]
        for field in (app.screen.query_one("#typed", Input), app.screen.query_one("#words", TextArea)):
            field.cursor_blink = False
        await until(pilot, lambda: "sticks are left" in seen(app))
        if moment == "odds":
            await pilot.press("ctrl+g", "2", "enter")
            await heard(pilot, sitting)
            await until(pilot, lambda: "probability" in seen(app) and "60% step-20" in seen(app))
        elif moment == "words":
            await pilot.press(*"I take [2].")
        elif moment == "over":
            await pilot.press("3", "enter")
            await until(pilot, lambda: "In the record" in seen(app))
        await pilot.pause(0.3)

    assert snap_compare(watching(run, clock=Clock()), terminal_size=size, run_before=before)
