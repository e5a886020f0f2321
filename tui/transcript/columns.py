"""Two roles side by side: whose column is which, which turns stand beside each other, and where each is."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style

from tui.views import EpisodeView, TurnView
from tui.widgets.painted import BLANK, Line, span

BESIDE = 84
"""Cells from which on two roles speak side by side."""

RULE = " │ "


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a turn is: lines from `top` to before `end`, cells from `left` to before `right`."""

    turn: int
    top: int
    end: int
    left: int
    right: int


def columns(episode: EpisodeView) -> dict[str, int]:
    """The column of each role, where there are two."""
    roles = list(dict.fromkeys([*episode.roles, *(turn.role for turn in episode.turns)]))
    return {role: side for side, role in enumerate(roles)} if len(roles) == 2 else {}


def bands(turns: list[TurnView], sides: dict[str, int]) -> list[list[TurnView]]:
    """Turns that stand beside each other: one of the left, then one of the right; each alone in one column."""
    bands: list[list[TurnView]] = []
    for turn in turns:
        answers = bool(bands) and len(bands[-1]) == 1 and sides.get(bands[-1][0].role) == 0
        if answers and sides.get(turn.role) == 1:
            bands[-1].append(turn)
        else:
            bands.append([turn])
    return bands


def beside(
    band: list[TurnView], blocks: list[list[Line]], sides: dict[str, int], broad: int, rule: Style
) -> list[Line]:
    """The lines of a band's turns, each in its column of `broad` cells."""
    found: list[list[Line]] = [[], []]
    for turn, block in zip(band, blocks, strict=True):
        found[sides[turn.role]] = block
    lines: list[Line] = []
    for y in range(max(map(len, found))):
        left, right = (column[y] if y < len(column) else BLANK for column in found)
        lines.append((*left, (" " * (broad - span(left)), None), (RULE, rule), *right))
    return lines
