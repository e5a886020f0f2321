"""Draws the pictures of the README and of app.md: the app on a real run of `nim-pocket`, each screen as an SVG.

    uv run python docs/pictures.py docs/pictures

Takes a minute. The run is kept in a folder that is thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from textual.pilot import Pilot

from tui import memory
from tui.app import SelfPlayApp
from tui.cli.showing import app_of

SIZE = (150, 42)
PRESET = "nim-pocket"
PICTURES: list[tuple[str, int, tuple[str, ...], str]] = [
    ("run", 45, ("f",), "4 Plots"),
    ("why", 48, ("space", "2", "w"), "baseline"),
    ("metrics", 48, ("escape", "g"), "Metrics"),
    ("league", 48, ("escape", "l"), "±"),
    ("steer", 48, ("escape", "s"), "learning_rate"),
]
"""File, the step that is waited for, the keys pressed then, and what must be on the screen."""


async def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as runs, patch.object(memory, "path", lambda: Path(runs, "app.json")):
        app = app_of(Path(runs, "runs"))  # in its own theme, whatever whoever draws them has chosen
        async with app.run_test(size=SIZE) as pilot:
            await until(pilot, lambda: PRESET in seen(app))
            await pilot.pause(3.0)  # for what a thread finds out of each preset
            save(app, folder / "home.svg")
            await pilot.press("enter")
            for name, step, keys, shows in PICTURES:
                await until(pilot, lambda step=step: app.session is not None and app.session.step >= step)
                await pilot.press(*keys)
                await until(pilot, lambda shows=shows: shows in seen(app))
                await pilot.pause(1.0)
                save(app, folder / f"{name}.svg")
            if app.session is not None:
                await app.session.stop()


async def until(pilot: Pilot[None], condition: Callable[[], bool], seconds: float = 120.0) -> None:
    for _ in range(int(seconds / 0.1)):
        if condition():
            return
        await pilot.pause(0.1)
    raise SystemExit(f"it never came; on the screen:\n{seen(pilot.app)}")


def seen(app: object) -> str:
    """The letters on the screen."""
    assert isinstance(app, SelfPlayApp)
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def save(app: SelfPlayApp, path: Path) -> None:
    path.write_text(app.export_screenshot(title="selfplay-tui"), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the SVG files go")
    asyncio.run(main(parser.parse_args().folder))
