"""Who is how strong, from who met whom: ratings and payoffs, folded from a run's encounters.

A player that learns is another one after every step, so its meetings count for the stretch of steps they are of:
of a run that plays only itself, these are its past selves, compared by how each did against the same opponents of
its evaluations. Memory is bounded by steps and pairs: of each there are counts and the latest games.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from engine.ratings import Rating, rated
from engine.reading.encounters import Encounter
from engine.types import AVERAGE, PERSON, POLICY
from tui.words import plural

LEARNERS = frozenset((POLICY, AVERAGE))
"""Players whose weights change as the run goes on."""

SNAPSHOT = re.compile(rf"(past|step|{AVERAGE})-(\d+)")
"""How players are called that are a learner as it was after a step."""

Who = tuple[str, int]
"""A player's name, and of a learner the step; -1 of others."""

BANDS = 6
"""Stretches of steps that a learner's past is cut into, at most."""

GAMES = 24
"""Games kept of a pair and step, the newest."""

LISTED = 200
"""Games listed of a cell, the newest."""


@dataclass(frozen=True, slots=True)
class Played:
    """One game, seen from the first player of its pair."""

    id: str
    step: int
    first: float
    """What the first got, and the second."""
    second: float

    def turned(self) -> Played:
        return Played(self.id, self.step, self.second, self.first)


@dataclass(slots=True)
class Tally:
    """All meetings of two players, of a learner those of one step."""

    wins: int = 0
    draws: int = 0
    losses: int = 0
    first: float = 0.0
    """The sum of what the first got, and of what the second got."""
    second: float = 0.0
    games: list[Played] = field(default_factory=list)
    """The newest first."""

    @property
    def n(self) -> int:
        return self.wins + self.draws + self.losses

    def add(self, played: Played) -> None:
        self.wins += played.first > played.second
        self.draws += played.first == played.second
        self.losses += played.first < played.second
        self.first += played.first
        self.second += played.second
        self.games.insert(0, played)
        del self.games[GAMES:]


@dataclass(frozen=True, slots=True)
class Player:
    """A line of the league: a player, or a learner over a stretch of steps."""

    name: str
    first: int = -1
    """The stretch's first step; -1 of a player that doesn't change."""
    last: int = -1

    @property
    def learns(self) -> bool:
        return self.first >= 0

    @property
    def label(self) -> str:
        """`policy 10–30`, `random`, `you`."""
        if not self.learns:
            return "you" if self.name == PERSON else self.name
        return f"{self.name} {self.first}" + (f"–{self.last}" if self.last > self.first else "")


@dataclass(slots=True)
class Cell:
    """What one player got against another."""

    n: int = 0
    total: float = 0.0
    games: list[Played] = field(default_factory=list)
    """The newest of them, the newest first, seen from that player."""

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else math.nan

    def take(self, n: int, total: float, games: Iterable[Played]) -> None:
        self.n += n
        self.total += total
        self.games += games


@dataclass(frozen=True, slots=True)
class League:
    """The standings of one moment."""

    players: list[Player]
    """Learners by their steps, then the others by name."""
    ratings: Mapping[Player, Rating]
    cells: Mapping[tuple[Player, Player], Cell]

    @property
    def rows(self) -> list[Player]:
        """Of the payoff matrix: where learners met only others, they alone."""
        return [player for player in self.players if player.learns] if self._split else self.players

    @property
    def columns(self) -> list[Player]:
        return [player for player in self.players if not player.learns] if self._split else self.players

    @property
    def _split(self) -> bool:
        return bool(self.cells) and all(row.learns != column.learns for row, column in self.cells)

    def met(self, player: Player) -> int:
        """In how many games it met anybody."""
        return sum(cell.n for (row, _), cell in self.cells.items() if row == player)

    def ranked(self) -> list[Player]:
        """The strongest first."""
        return sorted(self.players, key=lambda player: (-self.ratings[player].value, player.label))


Tallies = dict[tuple[int, Who, Who], Tally]
"""By the step of the games, and of whom they are."""


