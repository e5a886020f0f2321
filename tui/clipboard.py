"""Copying that works: the system's own tool first, then the terminal's escape sequence, which some ignore."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping


def tool(environ: Mapping[str, str], platform: str, which: Callable[[str], str | None]) -> list[str] | None:
    """The command that takes text on its input and keeps it, or None where there is none."""
    if platform == "darwin":
        candidates = [["pbcopy"]]
    else:
        candidates = []
        if environ.get("WAYLAND_DISPLAY"):
            candidates.append(["wl-copy"])
        if environ.get("DISPLAY"):
            candidates += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    return next((command for command in candidates if which(command[0])), None)


async def copy(text: str, by_terminal: Callable[[str], None]) -> str:
    """Copies, and says by what: a tool's name, or `"the terminal"` (OSC 52)."""
    command = tool(os.environ, sys.platform, shutil.which)
    if command is not None and await _pipe(command, text):
        return command[0]
    by_terminal(text)
    return "the terminal"


async def _pipe(command: list[str], text: str) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asyncio.wait_for(process.communicate(text.encode()), timeout=2.0)
    except (OSError, TimeoutError):
        return False
    return process.returncode == 0
