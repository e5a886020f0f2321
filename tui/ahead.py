"""What screens need before they open, made ready in a thread once the first frame is there: modules and styles.

A screen whose styles are new to the app has Textual read all of them again, some 15 ms in which no key is heard.
"""

from __future__ import annotations

import asyncio
import gc
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.css.stylesheet import Stylesheet

if TYPE_CHECKING:
    from textual.app import App

MODULES = (
    "tui.screens.run",
    "tui.screens.prompt",
    "tui.screens.why",
    "tui.screens.form",
    "tui.screens.steer",
    "tui.screens.replay",
    "tui.metrics.charts",
)
"""Those that a first frame doesn't wait for; others are read when they are needed."""

STYLES = Path(__file__).parent / "screens"


async def read(app: App[Any]) -> None:
    """Reads ahead; what is asked for meanwhile is read at once, as ever."""
    await asyncio.to_thread(lambda: [import_module(name) for name in MODULES])
    theme, ahead = app.theme, app.stylesheet.copy()
    await asyncio.to_thread(_parse, ahead)
    if app.theme == theme and app.stylesheet.source.keys() <= ahead.source.keys():
        app.stylesheet = ahead
    gc.freeze()  # all this stays: full collections, of 9 ms with it, have less to look at


def _parse(styles: Stylesheet) -> None:
    styles.read_all(sorted(STYLES.glob("*.tcss")))
    styles.parse()
