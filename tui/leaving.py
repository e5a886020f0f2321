"""Leaving the app: asked for, by a signal, or because the terminal is gone. A run at work is stopped first."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

from rich.text import Text

from engine.events import RunState
from tui import supervisor, terminal
from tui.screens.dialog import Confirm, Waiting
from tui.text import one_line

if TYPE_CHECKING:
    from tui.app import SelfPlayApp

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Leaving:
    """How one app is left, once; asked again meanwhile, at once."""

    def __init__(self, app: SelfPlayApp) -> None:
        self._app = app
        self._task: asyncio.Task[None] | None = None

    @property
    def is_under_way(self) -> bool:
        return self._task is not None

    def ask(self) -> None:
        session = self._app.session
        words = "Nothing is at work."
        if session is not None and session.live:
            words = (
                f"{session.run.name} is at work. It is stopped cleanly and its state is saved: "
                "resume it from Home whenever you like."
            )

        def answered(yes: bool | None) -> None:
            if yes:
                self.leave()

        self._app.push_screen(Confirm("Quit?", words, "Quit", "Stay"), answered)

    def leave(self, code: int | None = None) -> None:
        """Ends the app: a run at work is stopped first and its state saved. Asked twice, leaves at once."""
        if self._task is not None:
            self._end(code or 1, "")
            return
        self._task = asyncio.create_task(self._leave(code))

    async def _leave(self, code: int | None) -> None:
        try:
            code, words = await self._stopped(code)
        except Exception as error:  # whoever asked may be a signal, and not ask again
            code, words = code or 1, f"{error}" or type(error).__name__
        self._end(code or 0, words)

    async def _stopped(self, code: int | None) -> tuple[int | None, str]:
        """Lets go of the run; the exit code, and what there is to say of it."""
        session = self._app.session
        words = ""
        if session is not None:
            if session.live:
                text = f"Saving the state of {session.run.name} … (^q again leaves at once)"
                await self._app.push_screen(Waiting("Stopping", text))
                await session.stop()
                words = f"{session.run.name} is saved in {session.run.folder}"
            await session.close()
            if code is None and session.state is RunState.FAILED:
                code = 1
                kept = session.store.checkpoint
                goes_on = f"resuming goes on from step {kept.step}" if kept else "it has no checkpoint yet"
                words = f"{session.run.name} failed: {session.store.reason}; {goes_on}"
        return code, words

    def _end(self, code: int, words: str) -> None:
        self._app.exit(return_code=code, message=Text(one_line(words)) if words else None)

    # Not asked by a key

    def listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            # not in the main thread, as in a test or under another host: there signals are not ours to handle
            with contextlib.suppress(RuntimeError, ValueError):
                loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: int) -> None:
        terminal.let_go()
        if self._task is None:
            self.leave(128 + number)

    def look_at_terminal(self) -> None:
        """A terminal may be closed, or our parent killed, without a signal reaching us."""
        if (terminal.let_go() or supervisor.orphaned()) and self._task is None:
            self.leave(128 + signal.SIGHUP)
