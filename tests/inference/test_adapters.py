"""Adapters: each slot is what mlx-lm makes of the same file, and a wrong one never goes unnoticed."""

from __future__ import annotations

import json

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

UP, DOWN = "model.layers.1.mlp.up_proj.lora_b", "model.layers.0.mlp.down_proj.lora_b"
TOKENS = np.random.default_rng(0).integers(3, 260, (4, 12))


def logits(lm, tokens=TOKENS) -> np.ndarray:
    return np.array(lm.head(lm.hidden(mx.array(tokens))))


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


def test_serials_never_come_again(adapters):
    seen = [adapters.serial("base"), adapters.serial("red"), adapters.serial("blue")]
    adapters.publish("red", moved(adapters, 1), 1)
    seen.append(adapters.serial("red"))
    adapters.drop("red")
    adapters.publish("red", moved(adapters, 2), 1)
    seen.append(adapters.serial("red"))
    assert len(set(seen)) == 5


@pytest.fixture
def crowd(lm) -> Adapters:
    """Four players, of whom two fit into memory beside the base."""
    size = Adapters(models.load(lm.source, 256)[0], LORA).bytes
    crowd = Adapters(lm, LORA, memory=3 * size)
    for seed, player in enumerate(("red", "blue", "green", "grey"), start=1):
        crowd.publish(player, moved(crowd, seed), version=seed)
    return crowd


def test_players_on_disk_speak_as_before_once_they_are_used(lm, crowd, folder, tmp_path):
    assert crowd.players == ["base", "red", "blue", "green", "grey"]
    assert [crowd.version(player) for player in crowd.players] == [0, 1, 2, 3, 4]
    with pytest.raises(LookupError, match="'red' is on disk"):
        crowd.slot("red")
    for speaking in (["red", "base", "blue"], ["grey", "red"], ["red", "blue", "green", "grey"]):
        crowd.use(speaking)
        players = [speaking[row % len(speaking)] for row in range(4)]
        with crowd.rows([crowd.slot(player) for player in players]):
            mixed = logits(lm)
        for row, player in enumerate(players):
            parameters = moved(crowd, crowd.version(player))
            path = (
                save_adapter(tmp_path / f"{len(speaking)} {row}", crowd, parameters) if player != "base" else None
            )
            expected = Oracle(folder, path).logits(TOKENS[row].tolist())
            np.testing.assert_allclose(mixed[row], expected, atol=2e-4)


def test_one_player_can_speak_from_disk_without_moving_anyone(lm, crowd, folder, tmp_path):
    places = {player: crowd.slot(player) for player in ("green", "grey")}
    changes = crowd.changes
    for player in ("red", "grey"):
        path = save_adapter(tmp_path / player, crowd, moved(crowd, crowd.version(player)))
        with crowd.speaking(player):
            np.testing.assert_allclose(logits(lm)[0], Oracle(folder, path).logits(TOKENS[0].tolist()), atol=2e-4)
    assert {player: crowd.slot(player) for player in places} == places
    assert crowd.changes == changes


def test_players_on_disk_can_be_replaced_and_dropped(crowd):
    crowd.drop("red")
    with pytest.raises(KeyError, match="no player 'red'"):
        crowd.use(["red"])
    crowd.publish("blue", moved(crowd, 8), 8)
    assert crowd.slot("blue") > 0
    assert crowd.version("blue") == 8
    assert crowd.players == ["base", "blue", "green", "grey"]


def test_who_speaks_beside_others_doesnt_send_their_players_away(crowd):
    one, other = object(), object()
    crowd.use(["red", "blue"], by=one)
    crowd.use(["green"], by=other)
    assert len({crowd.slot(player) for player in ("red", "blue", "green")}) == 3
    crowd.use([], by=one)
    crowd.use(["green", "grey"], by=other)
    with pytest.raises(LookupError, match="on disk"):
        crowd.slot("red")


def test_a_stranger_among_the_used_changes_nothing(crowd):
    with pytest.raises(KeyError, match="no player 'black': there are base, red"):
        crowd.use(["red", "black"])
    with pytest.raises(LookupError, match="on disk"):
        crowd.slot("red")


