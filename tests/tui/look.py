"""Looking at the app from a test."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual import events
from textual.keys import _character_to_key
from textual.pilot import Pilot

from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tui.app import SelfPlayApp
from tui.screens.run import RunScreen

SIZES = [(80, 24), (120, 40)]


def cells(app: SelfPlayApp) -> list[list[Segment]]:
    """What is on the screen, line by line."""
    return [list(strip) for strip in app.screen._compositor.render_strips()]


def seen(app: SelfPlayApp) -> str:
    """The letters on the screen."""
    return "\n".join("".join(segment.text for segment in line) for line in cells(app))


async def until(pilot: Pilot[None], condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Waits until the condition holds; fails where it doesn't in time."""
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await pilot.pause(0.02)
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    raise AssertionError(f"it never came true; on the screen:\n{seen(app)}")


async def at_rest(pilot: Pilot[None], seconds: float = 5.0) -> str:
    """Waits until the screen stays the same for a tenth of a second: what it shows then."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    before, same = "", 0
    for _ in range(int(seconds / 0.02)):
        await pilot.pause(0.02)
        now = seen(app)
        same = same + 1 if now == before else 0
        if same == 5:
            return now
        before = now
    raise AssertionError(f"it never came to rest; on the screen:\n{before}")


def burst(app: SelfPlayApp, *keys: str) -> None:
    """Keys that are all there before the app has seen the first, as a terminal gives what was typed meanwhile."""
    for key in keys:
        name, letter = (_character_to_key(key), key) if len(key) == 1 else (key, None)
        app.post_message(events.Key(name, letter))


def watching(run: FakeRun, **more: object) -> SelfPlayApp:
    """The app, opened on a run whose ticks the test plays itself."""
    return demo_app(start=run, **more)  # type: ignore[arg-type]


def still(**more: object) -> FakeRun:
    """A run that plays only when told to."""
    return FakeRun(seconds_per_tick=0, **more)  # type: ignore[arg-type]


async def play_to(pilot: Pilot[None], run: FakeRun, step: int) -> None:
    """Plays to a step, and draws once."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await until(pilot, lambda: run.state.value == "running" and app.session is not None)
    assert app.session is not None
    while run.status().step < step and run.state.value == "running":
        run.advance()
        app.session.drain()
    await play(pilot, run, 0)


async def play(pilot: Pilot[None], run: FakeRun, ticks: int) -> None:
    """Plays ticks, the app seeing each, and draws a last time."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await until(pilot, lambda: run.state.value != "loading" or app.session is None or not app.session.live)
    for _ in range(ticks):
        run.advance()
        assert app.session is not None
        app.session.drain()
    if app.session is not None:
        app.session.drain()  # what happened without a tick, as a failure
    await pilot.pause()
    if isinstance(app.screen, RunScreen):
        await app.screen.draw(True)
    await pilot.pause()
