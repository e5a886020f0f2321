"""A league read from a run's record on a thread of its own, a page at a time, while the run goes on."""

from __future__ import annotations

from pathlib import Path

from engine.store import Store
from tui.league.standings import League, Standings
from tui.replay.desk import Desk

PAGE = 512
"""Episodes read at a time: some milliseconds."""


class LeagueReading:
    """Every question may raise `engine.types.EngineError`. Only the desk's thread touches the standings."""

    def __init__(self, folder: Path) -> None:
        self._desk = Desk(lambda: Store.open(folder, read_only=True), f"league of {folder.name}")
        self._standings = Standings()
        self._place = 0
        self.untold = 0
        """Evaluations' episodes of which the record doesn't tell who played all roles."""

    def close(self) -> None:
        self._desk.close()

    async def take_in(self) -> bool:
        """The next page of the record; False where there is no more."""
        return await self._desk.ask(self._take)

    def _take(self, store: Store) -> bool:
        page = store.encounters(after=self._place, limit=PAGE)
        self._standings.add(page.met)
        self.untold += page.untold
        more, self._place = page.place > self._place, page.place
        return more

    @property
    def is_empty(self) -> bool:
        """Whether no scored episode is recorded."""
        return not self._place

    async def kinds(self) -> list[str]:
        return await self._desk.ask(lambda _: self._standings.kinds)

    async def league(self, kind: str) -> League:
        return await self._desk.ask(lambda _: self._standings.league(kind))
