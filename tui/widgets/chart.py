"""A chart of our own: braille curves, round labels, and marks where something was done by hand."""

from __future__ import annotations

import numpy as np
from rich.style import Style
from textual.strip import Strip

from tui.braille import curve, nice_range, text
from tui.charts import ChartModel, Curve
from tui.text import fit, one_line
from tui.theme import Palette, sign, style
from tui.widgets.painted import BLANK, Line, LineWidget, spread, strip
from tui.words import exact, number, signed

LABEL = 7
"""Cells left of the axis."""

LINES = "━┅"
"""Signs of curves that are of no role, as they are drawn: the first whole, the second in dashes."""

MARKS = {"checkpoint": "◆", "best": "★", "edit": "┊"}


class Chart(LineWidget):
    """Draws one `ChartModel`, when it is looked at."""

    DEFAULT_CSS = """
    Chart { height: 9; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.model: ChartModel | None = None
        self._drawn: tuple[object, list[Line]] = (None, [])

    def show(self, model: ChartModel) -> None:
        self.model = model
        self._drawn = (None, [])
        self.refresh()

    def render_line(self, y: int) -> Strip:
        key = (self.model, self.size, self.app.theme)
        if self._drawn[0] != key:
            lines = draw(self.model, self.size.width, self.size.height, self.colours) if self.model else []
            self._drawn = (key, lines)
        lines = self._drawn[1]
        return strip(lines[y] if y < len(lines) else BLANK, self.size.width, self.ground)


def draw(model: ChartModel, cells: int, lines: int, colours: Palette) -> list[Line]:
    """The chart in `lines` lines of `cells` cells: title, curves with their axis, the steps beneath."""
    wide, high = cells - LABEL - 2, lines - 3
    if wide < 8 or high < 1:
        return [_title(model, cells, colours)]
    shown = [c.ys[np.isfinite(c.ys)] for c in model.curves]
    values = np.concatenate(shown) if shown else np.zeros(0)
    low, high_value, decimals = (
        nice_range(float(values.min()), float(values.max())) if len(values) else (0.0, 1.0, 0)
    )
    looks = [_look(place, c, colours) for place, c in enumerate(model.curves)]
    layers = [
        curve(c.xs, c.ys, wide, high, model.x_range, (low, high_value), dash) for dash, c in enumerate(model.curves)
    ]
    rows = _plot_rows(model, layers, looks, wide, high, (low, high_value), colours)
    soft, faint = style(colours.soft), style(colours.faint)
    drawn = [_title(model, cells, colours)]
    for y, row in enumerate(rows):
        value = high_value if y == 0 else low if y == high - 1 else None
        drawn.append((((_axis_label(value, decimals)), soft), ("┤" if value is not None else "│", faint), *row))
    drawn.append(((" " * LABEL + "└", faint), *_foot(model, wide, colours)))
    first, last = (f"{step:.0f}" for step in model.x_range)
    drawn.append(spread(((" " * (LABEL + 1) + first, faint),), ((f"step {last} ", faint),), cells))
    return drawn


def _axis_label(value: float | None, decimals: int) -> str:
    if value is None:
        return " " * LABEL
    plain = number(value, decimals)
    return fit(plain if len(plain) < LABEL else number(value, 0), LABEL - 1, "right") + " "


def _title(model: ChartModel, cells: int, colours: Palette) -> Line:
    name: Line = ((" " + one_line(model.title, 60), style(colours.text, bold=True)),)
    if len(model.curves) < 2:
        return spread(name, ((model.note + " ", style(colours.text)),), cells)
    legend: list[tuple[str, Style | None]] = []
    for place, c in enumerate(model.curves):
        last = float(c.ys[-1]) if len(c.ys) else float("nan")
        if c.role is None:
            words = f"  {LINES[place % len(LINES)]} {one_line(c.label, 12)} {exact(last)}"
        else:
            words = f"  {sign(c.role)} {one_line(c.label, 12)} {signed(last)}"
        legend.append((words, _look(place, c, colours)))
    return spread(name, (*legend, (" ", None)), cells)


def _look(place: int, drawn: Curve, colours: Palette) -> Style:
    if drawn.role is not None:
        return colours.role(drawn.role)
    return style(colours.text if place else colours.accent)


def _plot_rows(
    model: ChartModel,
    layers: list[np.ndarray],
    looks: list[Style],
    wide: int,
    high: int,
    y_range: tuple[float, float],
    colours: Palette,
) -> list[Line]:
    """Curves over the zero line and the marks of edits."""
    faint, watch = style(colours.faint), style(colours.watch)
    grid: list[list[tuple[str, Style | None]]] = [[(" ", faint)] * wide for _ in range(high)]
    low, top = y_range
    if low < 0.0 < top:
        zero = round((top - 0.0) / (top - low) * (high - 1))
        grid[zero] = [("┄", faint)] * wide
    for mark in model.marks:
        if mark.kind != "edit":
            continue
        x = _column(mark.step, model.x_range, wide)
        for y in range(high):
            grid[y][x] = (MARKS["edit"], watch)
    combined = np.zeros((high, wide), dtype=np.uint8)
    owner = np.full((high, wide), -1)
    for index, bits in enumerate(layers):
        combined |= bits
        owner[bits > 0] = index
    for y, row in enumerate(text(combined)):
        for x, character in enumerate(row):
            if character != " ":
                grid[y][x] = (character, looks[owner[y, x]])
    for mark in model.marks:
        if mark.kind == "edit":
            _write(grid[0], _column(mark.step, model.x_range, wide), mark.label, watch)
    return [_merge(row) for row in grid]


def _write(row: list[tuple[str, Style | None]], x: int, label: str, look: Style) -> None:
    """Puts a label right of `x`, or left of it where the edge is near."""
    start = x + 1 if x + 1 + len(label) <= len(row) else x - len(label)
    for offset, letter in enumerate(label):
        if 0 <= start + offset < len(row):
            row[start + offset] = (letter, look)


def _foot(model: ChartModel, wide: int, colours: Palette) -> Line:
    """The step axis, with checkpoints."""
    faint = style(colours.faint)
    cells: list[tuple[str, Style | None]] = [("─", faint)] * wide
    for mark in model.marks:
        if mark.kind != "edit":
            look = style(colours.good if mark.kind == "best" else colours.accent)
            cells[_column(mark.step, model.x_range, wide)] = (MARKS[mark.kind], look)
    return _merge(cells)


def _column(step: float, x_range: tuple[float, float], wide: int) -> int:
    low, high = x_range
    return max(0, min(wide - 1, round((step - low) / (high - low) * (wide - 1))))


def _merge(cells: list[tuple[str, Style | None]]) -> Line:
    """Neighbours of one style as one piece."""
    pieces: list[tuple[str, Style | None]] = []
    for character, look in cells:
        if pieces and pieces[-1][1] is look:
            pieces[-1] = (pieces[-1][0] + character, look)
        else:
            pieces.append((character, look))
    return tuple(pieces)
