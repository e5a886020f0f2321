"""Runs side by side: how a metric went in each, and where their configurations differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.config import Config, ConfigError
from engine.steering.drafts import differences
from engine.store import StoreError
from engine.summaries import courses, settings
from tui.drawing.model import ChartModel, Curve
from tui.text import fit, one_line, wrap
from tui.theme import Palette, sign, style
from tui.widgets.painted import BLANK, Line
from tui.words import exact, label

KEY, COLUMN = 28, 18
"""Cells of a key's name, and the fewest a run's column is worth having."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One run, as its folder tells."""

    name: str
    courses: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """(step, value) of each evaluation, by metric."""
    config: Config | None = None
    """With its edits."""
    problem: str = ""


def read(name: str, folder: Path) -> Compared:
    """Reads a run's record, which may be long: not on the event loop."""
    try:
        return Compared(name, courses(folder), settings(folder))
    except (StoreError, ConfigError, ValueError) as error:
        return Compared(name, problem=f"{error}")


def metrics(runs: Sequence[Compared]) -> list[str]:
    """All that was measured: the metric that counts for most, what most runs have, the rest."""
    chosen = [run.config.eval.metric for run in runs if run.config]
    names = dict.fromkeys(name for run in runs for name in run.courses)
    return sorted(names, key=lambda name: (-chosen.count(name), -sum(name in run.courses for run in runs), name))


def chart(runs: Sequence[Compared], metric: str) -> ChartModel:
    """The metric of all runs; of one that hasn't it nothing but its name, so that the others keep their signs."""
    points = [np.asarray(run.courses.get(metric, []), float).reshape(-1, 2) for run in runs]
    curves = [Curve(run.name, found[:, 0], found[:, 1]) for run, found in zip(runs, points, strict=True)]
    steps = [float(step) for found in points for step in found[:, 0]]
    low = min(steps, default=0.0)
    return ChartModel(label(metric), tuple(curves), x_range=(low, max([*steps, low + 1.0])))


def table(runs: Sequence[Compared], metric: str, cells: int, colours: Palette) -> list[Line]:
    """What came of each run, and the keys that aren't the same in all; in columns where there is room."""
    goal = next((run.config.eval.goal for run in runs if run.config), "max")
    told = [
        ("last", [_last(run, metric) for run in runs]),
        ("best", [_best(run, metric, goal) for run in runs]),
        *differences([run.config for run in runs if run.config]).items(),
    ]
    known = [place for place, run in enumerate(runs) if run.config]
    whole: list[tuple[str, dict[int, str]]] = []
    for name, values in told:
        places = range(len(runs)) if len(values) == len(runs) else known
        whole.append((name, dict(zip(places, values, strict=True))))
    column = (cells - KEY - 2) // max(len(runs), 1)
    lines = (_columns if column >= COLUMN else _stacked)(runs, whole, column, cells, colours)
    if len(told) == 2:
        lines += [BLANK, ((" Their configurations are the same.", style(colours.soft)),)]
    for run in runs:
        if run.problem:
            look = style(colours.watch)
            lines += [((f" {line}", look),) for line in wrap(one_line(f"! {run.name}: {run.problem}"), cells - 2)]
    return lines


def _columns(
    runs: Sequence[Compared], rows: list[tuple[str, dict[int, str]]], column: int, cells: int, colours: Palette
) -> list[Line]:
    names = [
        (fit(f"{sign(place)} {one_line(run.name, 40)}", column - 1) + " ", colours.role(place))
        for place, run in enumerate(runs)
    ]
    lines: list[Line] = [((" " * (KEY + 2), None), *names)]
    for name, values in rows:
        texts = [fit(_shown(values, place), column - 1) + " " for place in range(len(runs))]
        pieces = [(text, style(colours.text)) for text in texts]
        lines.append(((f" {fit(one_line(name, 80), KEY)} ", style(colours.soft)), *pieces))
    return lines


def _stacked(
    runs: Sequence[Compared], rows: list[tuple[str, dict[int, str]]], column: int, cells: int, colours: Palette
) -> list[Line]:
    lines: list[Line] = []
    for name, values in rows:
        lines.append(((f" {one_line(name, 80)}", style(colours.soft)),))
        for place, run in enumerate(runs):
            head = f"   {sign(place)} {fit(one_line(run.name, 40), 16)} "
            lines.append(
                ((head, colours.role(place)), (fit(_shown(values, place), cells - 24), style(colours.text)))
            )
    return lines


def _shown(values: dict[int, str], place: int) -> str:
    return one_line(values.get(place, "?")) or "–"


def _last(run: Compared, metric: str) -> str:
    course = run.courses.get(metric)
    return f"{exact(course[-1][1])} at step {course[-1][0]}" if course else ""


def _best(run: Compared, metric: str, goal: str) -> str:
    course = [point for point in run.courses.get(metric, ()) if math.isfinite(point[1])]
    if not course:
        return ""
    step, value = (min if goal == "min" else max)(course, key=lambda point: point[1])
    return f"{exact(value)} at step {step}"
