"""A run's folder being read: one thread for what is looked at now, one for looking through all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from engine.ratings import Rating
from engine.reading.fulltext import Found, Index
from engine.reading.highlights import Highlight
from engine.reading.outlines import Outline
from engine.reading.query import Query
from engine.store import StoreError
from engine.types import GenerateResult
from tui.replay.desk import Desk, T, Tool
from tui.replay.pins import Pins
from tui.replay.record import Facts, Record

SLICE = 0.05
"""Seconds that looking through a run takes at a time: what is asked in between waits no longer."""


def caches() -> Path:
    """Where indexes of runs are kept whose folder can't be written to."""
    from platformdirs import user_cache_path

    return user_cache_path("selfplay-tui") / "search"


def shelf() -> Path:
    """Where pins are kept of such runs."""
    from platformdirs import user_data_path

    return user_data_path("selfplay-tui") / "pins"


class Reading:
    """All of it only reads the run; `pins` and the search index are files of their own.

    Every question may raise `engine.types.EngineError`, told to whoever asked it.
    """

    def __init__(self, folder: Path, cache: Path | None = None, home: Path | None = None) -> None:
        self.folder = folder
        self.pins = Pins(folder, home or shelf())
        self._near = Desk(lambda: Record(folder), f"read {folder.name}")
        self._far = Desk(lambda: Record(folder), f"look through {folder.name}")
        self._index = Desk(lambda: Index.open(folder, cache or caches()), f"search {folder.name}")

    def close(self) -> None:
        for desk in (self._near, self._far, self._index):
            desk.close()

    async def _ask(self, desk: Desk[Tool], question: Callable[[Tool], T]) -> T:
        try:
            return await desk.ask(question)
        except (ValueError, TypeError, KeyError) as error:  # as reading what isn't JSON raises
            raise StoreError(f"{self.folder}: the record is damaged: {error}") from error

    async def facts(self) -> Facts:
        return await self._ask(self._near, Record.facts)

    async def grown(self, facts: Facts) -> bool:
        return await self._ask(self._near, lambda record: record.grown(facts))

    async def page(self, facts: Facts, step: int) -> tuple[list[Outline], Mapping[str, Rating]]:
        """A step's episodes, and the ratings of the last evaluation up to it."""
        measured = facts.evaluated(step)

        def read(record: Record) -> tuple[list[Outline], Mapping[str, Rating]]:
            return record.page(step), {} if measured is None else record.standing(measured.step)

        return await self._ask(self._near, read)

    async def episode(self, outline: Outline) -> GenerateResult:
        return await self._ask(self._near, lambda record: record.episode(outline))

    async def look_on(self, facts: Facts) -> tuple[list[Highlight], int]:
        """What is interesting so far, and how many steps are not looked at yet."""
        return await self._ask(self._far, lambda record: record.look_through(facts, SLICE))

    async def take_in(self) -> int:
        """Brings the search index on by a little; how many steps it lacks."""
        return await self._ask(self._index, lambda index: index.update(SLICE))

    async def search(self, query: Query) -> Found:
        return await self._ask(self._index, lambda index: index.search(query))
