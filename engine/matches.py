"""How strong a policy is at a game: matches against scripted players, and distance from equilibrium."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from statistics import fmean
from typing import Any

from engine.arena import Arena
from engine.games import Bot, Game
from engine.types import EpisodeRequest, GenerateResult

Policy = Callable[[Any], dict[str, float]]
"""Position → probability of each legal move of whoever is to move."""


def perfect_player(game: Game[Any]) -> Bot:
    """Plays one of the best moves, at random among equals. For perfect information; solves the game once."""

    @cache
    def value(state: Any) -> float:
        """For the seat to move."""
        seat = game.seat(state)
        return max(_after(game, game.play(state, move), seat, value) for move in game.legal(state))

    @cache
    def best(state: Any) -> list[str]:
        seat = game.seat(state)
        values = {move: _after(game, game.play(state, move), seat, value) for move in game.legal(state)}
        return [move for move in values if values[move] == max(values.values())]

    def play(_: Game[Any], state: Any, rng: random.Random) -> str:
        return rng.choice(best(state))

    return play


def _after(game: Game[Any], state: Any, seat: int, value: Callable[[Any], float]) -> float:
    returns = game.returns(state)
    if returns is not None:
        return returns[seat]
    return value(state) if game.seat(state) == seat else -value(state)


async def seats_in_turn(
    arena: Arena,
    episode_type: str,
    roles: Sequence[str],
    others: str,
    n: int,
    *,
    label: str,
    artifacts: Sequence[Any] = (),
) -> list[tuple[GenerateResult, str]]:
    """`n` episodes with the policy in each role in turn, a player or bot in all `others`; and its role in each.

    Raises `ValueError` if every one of them failed: then nothing was measured.
    """
    ours = [roles[i % len(roles)] for i in range(n)]
    requests = [
        EpisodeRequest(
            episode_type,
            artifacts[i] if artifacts else None,
            is_trainable=False,
            players={role: others for role in roles if role != mine},
        )
        for i, mine in enumerate(ours)
    ]
    results = await arena.generate_rollouts(requests, label=label)
    errors = [result.rollout.error for result in results if result.rollout.error is not None]
    if errors and len(errors) == n:
        raise ValueError(f"all {n} episodes of an evaluation failed: {errors[0]}")
    return list(zip(results, ours, strict=True))


def standing(played: Iterable[tuple[GenerateResult, str]], others: str) -> dict[str, float]:
    """`win_vs_…`, `draw_vs_…` and `loss_vs_…`: shares of episodes in which a role got more than the best of the
    others, as much, or less; and `reward_vs_…`. Episodes without a reward are left out."""
    rewards = [(result.rewards, mine) for result, mine in played if result.rewards]
    leads = [got[mine] - max((got[role] for role in got if role != mine), default=0.0) for got, mine in rewards]
    return {
        f"win_vs_{others}": mean(lead > 0 for lead in leads),
        f"draw_vs_{others}": mean(lead == 0 for lead in leads),
        f"loss_vs_{others}": mean(lead < 0 for lead in leads),
        f"reward_vs_{others}": mean(got[mine] for got, mine in rewards),
    }


def mean(values: Iterable[float]) -> float:
    """The mean of what was measured; 0 of nothing, for a metric is always there."""
    return fmean([*values] or [0.0])


def nash_conv(game: Game[Any], policy: Policy) -> float:
    """How much both players together could gain by best responses to `policy`: 0 at an equilibrium.

    Exact, over all deals (Lanctot et al. 2017). Needs a zero-sum game in which a player's observation tells
    all it has seen and done (perfect recall); `policy` may depend only on what is observed.
    """
    deals = [(deal, 1.0 / len(game.deals())) for deal in game.deals()]
    return sum(_best_response(game, deals, seat, policy) for seat in (0, 1))


def _best_response(game: Game[Any], bundle: list[tuple[Any, float]], seat: int, policy: Policy) -> float:
    """Value to `seat` of playing its best from a bundle of positions with their probabilities of being reached."""
    total = 0.0
    moved: list[tuple[Any, float]] = []
    known: dict[str, list[tuple[Any, float]]] = defaultdict(list)
    for state, weight in bundle:
        returns = game.returns(state)
        if returns is not None:
            total += weight * returns[seat]
        elif game.seat(state) == seat:
            known[game.observe(state, seat)].append((state, weight))
        else:
            moved += [(game.play(state, move), weight * p) for move, p in policy(state).items()]
    if moved:
        total += _best_response(game, moved, seat, policy)
    for states in known.values():  # one decision for all positions the player can't tell apart
        moves = game.legal(states[0][0])
        total += max(
            _best_response(game, [(game.play(s, move), w) for s, w in states], seat, policy) for move in moves
        )
    return total


async def move_probabilities(
    arena: Arena, game: Game[Any], view: Callable[[Any, int], str]
) -> dict[str, dict[str, float]]:
    """The policy's exact probability of every legal move, for each observation of the game.

    Renormalised over the legal moves, which is how a game without illegal ends would be played.
    """
    pending, seen = list(game.deals()), {}
    table: dict[str, dict[str, float]] = {}
    while pending:
        state = pending.pop()
        if game.returns(state) is not None or state in seen:
            continue
        seen[state] = True
        seat, moves = game.seat(state), game.legal(state)
        shown = view(state, seat)
        if shown not in table:
            scores = await arena.score(shown, moves, game.seats[seat])
            likely = max(scores)
            weights = [math.exp(score - likely) for score in scores]
            table[shown] = {move: w / sum(weights) for move, w in zip(moves, weights, strict=True)}
        pending += [game.play(state, move) for move in moves]
    return table
