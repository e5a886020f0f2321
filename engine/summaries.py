"""A line on every run in a folder of runs. A damaged run is listed with its problem, never raised."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.assembly import folded
from engine.config import Config, ConfigError, load
from engine.events import RunState
from engine.store import FILE, Store, StoreError, in_use

CONFIG = "config.toml"
PAGE = 256
"""Evaluations read at a time, so that other threads get their turn between."""


@dataclass(slots=True)
class RunSummary:
    name: str
    folder: Path
    config: Config | None = None
    created: float = 0.0
    """Seconds since 1970, as all times here."""
    updated: float = 0.0
    state: str = ""
    """`"running"` while some process runs it, how it ended, or `"interrupted"` if it ended without a word."""
    reason: str = ""
    step: int = 0
    steps: int = 0
    """How many it is to do, edits included."""
    version: int = 0
    seconds: float = 0.0
    first: dict[str, float] = field(default_factory=dict)
    """The first evaluation's metrics; empty while there is none."""
    last: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    origin: str = ""
    """The run it was forked from, and at which step; empty for one that wasn't."""
    problem: str = ""
    """Why the run can't be opened, in a sentence."""


def summaries(runs_dir: Path) -> list[RunSummary]:
    """Every run in `runs_dir`, the latest used first. No such folder is no runs."""
    if not runs_dir.is_dir():
        return []
    folders = [folder for folder in runs_dir.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    return sorted(map(summary, folders), key=lambda run: (-run.updated, run.name))


def summary(folder: Path) -> RunSummary:
    """One run in brief."""
    run = RunSummary(folder.name, folder)
    try:
        run.updated = _written(folder)
        with Store.open(folder, read_only=True) as store:
            _fill(run, store)
            extended = [int(edit.after) for edit in store.edits() if edit.target == "run.steps"]
        run.config = load(folder / CONFIG)
        run.steps = extended[-1] if extended else run.config.run.steps
        if extended and run.state == RunState.FINISHED.value and run.step < run.steps:
            run.state = RunState.STOPPED.value  # it has got more steps since
    except (StoreError, ConfigError) as error:
        run.problem = str(error)
    except OSError as error:
        run.problem = f"{folder}: {error.strerror or error}"
    except (ValueError, TypeError) as error:
        run.problem = f"{folder}: the record {FILE} is damaged: {error}"
    return run


def courses(folder: Path, only: str = "") -> dict[str, list[tuple[int, float]]]:
    """How each metric of a run's evaluations went, or one of them: (step, value) in order. Raises `StoreError`."""
    found: dict[str, list[tuple[int, float]]] = {}
    after = -1
    with Store.open(folder, read_only=True) as store:
        while page := store.evaluations(after=after, limit=PAGE):
            for event in page:
                for metric, value in event.metrics.items():
                    if not only or metric == only:
                        found.setdefault(metric, []).append((event.step, value))
            after = page[-1].step
    return found


def settings(folder: Path) -> Config:
    """A run's configuration with the edits that were made of it. Raises `StoreError` or `ConfigError`."""
    with Store.open(folder, read_only=True) as store:
        return folded(load(folder / CONFIG), store.edits())


def _written(folder: Path) -> float:
    """The time of the last record. Reading one touches SQLite's other files and may leave an empty log."""
    files = [file for file in (folder / FILE, folder / f"{FILE}-wal") if file.exists() and file.stat().st_size]
    return max(file.stat().st_mtime for file in files or [folder])


def _fill(run: RunSummary, store: Store) -> None:
    run.created = float(store.meta("created") or 0.0)
    run.origin = store.meta("origin") or ""
    change = store.state()
    ended = change is not None and change.state in (RunState.STOPPED, RunState.FINISHED, RunState.FAILED)
    if in_use(run.folder):
        run.state = RunState.RUNNING.value
    elif change is None or not ended:
        run.state = "interrupted"
    else:
        run.state, run.reason = change.state.value, change.reason
    last = store.last_step()
    if last is not None:
        run.step, run.version, run.seconds = last.step, last.version, store.seconds()
    run.first, run.last, run.best = (mark.metrics if mark else {} for mark in store.landmarks())
