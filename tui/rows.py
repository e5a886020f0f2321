"""Which episode sits in which row of the wall: rows keep still, so that an eye can rest on one.

An episode keeps its row while it plays and stays there, settled, until the row is needed. New ones take the topmost
row that has settled, or a new row at the end: what plays gathers at the top.
"""

from __future__ import annotations

from collections.abc import Sequence

from tui.state import Store
from tui.views import EpisodeView

SETTLE = 0.8
"""Seconds an ended episode keeps its row, while there is room for others."""

STALE = 5.0
"""Seconds after which rows at the end go, while others play."""

SPARE = 8
"""Rows there may be beyond those in play, before ones that just ended are taken."""


class Rows:
    """Rows of episodes, by id."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._row: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def row(self, rollout_id: str) -> int | None:
        return self._row.get(rollout_id)

    def update(self, store: Store, keep: Sequence[str] = ()) -> bool:
        """Seats whoever is new; True where a row changed hands. Those in `keep` are never unseated."""
        episodes = store.episodes
        live = [episode for episode in episodes.values() if episode.live]
        new = [episode for episode in live if episode.id not in self._row]
        changed = bool(live) and self._trim(store, keep)
        if not new:
            return changed
        ready, fresh = self._free(episodes, store.clock(), keep)
        for episode in new:
            if ready:
                row = ready.pop(0)
            elif fresh and len(self.ids) >= len(live) + SPARE:
                row = fresh.pop(0)
            else:
                row = len(self.ids)
                self.ids.append("")
            self._row.pop(self.ids[row], None)
            self.ids[row] = episode.id
            self._row[episode.id] = row
        return True

    def _free(
        self, episodes: dict[str, EpisodeView], now: float, keep: Sequence[str]
    ) -> tuple[list[int], list[int]]:
        """Rows that have settled, from the top, and rows that have just ended, the earliest first."""
        settled: list[tuple[float, int]] = []
        for row, rollout_id in enumerate(self.ids):
            episode = episodes.get(rollout_id)
            if rollout_id in keep or (episode is not None and episode.live):
                continue
            ended = -SETTLE if episode is None or episode.ended is None else episode.ended
            settled.append((ended, row))
        ready = [row for ended, row in settled if now - ended >= SETTLE]
        fresh = [row for ended, row in sorted(settled) if now - ended < SETTLE]
        return ready, fresh

    def _trim(self, store: Store, keep: Sequence[str]) -> bool:
        """Drops rows at the end that nobody has played in for a while."""
        trimmed = False
        while self.ids:
            episode = store.episodes.get(self.ids[-1])
            ended = None if episode is None else episode.ended
            old = episode is None or (ended is not None and store.clock() - ended > STALE)
            if not old or self.ids[-1] in keep:
                break
            self._row.pop(self.ids.pop(), None)
            trimmed = True
        return trimmed
