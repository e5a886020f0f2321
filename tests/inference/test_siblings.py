"""Linears that read the same input, learnt as one, are what they are apart: forward, backward and in memory."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.config import LoRAConfig, TrainConfig
from engine.inference import models, siblings
from engine.inference.adapters import Adapters
from engine.inference.families import Packed
from engine.inference.linears import SlotLinear
from engine.training.learner import Learner
from tests.inference.conftest import LORA, moved
from tests.tiny import tiny_model
from tests.training.conftest import Tiny, finish

TOKENS = mx.array(np.random.default_rng(0).integers(3, 260, (3, 11)))

MODELS = {
    "llama": {},
    "fewer heads of keys": {"heads": 4, "num_key_value_heads": 2},
    "qwen2, with biases": {"model_type": "qwen2"},
    "qwen3, norms between": {"model_type": "qwen3", "head_dim": 16},
    "gemma3": {"model_type": "gemma3_text", "head_dim": 16, "sliding_window": 8, "sliding_window_pattern": 2},
}


@pytest.fixture
def joining(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As on a GPU."""
    monkeypatch.setattr(siblings, "worthwhile", lambda: True)
    return monkeypatch


def load(folder: Path, lora: LoRAConfig = LORA) -> tuple[models.LanguageModel, Adapters]:
    lm = models.load(str(folder), context=64)[0]
    return lm, Adapters(lm, lora)


def gradient(lm: models.LanguageModel, adapters: Adapters, packed: Packed) -> tuple[float, dict[str, np.ndarray]]:
    def loss() -> tuple[mx.array, None]:
        return mx.logsumexp(lm.head(lm.hidden(TOKENS)), axis=-1).mean(), None

    value, _, found = adapters.value_and_grad(loss, packed)
    return float(np.array(value)), {
        name: np.array(array) for name, array in adapters.families.unpack(found).items()
    }


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
@pytest.mark.parametrize("last_layers", [0, 1])
def test_loss_and_gradient_are_those_of_linears_computed_apart(model, last_layers, joining, tmp_path):
    folder = tiny_model(tmp_path, **model)
    lora = LoRAConfig(rank=4, scale=3.0, last_layers=last_layers)
    joined = load(folder, lora)
    joining.setattr(siblings, "worthwhile", lambda: False)
    apart = load(folder, lora)
    packed = apart[1].families.pack(moved(apart[1], 1))
    value, found = gradient(*joined, packed)
    expected_value, expected = gradient(*apart, packed)
    assert value == pytest.approx(expected_value, rel=1e-6)
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert np.abs(array).max() > 0.0, name
        np.testing.assert_allclose(found[name], array, atol=5e-5 * np.abs(array).max(), err_msg=name)


def test_a_block_has_four_products_where_it_had_seven(joining, folder, monkeypatch):
    lm, adapters = load(folder)
    products: list[str] = []
    plain = SlotLinear._low_rank
    monkeypatch.setattr(
        SlotLinear, "_low_rank", lambda self, *about: products.append(self.name) or plain(self, *about)
    )
    gradient(lm, adapters, adapters.families.pack(moved(adapters, 1)))
    first = [name.partition("layers.0.")[2] for name in products if "layers.0." in name]
    assert first == [
        "self_attn.q_proj+k_proj+v_proj",
        "self_attn.o_proj",
        "mlp.gate_proj+up_proj",
        "mlp.down_proj",
    ]


def test_speaking_is_bit_for_bit_as_without_and_the_weights_are_in_memory_once(joining, folder):
    def logits(lm: models.LanguageModel, adapters: Adapters) -> list[np.ndarray]:
        adapters.publish("red", moved(adapters, 1), 1)
        found = []
        for slots in ([0, 0, 0], [1, 1, 1], [0, 1, 0]):
            with adapters.rows(slots):
                found.append(np.array(lm.head(lm.hidden(TOKENS))))
        return found

    mx.synchronize()
    before = mx.get_active_memory()
    joined = load(folder)
    mx.synchronize()
    of_joined = mx.get_active_memory() - before
    joining.setattr(siblings, "worthwhile", lambda: False)
    apart = load(folder)
    mx.synchronize()
    assert of_joined <= 1.1 * (mx.get_active_memory() - before - of_joined)
    for a, b in zip(logits(*joined), logits(*apart), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("checkpoint_layers", [False, True])
def test_a_learner_makes_the_same_updates_and_keeps_no_activations(checkpoint_layers, joining, folder):
    learnt = []
    for join in (True, False):
        joining.setattr(siblings, "worthwhile", lambda join=join: join)
        lm, adapters = load(folder)
        tiny = Tiny(folder, lm, adapters)
        learner = Learner(
            lm, adapters, TrainConfig(warmup=0, kl=0.1, entropy=0.1, checkpoint_layers=checkpoint_layers), seed=0
        )
        for seed in (1, 2):
            finish(learner, tiny.records(6, seed=seed))
        learnt.append(learner.parameters)
        held = [linear.siblings for _, linear in lm.model.named_modules() if isinstance(linear, SlotLinear)]
        assert any(held) == join
        assert all(group._input is None and not group._outputs for group in held if group is not None)
    for name, array in learnt[1].items():
        np.testing.assert_allclose(np.array(learnt[0][name]), np.array(array), atol=1e-6, err_msg=name)


@pytest.mark.parametrize("lora", [{"kind": "dora"}, {"layers": ["q_proj", "up_proj"]}])
def test_what_cannot_be_joined_stays_alone(lora, joining, folder):
    lm, adapters = load(folder, LoRAConfig.model_validate({"rank": 4} | lora))
    packed = adapters.families.pack(adapters.initial(0))
    assert gradient(lm, adapters, packed)[1].keys() == set(adapters.families.names)
    assert all(linear.siblings is None for _, linear in lm.model.named_modules() if isinstance(linear, SlotLinear))
