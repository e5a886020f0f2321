"""Going back in the run on the screen, and forking it: what the app does when the steering screen asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tui import opening
from tui.screens.dialog import Confirm, Waiting
from tui.screens.steer import SteerScreen

if TYPE_CHECKING:
    from tui.app import SelfPlayApp
    from tui.session import Session


def go_back(app: SelfPlayApp, session: Session, message: SteerScreen.BackWanted) -> None:
    """The run is stopped, its folder set back, and the run opened again."""
    folder = session.run.folder

    def change() -> Path:
        app.sources.roll_back(folder, message.step, message.keep_edits)
        return folder

    done = f"{session.run.name} goes on from step {message.step}."
    app.run_worker(_reopen(app, session, change, done), group="replace", exclusive=True)


def fork(app: SelfPlayApp, session: Session, message: SteerScreen.ForkWanted) -> None:
    """The new run is made beside the old one, which works on; then one is asked which to go on with."""
    # over the screen at once: keys that come before the question aren't for the old run, nor its answer
    waiting = Waiting("One moment", f"Making a run that begins at step {message.step} of {session.run.name} …")
    app.push_screen(waiting)
    app.run_worker(_fork(app, session, message, waiting), group="fork")


async def _fork(app: SelfPlayApp, session: Session, message: SteerScreen.ForkWanted, waiting: Waiting) -> None:
    run, branch = session.run, message.branch
    try:
        folder = await asyncio.to_thread(app.sources.fork, run.folder, message.step, branch.name, branch.changes)
    except Exception as error:  # a name, a change or the disk may be at fault: the run works on
        app.say(f"{error}" or type(error).__name__, "error")
        return
    finally:
        waiting.end()
    stopped = f" {run.name} is stopped then, its state saved." if session.live else ""
    question = Confirm(
        f"{folder.name} is made",
        f"It begins from step {message.step} of {run.name}. One run works at a time.{stopped}",
        "Go on in the fork",
        "Later, from Home",
    )

    def answered(yes: bool | None) -> None:
        if yes:
            done = f"{folder.name} begins at step {message.step}."
            app.run_worker(_reopen(app, session, lambda: folder, done), group="replace", exclusive=True)

    app.push_screen(question, answered)


async def _reopen(app: SelfPlayApp, session: Session, change: Callable[[], Path], done: str) -> None:
    """Ends the session and opens a run in the folder that `change` gives; where that fails, the same run again."""
    waiting = Waiting("One moment", f"Saving the state of {session.run.name} …")
    await app.push_screen(waiting)
    await session.stop()
    await opening.close(app)
    try:
        folder = await asyncio.to_thread(change)
        app.say(done)
    except Exception as error:
        app.say(f"{error}" or type(error).__name__, "error")
        folder = session.run.folder
    waiting.end()
    await opening.open_folder(app, folder)
