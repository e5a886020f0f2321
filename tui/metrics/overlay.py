"""The series of a run that isn't the one at work, read from its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.store import Store
from tui.series import Series


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was measured in a run, up to when it was read."""

    name: str
    folder: Path
    series: dict[str, Series]
    """By metric, evaluations as `eval/…`, like those of a run at work."""


def read(folder: Path) -> Recorded:
    """Reads the record, which may be long: not on the event loop. `StoreError` where it can't be read."""
    series: dict[str, Series] = {}
    with Store.open(folder, read_only=True) as store:
        told = [(step.step, step.metrics) for step in store.steps()]
        told += [
            (event.step, {f"eval/{name}": value for name, value in event.metrics.items()})
            for event in store.evaluations()
        ]
    for step, metrics in told:
        for name, value in metrics.items():
            series.setdefault(name, Series()).add(step, value)
    return Recorded(folder.name, folder, series)
