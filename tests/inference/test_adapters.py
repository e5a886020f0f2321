"""Adapters: each slot is what mlx-lm makes of the same file, and a wrong one never goes unnoticed."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.utils import load_config, quantize_model, save

from engine.config import LoRAConfig
from engine.inference import models
from engine.inference.adapters import Adapters
from tests.inference.conftest import LORA, Oracle, moved, save_adapter
from tests.tiny import tiny_model

TOKENS = np.random.default_rng(0).integers(3, 260, (4, 12))


def logits(lm, tokens=TOKENS) -> np.ndarray:
    return np.array(lm.head(lm.hidden(mx.array(tokens))))


def test_every_row_of_a_mixed_batch_is_mlx_lms_model_with_that_rows_adapter(lm, adapters, folder, tmp_path):
    oracles = [Oracle(folder)]
    for seed, player in enumerate(("red", "blue"), start=1):
        oracles.append(Oracle(folder, save_adapter(tmp_path / player, adapters, moved(adapters, seed))))
    slots = [0, 2, 1, 2]
    with adapters.rows(slots):
        mixed = logits(lm)
    for row, slot in enumerate(slots):
        expected = oracles[slot].logits(TOKENS[row].tolist())
        np.testing.assert_allclose(mixed[row], expected, atol=2e-4)
        with adapters.rows([slot]):
            np.testing.assert_allclose(logits(lm, TOKENS[row : row + 1])[0], expected, atol=2e-4)
    assert np.abs(mixed[1] - oracles[0].logits(TOKENS[1].tolist())).max() > 1  # the adapters do something


def test_learning_uses_the_given_parameters_and_has_their_gradients(lm, adapters):
    parameters = moved(adapters, 1)

    def loss(parameters):
        with adapters.learning(parameters):
            return mx.logsumexp(lm.head(lm.hidden(mx.array(TOKENS))), axis=-1).sum()

    with adapters.rows([adapters.slot("red")] * 4):
        sampled = mx.logsumexp(lm.head(lm.hidden(mx.array(TOKENS))), axis=-1).sum().item()
    value, gradients = mx.value_and_grad(loss)(parameters)
    assert value.item() == pytest.approx(sampled, rel=1e-5)
    assert gradients.keys() == parameters.keys()
    rng = np.random.default_rng(0)
    direction = {name: mx.array(rng.normal(size=p.shape).astype(np.float32)) for name, p in parameters.items()}
    slope = sum((gradients[name] * direction[name]).sum().item() for name in parameters)
    step = 1e-3
    ahead, behind = (
        loss({name: p + sign * step * direction[name] for name, p in parameters.items()}).item() for sign in (1, -1)
    )
    assert (ahead - behind) / (2 * step) == pytest.approx(slope, rel=0.05)


def test_outside_both_contexts_and_after_an_error_the_model_is_the_base(lm, adapters, oracle):
    with pytest.raises(ZeroDivisionError), adapters.rows([1] * 4):
        raise ZeroDivisionError
    np.testing.assert_allclose(logits(lm)[0], oracle.logits(TOKENS[0].tolist()), atol=2e-4)


def test_a_fresh_adapter_changes_nothing_and_depends_on_the_seed(lm, adapters, oracle):
    fresh = adapters.initial(0)
    with adapters.learning(fresh):
        np.testing.assert_allclose(logits(lm)[0], oracle.logits(TOKENS[0].tolist()), atol=2e-4)
    name = next(name for name in fresh if name.endswith("lora_a"))
    assert mx.array_equal(fresh[name], adapters.initial(0)[name])
    assert not mx.array_equal(fresh[name], adapters.initial(1)[name])
    bound = fresh[name].shape[0] ** -0.5
    assert 0.9 * bound < mx.max(mx.abs(fresh[name])).item() <= bound


def test_publishing_copies_so_that_a_later_change_doesnt_leak(lm, adapters):
    parameters = moved(adapters, 5)
    adapters.publish("red", parameters, 7)
    with adapters.rows([1]):
        before = logits(lm, TOKENS[:1])
    for name in parameters:
        parameters[name][:] = 0.0
    with adapters.rows([1]):
        np.testing.assert_array_equal(logits(lm, TOKENS[:1]), before)
    assert adapters.version("red") == 7


def test_a_mixed_batch_uses_what_was_published_last(lm, adapters):
    slots = [1, 2, 0, 1]
    with adapters.rows(slots):
        logits(lm)
    adapters.publish("red", moved(adapters, 8), 2)
    with adapters.rows([1]):
        alone = logits(lm, TOKENS[:1])[0]
    with adapters.rows(slots):
        np.testing.assert_allclose(logits(lm)[0], alone, atol=2e-4)


def test_players_come_and_go_and_slots_are_used_again(adapters):
    assert (adapters.slot("base"), adapters.version("base")) == (0, 0)
    adapters.drop("red")
    with pytest.raises(KeyError, match="no player 'red': there are base, blue"):
        adapters.slot("red")
    adapters.publish("green", moved(adapters, 3), 1)
    assert (adapters.slot("green"), adapters.slot("blue")) == (1, 2)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: p.pop(next(iter(p))), "1 missing"),
        (lambda p: p.update(strange=mx.zeros(1)), "1 unknown \\['strange'\\]"),
        (lambda p: p.update({next(iter(p)): mx.zeros((1, 1))}), "has shape \\(1, 1\\)"),
    ],
)
def test_parameters_that_dont_fit_are_refused_and_change_nothing(adapters, spoil, message):
    parameters = moved(adapters, 9)
    spoil(parameters)
    with pytest.raises(ValueError, match=message):
        adapters.publish("red", parameters, 99)
    assert adapters.version("red") == 1


def test_the_base_cant_be_published_to_or_dropped(adapters):
    with pytest.raises(ValueError, match="base"):
        adapters.publish("base", moved(adapters, 1), 1)
    with pytest.raises(ValueError, match="base"):
        adapters.drop("base")


def test_only_the_layers_named_are_adapted(lm, folder, tmp_path):
    adapters = Adapters(lm, LoRAConfig(rank=2, layers=["q_proj", "mlp.down_proj"]))
    keys = {name.split(".", 3)[3].rsplit(".", 1)[0] for name in adapters.initial(0)}
    assert keys == {"self_attn.q_proj", "mlp.down_proj"}
    parameters = moved(adapters, 1)
    adapters.publish("red", parameters, 1)
    expected = Oracle(folder, save_adapter(tmp_path / "a", adapters, parameters)).logits(TOKENS[0].tolist())
    with adapters.rows([1]):
        np.testing.assert_allclose(logits(lm, TOKENS[:1])[0], expected, atol=2e-4)


def test_a_layer_that_isnt_there_is_named_with_those_that_are(lm):
    with pytest.raises(ValueError, match=r"no linear layer \['qproj'\]; it has .*'self_attn.q_proj'"):
        Adapters(lm, LoRAConfig(layers=["qproj"]))


def test_a_second_set_of_adapters_on_one_model_is_refused(lm, adapters):
    with pytest.raises(ValueError, match="adapters already"):
        Adapters(lm, LORA)


def test_a_quantised_base_takes_adapters_as_mlx_lm_does(tmp_path):
    plain = Oracle(tiny_model(tmp_path / "plain", dim=64))
    quantised, config = quantize_model(plain.model, load_config(tmp_path / "plain"), group_size=32, bits=4)
    folder = tmp_path / "quantised"
    save(folder, tmp_path / "plain", quantised, plain.tokenizer, config)
    lm = models.load(str(folder), 256)[0]
    adapters = Adapters(lm, LORA)
    assert isinstance(lm.model.layers[0].mlp.up_proj.linear, nn.QuantizedLinear)
    parameters = moved(adapters, 1)
    adapters.publish("red", parameters, 1)
    with adapters.rows([0, 1, 1, 0]):
        mixed = logits(lm)
    expected = Oracle(folder, save_adapter(tmp_path / "a", adapters, parameters)).logits(TOKENS[1].tolist())
    np.testing.assert_allclose(mixed[1], expected, atol=1e-3)
