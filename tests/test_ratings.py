"""Ratings against closed forms, symmetry, and an optimiser that knows nothing of Newton's method."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from scipy.optimize import minimize

from engine.ratings import bradley_terry, elo, elo_gain, expected, rated

POINTS = 400 / math.log(10)


def test_400_points_are_odds_of_10_to_1():
    assert expected(1400, 1000) == pytest.approx(10 / 11)
    assert expected(1000, 1000) == 0.5
    assert expected(1, 2) + expected(2, 1) == pytest.approx(1)


def test_ratings_a_million_apart_are_still_ratings():
    """A large `k` and many battles in a step drive them there."""
    assert expected(-1e6, 1e6) == pytest.approx(0)
    assert expected(1e6, -1e6) == pytest.approx(1)
    assert elo_gain(-1e6, 1e6, 1.0) == pytest.approx(20)


@pytest.mark.parametrize(("score", "after"), [(1, (1010, 990)), (0.5, (1000, 1000)), (0, (990, 1010))])
def test_equals_move_by_half_of_k(score, after):
    assert elo({}, "a", "b", score) == dict(zip("ab", after, strict=True))


def test_an_upset_moves_most_and_nothing_is_made_or_lost():
    before = {"strong": 1400.0, "weak": 1000.0, "other": 1234.0}
    after = elo(before, "weak", "strong", 1.0, k=32)
    assert after["weak"] == pytest.approx(1000 + 32 * 10 / 11)
    assert sum(after.values()) == pytest.approx(sum(before.values()))
    assert after["other"] == 1234
    assert before["weak"] == 1000  # pure
    assert elo(before, "strong", "weak", 0.0, k=32) == pytest.approx(after)


def test_a_mirror_match_changes_nothing():
    assert elo({"a": 1100.0}, "a", "a", 1.0) == {"a": 1100.0}


@pytest.mark.parametrize("score", [-1, 1.5, math.nan])
def test_a_score_is_from_0_to_1(score):
    with pytest.raises(ValueError, match="from 0"):
        elo_gain(1000, 1000, score)
    with pytest.raises(ValueError, match="from 0"):
        bradley_terry([("a", "b", score)])


@pytest.mark.parametrize(("wins", "draws", "losses"), [(3, 0, 1), (1, 4, 0), (7, 2, 9), (40, 10, 2)])
def test_two_players_differ_by_the_logit_of_the_score_share(wins, draws, losses):
    games = [("a", "b", 1.0)] * wins + [("b", "a", 0.5)] * draws + [("a", "b", 0.0)] * losses
    share = (wins + draws / 2) / len(games)
    ratings = bradley_terry(games, prior=1e-9)
    gap = POINTS * math.log(share / (1 - share))
    assert ratings["a"].value - ratings["b"].value == pytest.approx(gap, abs=1e-4)
    assert ratings["a"].value + ratings["b"].value == pytest.approx(2000)
    # the variance of a logit is 1 / (n p (1 − p)); each of the two is half the gap from the mean
    reach = 1.96 * POINTS / math.sqrt(len(games) * share * (1 - share)) / 2
    assert ratings["a"].high - ratings["a"].value == pytest.approx(reach, rel=1e-3)
    assert ratings["a"].value - ratings["a"].low == pytest.approx(reach, rel=1e-3)


def season(seed, players="abcde", n=60):
    rng = random.Random(seed)
    return [(*rng.sample(players, 2), rng.choice([0.0, 0.5, 1.0, 1.0])) for _ in range(n)]


def test_the_order_of_games_and_who_is_named_first_do_not_matter():
    games = season(1)
    turned = [(b, a, 1.0 - score) for a, b, score in random.Random(2).sample(games, len(games))]
    assert bradley_terry(turned) == bradley_terry(games)


def test_names_do_not_matter():
    renamed = [(f"z{'edcba'['abcde'.index(a)]}", f"z{'edcba'['abcde'.index(b)]}", s) for a, b, s in season(3)]
    there, here = bradley_terry(renamed), bradley_terry(season(3))
    for old, new in zip("abcde", "edcba", strict=True):
        assert there[f"z{new}"].value == pytest.approx(here[old].value)


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_where_a_general_optimiser_ends(seed):
    games, prior = season(seed), 0.1

    def loss(strengths):
        total = 0.0
        for a, b, score in games:
            gap = strengths["abcde".index(a)] - strengths["abcde".index(b)]
            total += score * math.log1p(math.exp(-gap)) + (1 - score) * math.log1p(math.exp(gap))
        for s in strengths:
            total += prior / 2 * (math.log1p(math.exp(-s)) + math.log1p(math.exp(s)))
        return total

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-7}).x
    ratings = bradley_terry(games, prior)
    for player, strength in zip("abcde", best - best.mean(), strict=True):
        assert ratings[player].value == pytest.approx(1000 + POINTS * strength, abs=0.05)


@pytest.mark.parametrize("n", [1, 10, 10_000])
def test_a_player_never_beaten_has_a_finite_rating(n):
    ratings = bradley_terry([("a", "b", 1.0)] * n + [("b", "c", 1.0)] * n)
    assert all(math.isfinite(value) for r in ratings.values() for value in (r.value, r.low, r.high))
    assert ratings["a"].value > ratings["b"].value > ratings["c"].value
    assert sum(rating.value for rating in ratings.values()) == pytest.approx(3000)


def test_players_who_never_met_are_in_one_table():
    ratings = bradley_terry([("a", "b", 1.0), ("c", "d", 1.0)])
    assert ratings["a"].value == pytest.approx(ratings["c"].value)


def test_more_games_are_surer():
    few, many = bradley_terry(season(5, n=40)), bradley_terry(season(5, n=40) * 10)
    for player in "abcde":
        assert many[player].high - many[player].low < 0.4 * (few[player].high - few[player].low)


def test_intervals_hold_the_truth_19_times_in_20():
    truth = {"a": 1150.0, "b": 1000.0, "c": 850.0}
    held = 0
    for seed in range(300):
        rng = random.Random(seed)
        pairs = [("a", "b"), ("b", "c"), ("a", "c")] * 15
        ratings = bradley_terry([(x, y, float(rng.random() < expected(truth[x], truth[y]))) for x, y in pairs])
        held += sum(ratings[player].low <= value <= ratings[player].high for player, value in truth.items())
    assert 0.92 < held / 900 < 0.98


@pytest.mark.parametrize("games", [[], [("a", "a", 1.0)]])
def test_without_games_between_two_there_are_no_ratings(games):
    assert bradley_terry(games) == {}


def test_sums_of_scores_say_what_the_games_said():
    games = [("a", "b", 1.0), ("a", "b", 0.5), ("b", "c", 0.0), ("c", "a", 1.0)]
    scored = {("a", "b"): 1.5, ("b", "a"): 0.5, ("c", "b"): 1.0, ("c", "a"): 1.0}
    for player, rating in bradley_terry(games).items():
        assert rated(scored)[player].value == pytest.approx(rating.value)
