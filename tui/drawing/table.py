"""The numbers of charts as a table: a row a step, a column a curve, as they were measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tui.drawing.model import ChartModel


def rows(models: Sequence[ChartModel]) -> list[list[str]]:
    """A line of names, then the steps in sight with each curve's value; empty where it wasn't measured."""
    columns: dict[str, dict[float, float]] = {}
    for model in models:
        low, high = model.x_range
        for c in model.curves:
            name = c.metric or c.label
            if c.label and len({other.metric for other in model.curves}) < len(model.curves):
                name = f"{name} ({c.label})"
            ys = c.ys if c.raw is None else c.raw
            found = zip(c.xs.tolist(), ys.tolist(), strict=True)
            columns[name] = {x: y for x, y in found if low <= x <= high}
    steps = sorted({x for values in columns.values() for x in values})
    body = [[f"{x:g}", *(repr(v[x]) if x in v else "" for v in columns.values())] for x in steps]
    return [["step", *columns], *body]


def written(models: Sequence[ChartModel], separator: str) -> str:
    """The table as text, with `separator` between its cells: a tab for the clipboard, a comma for a file."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows(models))
    return text.getvalue()
