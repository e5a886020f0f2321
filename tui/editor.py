"""A text in the person's own editor: the app steps aside, the run plays on, and what was written is read back."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported


class EditorError(Exception):
    """Why there is no text from the editor, in a sentence that says what would help."""


def command(environment: Mapping[str, str]) -> list[str]:
    """The words of `$VISUAL`, or else `$EDITOR`. Raises `EditorError` where there is none that can be started."""
    name = "VISUAL" if environment.get("VISUAL", "").strip() else "EDITOR"
    told = environment.get(name, "").strip()
    if not told:
        raise EditorError("No editor is set: say which before you start the app, such as export EDITOR=nano")
    try:
        words = shlex.split(told)
    except ValueError as error:
        raise EditorError(f"${name} is {told!r}, which is no command: {error}") from error
    if shutil.which(words[0]) is None:
        raise EditorError(f"${name} is {told!r}, and there is no program {words[0]!r} here")
    return words


async def edit(app: App[Any], text: str, limit: int) -> str:
    """The text as the person left it, at most `limit` characters of it. Raises `EditorError`."""
    words = command(os.environ)
    with tempfile.TemporaryDirectory(prefix="selfplay-") as folder:
        file = Path(folder) / "prompt.md"
        file.write_text(text, encoding="utf-8", errors="replace")
        with aside(app):
            process = await asyncio.create_subprocess_exec(*words, str(file))
            code = await process.wait()
        if code:
            raise EditorError(f"{words[0]} ended with status {code}: the prompt is as it was")
        try:
            with file.open(encoding="utf-8") as written:
                found = written.read(limit + 2)
        except (OSError, UnicodeDecodeError) as error:
            raise EditorError(f"What {words[0]} left can't be read: {error}; the prompt is as it was") from error
    if not text.endswith("\n"):
        found = found.removesuffix("\n")  # editors end the last line
    if len(found) > limit:
        raise EditorError(f"A prompt has at most {limit:,} characters, and this is longer; it is as it was")
    return found


@contextmanager
def aside(app: App[Any]) -> Iterator[None]:
    """The terminal is another program's within; the app's loop goes on, and paints nothing."""
    try:
        with app.suspend(), app.batch_update():
            yield
    except SuspendNotSupported as error:
        raise EditorError("The app can't make room for an editor in this terminal") from error
    app.refresh(layout=True)
