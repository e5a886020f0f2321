"""A chart in the cells of a terminal: braille curves, round labels, marks, a cursor and what it reads."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.style import Style

from tui.braille import curve
from tui.drawing.model import ChartModel, Curve
from tui.drawing.scales import Axis, within
from tui.text import fit, one_line, width
from tui.theme import Palette, sign, style
from tui.widgets.painted import Line, span, spread
from tui.words import exact, signed

if TYPE_CHECKING:
    from tui.series import Array

LABEL = 7
"""Cells left of the axis."""

NAME = 24
"""Cells of a curve's name, at most."""

MARKS = {"checkpoint": "◆", "best": "★", "edit": "┊", "skipped": "×"}

RAW = 2
"""The dash of what was smoothed, as it was."""

TALL = 8
"""Lines of curves from which on more than the ends of the axis are named."""


def draw(model: ChartModel, cells: int, lines: int, colours: Palette) -> list[Line]:
    """The chart in `lines` lines of `cells` cells: title and legend, curves with their axis, the steps beneath."""
    head = _head(model, cells, max(1, lines // 3), colours)
    wide, high = cells - LABEL - 2, lines - len(head) - 2
    if wide < 8 or high < 1:
        return head[:lines]
    axis = model.axis()
    soft, faint = style(colours.soft), style(colours.faint)
    named = {
        _row(axis, value, high): label for value, label in axis.ticks(max(3, high // 4) if high >= TALL else 2)
    }
    body = _Canvas(model, axis, wide, high, colours).lines()
    rows: list[Line] = []
    for y, row in enumerate(body):
        label = named.get(y)
        rows.append((((_axis_label(label)), soft), ("┤" if label is not None else "│", faint), *row))
    foot = ((" " * LABEL + "└", faint), *_foot(model, wide, colours))
    return [*head, *rows, foot, _steps(model, wide, colours)]


def column(step: float, x_range: tuple[float, float], wide: int) -> int | None:
    """The cell that a step is in; None where it is out of sight."""
    low, high = x_range
    return round((step - low) / (high - low) * (wide - 1)) if low <= step <= high else None


def step_at(cell: int, x_range: tuple[float, float], wide: int) -> float:
    """The step in the middle of a cell, the other way round."""
    low, high = x_range
    return low + (high - low) * max(0, min(cell, wide - 1)) / max(wide - 1, 1)


def look(place: int, drawn: Curve, alone: bool, colours: Palette) -> Style:
    """A curve's colour: that of its role or of its place."""
    if drawn.role is not None:
        return colours.role(drawn.role)
    return style(colours.accent) if alone else colours.role(place)


def mark_of(place: int, drawn: Curve) -> str:
    """The sign that tells a curve without colour, at its end and in the legend."""
    return sign(place if drawn.role is None else drawn.role)


def reading(drawn: Curve, model: ChartModel) -> str:
    """Its value at the cursor, with the step that is of where it is an earlier one; else its last in sight."""
    value = signed if drawn.role is not None else exact
    step, found = drawn.at(model.x_range[1] if model.cursor is None else model.cursor)
    is_earlier = model.cursor is not None and step < round(model.cursor) and np.isfinite(found)
    return value(found) + (f" at {step:.0f}" if is_earlier else "")


# Above and below


def _head(model: ChartModel, cells: int, most: int, colours: Palette) -> list[Line]:
    """Title and legend in one line where they fit, else the legend below it, in `most` lines together."""
    name: Line = ((" " + one_line(model.title, 60), style(colours.text, bold=True)),)
    said: Line = tuple((f"  {words}", style(colours.soft)) for words in model.said())
    alone = len(model.curves) == 1
    entries: list[Line] = []
    for place, c in enumerate(model.curves):
        words = reading(c, model)
        if not alone:
            words = f"{mark_of(place, c)} {one_line(c.label, NAME)} {words}"
        elif model.cursor is None:
            words = model.note or words
        entries.append(((words, style(colours.text) if alone else look(place, c, alone, colours)),))
    legend = tuple(piece for entry in entries for piece in (("  ", None), *entry))
    if span(name) + span(said) + span(legend) + 2 <= cells:
        return [spread((*name, *said), (*legend, (" ", None)), cells)]
    if span(name) + span(legend) + 2 <= cells:
        return [spread(name, (*legend, (" ", None)), cells), said][:most]
    return [spread(name, said, cells), *_flow(entries, cells)][: max(most, 2)]


def _flow(entries: list[Line], cells: int) -> list[Line]:
    """The entries of a legend, as many a line as fit."""
    rows: list[list[tuple[str, Style | None]]] = [[]]
    room = cells
    for entry in entries:
        needed = span(entry) + 2
        if needed > room and rows[-1]:
            rows.append([])
            room = cells
        rows[-1] += [("  ", None), *entry]
        room -= needed
    return [tuple(row) for row in rows]


def _axis_label(label: str | None) -> str:
    if label is None:
        return " " * LABEL
    if len(label) >= LABEL and "." in label and "e" not in label:
        label = label.partition(".")[0]
    return fit(label, LABEL - 1, "right") + " "


def _foot(model: ChartModel, wide: int, colours: Palette) -> Line:
    """The step axis, with checkpoints, the best one, and steps that published nothing."""
    faint = style(colours.faint)
    cells: list[tuple[str, Style | None]] = [("─", faint)] * wide
    ranks = {"skipped": 0, "checkpoint": 1, "best": 2}
    looks = {"skipped": style(colours.watch), "checkpoint": style(colours.accent), "best": style(colours.good)}
    for mark in sorted((m for m in model.marks if m.kind in ranks), key=lambda m: ranks[m.kind]):
        x = column(mark.step, model.x_range, wide)
        if x is not None:
            cells[x] = (MARKS[mark.kind], looks[mark.kind])
    return _merge(cells)


def _steps(model: ChartModel, wide: int, colours: Palette) -> Line:
    """Round steps where there is room, the last in sight by name, and the cursor's instead of those beside it."""
    low, high = model.x_range
    row = [" "] * wide
    looks = [0] * wide
    last = f"step {high:.0f}"

    def put(label: str, middle: int, kind: int = 0) -> None:
        start = max(0, min(middle - len(label) // 2, wide - len(label)))
        around = range(max(start - 1, 0), min(start + len(label) + 1, wide))
        if len(label) <= wide and all(row[x] == " " for x in around):
            row[start : start + len(label)] = label
            looks[start : start + len(label)] = [kind] * len(label)

    at = None if model.cursor is None else column(model.cursor, model.x_range, wide)
    if at is not None and model.cursor is not None:
        put(f"▲{model.cursor:.0f}", at, 1)
    put(last, wide)
    put(f"{low:.0f}", 0)
    for step in within(low, high):
        put(f"{step:.0f}", column(step, model.x_range, wide) or 0)
    styles = (style(colours.faint), style(colours.text, bold=True))
    return (
        (" " * (LABEL + 1), None),
        *_merge([(c, styles[k]) for c, k in zip(row, looks, strict=True)]),
        (" ", None),
    )


def _merge(cells: list[tuple[str, Style | None]]) -> Line:
    """Neighbours of one style as one piece."""
    pieces: list[tuple[str, Style | None]] = []
    for character, look in cells:
        if pieces and pieces[-1][1] is look:
            pieces[-1] = (pieces[-1][0] + character, look)
        else:
            pieces.append((character, look))
    return tuple(pieces)


def _row(axis: Axis, value: float, high: int) -> int:
    """The line of cells that a value's dot is in."""
    dots = 4 * high - 1
    return (dots - round(axis.share(value) * dots)) // 4


# The curves


class _Canvas:
    """Cells as arrays: a character and the number of a style each, [high, wide]."""

    def __init__(self, model: ChartModel, axis: Axis, wide: int, high: int, colours: Palette) -> None:
        self.model, self.axis, self.wide, self.high = model, axis, wide, high
        self.codes = np.full((high, wide), ord(" "), dtype="<u4")
        self.owner = np.zeros((high, wide), dtype=np.int64)
        self.styles: list[Style] = [style(colours.faint)]
        self._back(colours)
        self._curves(colours)
        self._front(colours)

    def lines(self) -> list[Line]:
        texts = [row.tobytes().decode("utf-32-le") for row in self.codes]
        drawn = []
        for text, owner in zip(texts, self.owner, strict=True):
            bounds = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), self.wide]
            drawn.append(tuple((text[a:b], self.styles[owner[a]]) for a, b in pairwise(bounds)))
        return drawn

    def _style(self, look: Style) -> int:
        self.styles.append(look)
        return len(self.styles) - 1

    def _put(self, where: tuple[Any, Any], character: str, look: int) -> None:
        self.codes[where] = ord(character)
        self.owner[where] = look

    def _back(self, colours: Palette) -> None:
        """The line of zero, edits and the cursor."""
        low, top = self.axis.bounds
        if not self.axis.is_log and low < 0.0 < top:
            self._put((round(top / (top - low) * (self.high - 1)), slice(None)), "┄", 0)
        watch = self._style(style(colours.watch))
        for mark in self.model.marks:
            x = column(mark.step, self.model.x_range, self.wide)
            if mark.kind == "edit" and x is not None:
                self._put((slice(None), x), MARKS["edit"], watch)
        if self.model.cursor is not None:
            x = column(self.model.cursor, self.model.x_range, self.wide)
            if x is not None:
                self._put((slice(None), x), "│", self._style(style(colours.text)))

    def _curves(self, colours: Palette) -> None:
        drawn = self.model.curves
        total = np.zeros((self.high, self.wide), dtype=np.uint8)
        for c in drawn:
            if c.raw is not None:
                self._add(total, *c.seen(self.model.x_range, "raw"), RAW, 0)
        for place, c in enumerate(drawn):
            own = self._style(look(place, c, len(drawn) == 1, colours))
            self._add(total, *c.seen(self.model.x_range), place, own)
        self.codes = np.where(total, 0x2800 + total.astype("<u4"), self.codes).astype("<u4")

    def _add(self, total: Array, xs: Array, ys: Array, dash: int, owner: int) -> None:
        bounds = self.axis.bounds
        bits = curve(xs, self.axis.place(ys), self.wide, self.high, self.model.x_range, bounds, dash)
        total |= bits
        self.owner[bits > 0] = owner

    def _front(self, colours: Palette) -> None:
        """Each curve's sign near its end, the names of edits, and what a logarithmic axis has no place for."""
        drawn = self.model.curves
        for place, c in enumerate(drawn if len(drawn) > 1 else ()):
            self._sign(place, c, self._style(look(place, c, False, colours)))
        watch = self._style(style(colours.watch))
        for mark in self.model.marks:
            x = column(mark.step, self.model.x_range, self.wide)
            if mark.kind == "edit" and x is not None:
                self._write(x, mark.label, watch)
        if self.axis.is_log:
            for step in self.model.at_foot().tolist():
                self._put((self.high - 1, column(step, self.model.x_range, self.wide)), "▾", watch)

    def _sign(self, place: int, c: Curve, look: int) -> None:
        """On the curve, a little before its end, the more the later it comes: ends often lie upon one another."""
        xs, ys = c.seen(self.model.x_range)
        if not len(xs):
            return
        ys = self.axis.place(ys)
        ends = [column(x, self.model.x_range, self.wide) or 0 for x in (float(xs[0]), float(xs[-1]))]
        x = max(ends[0], ends[1] - 3 * place)
        low, high = self.axis.bounds
        value = float(np.interp(step_at(x, self.model.x_range, self.wide), xs, ys))
        dots = 4 * self.high - 1
        self._put(((dots - round((value - low) / (high - low) * dots)) // 4, x), mark_of(place, c), look)

    def _write(self, x: int, label: str, look: int) -> None:
        """Puts a label right of `x`, or left of it where the edge is near."""
        label = one_line(label, 30)
        start = x + 1 if x + 1 + len(label) <= self.wide else x - len(label)
        if start >= 0 and width(label) == len(label):
            for offset, letter in enumerate(label):
                self._put((0, start + offset), letter, look)
