"""LoRA, DoRA and full fine-tuning: each is what mlx-lm makes of it, alone, among other players and from a file."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.dora import DoRALinear as OfMLX
from mlx_lm.utils import load_config, quantize_model, save

from engine.config import LoRAConfig
from engine.inference import decoders, models
from engine.inference.adapters import Adapters
from engine.inference.linears import Active, DoRALinear, FullLinear, Parameters
from engine.inference.padded import Padded
from engine.inference.places import Places
from tests.inference.conftest import Oracle, save_adapter
from tests.inference.test_decoders import NEAR, Both, places
from tests.inference.test_experts import KINDS as EXPERTS
from tests.tiny import tiny_model

KINDS = ["lora", "dora", "full"]
TOKENS = np.random.default_rng(0).integers(3, 260, (4, 12))


def config(kind: str, **others) -> LoRAConfig:
    return LoRAConfig.model_validate({"kind": kind, "rank": 4, "scale": 3.0} | others)


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


def learnt(adapters: Adapters, seed: int) -> Parameters:
    """An adapter that has moved from its beginning in all of its parameters."""
    rng = np.random.default_rng(seed)
    return {
        name: array + mx.array(rng.normal(0.0, 0.1, array.shape).astype(np.float32))
        for name, array in adapters.initial(seed).items()
    }


def logits(lm: models.LanguageModel, tokens: np.ndarray = TOKENS) -> np.ndarray:
    return np.array(lm.head(lm.hidden(mx.array(tokens))))


def test_every_row_of_a_mixed_batch_is_what_mlx_lm_makes_of_that_rows_file(kind, lm, folder, tmp_path):
    adapters = Adapters(lm, config(kind))
    oracles = [Oracle(folder)]
    for seed, player in enumerate(("red", "blue"), start=1):
        adapters.publish(player, learnt(adapters, seed), seed)
        oracles.append(Oracle(folder, save_adapter(tmp_path / player, adapters, learnt(adapters, seed))))
    slots = [0, 2, 1, 2]
    with adapters.rows(slots):
        mixed = logits(lm)
    for row, slot in enumerate(slots):
        expected = oracles[slot].logits(TOKENS[row].tolist())
        np.testing.assert_allclose(mixed[row], expected, atol=2e-4)
        with adapters.rows([slot]):
            np.testing.assert_allclose(logits(lm, TOKENS[row : row + 1])[0], expected, atol=2e-4)
    assert np.abs(mixed[1] - oracles[0].logits(TOKENS[1].tolist())).max() > 1  # the adapters do something


def test_a_fresh_adapter_is_the_base_bit_for_bit_learning_and_speaking(kind, lm):
    base = logits(lm)
    adapters = Adapters(lm, config(kind))
    fresh = adapters.initial(0)
    adapters.publish("red", fresh, 0)
    for using in (adapters.learning(fresh), adapters.speaking("red"), adapters.rows([0, 1, 1, 0])):
        with using:
            np.testing.assert_array_equal(logits(lm), base)


def test_learning_has_the_loss_and_gradients_of_mlx_lms_own_layers(kind, lm, folder, tmp_path):
    adapters = Adapters(lm, config(kind))
    parameters = learnt(adapters, 1)
    oracle = Oracle(folder, save_adapter(tmp_path / "a", adapters, parameters)).model
    of_file = adapters.saved(parameters)

    def loss(parameters: Parameters) -> mx.array:
        with adapters.learning(parameters):
            return mx.logsumexp(lm.head(lm.hidden(mx.array(TOKENS))), axis=-1).mean()

    def expected_loss(parameters: Parameters) -> mx.array:
        oracle.update(tree_unflatten(list(parameters.items())))
        return mx.logsumexp(oracle(mx.array(TOKENS)), axis=-1).mean()

    value, gradients = mx.value_and_grad(loss)(parameters)
    expected, of_oracle = mx.value_and_grad(expected_loss)(of_file)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert gradients.keys() == of_oracle.keys()
    for name, gradient in gradients.items():
        assert mx.abs(of_oracle[name]).max().item() > 0
        np.testing.assert_allclose(np.array(gradient), np.array(of_oracle[name]), atol=1e-5, err_msg=name)

    def computed() -> tuple[mx.array, str]:
        return mx.logsumexp(lm.head(lm.hidden(mx.array(TOKENS))), axis=-1).mean(), "beside"

    value, beside, packed = adapters.value_and_grad(computed, adapters.families.pack(parameters))
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert beside == "beside"
    for name, gradient in adapters.families.unpack(packed).items():
        np.testing.assert_allclose(np.array(gradient), np.array(of_oracle[name]), atol=1e-5, err_msg=name)
    assert adapters.used is None


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("quantised", [False, True])
def test_dora_is_mlx_lms_layer_forward_and_backward(bias, quantised):
    mx.random.seed(1)
    plain: nn.Module = nn.Linear(64, 24, bias=bias)
    if quantised:
        plain = nn.QuantizedLinear.from_linear(plain, group_size=32, bits=4)
    active = Active()
    ours, theirs = DoRALinear(plain, "x", active), OfMLX.from_base(plain, r=4, scale=3.0)
    x, towards = mx.random.normal((3, 5, 64)), mx.random.normal((3, 5, 24))
    parameters = {
        "lora_a": theirs.lora_a,
        "lora_b": 0.1 * mx.random.normal((4, 24)),
        "m": ours.magnitude()["x.m"] * (1.0 + 0.3 * mx.random.normal((24,))),
    }
    np.testing.assert_allclose(np.array(ours.magnitude()["x.m"]), np.array(theirs.m), rtol=1e-6)

    def forward(parameters: Parameters) -> mx.array:
        named = {f"x.{leaf}": array for leaf, array in parameters.items()}
        active.parameters = named | {"x.lora_b": 3.0 * named["x.lora_b"]} | ours.gain(named, 3.0)
        return ours(x)

    def expected(parameters: Parameters) -> mx.array:
        theirs.update(parameters)
        return theirs(x)

    np.testing.assert_allclose(np.array(forward(parameters)), np.array(expected(parameters)), atol=1e-5)
    gradients = mx.grad(lambda p: (forward(p) * towards).mean())(parameters)
    of_mlx = mx.grad(lambda p: (expected(p) * towards).mean())(parameters)
    for leaf, gradient in gradients.items():
        np.testing.assert_allclose(np.array(gradient), np.array(of_mlx[leaf]), atol=1e-5, err_msg=leaf)


@pytest.mark.parametrize("bias", [False, True])
def test_full_is_a_plain_layer_with_the_difference_added_to_its_weight(bias):
    mx.random.seed(1)
    plain = nn.Linear(16, 24, bias=bias)
    active = Active()
    ours = FullLinear(plain, "x", active)
    x, differences = mx.random.normal((3, 5, 16)), mx.random.normal((2, 24, 16))
    moved = nn.Linear(16, 24, bias=bias)
    for rows in ([1, 0, 1], [0]):
        stacked = len(rows) > 1
        active.slots = mx.array(rows, dtype=mx.uint32) if stacked else None
        active.parameters = {"x.weight": differences if stacked else differences[0]}
        y = ours(x)
        for row in range(3):
            moved.update(plain.parameters() | {"weight": plain.weight + differences[rows[row % len(rows)]]})
            np.testing.assert_allclose(np.array(y[row]), np.array(moved(x[row])), atol=1e-5)


def test_a_file_comes_back_as_what_was_learnt(kind, lm, folder, tmp_path):
    adapters = Adapters(lm, config(kind))
    parameters = learnt(adapters, 4)
    back = adapters.load(save_adapter(tmp_path / "a", adapters, parameters))
    assert back.keys() == parameters.keys()
    for name, array in back.items():
        np.testing.assert_allclose(np.array(array), np.array(parameters[name]), atol=1e-6)


def test_a_file_of_another_kind_is_refused_by_it(tmp_path, folder):
    for made in KINDS:
        adapters = Adapters(models.load(str(folder), 256)[0], config(made))
        save_adapter(tmp_path / made, adapters, adapters.initial(0))
    for kind in KINDS:
        adapters = Adapters(models.load(str(folder), 256)[0], config(kind))
        for made in KINDS:
            if made != kind:
                with pytest.raises(ValueError, match=f"fine_tune_type is '{made}'; here it is '{kind}'"):
                    adapters.load(tmp_path / made)


def test_players_on_disk_speak_as_before_once_they_are_used(kind, lm, folder, tmp_path):
    size = Adapters(models.load(str(folder), 256)[0], config(kind)).bytes
    crowd = Adapters(lm, config(kind), memory=3 * size)
    expected = {}
    for seed, player in enumerate(("red", "blue", "green"), start=1):
        crowd.publish(player, learnt(crowd, seed), seed)
        with crowd.learning(learnt(crowd, seed)):
            expected[player] = logits(lm)
    with pytest.raises(LookupError, match="on disk"):
        crowd.slot("red")
    with crowd.speaking("red"):
        np.testing.assert_allclose(logits(lm), expected["red"], atol=2e-4)
    crowd.use(["red", "green"])
    with crowd.rows([crowd.slot("red"), crowd.slot("green")] * 2):
        mixed = logits(lm)
    for row in range(4):
        np.testing.assert_allclose(mixed[row], expected[("red", "green")[row % 2]][row], atol=2e-4)
    crowd.close()


def test_what_isnt_finite_is_refused_by_name(kind, lm):
    adapters = Adapters(lm, config(kind))
    parameters = learnt(adapters, 1)
    name = next(name for name in parameters if name.endswith(("lora_b", "weight")))
    parameters[name] = parameters[name] * float("nan")
    with pytest.raises(ValueError, match=f"aren't finite: those of {name}"):
        adapters.publish("red", parameters, 1)
    assert adapters.players == ["base"]


def test_the_bytes_of_a_player_are_those_of_its_parameters(kind, lm):
    adapters = Adapters(lm, config(kind))
    assert adapters.bytes == sum(array.nbytes for array in adapters.initial(0).values())


def test_full_fine_tuning_learns_the_linear_weights_of_the_blocks_and_no_others(lm, folder):
    adapters = Adapters(lm, config("full"))
    whole = {name: array.shape for name, array in tree_flatten(Oracle(folder).model.parameters())}
    frozen = whole.keys() - adapters.initial(0).keys()
    assert {name: array.shape for name, array in adapters.initial(0).items()} == {
        name: shape for name, shape in whole.items() if name not in frozen
    }
    assert all("embed" in name or "norm" in name for name in frozen)


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_rslora_divides_alpha_by_the_root_of_the_rank(kind, folder, tmp_path):
    """alpha = scale · rank = 12, so the output is multiplied by 12 / √4 = 6 and not by 12 / 4 = 3."""
    stabilised, plain = (models.load(str(folder), 256)[0] for _ in range(2))
    adapters = Adapters(stabilised, config(kind, rslora=True))
    parameters = learnt(adapters, 1)
    assert adapters.config()["lora_parameters"]["scale"] == 6.0
    with adapters.learning(parameters):
        ours = logits(stabilised)
    with Adapters(plain, config(kind, scale=6.0)).learning(parameters):
        np.testing.assert_allclose(ours, logits(plain), atol=1e-5)
    path = save_adapter(tmp_path / "a", adapters, parameters)
    np.testing.assert_allclose(ours[0], Oracle(folder, path).logits(TOKENS[0].tolist()), atol=2e-4)


def test_only_the_last_blocks_are_adapted(kind, lm, folder, tmp_path):
    adapters = Adapters(lm, config(kind, last_layers=1, layers=["q_proj", "down_proj"]))
    parameters = learnt(adapters, 1)
    assert {name.rpartition(".")[0] for name in parameters} == {
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.mlp.down_proj",
    }
    assert adapters.config()["num_layers"] == 1
    adapters.publish("red", parameters, 1)
    path = save_adapter(tmp_path / "a", adapters, parameters)
    with adapters.rows([0, 1, 1, 0]):
        np.testing.assert_allclose(logits(lm)[1], Oracle(folder, path).logits(TOKENS[1].tolist()), atol=2e-4)


def test_a_block_without_adapters_is_decoded_in_places_like_any_other(tmp_path):
    lm = models.load(str(tiny_model(tmp_path, dim=128)), context=256)[0]
    both = Both(lm, places, last_layers=1)
    both.join([5, 17], "red")
    both.join([4], "base")
    assert max(both.step() for _ in range(2)) < NEAR


def test_more_last_blocks_than_there_are_is_an_error_that_says_how_many_there_are(lm):
    with pytest.raises(ValueError, match=r"lora\.last_layers is 3; .* has 2 blocks"):
        Adapters(lm, config("lora", last_layers=3))


@pytest.fixture
def quantised(tmp_path: Path) -> Path:
    plain = Oracle(tiny_model(tmp_path / "plain", dim=64))
    model, described = quantize_model(plain.model, load_config(tmp_path / "plain"), group_size=32, bits=4)
    save(tmp_path / "quantised", tmp_path / "plain", model, plain.tokenizer, described)
    return tmp_path / "quantised"


def test_dora_of_a_quantised_base_is_mlx_lms(quantised, tmp_path):
    lm = models.load(str(quantised), 256)[0]
    adapters = Adapters(lm, config("dora"))
    parameters = learnt(adapters, 1)
    adapters.publish("red", parameters, 1)
    with adapters.rows([0, 1, 1, 0]):
        mixed = logits(lm)
    oracle = Oracle(quantised, save_adapter(tmp_path / "a", adapters, parameters))
    np.testing.assert_allclose(mixed[1], oracle.logits(TOKENS[1].tolist()), atol=1e-3)


def test_full_fine_tuning_of_quantised_weights_is_refused(quantised):
    lm = models.load(str(quantised), 256)[0]
    with pytest.raises(ValueError, match=r"'full' can't be had of quantised weights, and [\w.]+ of"):
        Adapters(lm, config("full"))


def test_dora_of_an_output_without_weights_is_refused_for_it_has_no_direction(lm):
    projection = lm.model.layers[1].mlp.up_proj
    projection.weight = mx.where(mx.arange(64)[:, None] == 5, 0.0, projection.weight)
    with pytest.raises(ValueError, match=r"model\.layers\.1\.mlp\.up_proj has an output whose weights are all 0"):
        Adapters(lm, config("dora")).initial(0)


@pytest.mark.parametrize("kind", ["dora", "full"])
def test_experts_are_refused_unless_others_are_named(kind, tmp_path):
    folder = tiny_model(tmp_path, model_type="mixtral", **EXPERTS["mixtral"])
    with pytest.raises(ValueError, match=f"'{kind}' can't be had of expert layers, and .*switch_mlp.* is one"):
        Adapters(models.load(str(folder), 256)[0], config(kind))
    lm = models.load(str(folder), 256)[0]
    adapters = Adapters(lm, config(kind, layers=["q_proj"]))
    parameters = learnt(adapters, 1)
    adapters.publish("red", parameters, 1)
    expected = Oracle(folder, save_adapter(tmp_path / "a", adapters, parameters)).logits(TOKENS[1].tolist())
    with adapters.rows([0, 1, 1, 0]):
        np.testing.assert_allclose(logits(lm)[1], expected, atol=2e-4)


def test_on_cuda_only_plain_lora_is_decoded_in_places(kind, tmp_path, monkeypatch):
    lm = models.load(str(tiny_model(tmp_path, dim=128)), context=256)[0]
    adapters = Adapters(lm, config(kind))
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    monkeypatch.setattr(decoders, "Stack", lambda *_: None)
    monkeypatch.setattr(decoders, "Places", lambda *_: Places.__new__(Places))
    assert type(decoders.decoder(lm, adapters)) is (Places if kind == "lora" else Padded)
