"""What help says on each screen is true there."""

from __future__ import annotations

import pytest

from tests.tui.demo import app as demo_app
from tests.tui.look import until
from tui.actions import ACTIONS, KEY_NAMES, SCOPES, Scope, actions, key_name
from tui.screens.help import NUMBERED, Help, rows
from tui.theme import DUSK


def sections(here: Scope) -> dict[str, list[str]]:
    """Lines under each heading, in a broad terminal: one a key."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line, _ in rows(here, 300, DUSK, {}):
        text = "".join(text for text, _ in line)
        if text and not text.startswith(" "):
            heading = text
            found[heading] = []
        elif text:
            found[heading].append(text)
    return found


@pytest.mark.parametrize("here", SCOPES)
def test_every_action_is_told_on_its_own_screen_or_in_a_line_of_numbers(here: Scope) -> None:
    told = sections(here)[SCOPES[here]]
    for action in actions(here):
        by_number = here in NUMBERED and action.key.isdecimal()
        assert by_number or any(line.endswith(f" {action.help}") for line in told), action.id


@pytest.mark.parametrize("here", SCOPES)
def test_of_moving_only_what_the_screen_does_not_do_otherwise_is_told(here: Scope) -> None:
    own = {key for action in actions(here) for key in action.keys.split(",")}
    moving = sections(here)["Moving"]
    if here != "run":
        assert not ("enter" in own and any(line.startswith("  ⏎") for line in moving))
        assert not ({"up", "down"} <= own and any(line.startswith("  ↑ ↓") for line in moving))
    assert any("tab" in line for line in moving) or here == "compare"


def test_what_a_screen_has_a_key_of_the_app_for_is_told_there_alone() -> None:
    told = sections("replay")
    assert not any("⇧←" in line or "⇧→" in line for line in told["Everywhere"])
    assert any("⇧←" in line for line in told["Replaying a run"])
    assert any("⇧←" in line for line in sections("run")["Everywhere"])


def test_no_key_is_called_by_more_than_its_name() -> None:
    """Signs are shown as such; other keys have short names, as on the keyboard."""
    for action in ACTIONS:
        for key in action.keys.split(","):
            assert "_" not in key_name(key), f"{key} of {action.id} isn't in {KEY_NAMES}"


def help_keys() -> list[str]:
    [action] = [action for action in actions("app") if action.name == "help"]
    return action.keys.split(",")


@pytest.mark.parametrize("key", [*help_keys(), "escape"])
async def test_each_key_that_opens_it_closes_it(key: str) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(help_keys()[0])
        await until(pilot, lambda: isinstance(app.screen, Help))
        await pilot.press(key)
        await until(pilot, lambda: not isinstance(app.screen, Help))
