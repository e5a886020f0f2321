"""A step's episodes at a glance: who said what, how long it was and what it was worth.

Without prompts, token ids and log-probabilities, which are nine tenths of a record, a whole step is read at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from sqlite3 import Row

from engine.rows import StoredEpisode, from_text
from engine.types import Credit

TURNS = """
SELECT episode, "index", role, player, text, length(tokens) / 4 AS tokens, illegal, stop_reason, credit FROM turns
WHERE episode IN (SELECT id FROM episodes WHERE step = ?) ORDER BY "index"
"""

MARKS = """
SELECT e.step, count(*) || ':' || min(e.rowid) || ':' || max(e.rowid) || ':' || coalesce(s.seconds, '') || ':' ||
    coalesce(s.version, '') || ':' || coalesce(v.metrics, '') AS mark
FROM episodes e LEFT JOIN steps s ON s.step = e.step LEFT JOIN evaluations v ON v.step = e.step
GROUP BY e.step ORDER BY e.step
"""
"""How long a step took is never twice the same, so one that is played again after going back has another mark."""


@dataclass(frozen=True, slots=True)
class TurnOutline:
    """One turn in brief."""

    index: int
    role: str
    player: str
    text: str
    tokens: int
    """How many were sampled."""
    illegal: bool = False
    stop_reason: str = ""
    credit: Credit | None = None


@dataclass(frozen=True, slots=True)
class Outline:
    """One episode in brief."""

    episode: StoredEpisode
    turns: list[TurnOutline] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.episode.rollout.id

    @property
    def tokens(self) -> int:
        return sum(turn.tokens for turn in self.turns)

    def turns_of(self, role: str) -> list[TurnOutline]:
        return [turn for turn in self.turns if turn.role == role]


def outlined(episodes: list[StoredEpisode], turns: list[Row]) -> list[Outline]:
    """Episodes with the rows that `TURNS` gave for them."""
    outlines = {episode.rollout.id: Outline(episode) for episode in episodes}
    for row in turns:
        # an episode may have been recorded between the two readings
        if row["episode"] in outlines:
            outlines[row["episode"]].turns.append(_turn(row))
    return list(outlines.values())


def _turn(row: Row) -> TurnOutline:
    return TurnOutline(
        index=row["index"],
        role=row["role"],
        player=row["player"],
        text=from_text(row["text"]),
        tokens=row["tokens"],
        illegal=bool(row["illegal"]),
        stop_reason=row["stop_reason"],
        credit=None if row["credit"] is None else Credit(**json.loads(row["credit"])),
    )
