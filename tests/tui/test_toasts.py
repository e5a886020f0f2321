"""Toasts beside what one came to read: they take their room from it, and lie over none of it."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from tests.tui.look import SIZES, play, seen, still, until, watching
from tui.app import SelfPlayApp

WORDS = "The run has finished. To go on: selfplay-tui resume kuhn_poker-1 --steps MORE"


async def told(pilot: Pilot[None], app: SelfPlayApp) -> None:
    """A toast is there, to its last word."""
    await until(pilot, lambda: "The run has" in seen(app) and "MORE" in seen(app))
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
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
