"""Which metrics are looked at closely, and how: smoothed, logarithmic, which steps, beside which other runs.

Plain values, kept by the metrics screen; `models` makes charts of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tui.drawing.model import ChartModel, Curve
from tui.metrics.charts import marks
from tui.metrics.meanings import FAMILIES, meaning
from tui.metrics.overlay import Recorded
from tui.series import Series, smoothed
from tui.state import Store
from tui.text import one_line
from tui.words import label

if TYPE_CHECKING:
    from tui.series import Array

STRENGTHS = (0.0, 0.6, 0.9, 0.97)
"""Smoothing that is offered: how much of the mean so far stays with each new point."""

NARROWEST = 2.0
"""Steps in sight at least."""

MOST = 8
"""Curves in a chart at most: as many as there are signs."""

DONE = {"best": "best checkpoint", "checkpoint": "checkpoint", "skipped": "nothing published"}
"""What a mark without a label of its own says."""


@dataclass
class Board:
    """The choice, over a run's store and the records of other runs."""

    store: Store
    run: str = ""
    chosen: list[str] = field(default_factory=list)
    """Metrics, in the order they were chosen."""
    others: list[Recorded] = field(default_factory=list)
    joined: bool = False
    """Whether all that is chosen is drawn in one chart."""
    strength: float = 0.0
    is_log: bool = False
    window: tuple[float, float] | None = None
    """The steps in sight; None for all, also those to come."""
    cursor: float | None = None

    # What there is

    def names(self) -> list[str]:
        """Every metric of this run and of the others, by family, those the table knows of in its order."""
        known = {name for series in (self.store.series, *(o.series for o in self.others)) for name in series}
        return sorted(known, key=lambda name: (FAMILIES.index(self.family(name)), name))

    def family(self, name: str) -> str:
        return meaning(name, tuple(self.store.roles)).family

    def words(self, name: str) -> str:
        return meaning(name, tuple(self.store.roles)).words

    def toggle(self, name: str) -> None:
        if name in self.chosen:
            self.chosen.remove(name)
        else:
            self.chosen.append(name)

    # The steps in sight

    @property
    def whole(self) -> tuple[float, float]:
        """From the first step to the last of this run, and of what is drawn of others."""
        drawn = [s for other in self.others for name, s in other.series.items() if name in self.chosen]
        xs = [s.xs for s in (*self.store.series.values(), *drawn) if s.xs]
        if not xs:
            return 0.0, 1.0
        low = min(x[0] for x in xs)
        return low, max(*(x[-1] for x in xs), low + 1.0)

    @property
    def sight(self) -> tuple[float, float]:
        return self.window or self.whole

    def zoom(self, factor: float, about: float | None = None) -> None:
        """Sees `factor` times as many steps; `about` stays where it is, or else the cursor, or the middle."""
        low, high = self.sight
        first, last = self.whole
        if about is None:
            is_seen = self.cursor is not None and low <= self.cursor <= high
            about = self.cursor if is_seen and self.cursor is not None else (low + high) / 2
        span = min(max((high - low) * factor, NARROWEST), last - first)
        share = (about - low) / (high - low)
        self._show(about - share * span, span)

    def pan(self, share: float) -> None:
        """Moves on by a share of what is in sight."""
        low, high = self.sight
        self._show(low + share * (high - low), high - low)

    def reset(self) -> None:
        """All steps, no cursor, nothing smoothed, a plain axis."""
        self.window = self.cursor = None
        self.strength, self.is_log = 0.0, False

    def _show(self, low: float, span: float) -> None:
        first, last = self.whole
        low = min(max(low, first), last - span)
        self.window = None if span >= last - first else (low, low + span)

    # The cursor

    def point(self, step: float | None) -> None:
        """Puts the cursor on the measured step nearest to `step`; None takes it away."""
        steps = self._steps()
        self.cursor = None if step is None or not len(steps) else float(steps[np.abs(steps - step).argmin()])

    def move(self, by: int) -> None:
        """Moves the cursor by measured points, from the newest in sight; the steps in sight follow it."""
        steps = self._steps()
        if not len(steps):
            return
        low, high = self.sight
        if self.cursor is None:
            place = int(np.searchsorted(steps, high, side="right")) - 1
        else:
            place = int(np.searchsorted(steps, self.cursor)) + by
        self.cursor = float(steps[max(0, min(place, len(steps) - 1))])
        if not low <= self.cursor <= high:
            self._show(self.cursor - (high - low) / 2, high - low)

    def done_there(self) -> list[str]:
        """What was done at the step of the cursor, in words."""
        return [mark.label or DONE[mark.kind] for mark in marks(self.store) if mark.step == self.cursor]

    def next_strength(self) -> None:
        later = [strength for strength in STRENGTHS if strength > self.strength]
        self.strength = later[0] if later else STRENGTHS[0]

    def _steps(self) -> Array:
        """Where anything that is chosen was measured, rising."""
        found = [s.xs for name in self.chosen for s in self._series(name).values()]
        return np.unique(np.concatenate([np.zeros(0), *map(np.asarray, found)]))

    # Charts

    def models(self) -> list[ChartModel]:
        """A chart for each metric that is chosen, or one for all."""
        if self.joined and len(self.chosen) > 1:
            return [self._chart(", ".join(map(label, self.chosen)), self.chosen)]
        return [self._chart(label(name), [name]) for name in self.chosen]

    def _chart(self, title: str, names: list[str]) -> ChartModel:
        found = [(name, run, series) for name in names for run, series in self._series(name).items()]
        places = [self._place(name) for name in names]
        are_roles = not self.others and None not in places
        curves: list[Curve] = []
        for name, run, series in found[:MOST]:
            xs, raw = series.arrays()
            words = label(name) if not self.others else f"{label(name)} · {run}" if len(names) > 1 else run
            ys = smoothed(raw, self.strength) if self.strength else raw
            role = self._place(name) if are_roles else None
            curves.append(Curve(words, xs, ys, role, name, raw if self.strength else None))
        remarks = [f"smoothed: EMA {self.strength:g}, raw faint"] if self.strength else []
        if missing := self._missing(names):
            remarks.append(f"not measured in {', '.join(missing)}")
        if len(found) > MOST:
            remarks.append(f"{len(found) - MOST} of {len(found)} curves left out")
        return ChartModel(
            title, tuple(curves), marks(self.store), self.sight, "", self.is_log, self.cursor, tuple(remarks)
        )

    def _missing(self, names: list[str]) -> list[str]:
        """Other runs that have none of the metrics."""
        return [
            one_line(other.name, 30) for other in self.others if not any(name in other.series for name in names)
        ]

    def _place(self, name: str) -> int | None:
        """The place of the role whose mean reward a metric is."""
        role = name.removeprefix("reward/")
        return self.store.roles.index(role) if role != name and role in self.store.roles else None

    def _series(self, name: str) -> dict[str, Series]:
        """The metric's series by run, this one's first."""
        found = {self.run: self.store.series[name]} if name in self.store.series else {}
        for other in self.others:
            if name in other.series:
                found[other.name if other.name not in found else str(other.folder)] = other.series[name]
        return found


def listed(board: Board, wanted: str) -> list[tuple[str, list[str]]]:
    """(family, its metrics) whose name, family or meaning has every word of `wanted`; families without any go."""
    words = wanted.casefold().split()
    found: dict[str, list[str]] = {}
    for name in board.names():
        about = f"{name} {label(name)} {board.family(name)} {board.words(name)}".casefold()
        if all(word in about for word in words):
            found.setdefault(board.family(name), []).append(name)
    return list(found.items())


def last(board: Board, name: str) -> float:
    """The newest value of a metric in this run; NaN where it hasn't been measured in it."""
    series = board.store.series.get(name)
    return series.last if series is not None else math.nan
