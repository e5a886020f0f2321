"""Who met whom in a run, and what each got: what players are rated by.

Of an episode's record this needs two small columns, so that the meetings of a hundred thousand episodes are read in
pages of a few milliseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sqlite3 import Row
from statistics import fmean

SCORED = """
SELECT rowid AS place, id, step, evaluation, type, rewards, players FROM episodes
WHERE error IS NULL AND unscored IS NULL
"""
QUERY = f"{SCORED} AND rowid > ? ORDER BY rowid LIMIT ?"
OF_STEP = f"{SCORED} AND step = ? ORDER BY rowid"


@dataclass(frozen=True, slots=True)
class Encounter:
    """One scored episode in which at least two players spoke."""

    id: str
    step: int
    """The one that learnt from it, or after which it was played."""
    evaluation: bool
    type: str
    got: Mapping[str, float]
    """Player → its mean reward over the roles it spoke in."""


@dataclass(frozen=True, slots=True)
class Page:
    """What some rows of `QUERY` tell, and the place reached: the same again means that there are no more."""

    met: list[Encounter]
    place: int
    untold: int = 0
    """Evaluations' episodes of which the record doesn't tell who played all roles."""


def page(found: Sequence[Row], after: int) -> Page:
    met = [meeting for row in found if (meeting := encounter(row)) is not None]
    return Page(met, found[-1]["place"] if found else after, sum(map(is_untold, found)))


def encounter(row: Row) -> Encounter | None:
    """What a row of `QUERY` tells; None where nobody met another, or a reward is no finite number."""
    players = _players(row["players"])
    if len(set(players.values())) < 2:
        return None
    got: dict[str, list[float]] = {}
    for role, reward in json.loads(row["rewards"]).items():
        if role in players:
            got.setdefault(players[role], []).append(reward)
    if len(got) < 2 or not all(math.isfinite(reward) for rewards in got.values() for reward in rewards):
        return None
    means = {player: fmean(rewards) for player, rewards in got.items()}
    return Encounter(row["id"], row["step"], bool(row["evaluation"]), row["type"], means)


def is_untold(row: Row) -> bool:
    """Whether it is an evaluation's, and has a role with a reward of which the record doesn't say who played it.

    Versions from before there were ratings noted only who asked a model: opponents that are programs are missing.
    """
    return bool(row["evaluation"]) and not json.loads(row["rewards"]).keys() <= _players(row["players"]).keys()


@lru_cache(64)
def _players(text: str) -> Mapping[str, str]:
    """In self-play the same few words over and over."""
    return json.loads(text)
