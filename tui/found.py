"""What Home finds out of files after its lists are shown. Everything here reads them, and belongs in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import presets
from engine import config as configuration
from engine.config import Config, ConfigError
from engine.store import StoreError
from engine.summaries import courses, settings
from tui.interface import PresetInfo, RunInfo


class Found:
    """What is known so far. `judge` and `read_courses` add to it, reading only what is new."""

    def __init__(self) -> None:
        self.memory: dict[str, str] = {}
        """What a run of a preset takes, in words, by its name."""
        self.courses: dict[tuple[Path, float], tuple[float, ...]] = {}
        """How each run's metric went, by its folder and the time of its record."""

    def judge(self, listed: Iterable[PresetInfo], judge: Callable[[Config], str]) -> None:
        """Of one's own presets anew each time, for they may have been edited."""
        for preset in listed:
            if preset.name in self.memory and preset.source != presets.YOURS:
                continue
            try:
                self.memory[preset.name] = judge(configuration.load(presets.find(preset.name)))
            except (presets.PresetError, ConfigError):  # the list says so, or will when it is read again
                continue

    def read_courses(self, runs: Iterable[RunInfo]) -> None:
        for run in runs:
            if run.value is None or run.problem or run.course or (run.folder, run.updated) in self.courses:
                continue
            try:
                course = courses(run.folder, run.metric).get(run.metric, [])
            except (StoreError, ValueError):  # damaged or gone since it was listed: there is nothing to draw
                continue
            self.courses[run.folder, run.updated] = tuple(value for _, value in course)

    def added(
        self, listed: Iterable[PresetInfo], runs: Iterable[RunInfo]
    ) -> tuple[list[PresetInfo], list[RunInfo]]:
        """The lists, with what is known beside."""
        return (
            [replace(p, memory=self.memory.get(p.name, p.memory)) for p in listed],
            [replace(r, course=self.courses.get((r.folder, r.updated), r.course)) for r in runs],
        )


def configuration_of(item: PresetInfo | RunInfo) -> Config:
    """A preset's, or a run's with its edits. Raises `PresetError`, `ConfigError` or `StoreError`."""
    if isinstance(item, RunInfo):
        return settings(item.folder)
    return configuration.load(presets.find(item.name))
