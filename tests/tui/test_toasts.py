"""Toasts beside what one came to read: they take their room from it, and lie over none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button
from textual.widgets._toast import Toast

from tests.tui.look import SIZES, at_rest, burst, play, seen, still, until, watching
from tui.app import SelfPlayApp
from tui.screens.adding import AskWeight
from tui.screens.branch import AskFork, GoBack
from tui.screens.dialog import TooSmall
from tui.screens.prompt import EditPrompt
from tui.screens.texts import AskName, LongText
from tui.steering import Version

WORDS = "The run has finished. To go on: selfplay-tui resume kuhn_poker-1 --steps MORE"


async def told(pilot: Pilot[None], app: SelfPlayApp) -> None:
    """A toast is there, to its last word."""
    await until(pilot, lambda: "The run has" in seen(app) and "MORE" in seen(app))
    await pilot.pause()


@pytest.mark.parametrize("size", [*SIZES, TooSmall.NEEDED])
@pytest.mark.parametrize("before", [True, False], ids=["before", "meanwhile"])
@pytest.mark.parametrize(
    ("key", "first", "last"),
    [
        ("question_mark", "Keys", "esc closes"),
        ("p", "Edit a prompt", "Apply ^s"),
        ("ctrl+c", "Quit?", "Stay"),
    ],
    ids=["help", "prompt", "question"],
)
async def test_a_toast_lies_over_nothing_that_was_opened_to_be_read(
    key: str, first: str, last: str, before: bool, size: tuple[int, int]
) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play(pilot, run, 5)
        if before:
            app.say(WORDS, "warning")
            await told(pilot, app)
        await pilot.press(key)
        if not before:
            await until(pilot, lambda: last in seen(app))
            app.say(WORDS, "warning")
        await told(pilot, app)
        assert first in seen(app)
        assert last in seen(app)
        [toast], [read] = app.screen.query(Toast), app.screen.query(".help, .edit, .dialog")
        assert toast.region.area > 0
        assert not toast.region.overlaps(read.region)


TIGHT = [SIZES[0], TooSmall.NEEDED]
"""Where a toast and what one reads are next to each other."""

DIALOGS: dict[str, Callable[[], ModalScreen[Any]]] = {
    "go back": lambda: GoBack("nim-3", step=3, now=10, edits=2),
    "fork": lambda: AskFork("nim-3", step=10, steps=10),
    "weight": lambda: AskWeight("nim", "kuhn"),
    "name": lambda: AskName("Save as a preset", "It can't be written: " + "a long path/" * 20, "nim-mine"),
    "text": lambda: LongText("An answer", "words\n" * 40),
    "prompt": lambda: EditPrompt({"First": [Version("Play well.", 0, None)]}),
}


def in_sight(widget: Widget) -> bool:
    """Whether every cell of a widget is on the screen, with nothing over it."""
    screen, region = widget.screen, widget.region
    cells = [(x, y) for y in range(region.y, region.bottom) for x in range(region.x, region.right)]
    return bool(cells) and all(widget in screen.get_widget_at(x, y)[0].ancestors_with_self for x, y in cells)


@pytest.mark.parametrize("size", TIGHT)
@pytest.mark.parametrize("dialog", DIALOGS.values(), ids=DIALOGS)
async def test_whatever_is_told_the_fields_and_buttons_of_a_dialog_stay_in_sight(
    dialog: Callable[[], ModalScreen[Any]], size: tuple[int, int]
) -> None:
    app = watching(still())
    async with app.run_test(size=size, notifications=True) as pilot:
        app.push_screen(dialog())
        for number in range(4):
            app.say(f"{number}. {WORDS} {'and so on ' * 20}", "warning")
        await until(pilot, lambda: "3. The run has" in seen(app))
        await at_rest(pilot)
        shown = seen(app)
        for button in app.screen.query(Button):
            assert str(button.label) in shown
        for widget in app.screen.query("Button, Input, TextArea"):
            assert in_sight(widget), widget


@pytest.mark.parametrize("size", TIGHT)
@pytest.mark.parametrize("before", [True, False], ids=["before", "meanwhile"])
@pytest.mark.parametrize("key", ["p", "ctrl+p", "ctrl+o"])
async def test_of_several_toasts_the_newest_is_read_over_whatever_is_opened(
    key: str, before: bool, size: tuple[int, int]
) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play(pilot, run, 5)
        if not before:
            await pilot.press(key)
        for number in range(4):
            app.say(f"{number}. {WORDS}", "warning")
        if before:
            await pilot.press(key)
        await until(pilot, lambda: "3. The run has" in seen(app) and "MORE" in seen(app))


@pytest.mark.parametrize("is_clicked", [True, False], ids=["clicked", "timed"])
async def test_the_toast_before_comes_back_when_the_newest_has_gone_first(is_clicked: bool) -> None:
    app = watching(still())
    async with app.run_test(size=TooSmall.NEEDED, notifications=True) as pilot:
        await pilot.press("ctrl+c")
        app.notify("Copied.", timeout=60)
        app.notify("Another.", timeout=60 if is_clicked else 1)
        await until(pilot, lambda: "Another." in seen(app))
        assert "Copied." not in seen(app)
        if is_clicked:
            await at_rest(pilot)
            assert await pilot.click("ToastHolder:last-child Toast")
        await until(pilot, lambda: "Copied." in seen(app))
        assert "Another." not in seen(app)


@pytest.mark.parametrize("size", TIGHT)
@pytest.mark.parametrize("before", [True, False], ids=["before", "meanwhile"])
async def test_a_toast_is_read_above_the_commands_and_hides_none(before: bool, size: tuple[int, int]) -> None:
    app = watching(still())
    async with app.run_test(size=size, notifications=True) as pilot:
        if before:
            app.say(WORDS, "warning")
            await told(pilot, app)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: app.screen.query("CommandList.--visible"))
        without = app.screen.query_one("CommandList").region
        if not before:
            app.say(WORDS, "warning")
        await told(pilot, app)
        await at_rest(pilot)
        [toast], [listed] = app.screen.query(Toast), app.screen.query("CommandList")
        assert toast.region.bottom <= app.screen.query_one("CommandInput").region.y
        assert listed.region == without


async def test_letters_to_jump_to_stay_on_their_panes_whatever_is_told() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play(pilot, run, 5)
        await pilot.press("ctrl+o")
        await pilot.pause()
        letters = [label.region for label in app.screen.query(".letter")]
        app.say(WORDS, "warning")
        await told(pilot, app)
        assert [label.region for label in app.screen.query(".letter")] == letters


async def test_what_is_told_again_while_it_is_shown_is_shown_once() -> None:
    app = watching(still())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        for _ in range(3):
            app.say(WORDS, "warning")
        app.say("There is no border to move here.")
        await told(pilot, app)
        app.say(WORDS, "warning")
        app.say(WORDS)
        await until(pilot, lambda: len(app.screen.query(Toast)) == 3)
        await at_rest(pilot)
        assert [str(toast.render()) for toast in app.screen.query(Toast)] == [
            WORDS,
            "There is no border to move here.",
            WORDS,
        ]


async def test_a_refused_key_pressed_three_times_is_answered_by_one_toast() -> None:
    app = watching(still())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.pause()
        app.screen.set_focus(None)
        burst(app, *["shift+left"] * 3)
        await until(pilot, lambda: app.screen.query(Toast))
        shown = await at_rest(pilot)
        assert shown.count("There is no border to move here.") == 1


async def test_the_time_of_what_is_told_again_begins_anew() -> None:
    app = watching(still())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        app.notify("Copied.", timeout=1)
        await until(pilot, lambda: "Copied." in seen(app))
        app.notify("Copied.", timeout=60)
        app.notify("Another.", timeout=1)
        await until(pilot, lambda: "Another." in seen(app))
        await until(pilot, lambda: "Another." not in seen(app))
        assert seen(app).count("Copied.") == 1


async def test_what_is_told_again_when_its_toast_has_gone_is_shown_again() -> None:
    app = watching(still())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        for _ in range(2):
            app.say("Copied.")
            await until(pilot, lambda: "Copied." in seen(app))
            await pilot.click(Toast)
            await until(pilot, lambda: "Copied." not in seen(app))


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+p"])
async def test_a_toast_is_not_seen_a_second_time_through_what_stands_over_it(key: str) -> None:
    app = watching(still())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        app.say(WORDS, "warning")
        await told(pilot, app)
        await pilot.press(key)
        await told(pilot, app)
        assert (await at_rest(pilot)).count("The run has") == 1
        await pilot.press("escape")
        assert (await at_rest(pilot)).count("The run has") == 1
