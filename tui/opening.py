"""How a run comes onto the screen: begun, resumed, opened anew. One works at a time: another is stopped first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.config import Config
from engine.events import RunState
from engine.store import in_use
from tui.interface import PresetInfo, RunInfo, RunLike
from tui.listing import Live
from tui.screens.dialog import Confirm, Waiting
from tui.screens.home import HomeScreen

if TYPE_CHECKING:
    from tui.app import SelfPlayApp

Item = PresetInfo | RunInfo | Config


async def first(app: SelfPlayApp, run: RunLike | None) -> None:
    """What the app begins with: Home, or a run, whose first frame doesn't wait for Home."""
    if run is None:
        await app.push_screen(app.home)
    else:
        await show(app, run)


async def choose(app: SelfPlayApp, item: PresetInfo | RunInfo | Live) -> None:
    """What was chosen on Home."""
    if isinstance(item, Live):
        _show(app)
    elif item.problem:
        app.say(item.problem, "error")
    else:
        await begin(app, item)


async def begin(app: SelfPlayApp, item: Item) -> None:
    """Begins or resumes a run; where another is at work it is asked about first."""
    if app.session is not None and app.session.live:
        if isinstance(item, RunInfo) and item.folder != app.session.run.folder and in_use(item.folder):
            # nothing is stopped for a run that would be refused
            app.say(f"{item.name} is at work in another process: it can only be read, with o.", "error")
        else:
            _ask_to_replace(app, item)
    else:
        await _begin(app, item)


async def again(app: SelfPlayApp) -> None:
    """Opens the run anew in its own place: from its record, as after any other end."""
    from tui.screens.run import RunScreen

    session = app.session
    if session is None or session.live:
        return
    run = _made(app, lambda: app.sources.resume(session.run.folder))
    if run is None:
        return
    while isinstance(app.screen, RunScreen):
        await app.pop_screen()
    await show(app, run)


async def open_folder(app: SelfPlayApp, folder: Path) -> None:
    """Opens a run over Home, whatever stood there."""
    while len(app.screen_stack) > 1 and not isinstance(app.screen, HomeScreen):
        await app.pop_screen()
    run = _made(app, lambda: app.sources.resume(folder))
    if run is not None:
        await show(app, run)


async def close(app: SelfPlayApp) -> None:
    """Nothing is watched any more, and nothing held of a run that was only read."""
    session, app.session = app.session, None
    if session is not None:
        await session.close()


async def show(app: SelfPlayApp, run: RunLike, ended: RunState | None = None) -> None:
    """Watches a run, at work from now on unless it `ended` before, and shows it."""
    from tui.session import Session

    if app.session is not None:
        await app.session.close()
    app.session = Session(run, app.clock)
    if ended is not None:
        app.session.show_only(ended)
    _show(app)
    if ended is None:
        drawn = asyncio.Event()
        app.call_after_refresh(drawn.set)  # what the run loads would keep the first frame waiting
        app.session.begin(drawn)


def _ask_to_replace(app: SelfPlayApp, item: Item) -> None:
    assert app.session is not None
    name = app.session.run.name
    question = Confirm(
        f"{name} is at work",
        "One run works at a time. Stopped, it keeps its state and can be resumed from Home.",
        "Stop it and go on",
    )

    def answered(yes: bool | None) -> None:
        if yes:
            app.run_worker(_replace(app, item), group="replace", exclusive=True)

    app.push_screen(question, answered)


async def _replace(app: SelfPlayApp, item: Item) -> None:
    if app.session is not None:
        waiting = Waiting("Stopping", f"Saving the state of {app.session.run.name} …")
        await app.push_screen(waiting)
        await app.session.stop()
        waiting.end()
    await _begin(app, item)


async def _begin(app: SelfPlayApp, item: Item) -> None:
    def make() -> RunLike:
        if isinstance(item, PresetInfo):
            return app.sources.create(item.name)
        if isinstance(item, Config):
            assert app.sources.configure is not None
            return app.sources.configure(item)
        return app.sources.resume(item.folder)

    run = _made(app, make)
    if run is not None:
        ended = isinstance(item, RunInfo) and item.state == RunState.FINISHED
        await show(app, run, RunState.FINISHED if ended else None)


def _made(app: SelfPlayApp, make: Callable[[], RunLike]) -> RunLike | None:
    """A preset or a folder may be wrong in any way: that is told, and what is on the screen stays."""
    try:
        return make()
    except Exception as error:
        app.say(f"{error}" or type(error).__name__, "error")
        return None


def _show(app: SelfPlayApp) -> None:
    from tui.screens.form import FormScreen
    from tui.screens.run import RunScreen

    if isinstance(app.screen, FormScreen):
        app.screen.dismiss()
    if app.session is not None:
        app.push_screen(RunScreen(app.session))
