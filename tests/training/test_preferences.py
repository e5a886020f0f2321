"""Preference pairs by their rule, and DPO against its formula in double precision and finite differences."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from engine.training.preferences import Pair, dpo, judge, pairs
from engine.types import TrainingRecord


def said(
    rollout: str, reward: float, prompt: list[int] | None = None, turn: int = 0, role: str = "First"
) -> TrainingRecord:
    prompt = [1, 2, 3] if prompt is None else prompt
    return TrainingRecord(rollout, turn, role, "game", prompt, [7], [-1.0], [0], 0.0, reward=reward)


def names(found: list[Pair]) -> list[tuple[str, str]]:
    return [(pair.preferred[0], pair.other[0]) for pair in found]


def test_the_best_is_paired_with_the_worst_and_the_second_best_with_the_second_worst():
    records = [said(name, reward) for name, reward in zip("abcdef", [0.2, 1.0, -1.0, 0.5, 0.0, -0.3], strict=True)]
    assert names(pairs(records)) == [("b", "c"), ("d", "f"), ("a", "e")]


def test_one_left_over_in_the_middle_has_no_pair():
    assert names(pairs([said("a", 1.0), said("b", 0.0), said("c", 0.5)])) == [("a", "b")]


def test_conversations_of_equal_reward_are_not_compared():
    assert pairs([said("a", 1.0), said("b", 1.0)]) == []
    few = [said("a", 1.0), said("b", 1.0), said("c", 1.0), said("d", 0.0)]
    assert names(pairs(few)) == [("a", "d")]
    assert pairs([said("a", 1.0)]) == pairs([]) == []


def test_only_prompts_that_are_equal_token_by_token_are_compared():
    records = [said("a", 1.0), said("b", 0.0, [1, 2, 4]), said("c", 0.0, [1, 2]), said("d", -1.0, [1, 2, 4])]
    assert names(pairs(records)) == [("b", "d")]


def test_what_counts_is_how_a_conversation_began_and_no_conversation_comes_twice():
    first = [said("a", 1.0), said("a", 1.0, [1, 2, 3, 7, 8], 2), said("a", 1.0, [1, 2, 3, 7, 8, 7, 9], 4)]
    second = [said("b", 0.0), said("b", 0.0, [1, 2, 3, 7, 5], 2)]
    third = [said("c", -1.0, [1, 2, 3], 2), said("c", -1.0, [9, 9], 0)]  # the first turn comes last here
    assert names(pairs([*first, *second, *third])) == [("a", "b")]


def test_roles_and_types_of_episode_are_not_compared_with_each_other():
    other = said("c", -1.0)
    other.episode_type = "another game"
    records = [said("a", 1.0), said("b", 0.0, role="Second"), other, said("b", 0.5)]
    assert pairs(records) == [Pair(("a", "First"), ("b", "First"))]


def test_pairs_depend_on_records_only_and_leave_them_as_they_are():
    rng = np.random.default_rng(0)
    records = [said(str(i), float(rng.integers(0, 4)), [int(rng.integers(0, 3))]) for i in range(40)]
    before = copy.deepcopy(records)
    found = pairs(records)
    assert found == pairs(records)
    assert records == before
    members = [one for pair in found for one in pair]
    assert len(members) == len(set(members)) > 20
    rewards = {record.conversation: record.reward for record in records}
    assert all(rewards[pair.preferred] > rewards[pair.other] for pair in found)


def dpo_oracle(chosen: float, rejected: float, ref_chosen: float, ref_rejected: float, beta: float) -> float:
    """DPOTrainer's `loss_type="sigmoid"` as TRL documents it: −log σ(β·((π_c − ref_c) − (π_r − ref_r)))."""
    return np.log1p(np.exp(-beta * ((chosen - ref_chosen) - (rejected - ref_rejected))))


@pytest.mark.parametrize("beta", [0.1, 1.0])
def test_dpo_is_the_formula_of_its_paper(beta: float):
    rng = np.random.default_rng(1)
    chosen, rejected, ref_chosen, ref_rejected = -rng.exponential(9.0, (4, 20))
    found, _ = dpo((chosen - ref_chosen) - (rejected - ref_rejected), beta)
    np.testing.assert_allclose(
        found, np.vectorize(dpo_oracle)(chosen, rejected, ref_chosen, ref_rejected, beta), rtol=1e-6
    )
    # Equation 7 as it is printed: the difference of log-ratios.
    np.testing.assert_allclose(
        dpo((chosen - rejected) - (ref_chosen - ref_rejected), beta)[0], found, rtol=1e-6, atol=1e-12
    )


def test_dpos_growth_is_minus_its_differences():
    margins, step = np.linspace(-30.0, 30.0, 13), 1e-4
    _, growth = dpo(margins, 0.3)
    differences = (dpo(margins + step, 0.3)[0] - dpo(margins - step, 0.3)[0]) / (2 * step)
    np.testing.assert_allclose(growth, -differences, rtol=1e-5, atol=1e-9)


def test_dpo_of_margins_beyond_any_exponent_is_finite_and_only_a_wrong_order_pulls():
    with np.errstate(over="raise", invalid="raise"):
        loss, growth = dpo(np.array([-80.0, 80.0, -1e6, 1e6]), 1.0)
    np.testing.assert_allclose(loss, [80.0, 0.0, 1e6, 0.0], atol=1e-6)
    np.testing.assert_allclose(growth, [1.0, 0.0, 1.0, 0.0], atol=1e-6)


def test_a_policy_that_is_its_reference_has_a_loss_of_log_2():
    loss, growth = dpo(np.zeros(2), 0.1)
    np.testing.assert_allclose(loss, np.log(2.0))
    np.testing.assert_allclose(growth, 0.05)


def test_pulls_are_minus_the_derivative_of_the_mean_loss_by_a_token_of_each_sequence():
    rng = np.random.default_rng(2)
    owners = np.array([0, 1, 1, 2, 0, 3, 4, 4, 3])  # conversations of one to two turns; 2 is in no pair
    couples = np.array([[1, 0], [4, 3]])
    logratios, beta = rng.normal(0.0, 5.0, len(owners)), 0.2

    def mean_loss(logratios: np.ndarray) -> float:
        sums = [sum(logratios[owners == conversation]) for conversation in range(5)]
        return np.mean([dpo_oracle(sums[one], sums[other], 0.0, 0.0, beta) for one, other in couples])

    found = judge(couples, owners, logratios, beta)
    step = 1e-5 * np.eye(len(owners))
    expected = [(mean_loss(logratios - at) - mean_loss(logratios + at)) / 2e-5 for at in step]
    np.testing.assert_allclose(found.pulls, expected, rtol=1e-5, atol=1e-8)
    assert found.pulls[3] == 0.0
    assert found.losses.mean() == pytest.approx(mean_loss(logratios), rel=1e-6)
    assert found.margins.tolist() == pytest.approx(
        [sum(logratios[[1, 2]]) - sum(logratios[[0, 4]]), sum(logratios[[6, 7]]) - sum(logratios[[5, 8]])]
    )


def test_a_broken_log_probability_is_not_hidden():
    with np.errstate(invalid="ignore"):
        found = judge(np.array([[0, 1]]), np.array([0, 1]), np.array([np.nan, 0.0]), 0.1)
    assert np.isnan(found.losses).all()
    assert np.isnan(found.pulls).all()
