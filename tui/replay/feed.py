"""What is interesting as a list: what was pinned, then the highlights, each with its sign and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.reading.highlights import Highlight, Kind
from tui.replay.pins import Pin
from tui.text import fit, one_line, width, wrap
from tui.theme import Palette, style
from tui.widgets.painted import Line, spread

BROAD = 64
"""Cells in which a reason mostly fits into one line."""

PIN = "⚑"
SIGNS = {
    Kind.HACK: "!",
    Kind.UPSET: "⇅",
    Kind.JUDGE: "≠",
    Kind.ILLEGAL: "✗",
    Kind.FAILED: "†",
    Kind.LONGEST: "≡",
}
NAMES = {
    Kind.HACK: "reward hack?",
    Kind.UPSET: "upset",
    Kind.JUDGE: "judge disagrees",
    Kind.ILLEGAL: "illegal",
    Kind.FAILED: "failed",
    Kind.LONGEST: "longest",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the feed, and where it leads."""

    sign: str
    name: str
    step: int
    rollout_id: str
    """Empty where it is about the step as a whole."""
    words: str = ""


def entries(highlights: Sequence[Highlight], pins: Mapping[str, Pin]) -> list[Entry]:
    """Pins first, in the order of their steps, with their notes; a highlight without a note says why it is one."""
    why = {(one.rollout_id, one.step): one for one in reversed(highlights)}
    pinned = []
    for rollout_id, pin in sorted(pins.items(), key=lambda entry: entry[1].step):
        known = why.get((rollout_id, pin.step))
        name = NAMES[known.kind] if known else "pinned"  # the sign tells that it is pinned
        pinned.append(Entry(PIN, name, pin.step, rollout_id, pin.note or (known.words if known else "")))
    found = [Entry(SIGNS[one.kind], NAMES[one.kind], one.step, one.rollout_id, one.words) for one in highlights]
    return pinned + found


def paint(entry: Entry, cells: int, colours: Palette, chosen: bool) -> list[Line]:
    """What it is and where, and in at most two lines why."""
    look = style(
        colours.accent if entry.sign == PIN else colours.bad if entry.sign in "!✗†" else colours.watch, bold=True
    )
    where = f"step {entry.step}" + (f" · {one_line(entry.rollout_id, 24)}" if entry.rollout_id else "")
    head: Line = (
        ("›" if chosen else " ", style(colours.accent, bold=True)),
        (f"{entry.sign} ", look),
        (fit(entry.name, min(width(entry.name), max(cells - width(where) - 5, 6))), style(colours.text)),
    )
    first, *more = wrap(one_line(entry.words), max(cells - 4, 2))
    reason = [first, fit(" ".join(more), max(cells - 4, 1))] if more else [first]
    lines: list[Line] = [spread(head, ((where + " ", style(colours.soft)),), cells)]
    return lines + [(("   ", None), (line, style(colours.soft))) for line in reason]
