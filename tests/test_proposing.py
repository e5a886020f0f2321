"""What proposers are paid, against numbers worked out by hand from the papers' formulas."""

from __future__ import annotations

import math

import pytest

from engine import PROPOSER_REWARDS, agreement, majority, repetition_penalty

TABLE = {
    # solved of 4:     0, 1, 2, 3, 4, and an invalid question
    "goldilocks": (0.0, 0.5, 1.0, 0.5, 0.0, -0.1),
    # variances 0, 3/16, 1/4: exp(−(1/16)² / 0.02) = exp(−3.125), exp(−(1/16)²/0.02) = exp(−0.1953125)
    "spice": (math.exp(-3.125), math.exp(-0.1953125), 1.0, math.exp(-0.1953125), math.exp(-3.125), -0.1),
    "absolute_zero": (0.0, 0.75, 0.5, 0.25, 0.0, -1.0),
    "r_zero": (0.0, 0.25, 0.5, 0.25, 0.0, 0.0),
    "search": (1.0, 0.75, 0.5, 0.25, 0.0, 0.0),
    "bug_injection": (-0.8, 0.55, 0.1, -0.35, -0.8, -1.0),
}
CASES = [(name, solved) for name in TABLE for solved in range(5)]


def test_the_table_names_every_reward():
    assert PROPOSER_REWARDS.keys() == TABLE.keys()


@pytest.mark.parametrize(("name", "solved"), CASES)
def test_a_question_is_worth_what_the_formula_says(name, solved):
    results = [1.0] * solved + [0.0] * (4 - solved)
    assert PROPOSER_REWARDS[name](results) == pytest.approx(TABLE[name][solved])
    assert PROPOSER_REWARDS[name](results[::-1]) == PROPOSER_REWARDS[name](results)


@pytest.mark.parametrize("name", TABLE)
def test_an_invalid_question_has_a_price_of_its_own(name):
    assert PROPOSER_REWARDS[name](None) == TABLE[name][5]


@pytest.mark.parametrize("name", TABLE)
def test_no_results_are_no_solve_rate(name):
    with pytest.raises(ValueError, match="at least one solver"):
        PROPOSER_REWARDS[name]([])


@pytest.mark.parametrize("name", ["goldilocks", "spice", "absolute_zero", "r_zero", "bug_injection"])
def test_what_everyone_or_nobody_solves_pays_less_than_what_some_do(name):
    none, some, everyone = (PROPOSER_REWARDS[name]([1.0] * n + [0.0] * (8 - n)) for n in (0, 3, 8))
    assert some > max(none, everyone)


@pytest.mark.parametrize(
    ("answers", "most", "agree"),
    [
        (["7", "7", "8"], "7", [1, 1, 0]),
        (["8", "7"], "8", [1, 0]),  # the earliest of several: never the order of a set
        ([None, None, "7"], "7", [0, 0, 1]),
        ([None, None], None, [0, 0]),
        ([], None, []),
    ],
)
def test_the_majority_is_the_most_frequent_answer(answers, most, agree):
    assert majority(answers) == most
    assert agreement(answers) == agree


def test_a_question_asked_again_pays_for_its_share():
    assert repetition_penalty("a", ["b", "a", "c"]) == 0.5
    assert repetition_penalty("a", ["b", "c", "d"]) == 0.25
    assert repetition_penalty("a", []) == 1.0
    assert repetition_penalty("a", ["A", "b"], lambda x, y: x.lower() == y.lower()) == pytest.approx(2 / 3)
