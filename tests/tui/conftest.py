"""Notes which actions of the table tests have done by pressing their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import textual._wait
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

from tui.actions import ACTIONS, scope_of

# After a key a pilot waits until a stretch of 20 ms saw next to no work, which was most of what these tests took.
# 5 ms are enough, as a test that needs more waits for what it needs (`until`, `at_rest`).
assert hasattr(textual._wait, "SLEEP_GRANULARITY")
assert hasattr(textual._wait, "SLEEP_IDLE")
textual._wait.SLEEP_GRANULARITY = 0.005
textual._wait.SLEEP_IDLE = textual._wait.SLEEP_GRANULARITY / 20

parse_rules = Stylesheet._parse_rules
PARSED: dict[tuple[object, ...], list[RuleSet]] = {}


def parsed_once(self: Stylesheet, *style: Any, **more: Any) -> list[RuleSet]:
    """Style sheets are the same in every app: a seventh of what an app's test computes went into parsing them."""
    key = (style, *sorted(more.items()), *sorted(self._variables.items()))
    if key not in PARSED:
        PARSED[key] = parse_rules(self, *style, **more)
    return PARSED[key]


Stylesheet._parse_rules = parsed_once  # type: ignore[method-assign]

PRESSED: set[str] = set()
"""Ids of actions that a test of this session did by a key, other than those of `test_actions.py`."""

LAST = "test_every_action_is_done_by_its_key_in_some_test"


@pytest.fixture(autouse=True)
def note_actions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.name == "test_actions.py":
        return
    by_key = [False]
    check, perform = App._check_bindings, App.run_action

    async def checked(self: App[None], key: str, priority: bool = False) -> bool:
        before, by_key[0] = by_key[0], True
        try:
            return await check(self, key, priority)
        finally:
            by_key[0] = before

    async def performed(self: App[None], action: object, default_namespace: object = None, *more: object) -> bool:
        counts = by_key[0]
        done = await perform(self, action, default_namespace, *more)  # type: ignore[arg-type]
        if done and counts:
            scope = "app" if isinstance(default_namespace, App) else scope_of(default_namespace)
            PRESSED.update(a.id for a in ACTIONS if a.action == action and a.scope == scope)
        return done

    monkeypatch.setattr(App, "_check_bindings", checked)
    monkeypatch.setattr(App, "run_action", performed)


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """The test that counts comes last, and only where all that it counts have been run."""
    here = Path(__file__).parent
    missing = {path.name for path in here.glob("test_*.py")} - {i.path.name for i in items if i.path.parent == here}
    last = [item for item in items if item.name == LAST]
    items[:] = [item for item in items if item.name != LAST] + last
    if missing or session.config.option.keyword:
        for item in last:
            item.add_marker(pytest.mark.skip(reason="counts what all tests of the folder press"))
