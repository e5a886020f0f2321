"""A chart as SVG: plain, small, and readable on a light ground and on a dark one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from xml.sax.saxutils import escape

import numpy as np

from tui.drawing.cells import MARKS, mark_of, reading
from tui.drawing.model import ChartModel, Curve
from tui.drawing.scales import within
from tui.text import one_line
from tui.theme import DUSK, PAPER, Palette

if TYPE_CHECKING:
    from tui.series import Array

T = TypeVar("T", float, "Array")

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, LINE, BOTTOM = 64, 20, 34, 18, 44
"""Margins; those of the legend's lines come to the one above."""

ENTRY = 7
"""Width of a letter of the legend, roughly."""

DASHES = ("", "7 3", "2 3", "9 3 2 3")

FONT = "'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', 'Noto Sans', sans-serif"
"""By name those of each system: what makes pixels of it may know no `sans-serif`."""


def svg(model: ChartModel) -> str:
    """The chart; light, and dark where whoever shows it prefers that."""
    return _Drawing(model).text()


class _Drawing:
    def __init__(self, model: ChartModel) -> None:
        self.model = model
        self.axis = model.axis()
        self.legend = _rows(model)
        self.top = TOP + LINE * len(self.legend)
        self.right, self.bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def text(self) -> str:
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" font-family="{FONT}" font-size="12">',
            f"<title>{escape(one_line(self.model.title, 200))}</title>",
            _style(),
            f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
            f'<text class="ink" x="{LEFT}" y="22" font-size="15" font-weight="600">'
            f"{escape(one_line(self.model.title, 100))}</text>",
            f'<text class="soft" x="{self.right}" y="22" text-anchor="end">{escape(_said(self.model))}</text>',
            *self._axes(),
            *self._marks(),
            *(line for place, c in enumerate(self.model.curves) for line in self._curve(place, c)),
            *self._names(),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    def x(self, step: T) -> T:
        low, high = self.model.x_range
        return LEFT + (self.right - LEFT) * (step - low) / (high - low)

    def y(self, placed: T) -> T:
        """Of a value as it goes along the axis."""
        low, high = self.axis.bounds
        return self.bottom - (self.bottom - self.top) * (placed - low) / (high - low)

    def _axes(self) -> list[str]:
        parts = []
        for value, label in self.axis.ticks(7):
            y = self.y(self.axis.place(np.array([value]))[0])
            parts.append(f'<path class="rule" d="M{LEFT} {y:.1f}H{self.right}"/>')
            parts.append(f'<text class="soft" x="{LEFT - 8}" y="{y:.1f}" dy="4" text-anchor="end">{label}</text>')
        for step in within(*self.model.x_range):
            at = f'x="{self.x(step):.1f}" y="{self.bottom + 18}"'
            parts.append(f'<text class="soft" {at} text-anchor="middle">{step:.0f}</text>')
        parts.append(f'<text class="soft" x="{self.right}" y="{HEIGHT - 8}" text-anchor="end">step</text>')
        return parts

    def _marks(self) -> list[str]:
        low, high = self.model.x_range
        parts = []
        for mark in self.model.marks:
            if not low <= mark.step <= high:
                continue
            x = f"{self.x(mark.step):.1f}"
            if mark.kind == "edit":
                parts.append(f'<path class="mark" d="M{x} {self.top}V{self.bottom}"/>')
                name = escape(one_line(mark.label, 40))
                parts.append(f'<text class="edit" x="{x}" y="{self.top + 12}" dx="4" font-size="11">{name}</text>')
            else:
                at = f'x="{x}" y="{self.bottom + 4}"'
                parts.append(f'<text class="{mark.kind}" {at} text-anchor="middle">{MARKS[mark.kind]}</text>')
        if self.axis.is_log:
            at = (
                f'x="{self.x(step):.1f}" y="{self.bottom}"' for step in sorted(set(self.model.at_foot().tolist()))
            )
            parts += [f'<text class="edit" {place} text-anchor="middle" font-size="9">▾</text>' for place in at]
        if self.model.cursor is not None and low <= self.model.cursor <= high:
            parts.append(f'<path class="cursor" d="M{self.x(self.model.cursor):.1f} {self.top}V{self.bottom}"/>')
        return parts

    def _curve(self, place: int, drawn: Curve) -> list[str]:
        colour, many = _colour(place, drawn), len(self.model.curves) > 1
        parts = []
        if drawn.raw is not None:
            points = self._points(*drawn.seen(self.model.x_range, "raw"))
            parts.append(f'<polyline class="{colour} raw" points="{points}"/>')
        points = self._points(*drawn.seen(self.model.x_range))
        dash = f' stroke-dasharray="{DASHES[place % len(DASHES)]}"' if many and DASHES[place % len(DASHES)] else ""
        parts.append(f'<polyline class="{colour} line" points="{points}"{dash}/>')
        if many and points:
            x, y = points.rpartition(" ")[2].split(",")
            parts.append(f'<text class="{colour}" x="{x}" y="{y}" dy="4">{mark_of(place, drawn)}</text>')
        return parts

    def _points(self, xs: Array, ys: Array) -> str:
        pixels = _thin(self.x(xs), self.y(self.axis.place(ys)))
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)

    def _names(self) -> list[str]:
        parts = []
        for line, row in enumerate(self.legend):
            x = LEFT
            for place, drawn, words in row:
                y = TOP + LINE * (line + 1) - 6
                dash = DASHES[place % len(DASHES)]
                parts.append(
                    f'<path class="{_colour(place, drawn)} line" d="M{x} {y - 4}h24" stroke-dasharray="{dash}"/>'
                )
                parts.append(f'<text class="ink" x="{x + 30}" y="{y}">{escape(words)}</text>')
                x += 46 + ENTRY * len(words)
        return parts


