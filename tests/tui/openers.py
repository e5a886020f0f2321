"""How to get to each screen of the app: one entry a scope of the table of actions.

Whoever adds a screen adds a line here, and it is covered: its keys must reach their methods (`test_actions.py`),
and hostile text is sent through it (`test_fuzz.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from textual.pilot import Pilot

from engine.types import Question
from tests.tui.fake import FakeRun
from tests.tui.look import play, play_to, until
from tui.actions import SCOPES, Scope, scope_of
from tui.app import SelfPlayApp
from tui.screens.home import HomeScreen

Opener = Callable[[Pilot[Any], FakeRun], Awaitable[None]]


def then(before: Opener, scope: Scope, *pressed: str) -> Opener:
    """From the screen that `before` opens, by keys, to the scope's."""

    async def open(pilot: Pilot[Any], run: FakeRun) -> None:
        await before(pilot, run)
        await pilot.press(*pressed)
        await until(pilot, lambda: scope_of(pilot.app.screen) == scope)
        await pilot.pause()

    return open


async def home(pilot: Pilot[Any], run: FakeRun) -> None:
    while not isinstance(pilot.app.screen, HomeScreen):
        await pilot.press("escape")
        await pilot.pause()


async def presets(pilot: Pilot[Any], run: FakeRun) -> None:
    await home(pilot, run)
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    app.home.preset_list.focus()


async def marked(pilot: Pilot[Any], run: FakeRun) -> None:
    """Two of Home's runs."""
    await home(pilot, run)
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    app.home.run_list.focus()
    await pilot.press("home", "down", "space", "down", "space")


async def run_screen(pilot: Pilot[Any], run: FakeRun) -> None:
    await play(pilot, run, 2)


async def question(pilot: Pilot[Any], run: FakeRun) -> None:
    said = run.roles["First"].system_prompt
    choices = tuple(f"{number} {said}"[:40] for number in range(1, 10))
    run.questions = [Question(id, "0", said, about=(said,), choices=choices) for id in (1, 2)]
    await then(run_screen, "ask", "a")(pilot, run)


async def why(pilot: Pilot[Any], run: FakeRun) -> None:
    """Of a turn that has its credit."""
    await run_screen(pilot, run)
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    assert app.session is not None
    ended = next(e for e in app.session.store.episodes.values() if e.turns and e.turns[0].credit is not None)
    app.screen._focus_on(ended.id)  # type: ignore[attr-defined]
    await then(run_screen, "why", "2", "w")(pilot, run)


OPENERS: dict[Scope, Opener] = {
    "home": home,
    "form": then(presets, "form", "e"),
    "compare": then(marked, "compare", "c"),
    "run": run_screen,
    "metrics": then(run_screen, "metrics", "g"),
    "steer": then(run_screen, "steer", "s"),
    "league": then(run_screen, "league", "l"),
    "edit": then(run_screen, "edit", "p"),
    "ask": question,
    "play": then(run_screen, "play", "x"),
    "why": why,
    "replay": then(run_screen, "replay", "o"),
    "search": then(then(run_screen, "replay", "o"), "search", "slash"),
    "app": run_screen,
}


async def opened(pilot: Pilot[Any], run: FakeRun, scope: Scope) -> None:
    """The app, started on a run, at the screen of a scope."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    assert scope in OPENERS, f"tests/tui/openers.py doesn't say how to get to [{scope}], {SCOPES[scope]!r}"
    await play_to(pilot, run, 1)
    await play(pilot, run, 8)
    await OPENERS[scope](pilot, run)
    await pilot.pause()
