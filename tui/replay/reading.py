"""A run's folder being read: a thread for what is looked at now, and one for each thing that takes all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.reading.fulltext import Found, Index
from engine.reading.highlights import Highlight
from engine.reading.outlines import Outline
from engine.reading.query import Query
from engine.reading.spelling import Decode, decoder
from engine.store import StoreError
from engine.types import GenerateResult
from tui.replay.desk import Desk, T, Tool, collected_later
from tui.replay.pins import Pins
from tui.replay.record import Facts, Record
from tui.replay.strength import Ratings, Strength

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
        self._spell: Decode | None = None
        self._near = Desk(lambda: Record(folder), f"read {folder.name}")
        self._far = Desk(lambda: Record(folder), f"look through {folder.name}")
        self._met = Desk(lambda: Strength(folder), f"rate {folder.name}")
        self._index = Desk(lambda: Index.open(folder, cache or caches()), f"search {folder.name}")

    def close(self) -> None:
        for desk in (self._near, self._far, self._met, self._index):
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

    async def page(self, step: int) -> list[Outline]:
        """A step's episodes, those that were learnt from first."""
        return await self._ask(self._near, lambda record: record.page(step))

    async def episode(self, outline: Outline) -> GenerateResult:
        return await self._ask(self._near, lambda record: record.episode(outline))

    async def look_on(self, facts: Facts) -> tuple[list[Highlight], int]:
        """What is interesting so far, and how many steps are not looked at yet."""

        def look(record: Record) -> tuple[list[Highlight], int]:
            with collected_later():
                return record.look_through(facts, SLICE)

        return await self._ask(self._far, look)

    async def rate_on(self, facts: Facts) -> int:
        """Reads on who met whom; how many steps aren't read yet."""
        return await self._ask(self._met, lambda strength: strength.take_in(facts.marks, SLICE))

    async def ratings(self, step: int) -> Ratings:
        """As they were after a step, of what was read by `rate_on`."""
        return await self._ask(self._met, lambda strength: strength.at(step))

    async def learn_to_spell(self, source: str) -> None:
        """From then on `decode` spells tokens of that model."""
        self._spell = await asyncio.to_thread(decoder, source)

    def decode(self, tokens: list[int]) -> str:
        return self._spell(tokens) if self._spell is not None else ""

    @property
    def spells(self) -> bool:
        return self._spell is not None

    async def take_in(self) -> int:
        """Brings the search index on by a little; how many steps it lacks."""
        return await self._ask(self._index, lambda index: index.update(SLICE))

    async def search(self, query: Query, limit: int = 500) -> Found:
        """Turns, at most so many, and before them the notes of pins."""
        found = await self._ask(self._index, lambda index: index.search(query, limit))
        return replace(found, hits=[*self.pins.found(query), *found.hits])
