"""Credit against arithmetic done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine import Completion, ConstantCredit, GenerateResult, GRPOCredit, RAECredit, Rollout, Turn
from engine.credit import training_records


def played(
    id: str, rewards: dict[str, float], *, artifact=None, children=(), trains=True, turns=1, error=None, kind="game"
) -> GenerateResult:
    rollout = Rollout(id, kind, artifact, rewards=rewards, error=error)
    for role in rewards:
        for _ in range(turns):
            completion = Completion("x", [1], [2, 3], [-0.5, -0.1], [0, 0])
            rollout.turns.append(Turn(role, len(rollout.turns), [], completion, trainable=trains))
    return GenerateResult(rollout, list(children), trains)


def advantages(results: list[GenerateResult]) -> list[float]:
    return [record.advantage for record in training_records(results)]


def test_rae_reads_the_baseline_before_it_moves_it():
    credit, results = (
        RAECredit(decay=0.5),
        [played("0", {"A": 1.0}), played("1", {"A": 1.0}), played("2", {"A": 0.0})],
    )
    credit.assign(results)
    assert advantages(results) == [1.0, 0.5, -0.75]
    assert credit.baselines == {"game/A": 0.375}


def test_rae_keeps_one_baseline_for_each_episode_type_and_role():
    credit = RAECredit()
    credit.assign([played("0", {"A": 1.0, "B": -1.0}), played("1", {"A": 1.0}, kind="other")])
    assert credit.baselines == pytest.approx({"game/A": 0.05, "game/B": -0.05, "other/A": 0.05})


@pytest.mark.parametrize("kept_out", [{"trains": False}, {"error": "boom"}])
def test_rollouts_that_do_not_train_never_touch_a_baseline(kept_out):
    credit, results = RAECredit(), [played("0", {"A": 1.0}, **kept_out)]
    credit.assign(results)
    assert credit.baselines == {}
    assert advantages(results) == []


def test_rae_goes_on_from_its_saved_state():
    first, second = RAECredit(), RAECredit()
    first.assign([played("0", {"A": 1.0})])
    second.load_state(first.state())
    one, other = [played("1", {"A": 1.0})], [played("1", {"A": 1.0})]
    first.assign(one)
    second.assign(other)
    assert advantages(one) == advantages(other) == [0.95]


def test_grpo_compares_only_rollouts_that_began_with_the_same_artifact():
    results = [
        played(str(i), {"A": r}, artifact=a) for i, (r, a) in enumerate([(1, "p"), (0, "p"), (5, "q"), (7, "q")])
    ]
    GRPOCredit().assign(results)
    assert advantages(results) == [0.5, -0.5, -1.0, 1.0]


def test_grpo_with_normalise_divides_by_the_groups_spread():
    rewards = [0.0, 1.0, 1.0, 3.0]
    results = [played(str(i), {"A": r}) for i, r in enumerate(rewards)]
    GRPOCredit(normalise=True).assign(results)
    expected = (np.array(rewards) - np.mean(rewards)) / (np.std(rewards, ddof=1) + 1e-4)
    assert advantages(results) == pytest.approx(expected.tolist())


def test_a_group_of_one_gets_nothing_and_leaves_the_batch():
    results = [played("0", {"A": 5.0})]
    GRPOCredit().assign(results)
    credit = results[0].rollout.turns[0].credit
    assert credit is not None
    assert (credit.advantage, credit.counts, credit.group_size) == (0.0, False, 1)
    assert training_records(results) == []


def test_a_group_without_spread_leaves_the_batch():
    results = [played(str(i), {"A": 1.0}) for i in range(4)]
    GRPOCredit().assign(results)
    assert training_records(results) == []


def test_children_are_compared_with_their_siblings_only():
    def proposer(id: str, own: float, solver_rewards: list[float]) -> GenerateResult:
        children = [played(f"{id}.{i}", {"Solver": r}, kind="solve") for i, r in enumerate(solver_rewards)]
        return played(id, {"Proposer": own}, children=children)

    results = [proposer("0", 1.0, [0.0, 1.0]), proposer("1", 0.0, [10.0, 12.0])]
    GRPOCredit().assign(results)
    found = {record.rollout_id: record.advantage for record in training_records(results)}
    assert found == {"0": 0.5, "1": -0.5, "0.0": -0.5, "0.1": 0.5, "1.0": -1.0, "1.1": 1.0}


def test_rollouts_under_different_prompt_edits_are_never_compared():
    results = [played(str(i), {"A": float(i)}) for i in range(4)]
    for result in results[2:]:
        result.rollout.edits = {"A": 1}
    GRPOCredit().assign(results)
    assert advantages(results) == [-0.5, 0.5, -0.5, 0.5]


def test_early_turns_are_discounted_by_the_turns_still_to_come():
    results = [played("0", {"A": 1.0}, turns=3)]
    RAECredit(discount=0.5).assign(results)
    assert advantages(results) == [0.25, 0.5, 1.0]


def test_constant_credit_weighs_every_turn_alike():
    results = [played("0", {"A": -3.0}, turns=2), played("1", {"A": 9.0})]
    ConstantCredit().assign(results)
    assert advantages(results) == [1.0, 1.0, 1.0]
