"""What a chart shows: named series over steps, what was done at which step, and what is pointed at.

A picture of it is made by `tui.widgets.chart.Chart` on the screen, and by `tui.drawing.svg` in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tui.drawing.scales import Axis, axis
from tui.views import Mark
from tui.words import plural

if TYPE_CHECKING:
    from tui.series import Array


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One line of a chart: `ys` over the steps `xs`, [n] each, `xs` rising."""

    label: str
    xs: Array
    ys: Array
    role: int | None = None
    """The place of the role it is about, for its colour and sign; else its place in the chart gives them."""
    metric: str = ""
    """The metric it is of, as the run names it."""
    raw: Array | None = None
    """`ys` as they were before they were smoothed; drawn faint, and read out."""

    def at(self, step: float) -> tuple[float, float]:
        """(step, value) of the last point up to `step`, before any smoothing; NaN where there is none."""
        last = int(np.searchsorted(self.xs, step, side="right")) - 1
        ys = self.ys if self.raw is None else self.raw
        return (float(self.xs[last]), float(ys[last])) if last >= 0 else (step, float("nan"))

    def seen(self, x_range: tuple[float, float], which: str = "ys") -> tuple[Array, Array]:
        """The part in sight, with the line that leads out of it on either side cut off at the edge."""
        low, high = x_range
        ys = self.raw if which == "raw" and self.raw is not None else self.ys
        finite = np.isfinite(ys)
        xs, ys = self.xs[finite], ys[finite]
        first, last = np.searchsorted(xs, low, side="left"), np.searchsorted(xs, high, side="right")
        if first == 0 and last == len(xs):
            return xs, ys
        edges = np.array([low, high])[[0 < first < len(xs), 0 < last < len(xs)]]
        edges = edges[~np.isin(edges, xs[first:last])]
        inner = np.concatenate([xs[first:last], edges])
        order = np.argsort(inner, kind="stable")
        values = np.concatenate([ys[first:last], np.interp(edges, xs, ys) if len(xs) else edges])
        return inner[order], values[order]


@dataclass(frozen=True, slots=True, eq=False)
class ChartModel:
    """What one chart shows. Make another to show something else, by `dataclasses.replace`."""

    title: str
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()
    x_range: tuple[float, float] = (0.0, 1.0)
    """The steps in sight."""
    note: str = ""
    """What stands at the right of the title, in words, where there is a single curve."""
    is_log: bool = False
    """Whether the axis of values is logarithmic."""
    cursor: float | None = None
    """The step that is pointed at: a line, and each curve's value there instead of its last one."""
    remarks: tuple[str, ...] = field(default=())
    """What has to be said of how it is drawn, such as by how much it is smoothed."""

    @property
    def metrics(self) -> list[str]:
        """Those its curves are of, each once."""
        return list(dict.fromkeys(c.metric for c in self.curves if c.metric))

    def axis(self) -> Axis:
        """The axis that holds what is in sight."""
        parts = [c.seen(self.x_range)[1] for c in self.curves]
        parts += [c.seen(self.x_range, "raw")[1] for c in self.curves if c.raw is not None]
        return axis(np.concatenate(parts) if parts else np.zeros(0), self.is_log)

    def at_foot(self) -> Array:
        """Steps in sight with a value that a logarithmic axis has no place for."""
        if not self.is_log:
            return np.zeros(0)
        return np.concatenate([np.zeros(0), *(xs[ys <= 0] for xs, ys in map(self._points, self.curves))])

    def said(self) -> list[str]:
        """All remarks, with what a logarithmic axis has no place for."""
        remarks = list(self.remarks)
        if self.is_log:
            gone = len(self.at_foot())
            if not self.axis().is_log:
                remarks.append("not logarithmic: no value in sight is above 0")
            else:
                remarks.append("log axis" + (f", {plural(gone, 'point')} ≤ 0 at its foot ▾" if gone else ""))
        return remarks

    def _points(self, curve: Curve) -> tuple[Array, Array]:
        """The measured points in sight, without edges."""
        ys = curve.ys if curve.raw is None else curve.raw
        kept = (curve.xs >= self.x_range[0]) & (curve.xs <= self.x_range[1])
        return curve.xs[kept], ys[kept]
