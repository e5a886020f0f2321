"""The table of actions: every key reaches its method, on its screen, and some test presses it."""

from __future__ import annotations

import pytest
from textual.app import App
from textual.widgets import Input, TextArea

from tests.tui.conftest import PRESSED
from tests.tui.look import burst, still, until, watching
from tests.tui.openers import OPENERS, opened
from tui.actions import ACTIONS, SCOPES, Action, Scope, actions, bindings, key_name, scope_of
from tui.screens.help import rows
from tui.theme import DUSK


def test_there_is_a_way_to_every_screen() -> None:
    assert set(OPENERS) == set(SCOPES)


@pytest.mark.parametrize("scope", SCOPES)
async def test_every_key_reaches_its_method(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the methods do is for the tests of the screens; here they are only noted."""
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(160, 45)) as pilot:
        await opened(pilot, run, scope)
        reached: list[Action] = []
        wanted: list[Action] = []

        async def noted(self: App[None], action: object, default_namespace: object = None, *more: object) -> bool:
            own = "app" if isinstance(default_namespace, App) else scope_of(default_namespace)
            if own != scope or action != wanted[-1].action:
                return False
            name = str(action).partition("(")[0]
            assert hasattr(default_namespace, f"action_{name}"), f"{default_namespace} has no action_{name}"
            reached.append(wanted[-1])
            return True

        monkeypatch.setattr(App, "run_action", noted)
        for action in actions(scope):
            wanted.append(action)
            await pilot.press(action.key)
            await pilot.pause()
            if action not in reached and scope_of(app.screen) == scope and app.focused is not None:
                # a field takes letters for itself; its screen hears them where nothing has the focus
                focused = app.focused
                app.screen.set_focus(None)
                await pilot.press(action.key)
                app.screen.set_focus(focused)
        assert [a.id for a in actions(scope) if a not in reached] == []


@pytest.mark.parametrize("scope", SCOPES)
async def test_what_help_says_is_heard_everywhere_is_heard_on_every_screen(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a field takes for writing isn't, while it has the focus."""
    run = still(episodes=12)
    app = watching(run)
    async with app.run_test(size=(160, 45)) as pilot:
        await opened(pilot, run, scope)
        heard: list[str] = []

        async def noted(self: App[None], action: object, default_namespace: object = None, *more: object) -> bool:
            at_app = isinstance(default_namespace, App) or str(action).startswith("app.")
            heard.append(str(action).removeprefix("app.") if at_app else "")
            return True

        monkeypatch.setattr(App, "run_action", noted)
        lines = ["".join(text for text, _ in line) for line, _ in rows(scope, 300, DUSK, {})]
        section = "\n".join(["", *lines]).partition("\nEverywhere\n")[2].partition("\n\n")[0]
        told = [action for action in actions("app") if f" {action.help}" in section]
        assert {"jump", "help", "quit"} <= {action.name for action in told}
        keys = [(key, action.action) for action in told for key in action.keys.split(",")]
        written = [(key, call) for key, call in keys if len(key_name(key)) == 1 or key.startswith("shift+")]
        if not isinstance(app.focused, Input | TextArea):
            written = []
        for pressed in ([pair for pair in keys if pair not in written], written):
            heard.clear()
            burst(app, *(key for key, _ in pressed))
            await until(pilot, lambda: len(heard) >= len(pressed))  # noqa: B023
            assert heard == [call for _, call in pressed]
            app.screen.set_focus(None)


def test_bindings_are_named_after_their_screen() -> None:
    for scope in SCOPES:
        assert {binding.id for binding in bindings(scope)} == {action.id for action in actions(scope)}  # type: ignore[union-attr]


def test_every_action_is_done_by_its_key_in_some_test() -> None:
    """Run last, and only with all the other tests of the folder; see `conftest.py`."""
    assert sorted(action.id for action in ACTIONS if action.id not in PRESSED) == []
