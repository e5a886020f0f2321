"""The scrubber as lines: where one is in the run, and what happened where."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.style import Style

from tui.theme import Palette, style
from tui.widgets.painted import Line

SIGNS = {"found": "▴", "eval": "╵", "checkpoint": "◆", "edit": "✎", "best": "★", "pin": "⚑"}
"""What stands under the track; of two in one cell the later of these is shown."""


@dataclass(frozen=True, slots=True)
class Track:
    """Steps from `first` to `last`, and marks by step."""

    first: int
    last: int
    marks: tuple[tuple[str, int], ...] = ()

    def cell(self, step: float, cells: int) -> int:
        """The cell of a track of `cells` cells that a step is in."""
        if self.last <= self.first:
            return 0
        share = (step - self.first) / (self.last - self.first)
        return max(0, min(cells - 1, round(share * (cells - 1))))

    def step(self, cell: int, cells: int) -> float:
        """The step in the middle of a cell."""
        return self.first + (self.last - self.first) * max(0, min(cell, cells - 1)) / max(cells - 1, 1)


def lines(track: Track, step: int, cells: int, colours: Palette) -> list[Line]:
    """Two lines of `cells` cells: the track with its knob, and the marks beneath."""
    at = track.cell(step, cells)
    faint, accent = style(colours.faint), style(colours.accent, bold=True)
    bar: Line = (("━" * at, style(colours.accent)), ("●", accent), ("┄" * (cells - at - 1), faint))
    looks = {
        "eval": faint, "checkpoint": style(colours.accent), "edit": style(colours.watch),
        "best": style(colours.good), "found": style(colours.soft), "pin": accent,
    }  # fmt: skip
    row: list[tuple[str, Style | None]] = [(" ", None)] * cells
    for kind in SIGNS:
        for marked, place in track.marks:
            if marked == kind:
                row[track.cell(place, cells)] = (SIGNS[kind], looks[kind])
    return [bar, tuple(row)]


def marks(
    evaluations: Iterable[int],
    edits: Iterable[int],
    checkpoints: Iterable[tuple[int, str]],
    found: Iterable[int],
    pins: Iterable[int],
) -> tuple[tuple[str, int], ...]:
    """What happened at which step."""
    saved: Sequence[tuple[int, str]] = list(checkpoints)
    best = [step for step, reason in saved if reason == "best"][-1:]
    by_kind = {
        "eval": evaluations,
        "checkpoint": [step for step, reason in saved if reason == "manual"],
        "edit": edits,
        "best": best,
        "found": found,
        "pin": pins,
    }
    return tuple((kind, step) for kind, steps in by_kind.items() for step in steps)
