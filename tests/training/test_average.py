"""The running mean of the learner's parameters, against its definition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.inference.adapters import Adapters
from engine.training import checkpoint
from engine.training.learner import Learner
from engine.types import AVERAGE
from tests.training.conftest import Tiny, finish, flat, kept


def averaged(learner: Learner) -> np.ndarray:
    assert learner.averaged is not None
    return flat(learner.averaged)


def in_play(adapters: Adapters, player: str) -> dict[str, np.ndarray]:
    """What lies in a player's slot, lora_b times scale."""
    slot = adapters.slot(player)
    return {name: np.array(adapters.stacks[n][i, slot]) for name, (n, i) in adapters.places.items()}


def stepped(learner: Learner, tiny: Tiny, steps: int, seed: int = 0) -> list[np.ndarray]:
    """The parameters after each of so many steps."""
    after = []
    for step in range(steps):
        finish(learner, tiny.records(6, seed=seed + step))
        after.append(flat(learner.parameters))
    return after


@pytest.mark.parametrize("decay", [0.5, 0.98])
def test_the_average_weighs_each_steps_parameters_by_their_age(tiny: Tiny, decay: float):
    learner = tiny.learner(average=decay)
    after = stepped(learner, tiny, 5)
    weights = np.array([decay**age for age in reversed(range(5))])
    expected = np.average(after, axis=0, weights=weights)
    spread = np.abs(after[-1] - expected).max()
    assert np.abs(averaged(learner) - expected).max() < 1e-5 * spread + 1e-8


def test_it_changes_nothing_in_what_is_learnt(tiny: Tiny):
    with_average, without = tiny.learner(average=0.9), tiny.learner()
    np.testing.assert_array_equal(stepped(with_average, tiny, 3), stepped(without, tiny, 3))
    assert without.averaged is None


def test_it_goes_on_from_a_saved_state_bit_for_bit(tiny: Tiny):
    one, other = tiny.learner(average=0.9), tiny.learner(seed=7, average=0.9)
    stepped(one, tiny, 2)
    other.load_state({name: mx.array(array) for name, array in one.state().items()})
    for learner in (one, other):
        stepped(learner, tiny, 2, seed=20)
    np.testing.assert_array_equal(averaged(other), averaged(one))


def test_a_step_without_an_update_is_not_counted(tiny: Tiny):
    learner = tiny.learner(average=0.9)
    stepped(learner, tiny, 2)
    before = averaged(learner)
    nothing = [replace(record, advantage=0.0) for record in tiny.records(4)]
    assert finish(learner, nothing)["skipped"]
    np.testing.assert_array_equal(averaged(learner), before)


def test_switched_on_in_mid_run_it_begins_there_and_switched_off_it_is_forgotten(tiny: Tiny):
    learner = tiny.learner()
    stepped(learner, tiny, 2)
    on, off = replace_train(learner, average=0.9), learner.train
    learner.reconfigure(on)
    [first] = stepped(learner, tiny, 1)
    np.testing.assert_array_equal(averaged(learner), first)
    learner.reconfigure(off)
    stepped(learner, tiny, 1)
    assert learner.averaged is None
    assert not [name for name in learner.state() if name.startswith("average")]


def replace_train(learner: Learner, **changes):
    return learner.train.model_copy(update=changes)


def test_a_state_without_an_average_is_one_to_begin_from(tiny: Tiny):
    one, other = tiny.learner(), tiny.learner(average=0.9)
    stepped(one, tiny, 1)
    stepped(other, tiny, 1, seed=9)
    other.load_state(one.state())
    assert other.averaged is None


def test_its_player_has_it_once_published_and_the_policys_weights_before_a_step(tiny: Tiny):
    learner = tiny.learner(average=0.5)
    learner.publish()
    learner.publish_average()
    policy, average = (in_play(tiny.adapters, player) for player in ("policy", AVERAGE))
    assert all(np.array_equal(policy[name], average[name]) for name in policy)
    stepped(learner, tiny, 2)
    learner.publish_average()
    scale, found = tiny.adapters.lora.scale, in_play(tiny.adapters, AVERAGE)
    assert learner.averaged is not None
    for name, array in learner.averaged.items():
        np.testing.assert_allclose(found[name], np.array(array) * (scale if name.endswith("lora_b") else 1.0))
    assert tiny.adapters.version(AVERAGE) == learner.version
    tiny.adapters.drop(AVERAGE)


def test_as_the_reference_it_is_the_average_of_the_steps_before(tiny: Tiny):
    """The divergence a step reports, against NumPy's of the two distributions."""
    learner = tiny.learner(average=0.5, kl=0.3, kl_kind="forward", kl_reference=AVERAGE, learning_rate=0.02)
    assert finish(learner, tiny.records(6))["kl"] == pytest.approx(0.0, abs=1e-6)  # no step yet: it is the policy
    stepped(learner, tiny, 2, seed=1)
    records = tiny.records(6, learner.parameters, seed=9)
    divergences = []
    for record in records:
        policy, average = tiny.logs(record, learner.parameters), tiny.logs(record, learner.averaged)
        divergences.append(np.sum(np.exp(average) * (average - policy), axis=-1))
    expected = np.concatenate(divergences).mean()
    assert expected > 1e-3
    assert finish(learner, records)["kl"] == pytest.approx(expected, rel=1e-3)
    tiny.adapters.drop(AVERAGE)


@pytest.mark.parametrize("settings", [{"kl": 0.3}, {"dpo": 1.0}], ids=str)
def test_as_the_reference_it_is_missed_once_it_is_switched_off(tiny: Tiny, settings: dict):
    """Whether or not its player is still there: a resumed run has none."""
    learner = tiny.learner(average=0.5, kl_reference=AVERAGE, **settings)
    stepped(learner, tiny, 1)
    assert AVERAGE in tiny.adapters.players
    learner.reconfigure(replace_train(learner, average=0.0))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"kl_reference is 'average', but train\.average is 0"):
            finish(learner, tiny.records(4))
        if AVERAGE in tiny.adapters.players:
            tiny.adapters.drop(AVERAGE)


def test_a_checkpoint_holds_it_as_an_adapter_of_its_own(tiny: Tiny, tmp_path: Path):
    learner = tiny.learner(average=0.5)
    stepped(learner, tiny, 2)
    path = kept(
        tmp_path,
        2,
        adapters=tiny.adapters.saved(learner.parameters),
        average=tiny.adapters.saved(learner.averaged or {}),
        adapter_config=tiny.adapters.config(),
        learner=learner.state(),
        state={},
        reason="auto",
    )
    np.testing.assert_array_equal(flat(tiny.adapters.load(path)), flat(learner.parameters))
    np.testing.assert_array_equal(flat(tiny.adapters.load(path / "average")), averaged(learner))
    (path / "average" / "adapters.safetensors").unlink()
    with pytest.raises(checkpoint.CheckpointError, match=r"average/adapters.safetensors: is missing"):
        checkpoint.load(path)