def _rows(model: ChartModel) -> list[list[tuple[int, Curve, str]]]:
    """The legend's lines: place, curve and words of each entry."""
    rows: list[list[tuple[int, Curve, str]]] = [[]]
    room = WIDTH - LEFT - RIGHT
    for place, drawn in enumerate(model.curves):
        sign = f"{mark_of(place, drawn)} " if len(model.curves) > 1 else ""
        words = f"{sign}{one_line(drawn.label, 60)} {reading(drawn, model)}"
        needed = 46 + ENTRY * len(words)
        if needed > room and rows[-1]:
            rows.append([])
            room = WIDTH - LEFT - RIGHT
        rows[-1].append((place, drawn, words))
        room -= needed
    return rows


def _said(model: ChartModel) -> str:
    at = [f"step {model.cursor:.0f}"] if model.cursor is not None else []
    return " · ".join([*at, *model.said()])


def _thin(xs: Array, ys: Array) -> list[tuple[float, float]]:
    """Of the points in each pixel column no more than the first, the lowest, the highest and the last."""
    if len(xs) <= 4 * WIDTH:
        return list(zip(xs.tolist(), ys.tolist(), strict=True))
    starts = np.flatnonzero(np.diff(xs.astype(np.int64), prepend=-1))
    ends = np.append(starts[1:], len(xs))
    kept = sorted(
        {
            place
            for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
            for place in (a, a + int(ys[a:b].argmin()), a + int(ys[a:b].argmax()), b - 1)
        }
    )
    return list(zip(xs[kept].tolist(), ys[kept].tolist(), strict=True))


def _colour(place: int, drawn: Curve) -> str:
    return f"c{(place if drawn.role is None else drawn.role) % len(PAPER.role_colours)}"


def _style() -> str:
    """Colours by class: those of paper, and of dusk for whom prefers the dark."""
    shapes = (
        ".line{fill:none;stroke-width:1.6;stroke-linejoin:round}.raw{fill:none;stroke-width:1;opacity:.35}"
        "polyline,path{fill:none}text{stroke:none}.mark{stroke-dasharray:2 3}"
    )
    return f"<style>{_colours(PAPER)}{shapes}@media(prefers-color-scheme:dark){{{_colours(DUSK)}}}</style>"


def _colours(p: Palette) -> str:
    inks = {
        "ink": p.text,
        "soft": p.soft,
        "edit": p.watch,
        "skipped": p.watch,
        "checkpoint": p.accent,
        "best": p.good,
    }
    lines = {"rule": p.panel, "mark": p.watch, "cursor": p.text}
    return "".join(
        [
            f".ground{{fill:{p.background}}}",
            *(f".{name}{{fill:{colour}}}" for name, colour in inks.items()),
            *(f".{name}{{stroke:{colour}}}" for name, colour in lines.items()),
            *(f".c{n}{{stroke:{colour}}}text.c{n}{{fill:{colour}}}" for n, colour in enumerate(p.role_colours)),
        ]
    )
