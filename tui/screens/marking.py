"""Home's runs, marked to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.screens.home import HomeScreen


def mark(home: HomeScreen) -> None:
    """Marks the chosen run, or unmarks it."""
    from tui.screens.compare import MOST

    item = home.chosen_run()
    if item is None:
        home.say("Only runs are compared: choose one in the list below.")
    elif item.problem:
        home.say(item.problem, "error")
    elif item.folder in home.marked or len(home.marked) < MOST:
        if home.marked.pop(item.folder, None) is None:
            home.marked[item.folder] = item
        home.fill()
    else:
        home.say(f"{MOST} runs are as many as can be told apart: unmark one with space.")


def compare(home: HomeScreen) -> None:
    """Opens the marked runs, and the chosen one where that makes two."""
    item = home.chosen_run()
    chosen = dict(home.marked)
    if item is not None and not item.problem and len(chosen) < 2:
        chosen[item.folder] = item
    if len(chosen) < 2:
        home.say("Mark two runs or more with space, then compare them.")
        return
    from tui.screens.compare import CompareScreen

    home.app.push_screen(CompareScreen(list(chosen.values())))
