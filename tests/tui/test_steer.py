"""Steering: what can be set is set within its bounds, edits tell what came of them, and one can go back or fork."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Button, Input

from engine.events import EditApplied, EvaluationFinished, RunState
from tests.tui.clock import Clock
from tests.tui.fake import FakeRun
from tests.tui.look import SIZES, play, play_to, seen, still, until, watching
from tui import steering
from tui.actions import actions
from tui.app import SelfPlayApp
from tui.screens.branch import AskFork, GoBack
from tui.screens.dialog import Confirm
from tui.screens.home import HomeScreen
from tui.screens.prompt import EditPrompt
from tui.screens.run import RunScreen
from tui.screens.steer import SteerScreen
from tui.theme import DUSK


async def steering_of(pilot: Pilot[Any], run: FakeRun, step: int = 3) -> SteerScreen:
    """The screen, over a run that has come so far."""
    await play_to(pilot, run, step)
    await pilot.press("s")
    await until(pilot, lambda: isinstance(pilot.app.screen, SteerScreen))
    screen = pilot.app.screen
    assert isinstance(screen, SteerScreen)
    await until(pilot, lambda: screen.setter.choice.ids)
    return screen


async def chosen(pilot: Pilot[Any], screen: SteerScreen, key: str) -> None:
    screen.setter.choice.choose(key)
    await pilot.pause()
    await pilot.press("enter")
    await until(pilot, lambda: screen.setter.field.has_focus)


def flat(app: SelfPlayApp) -> str:
    return " ".join(seen(app).split())


# What is told of edits


def evaluation(step: int, **metrics: float) -> EvaluationFinished:
    return EvaluationFinished(step, metrics)


def test_an_edit_is_told_with_the_evaluation_before_it_and_the_first_ones_after():
    edits = [EditApplied(1, 20, "train.kl", "0.0", "0.1"), EditApplied(2, 45, "train.kl", "0.1", "0.0")]
    measured = [evaluation(step, win=step / 100) for step in range(0, 80, 10)]
    newest, first = steering.outcomes(edits, [*measured, evaluation(99, other=1.0)], "win")
    assert first.before is not None
    assert newest.before is not None
    assert (first.edit.number, first.before.step, [e.step for e in first.after]) == (1, 20, [30, 40, 50])
    assert (newest.before.step, [e.step for e in newest.after]) == (40, [50, 60, 70])
    assert (first.undoes, newest.undoes) == (0, 1)


def test_an_edit_nothing_was_measured_after_says_so():
    found = steering.outcomes([EditApplied(1, 5, "train.kl", "0.0", "0.1")], [evaluation(0, win=0.5)], "win")
    [entry] = steering.edit_entries(found, "win", 80, DUSK)
    what, course = ("".join(text for text, _ in line) for line in entry.lines)
    assert what == "   1  step 5  train.kl  0.0 → 0.1"
    assert course.strip() == "win 0.50 → not measured since"


def test_the_edit_of_a_prompt_counts_words():
    assert steering.words_changed("Take one stick.", "Take two sticks now.") == (2, 3)
    edit = EditApplied(1, 5, "role First", "Take one stick.", "Take two sticks now.")
    assert (steering.told_of(edit.target), steering.change(edit)) == ("First's prompt", "−2 +3 words")


def test_the_versions_of_a_prompt_are_all_that_were_in_force():
    edits = [
        EditApplied(1, 2, "role A", "one", "two"),
        EditApplied(2, 3, "train.kl", "0.0", "1.0"),
        EditApplied(3, 4, "role A", "two", "three"),
    ]
    found = steering.versions(edits, "A", "three")
    assert [(version.text, version.until) for version in found] == [("three", 0), ("two", 3), ("one", 1)]
    assert [version.text for version in steering.versions(edits, "B", "x")] == ["x"]


# Settings


@pytest.mark.parametrize("size", SIZES)
async def test_a_setting_is_changed_in_place(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = await steering_of(pilot, run)
        await until(pilot, lambda: "learning_rate" in seen(app) and "above 0 and at most 1" in flat(app))
        await chosen(pilot, screen, "train.kl")
        assert screen.setter.field.value == "0.0"
        screen.setter.field.value = "0.25"
        await pilot.press("enter")
        await until(pilot, lambda: "set train.kl=0.25" in run.calls)
        await until(pilot, lambda: "Edit 1: train.kl is 0.25 from now on." in flat(app))
        await until(pilot, lambda: screen.setter.choice.has_focus and "edit 1" in seen(app))


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_out_of_bounds_is_told_beside_the_field_which_stays(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        screen = await steering_of(pilot, run)
        await chosen(pilot, screen, "train.learning_rate")
        screen.setter.field.value = "7"
        await pilot.press("enter")
        words = "✗ train.learning_rate: wants a number above 0 and at most 1, not 7"
        await until(pilot, lambda: words in flat(app).replace("│ ", ""))
        assert screen.setter.field.has_focus
        assert not [call for call in run.calls if call.startswith("set")]
        await pilot.press("backspace")
        await until(pilot, lambda: "✗" not in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: screen.setter.choice.has_focus and not screen.setter.field.display)
        assert app.screen is screen


async def test_a_click_chooses_a_setting_and_another_opens_it() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await steering_of(pilot, run)
        await pilot.click("#settings", offset=(5, 4))
        await pilot.pause()
        assert screen.setter.choice.chosen == "train.clip_high"
        assert not screen.setter.field.has_focus
        await pilot.click("#settings", offset=(5, 4))
        await until(pilot, lambda: screen.setter.field.has_focus)


async def test_a_run_that_is_over_is_not_set() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await steering_of(pilot, run)
        await run.stop()
        await until(pilot, lambda: app.session is not None and not app.session.live)
        await pilot.press("enter")
        await until(pilot, lambda: "Settings can be changed" in seen(app))


# Edits


@pytest.mark.parametrize("size", SIZES)
async def test_an_edit_is_listed_with_what_came_of_it_and_undone_by_another(size: tuple[int, int]) -> None:
    run = still(episodes=6)
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play_to(pilot, run, 12)
        await run.set("train.kl", "0.5")
        screen = await steering_of(pilot, run, 31)
        await pilot.press("2")
        store = app.session.store  # type: ignore[union-attr]
        values = {e.step: f"{e.metrics['win_vs_random']:.2f}" for e in store.evaluations}
        course = f"win vs random {values[10]} → {values[20]} at 20, {values[30]} at 30"
        await until(pilot, lambda: course in flat(app) and "train.kl 0.0 → 0.5" in flat(app))
        await pilot.press("u")
        await until(pilot, lambda: "Edit 2 undoes edit 1." in flat(app))
        await until(pilot, lambda: "undoes edit 1 " in seen(app) and "not measured since" in seen(app))
        assert run.config.train.kl == 0.0
        assert screen.edit_list.chosen == "1"


async def test_without_edits_or_checkpoints_it_says_what_makes_one() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await steering_of(pilot, run, 0)
        assert "Nothing was edited yet." in seen(app)
        assert "No checkpoint yet." in seen(app)
        await pilot.press("u", "b")
        await until(pilot, lambda: "no edit to undo" in seen(app) and "No checkpoint is kept yet" in seen(app))


# The run


@pytest.mark.parametrize("where", [RunScreen, SteerScreen])
async def test_one_step_and_pause_from_both_screens(where: type) -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play_to(pilot, run, 2)
        if where is SteerScreen:
            await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, where))
        await pilot.press("n")
        await until(pilot, lambda: run.state is RunState.PAUSED and "The same key again" in flat(app))
        await pilot.press("n")
        await until(pilot, lambda: run.status().step == 3 and run.state is RunState.PAUSED)
        assert run.calls.count("step once") == 1
        await pilot.press("space")
        await until(pilot, lambda: run.state is RunState.RUNNING)
        await pilot.press("space")
        await until(pilot, lambda: run.state is RunState.PAUSED)


async def test_prompts_and_checkpoints_are_one_key_away_here_too() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await steering_of(pilot, run)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "checkpoint" in run.calls)
        await pilot.press("3")
        await until(pilot, lambda: "auto, manual" in seen(app))
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, EditPrompt))
        await pilot.press("escape", "1", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert screen not in app.screen_stack


async def test_the_digits_go_to_the_panes() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await steering_of(pilot, run)
        await run.set("train.kl", "1.0")
        await play(pilot, run, 0)
        for number in (3, 2, 1):
            await pilot.press(str(number))
            await until(pilot, lambda n=number: screen.lists[n - 1].has_focus)
            assert [pane.number for pane in screen.panes if pane.display] == [number]


# Going back and forks


class Elsewhere:
    """What the app does with folders, written down instead of done."""

    def __init__(self, app: SelfPlayApp, problem: Exception | None = None) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.opened: list[FakeRun] = []
        self.problem = problem
        app.sources = replace(app.sources, roll_back=self.roll_back, fork=self.fork, resume=self.resume)

    def roll_back(self, *asked: Any) -> None:
        self.done.append(("back", *asked))
        if self.problem is not None:
            raise self.problem

    def fork(self, folder: Path, *asked: Any) -> Path:
        self.done.append(("fork", folder, *asked))
        if self.problem is not None:
            raise self.problem
        return folder.parent / "twin"

    def resume(self, folder: Path) -> FakeRun:
        self.opened.append(still(name=folder.name))
        return self.opened[-1]


@pytest.mark.parametrize(("button", "keeps"), [("keep", True), ("undo", False)])
async def test_going_back_is_asked_then_stops_sets_back_and_opens_again(button: str, keeps: bool) -> None:
    run = still(episodes=4)
    app = watching(run)
    elsewhere = Elsewhere(app)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await steering_of(pilot, run, 21)
        await run.set("train.kl", "0.5")
        await until(pilot, lambda: "0.0 → 0.5" in seen(app))
        screen.checkpoint_list.choose("20")
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, GoBack))
        assert "Go back to step 20?" in seen(app)
        assert "1 edit came after it" in seen(app)
        await pilot.press("enter")  # stays where it is
        await until(pilot, lambda: app.screen is screen)
        assert not elsewhere.done
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, GoBack))
        await pilot.click(f"#{button}")
        await until(pilot, lambda: elsewhere.opened and isinstance(app.screen, RunScreen))
        assert elsewhere.done == [("back", Path("runs/nim-3"), 20, keeps)]
        assert run.state is RunState.STOPPED
        assert app.session is not None
        assert app.session.run is elsewhere.opened[0]
        assert [type(s) for s in app.screen_stack][1:] == [HomeScreen, RunScreen]
        await until(pilot, lambda: "nim-3 goes on from step 20." in flat(app))


async def test_a_run_that_cannot_go_back_goes_on_as_it_was() -> None:
    run = still(episodes=4)
    app = watching(run)
    elsewhere = Elsewhere(app, OSError("disk [b]full"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await steering_of(pilot, run, 2)
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, GoBack))
        assert not app.screen.query("#undo")
        await pilot.click("#keep")
        await until(pilot, lambda: elsewhere.opened and "disk [b]full" in seen(app))
        await until(pilot, lambda: elsewhere.opened[0].state is RunState.RUNNING)


@pytest.mark.parametrize("size", SIZES)
async def test_a_fork_is_made_beside_the_run_and_gone_on_with_if_asked(size: tuple[int, int]) -> None:
    run = still(episodes=4)
    app = watching(run)
    elsewhere = Elsewhere(app)
    async with app.run_test(size=size, notifications=True) as pilot:
        await steering_of(pilot, run, 3)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, AskFork))
        assert "Fork nim-3 at step 3" in seen(app)
        await pilot.press(*"twin", "tab", *"train.kl=0.5 'run.seed=9'", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert elsewhere.done == [("fork", Path("runs/nim-3"), 3, "twin", ("train.kl=0.5", "run.seed=9"))]
        assert run.state is RunState.RUNNING
        await pilot.press("enter")
        await until(pilot, lambda: elsewhere.opened and isinstance(app.screen, RunScreen))
        assert elsewhere.opened[0].name == "twin"
        assert run.state is RunState.STOPPED


async def test_a_fork_that_cannot_be_is_told_and_the_run_works_on() -> None:
    run = still(episodes=4)
    app = watching(run)
    Elsewhere(app, ValueError("lora.rank is 4 in the checkpoint"))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await steering_of(pilot, run, 3)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, AskFork))
        app.screen.query_one("#changes", Input).value = "lora.rank='8"
        await pilot.press("enter")
        await until(pilot, lambda: "No closing quotation" in seen(app))
        app.screen.query_one("#changes", Input).value = "lora.rank=8"
        await pilot.click("#fork")
        await until(pilot, lambda: "lora.rank is 4 in the checkpoint" in flat(app))
        await until(pilot, lambda: app.screen is screen)
        assert run.state is RunState.RUNNING


async def test_a_finished_run_can_be_forked_and_is_asked_for_more_steps() -> None:
    run = still(episodes=4, steps=2)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await steering_of(pilot, run, 2)
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, AskFork))
        assert app.screen.query_one("#changes", Input).value == "run.steps=4"


async def test_nothing_hostile_reaches_the_lists() -> None:
    run = still()
    run.roles["First"].system_prompt = "a\x1b[2Jb [bold]c"
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play_to(pilot, run, 2)
        await run.set("eval.metric", "[/x]\x1b]52;c;aGk=\x07")
        await run.edit_role("First", "\x1b]0;hi\x07 [red]")
        await steering_of(pilot, run, 2)
        await until(pilot, lambda: "eval.metric" in seen(app))
        assert "\x1b" not in seen(app)
        assert "[/x]␛]52" in seen(app)


def test_every_action_of_the_table_has_a_method() -> None:
    for action in actions("steer"):
        assert hasattr(SteerScreen, f"action_{action.action.partition('(')[0]}"), action.name


# Pictures

Compare = Callable[..., bool]


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
@pytest.mark.parametrize("pane", [1, 2, 3])
def test_steering(snap_compare: Compare, size: tuple[int, int], pane: int) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await play_to(pilot, run, 12)
        await run.set("train.learning_rate", "0.01")
        await run.edit_role("First", "You play Nim. Leave a multiple of four. Who takes the last wins.")
        await play_to(pilot, run, 25)
        await run.undo(1)
        await play_to(pilot, run, 31)
        screen = await steering_of(pilot, run, 33)
        await pilot.press(str(pane))
        if pane == 1:
            await chosen(pilot, screen, "train.entropy")
            screen.setter.field.cursor_blink = False
            screen.setter.field.value = "lots"
            await pilot.press("enter")
            await until(pilot, lambda: "✗" in seen(app))
        await pilot.pause(0.3)
        await screen.look()
        await pilot.pause()

    run = still(episodes=12)
    app = watching(run, clock=Clock())
    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("key", ["b", "f"])
def test_going_back_or_forking_is_asked(snap_compare: Compare, key: str) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await play_to(pilot, run, 12)
        await run.set("train.learning_rate", "0.01")
        await steering_of(pilot, run, 13)
        await pilot.press("3", key)
        await until(pilot, lambda: app.screen.query(Button))
        for field in app.screen.query(Input):
            field.cursor_blink = False
        await pilot.pause(0.3)

    run = still(episodes=12)
    app = watching(run, clock=Clock())
    assert snap_compare(app, terminal_size=(80, 24), run_before=before)
