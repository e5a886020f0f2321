"""The lines of the metrics screen: what is listed, what it means, and what is in sight."""

from __future__ import annotations

from tui.metrics.board import Board, last, listed
from tui.text import fit, one_line, wrap
from tui.theme import Palette, style
from tui.widgets.checklist import Item
from tui.widgets.painted import Line, spread
from tui.words import exact, label, plural


def items(board: Board, wanted: str) -> list[Item]:
    """The metrics that pass a filter, by family, each with its newest value."""
    found: list[Item] = []
    for family, names in listed(board, wanted):
        found.append(Item("", family))
        for name in names:
            told = label(name.removeprefix("reward/"))  # as the heading says, and the list is narrow
            found.append(Item(name, told, exact(last(board, name)), name in board.chosen))
    return found


def about(board: Board, name: str, is_filtered: bool, cells: int, colours: Palette) -> list[Line]:
    """A metric's name as the run has it, and what it means; without one, why there is none."""
    soft = style(colours.soft)
    if not name:
        none = "No metric passes the filter." if is_filtered else "Nothing was measured yet."
        return [((f" {line}", soft),) for line in wrap(none, cells)]
    title: Line = ((" " + fit(one_line(name), cells).rstrip(), style(colours.text, bold=True)),)
    return [title, *(((f" {line}", soft),) for line in wrap(one_line(board.words(name)) + ".", cells))]


def header(board: Board, cells: int, colours: Palette) -> Line:
    """The run, what was done at the cursor's step, and which steps are in sight."""
    told = []
    if board.others:
        told.append(f"beside {plural(len(board.others), 'other run')}")
    if board.cursor is not None and (done := board.done_there()):
        told.append(f"at {board.cursor:.0f}: {one_line(', '.join(done), 60)}")
    if board.chosen:
        low, high = board.sight
        told.append(f"steps {low:.0f} to {high:.0f}" + ("" if board.window is None else ", zoomed in"))
    name: Line = (
        (f" {one_line(board.run, 30)}", style(colours.accent, bold=True)),
        ("  Metrics", style(colours.soft)),
    )
    return spread(name, ((" · ".join(told) + " ", style(colours.soft)),), cells)
