"""Deleting from Home: says what would be lost, asks, and tells."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import presets
from engine import folders
from engine.folders import FolderError
from engine.store import in_use
from tui.interface import PresetInfo, RunInfo
from tui.screens.dialog import Confirm
from tui.text import one_line
from tui.words import memory

if TYPE_CHECKING:
    from tui.screens.home import HomeScreen


async def of_run(home: HomeScreen, run: RunInfo) -> None:
    """Asks, and deletes the run with its folder. One at work is refused before anything is asked."""
    if await asyncio.to_thread(in_use, run.folder):
        _say(home, f"{run.name} is at work: stop it first.", "error")
        return
    size = await asyncio.to_thread(folders.size, run.folder)
    result = f" It came to step {run.step} of {run.steps}." if run.steps else ""
    words = (
        f"Its record, checkpoints and adapters, {memory(size)} in {one_line(str(run.folder))}, "
        f"would be gone for good.{result}"
    )

    def answered(yes: bool | None) -> None:
        if yes:
            home.run_worker(_delete_run(home, run), group="delete")

    home.app.push_screen(Confirm(f"Delete {run.name}?", words, "Delete", "Keep"), answered)


async def _delete_run(home: HomeScreen, run: RunInfo) -> None:
    try:
        await asyncio.to_thread(folders.delete, run.folder)
    except FolderError as error:
        _say(home, f"{error}", "error")
    else:
        _say(home, f"{run.name} is deleted.")
    home.action_refresh()


def of_preset(home: HomeScreen, preset: PresetInfo) -> None:
    """Asks, and deletes one of the user's own."""
    if preset.source != presets.YOURS:
        _say(
            home,
            f"{preset.name} came with selfplay-tui, and stays; only presets of your own can be deleted.",
            "error",
        )
        return
    built_in = " The one of that name that came with selfplay-tui takes its place again."
    words = f"Its file in {one_line(str(presets.user_folder()))} would be gone for good; runs begun with it stay."
    if preset.name in presets.BUILT_IN:
        words += built_in

    def answered(yes: bool | None) -> None:
        if not yes:
            return
        try:
            presets.delete(preset.name)
        except presets.KeepError as error:
            _say(home, f"{error}", "error")
        else:
            _say(home, f"{preset.name} is deleted.")
        home.action_refresh()

    home.app.push_screen(Confirm(f"Delete {preset.name}?", words, "Delete", "Keep"), answered)


def _say(home: HomeScreen, text: str, severity: str = "information") -> None:
    home.notify(one_line(text), severity="error" if severity == "error" else "information", markup=False)