class Standings:
    """Takes in encounters; each once."""

    def __init__(self) -> None:
        self._tallies: dict[str, Tallies] = {}
        self._sittings: dict[str, int] = {}

    def add(self, met: Iterable[Encounter]) -> None:
        for encounter in met:
            # a person's game that was learnt from is recorded once more
            if PERSON in encounter.got:
                if encounter.id in self._sittings:
                    continue
                self._sittings[encounter.id] = encounter.step
            kind = self._tallies.setdefault(encounter.type, defaultdict(Tally))
            got = sorted((who(player, encounter.step), reward) for player, reward in encounter.got.items())
            for (first, one), (second, other) in combinations(got, 2):
                kind[encounter.step, first, second].add(Played(encounter.id, encounter.step, one, other))

    def forget(self, steps: Collection[int]) -> None:
        """What was taken in of these steps."""
        for tallies in self._tallies.values():
            for key in [key for key in tallies if key[0] in steps]:
                del tallies[key]
        self._tallies = {kind: tallies for kind, tallies in self._tallies.items() if tallies}
        self._sittings = {name: step for name, step in self._sittings.items() if step not in steps}

    @property
    def kinds(self) -> list[str]:
        """The types of episodes in which players met; payoffs of different ones can't be compared."""
        return sorted(self._tallies)

    def league(self, kind: str, bands: int = BANDS) -> League:
        """Who met in episodes of that type."""
        tallies = self._tallies.get(kind, {})
        places = _bands({who for _, *pair in tallies for who in pair}, bands)
        cells: dict[tuple[Player, Player], Cell] = defaultdict(Cell)
        for (_, first, second), tally in tallies.items():
            one, other = places[first], places[second]
            if one == other:  # a policy and itself of a few steps ago: nothing is told of either
                continue
            cells[one, other].take(tally.n, tally.first, tally.games)
            cells[other, one].take(tally.n, tally.second, [game.turned() for game in tally.games])
        for cell in cells.values():
            cell.games.sort(key=lambda game: -game.step)
            del cell.games[LISTED:]
        met = _rated(tallies, places)
        return League(sorted(met, key=lambda p: (not p.learns, p.name, p.first)), met, dict(cells))

    def ratings(self, kind: str, until: int, bands: int = BANDS) -> Mapping[Player, Rating]:
        """As they were after a step: of what was played by then, a learner's last step a player of its own."""
        tallies = {key: tally for key, tally in self._tallies.get(kind, {}).items() if key[0] <= until}
        return _rated(tallies, _bands({who for _, *pair in tallies for who in pair}, bands, newest=1))


def _rated(tallies: Tallies, places: Mapping[Who, Player]) -> Mapping[Player, Rating]:
    """All who met another."""
    names = {player: f"{place}" for place, player in enumerate(dict.fromkeys(places.values()))}
    scored: dict[tuple[str, str], float] = defaultdict(float)
    for (_, first, second), tally in tallies.items():
        one, other = names[places[first]], names[places[second]]
        if one != other:
            scored[one, other] += tally.wins + tally.draws / 2
            scored[other, one] += tally.losses + tally.draws / 2
    found = rated(scored)
    return {player: found[name] for player, name in names.items() if name in found}


def who(player: str, step: int) -> Who:
    """Whom a name means in a step: a snapshot, checkpoint or average is what the learner was at its own step."""
    if snapshot := SNAPSHOT.fullmatch(player):
        return (AVERAGE if snapshot[1] == AVERAGE else POLICY), int(snapshot[2])
    return player, step if player in LEARNERS else -1


def _bands(met: Collection[Who], bands: int, newest: int = 0) -> dict[Who, Player]:
    """Which player each is. A learner's steps are cut into stretches of about as many steps each.

    So many of the newest steps are stretches of their own.
    """
    steps: dict[str, list[int]] = defaultdict(list)
    for name, step in sorted(met):
        steps[name].append(step)
    places: dict[Who, Player] = {}
    for name, rising in steps.items():
        older = max(len(rising) - newest, 0)
        many = max(min(bands - newest, older), 1)
        edges = {round(place * older / many) for place in range(many + 1)} | {*range(older, len(rising) + 1)}
        for start, end in pairwise(sorted(edges)):
            player = Player(name, rising[start], rising[end - 1])
            places |= {(name, step): player for step in rising[start:end]}
    return places


def left_out(untold: int) -> str:
    """What isn't rated, as the record doesn't tell who played."""
    return (
        f"{plural(untold, 'evaluation game')} can't be rated: the record doesn't say who played one of the roles. "
        "Versions from before there was a league didn't note opponents that are programs, such as random play."
    )


def why_nothing(roles: int, every: int, played: bool, untold: int = 0) -> list[str]:
    """Why there is nobody to rate, and what would make it so; `untold` as of `left_out`."""
    if roles < 2:
        return [
            "This task has one role, so nobody meets anybody.",
            "How strong the policy is, its evaluations tell (g shows their course).",
        ]
    if not played:
        return ["No episode is recorded yet.", "The league is filled from the record, step by step."]
    if untold:
        return [left_out(untold), "Evaluations from now on are rated; resume the run, if it has ended."]
    evaluated = (
        "an evaluation of a task that has opponents (its first is due soon, if it has)"
        if every
        else "an evaluation against opponents (eval.every is 0: set it, in s)"
    )
    return [
        "Nobody has met another player yet: in every recorded episode the policy spoke for all roles.",
        f"What would change that: {evaluated}, training against past versions or the base model where the task "
        "offers it, or you, sitting down to play (x).",
    ]
