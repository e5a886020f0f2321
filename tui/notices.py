"""A word to a person who looks elsewhere: when a run ends, stops by itself, or asks something.

By the desktop's own tool where the app runs on that desktop, otherwise by an escape sequence that the terminal
turns into a notice, also through ssh. A terminal that says it is in front gets none.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engine.events import RunState
from tui.text import one_line

if TYPE_CHECKING:
    from tui.session import Session

TITLE = "selfplay-tui"

SCRIPT = "on run words\ndisplay notification (item 2 of words) with title (item 1 of words)\nend run"
"""AppleScript. What a run says is handed over as an argument and never becomes part of the program."""

OSC_9 = ("iTerm.app", "WezTerm", "ghostty")
"""Programs, by `TERM_PROGRAM`, that show `ESC ] 9 ; text BEL`."""

Command = list[str]


def way(
    text: str, environ: Mapping[str, str], platform: str, which: Callable[[str], str | None]
) -> Command | str | None:
    """A command to run, a sequence to write, or None where there is neither. `text` is cleaned."""
    is_remote = "SSH_CONNECTION" in environ or "SSH_TTY" in environ
    if not is_remote:
        if platform == "darwin" and which("osascript"):
            return ["osascript", "-e", SCRIPT, TITLE, text]
        has_desktop = environ.get("WAYLAND_DISPLAY") or environ.get("DISPLAY")
        if platform != "darwin" and has_desktop and which("notify-send"):
            return ["notify-send", "--app-name", TITLE, "--", TITLE, html.escape(text, quote=False)]
    sequence = _sequence(text.replace(";", ","), environ)
    if sequence and environ.get("TMUX"):  # which passes it on where allow-passthrough is on
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    return sequence


def _sequence(text: str, environ: Mapping[str, str]) -> str | None:
    term = environ.get("TERM", "")
    if "VTE_VERSION" in environ or term.startswith(("rxvt", "foot")):
        return f"\x1b]777;notify;{TITLE};{text}\x07"
    known = environ.get("TERM_PROGRAM") in OSC_9 or "KITTY_WINDOW_ID" in environ or "ghostty" in term
    if known or environ.get("TMUX"):  # tmux hides which terminal it is in
        return f"\x1b]9;{TITLE}: {text}\x07"
    return None


class News:
    """What of a session a person should be called for; each thing is told once."""

    def __init__(self) -> None:
        self._known: tuple[str, RunState] | None = None
        self._asked = False

    def of(self, session: Session) -> str:
        """The news since the last look, or nothing."""
        name, state = session.run.name, session.state
        before, self._known = self._known, (name, state)
        asks, self._asked = bool(session.run.questions) and not self._asked, bool(session.run.questions)
        if asks:
            return f"{name} asks you something"
        if before is None or before == self._known or before[0] != name:
            return ""
        reason = one_line(session.store.reason or session.run.reason, 150)
        if state is RunState.FINISHED:
            return f"{name} has finished"
        if state is RunState.FAILED:
            return f"{name} has failed: {reason}"
        if state is RunState.PAUSED and reason:
            return f"{name} waits for you: {reason}"
        return ""


class Caller:
    """Sends notices. `write` takes a sequence to the terminal; `in_front` is whether the terminal said it is."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.write = write
        self.wanted = True
        self.in_front = False
        self._sending: set[asyncio.Task[None]] = set()

    def call(self, text: str) -> None:
        if not self.wanted or self.in_front:
            return
        chosen = way(one_line(text), os.environ, sys.platform, shutil.which)
        if isinstance(chosen, str):
            self.write(chosen)
        elif chosen is not None:
            task = asyncio.create_task(_run(chosen))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)


async def _run(command: Command) -> None:
    """A notice that can't be sent is no reason to trouble anybody: the app shows the same."""
    with contextlib.suppress(OSError, TimeoutError):
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asyncio.wait_for(process.wait(), timeout=5.0)
