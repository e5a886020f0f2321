"""Updates of packed parameters are those of MLX's optimisers on each parameter alone."""

from __future__ import annotations

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
import pytest

from engine.config import TrainConfig
from engine.inference.families import Families
from engine.training.optimiser import Optimiser
from tests.training.conftest import Tiny, finish, same

SHAPES = {
    "layers.0.q.lora_a": (6, 2),
    "layers.0.q.lora_b": (2, 4),
    "layers.0.q.m": (4,),
    "layers.1.q.lora_a": (6, 2),
    "layers.1.q.lora_b": (2, 4),
    "layers.1.q.m": (4,),
    "layers.1.experts.lora_a": (3, 2, 6),
    "layers.1.experts.lora_b": (3, 4, 2),
}
FAMILIES = Families(SHAPES)
TOTAL = 20

KINDS = {
    "adamw": lambda rate: optim.AdamW(rate, betas=[0.8, 0.95], weight_decay=0.1, bias_correction=True),
    "adafactor": lambda rate: optim.Adafactor(rate, weight_decay=0.1, scale_parameter=False, relative_step=False),
}


def train(kind: str, **others) -> TrainConfig:
    settings = {"optimiser": kind, "learning_rate": 0.01, "warmup": 0, "weight_decay": 0.1, "betas": (0.8, 0.95)}
    return TrainConfig.model_validate(settings | others)


def arrays(seed: int) -> dict[str, mx.array]:
    """Of sizes that differ, so that what is measured over one parameter is not that of its neighbour."""
    rng = np.random.default_rng(seed)
    return {
        name: mx.array((10.0**index * rng.normal(size=shape)).astype(np.float32))
        for index, (name, shape) in enumerate(SHAPES.items(), start=-4)
    }


def stepped(optimiser: Optimiser, seeds: range, config: TrainConfig, clip: float = 1e9) -> None:
    for seed in seeds:
        optimiser.configure(config, seed, TOTAL)
        assert optimiser.update(FAMILIES.pack(arrays(100 + seed)), 0.0, clip) is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clip", [1e9, 1.0])
def test_five_steps_are_those_of_mlx_on_the_separate_parameters(kind, clip):
    ours, plain = Optimiser(FAMILIES, arrays(0), train(kind)), arrays(0)
    oracle = KINDS[kind](0.01)
    for seed in range(5):
        stepped(ours, range(seed, seed + 1), train(kind), clip)
        gradients, _ = optim.clip_grad_norm(arrays(100 + seed), clip)
        plain = oracle.apply_gradients(gradients, plain)
        for name, array in FAMILIES.unpack(ours.packed).items():
            np.testing.assert_allclose(np.array(array), np.array(plain[name]), rtol=1e-6, err_msg=f"{name} {seed}")


def test_adafactor_of_a_family_as_one_array_would_be_another():
    """What the oracle above can tell apart."""
    packed = FAMILIES.pack(arrays(0))
    whole = KINDS["adafactor"](0.01).apply_gradients(FAMILIES.pack(arrays(100)), packed)
    ours = Optimiser(FAMILIES, arrays(0), train("adafactor"))
    stepped(ours, range(1), train("adafactor"))
    assert not np.allclose(np.array(whole["lora_a.6x2"]), np.array(ours.packed["lora_a.6x2"]), rtol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_one_loaded_from_its_state_goes_on_bit_for_bit(kind, tmp_path):
    through = Optimiser(FAMILIES, arrays(0), train(kind))
    stepped(through, range(3), train(kind))
    mx.save_safetensors(str(tmp_path / "state.safetensors"), through.state())
    stepped(through, range(3, 6), train(kind))
    resumed = Optimiser(FAMILIES, arrays(1), train(kind))
    loaded = mx.load(str(tmp_path / "state.safetensors"))
    assert isinstance(loaded, dict)
    resumed.check_state(loaded)
    resumed.load_state(loaded)
    stepped(resumed, range(3, 6), train(kind))
    assert same(resumed.state(), through.state())


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_of_a_fresh_one_has_the_names_and_shapes_of_a_used_one(kind):
    fresh, used = (Optimiser(FAMILIES, arrays(0), train(kind)) for _ in range(2))
    stepped(used, range(1), train(kind))
    assert {name: a.shape for name, a in fresh.state().items()} == {n: a.shape for n, a in used.state().items()}


def test_adafactor_remembers_rows_and_columns_only():
    state = Optimiser(FAMILIES, arrays(0), train("adafactor")).state()
    assert state["exp_avg_sq_row.layers.0.q.lora_a"].shape == (6,)
    assert state["exp_avg_sq_col.layers.0.q.lora_a"].shape == (2,)
    assert state["exp_avg_sq.layers.0.q.m"].shape == (4,)


@pytest.mark.parametrize("kind", KINDS)
def test_other_hyperparameters_hold_from_the_next_step_and_moments_stay(kind):
    ours, plain = Optimiser(FAMILIES, arrays(0), train(kind)), arrays(0)
    stepped(ours, range(2), train(kind))
    stepped(ours, range(2, 3), train(kind, learning_rate=0.3))
    oracle = KINDS[kind](0.01)
    for seed in range(3):
        if seed == 2:
            oracle.learning_rate = 0.3
        plain = oracle.apply_gradients(arrays(100 + seed), plain)
    for name, array in FAMILIES.unpack(ours.packed).items():
        np.testing.assert_allclose(np.array(array), np.array(plain[name]), rtol=1e-6, err_msg=name)


def test_the_rate_is_that_of_the_schedule():
    config = train("adafactor", schedule="linear", final_rate=0.5)
    ours = Optimiser(FAMILIES, arrays(0), config)
    ours.configure(config, 10, TOTAL)
    assert ours.learning_rate == pytest.approx(0.0075)
    ours.configure(config, 10, 2 * TOTAL)
    assert ours.learning_rate == pytest.approx(0.00875)


def test_another_optimiser_is_refused_in_a_run_and_from_a_checkpoint():
    adamw, adafactor = (Optimiser(FAMILIES, arrays(0), train(kind)) for kind in KINDS)
    with pytest.raises(ValueError, match=r"train\.optimiser is 'adafactor', but this run learns with 'adamw'"):
        adamw.configure(train("adafactor"), 0, TOTAL)
    with pytest.raises(ValueError, match=r"state is that of 'adafactor'; train\.optimiser is 'adamw'"):
        adamw.check_state(adafactor.state())
    with pytest.raises(ValueError, match=r"state is that of 'adamw'; train\.optimiser is 'adafactor'"):
        adafactor.check_state(adamw.state())


def test_a_learner_refuses_the_state_of_another_optimiser_and_stays_as_it_was(tiny: Tiny):
    learner, other = tiny.learner(), tiny.learner(optimiser="adafactor")
    finish(other, tiny.records(4))
    before = learner.state()
    with pytest.raises(ValueError, match=r"that of 'adafactor'; train\.optimiser is 'adamw'"):
        learner.load_state(other.state())
    assert same(learner.state(), before)


def test_a_learner_with_adafactor_goes_on_bit_for_bit(tiny: Tiny):
    settings = {"optimiser": "adafactor", "schedule": "cosine", "warmup": 2, "weight_decay": 0.01}
    through, resumed = tiny.learner(**settings), tiny.learner(seed=3, **settings)
    finish(through, tiny.records(6))
    resumed.load_state(through.state())
    for learner in (through, resumed):
        for seed in (1, 2):
            finish(learner, tiny.records(6, seed=seed))
    assert same(through.state(), resumed.state())
