"""Ratings: how strong players are, from who beat whom. Elo in play, Bradley–Terry to measure.

Elo (Elo 1978) moves two ratings after each game. It needs no other memory, follows players who learn, and depends
on the order of games. A Bradley–Terry fit (Bradley & Terry 1952) takes all games at once, in any order, and has
intervals. Both on one scale: 400 points more are odds of 10 to 1, and 1000 is the middle. A draw is half a win.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

START = 1000.0
SCALE = 400.0
NATURAL = SCALE / math.log(10)
"""Points a unit of log-odds."""
PRIOR = 0.1
"""Draws each player is taken to have had with one of middling strength: without them who never lost is infinite."""

Game = tuple[str, str, float]
"""First player, second player, what the first scored: 1 a win, 0.5 a draw, 0 a loss."""


@dataclass(frozen=True, slots=True)
class Rating:
    """A strength, and the 95% interval it lies in."""

    value: float
    low: float
    high: float


def expected(first: float, second: float) -> float:
    """What a player rated `first` scores on average against one rated `second`, from 0 to 1."""
    return 1.0 / (1.0 + 10.0 ** min((second - first) / SCALE, 300.0))  # from 309 on a float overflows


def elo_gain(first: float, second: float, score: float, k: float = 20.0) -> float:
    """What a player rated `first` gains, and the other loses, by a game: `k · (score − expected)`.

    `score` is 1 for a win of the first, 0.5 for a draw, 0 for a loss.
    """
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"a score is from 0 (the first lost) to 1 (the first won), not {score}")
    return k * (score - expected(first, second))


def elo(ratings: Mapping[str, float], first: str, second: str, score: float, k: float = 20.0) -> dict[str, float]:
    """The ratings after one game. Who has none begins at 1000; a player against itself changes nothing."""
    one, other = ratings.get(first, START), ratings.get(second, START)
    gained = 0.0 if first == second else elo_gain(one, other, score, k)
    return {**ratings, first: one + gained, second: other - gained}


def bradley_terry(games: Iterable[Game], prior: float = PRIOR) -> dict[str, Rating]:
    """Ratings of all who played, with mean 1000 and 95% intervals about it; `{}` where nobody played another.

    The maximum a posteriori fit of P(first wins) = expected(first, second), where every player also drew `prior`
    games with one of strength 0. The intervals are of the normal distribution that has the posterior's curvature at
    its top, after the mean is taken out: they say how sure differences from the mean are.
    """
    counted = [(first, second, float(score)) for first, second, score in games if first != second]
    if any(not 0.0 <= score <= 1.0 for _, _, score in counted):
        raise ValueError("a game's score is from 0 (the first lost) to 1 (the first won)")
    scored: dict[tuple[str, str], float] = defaultdict(float)
    for first, second, score in sorted(counted):
        scored[first, second] += score
        scored[second, first] += 1.0 - score
    return rated(scored, prior)


def rated(scored: Mapping[tuple[str, str], float], prior: float = PRIOR) -> dict[str, Rating]:
    """As `bradley_terry`, from what each player scored against each other in all their games together."""
    import numpy as np  # not before there is something to rate: the app's first frame would wait for it

    players = sorted({player for pair in scored for player in pair})
    if not players:
        return {}
    place = {player: i for i, player in enumerate(players)}
    n = len(players)
    scored_NN = np.zeros((n, n))
    for (first, second), score in scored.items():
        scored_NN[place[first], place[second]] = score
    strength_N, curvature_NN = _fit(scored_NN, prior)
    centre_NN = np.eye(n) - 1.0 / n
    error_N = np.sqrt(np.diag(centre_NN @ np.linalg.inv(curvature_NN) @ centre_NN))
    value_N = START + NATURAL * (strength_N - strength_N.mean())
    reach_N = 1.959964 * NATURAL * error_N
    return {
        player: Rating(float(value_N[i]), float(value_N[i] - reach_N[i]), float(value_N[i] + reach_N[i]))
        for player, i in place.items()
    }


def _fit(scored_NN: np.ndarray, prior: float) -> tuple[np.ndarray, np.ndarray]:
    """Strengths in log-odds by Newton's method with halved steps, and the curvature there; it is concave."""
    import numpy as np

    n = len(scored_NN)
    games_NN = scored_NN + scored_NN.T
    points_N = scored_NN.sum(axis=1) + prior / 2

    def value(strength_N: np.ndarray) -> float:
        gap_NN = strength_N[:, None] - strength_N[None, :]
        won = float((scored_NN * -np.logaddexp(0.0, -gap_NN)).sum())
        drawn = -np.logaddexp(0.0, -strength_N) - np.logaddexp(0.0, strength_N)
        return won + prior / 2 * float(drawn.sum())

    strength_N = np.zeros(n)
    while True:
        chance_NN = 1.0 / (1.0 + np.exp(strength_N[None, :] - strength_N[:, None]))
        chance_N = 1.0 / (1.0 + np.exp(-strength_N))
        gradient_N = points_N - (games_NN * chance_NN).sum(axis=1) - prior * chance_N
        weight_NN = games_NN * chance_NN * (1.0 - chance_NN)
        curvature_NN = np.diag(weight_NN.sum(axis=1) + prior * chance_N * (1.0 - chance_N)) - weight_NN
        if np.abs(gradient_N).max() < 1e-9 * max(1.0, games_NN.sum()):
            return strength_N, curvature_NN
        step_N = np.linalg.solve(curvature_NN, gradient_N)
        size, before = 1.0, value(strength_N)
        while value(strength_N + size * step_N) < before and size > 1e-6:
            size /= 2
        if size <= 1e-6:  # as near the top as these numbers can tell
            return strength_N, curvature_NN
        strength_N = strength_N + size * step_N