def test_adapters_can_be_sampled_in_half_precision_and_stay_float32_to_be_learnt(lm, oracle):
    adapters = Adapters(lm, LORA, dtype=mx.bfloat16)
    parameters = moved(adapters, 1)
    assert {array.dtype for array in adapters.initial(0).values()} == {mx.float32}
    adapters.publish("red", parameters, 1)
    with adapters.learning(parameters):
        expected = logits(lm)
    with adapters.speaking("red"):
        rounded = logits(lm)
    off = np.abs(rounded - expected).max() / np.abs(expected - oracle.logits(TOKENS[0].tolist())).max()
    assert 0 < off < 0.05


def test_an_adapter_in_mlx_lms_format_comes_in_as_a_player(lm, adapters, folder, tmp_path):
    path = save_adapter(tmp_path / "a", adapters, moved(adapters, 7))
    adapters.publish("stranger", adapters.load(path), 0)
    with adapters.speaking("stranger"):
        np.testing.assert_allclose(logits(lm)[0], Oracle(folder, path).logits(TOKENS[0].tolist()), atol=2e-4)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"fine_tune_type": "dora"}, "adapter_config.json: fine_tune_type is 'dora'; here it is 'lora'"),
        ({"lora_parameters": {"rank": 8, "scale": 3.0}}, "rank is 8; here it is 4"),
        ({"lora_parameters": {"rank": 4, "scale": 20.0}}, "scale is 20.0; here it is 3.0"),
        ({"lora_parameters": 5}, "adapter_config.json: isn't a configuration of an adapter"),
        ([], "adapter_config.json: isn't a configuration of an adapter"),
    ],
)
def test_an_adapter_made_otherwise_is_refused_by_what_differs(adapters, tmp_path, config, message):
    path = save_adapter(tmp_path / "a", adapters, moved(adapters, 7))
    whole = adapters.config() | config if isinstance(config, dict) else config
    (path / "adapter_config.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=f"{path}.*{message}"):
        adapters.load(path)


def test_an_adapter_of_other_layers_or_no_adapter_at_all_is_refused(adapters, tmp_path):
    parameters = moved(adapters, 7)
    del parameters[UP]
    with pytest.raises(ValueError, match=f"{tmp_path / 'a'}: .*1 missing .*{UP}"):
        adapters.load(save_adapter(tmp_path / "a", adapters, parameters))
    with pytest.raises(ValueError, match=f"{tmp_path / 'b'}: no adapter there"):
        adapters.load(tmp_path / "b")
    (tmp_path / "a" / "adapters.safetensors").write_bytes(b"short")
    with pytest.raises(ValueError, match=f"{tmp_path / 'a'}: the adapter there can't be read"):
        adapters.load(tmp_path / "a")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: p.pop(next(iter(p))), "1 missing"),
        (lambda p: p.update(strange=mx.zeros(1)), "1 unknown \\['strange'\\]"),
        (lambda p: p.update({next(iter(p)): mx.zeros((1, 1))}), "has shape \\(1, 1\\)"),
        (lambda p: p.update({UP: p[UP] * float("nan")}), f"player 'red'.*aren't finite: those of {UP}$"),
        (lambda p: p.update({UP: p[UP] / 0.0, DOWN: p[DOWN] / 0.0}), "aren't finite: those of .* and 1 more$"),
        (lambda p: p.update({UP: p[UP] * 3e38}), f"aren't finite: those of {UP}$"),  # once scaled
    ],
)
def test_parameters_that_dont_fit_or_arent_finite_are_refused_and_change_nothing(lm, adapters, spoil, message):
    with adapters.speaking("red"):
        before = logits(lm)
    parameters = moved(adapters, 9)
    spoil(parameters)
    changes = adapters.changes
    with pytest.raises(ValueError, match=message):
        adapters.publish("red", parameters, 99)
    assert (adapters.version("red"), adapters.changes) == (1, changes)
    with adapters.speaking("red"):
        np.testing.assert_array_equal(logits(lm), before)


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
