"""Experts: each row of a batch has its own LoRA in every expert, whichever tokens they are sorted among."""

from __future__ import annotations

import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_unflatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear
from mlx_lm.utils import load_config, quantize_model, save

from engine.config import LoRAConfig
from engine.inference import models
from engine.inference.adapters import Adapters, Parameters
from tests.inference.conftest import LORA, Oracle, moved, save_adapter
from tests.tiny import tiny_model

KINDS: dict[str, dict[str, object]] = {
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [0],
        "moe_intermediate_size": 48,
        "head_dim": 16,
        "norm_topk_prob": True,
    },
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
}
SORTED_FROM = 64
"""How many tokens times experts mlx-lm sorts."""
TOKENS = np.random.default_rng(0).integers(3, 260, (4, 12))


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model", model_type=request.param, **KINDS[request.param])


def logits(lm: models.LanguageModel, tokens: np.ndarray) -> np.ndarray:
    return np.array(lm.head(lm.hidden(mx.array(tokens))))


def merged(folder: Path, target: Path, parameters: Parameters, scale: float) -> Path:
    """The model with W + scale · (A B)ᵀ in the place of each W."""
    weights = {name: np.array(array) for name, array in mx.load(str(folder / "model.safetensors")).items()}
    for name in {name.rpartition(".")[0] for name in parameters}:
        W = weights[f"{name}.weight"]
        A, B = (np.array(parameters[f"{name}.{side}"]) for side in ("lora_a", "lora_b"))
        W += scale * ((A @ B).T if W.ndim == 2 else np.einsum("eor,eri->eoi", B, A))
    shutil.copytree(folder, target)
    mx.save_safetensors(str(target / "model.safetensors"), {name: mx.array(W) for name, W in weights.items()})
    return target


@pytest.mark.parametrize("length", [3, 12])
def test_every_row_of_a_mixed_batch_is_the_model_with_that_rows_adapter_merged_by_hand(folder, tmp_path, length):
    lm = models.load(str(folder), 256)[0]
    adapters = Adapters(lm, LORA)
    oracles = [Oracle(folder)]
    for seed, player in enumerate(("red", "blue"), start=1):
        adapters.publish(player, moved(adapters, seed), 1)
        oracles.append(Oracle(merged(folder, tmp_path / player, moved(adapters, seed), LORA.scale)))
    slots, tokens = [0, 2, 1, 2], TOKENS[:, :length]
    assert (tokens.size * 2 >= SORTED_FROM) == (length == 12)
    with adapters.rows(slots):
        mixed = logits(lm, tokens)
    for row, slot in enumerate(slots):
        expected = oracles[slot].logits(tokens[row].tolist())
        np.testing.assert_allclose(mixed[row], expected, atol=5e-4)
        with adapters.rows([slot]):
            np.testing.assert_allclose(logits(lm, tokens[row : row + 1])[0], expected, atol=5e-4)
    assert np.abs(mixed[1] - oracles[0].logits(tokens[1].tolist())).max() > 0.5  # the adapters do something


def test_indices_are_called_sorted_only_where_they_are(folder, monkeypatch):
    """A CPU doesn't look at the hint, a GPU relies on it."""
    lm = models.load(str(folder), 256)[0]
    adapters = Adapters(lm, LORA)
    adapters.publish("red", moved(adapters, 1), 1)
    plain, called = mx.gather_mm, []

    def gather_mm(*operands: mx.array, rhs_indices: mx.array, sorted_indices: bool = False, **others) -> mx.array:
        called.append((sorted_indices, bool((np.diff(np.array(rhs_indices.flatten()).astype(int)) >= 0).all())))
        return plain(*operands, rhs_indices=rhs_indices, sorted_indices=sorted_indices, **others)

    monkeypatch.setattr(mx, "gather_mm", gather_mm)
    for slots in ([1, 0, 1, 0], [1, 1, 1, 1]):
        for length in (3, 12):
            with adapters.rows(slots):
                logits(lm, TOKENS[:, :length])
    assert all(are for said, are in called if said)
    assert any(said for said, _ in called)


@pytest.mark.parametrize("length", [3, 12])
def test_learning_has_the_gradients_of_mlx_lms_own_lora(folder, tmp_path, length):
    lm = models.load(str(folder), 256)[0]
    adapters = Adapters(lm, LORA)
    parameters, tokens = moved(adapters, 1), mx.array(TOKENS[:, :length])
    oracle = Oracle(folder, save_adapter(tmp_path / "adapter", adapters, parameters)).model

    def loss(parameters: Parameters) -> mx.array:
        with adapters.learning(parameters):
            return mx.logsumexp(lm.head(lm.hidden(tokens)), axis=-1).sum()

    def expected_loss(parameters: Parameters) -> mx.array:
        oracle.update(tree_unflatten(list(parameters.items())))
        return mx.logsumexp(oracle(tokens), axis=-1).sum()

    value, gradients = mx.value_and_grad(loss)(parameters)
    expected, of_oracle = mx.value_and_grad(expected_loss)(parameters)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert gradients.keys() == of_oracle.keys()
    for name, gradient in gradients.items():
        largest = mx.abs(of_oracle[name]).max().item()
        assert largest > 0
        np.testing.assert_allclose(np.array(gradient), np.array(of_oracle[name]), atol=1e-3 * largest)


@pytest.mark.parametrize("layers", [["down_proj"], ["gate"], ["q_proj", "mlp.switch_mlp.up_proj"]])
def test_what_is_named_is_adapted_and_nothing_else(tmp_path, layers):
    folder = tiny_model(tmp_path / "model", model_type="qwen3_moe", **KINDS["qwen3_moe"])
    lm = models.load(str(folder), 256)[0]
    adapters = Adapters(lm, LoRAConfig(rank=2, scale=3.0, layers=layers))
    parameters = moved(adapters, 1)
    named = {name.split(".", 3)[3].rpartition(".")[0] for name in parameters}
    assert named
    assert all({name, name.rpartition(".")[2]} & {*layers} for name in named)
    adapters.publish("red", parameters, 1)
    expected = Oracle(merged(folder, tmp_path / "merged", parameters, 3.0)).logits(TOKENS[1].tolist())
    with adapters.rows([0, 1, 1, 0]):
        np.testing.assert_allclose(logits(lm, TOKENS)[1], expected, atol=5e-4)


def test_routers_are_left_alone_unless_they_are_named(folder):
    keys = Adapters(models.load(str(folder), 256)[0], LORA).config()["lora_parameters"]["keys"]
    assert {key.rpartition(".")[2] for key in keys} == {
        *("q_proj", "k_proj", "v_proj", "o_proj"),
        *("gate_proj", "up_proj", "down_proj"),
    }
    assert any("switch_mlp" in key for key in keys)


def test_gates_of_shared_experts_are_routers_and_their_layers_are_not(tmp_path):
    folder = tiny_model(
        tmp_path,
        model_type="qwen2_moe",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=48,
        shared_expert_intermediate_size=48,
    )
    keys = Adapters(models.load(str(folder), 256)[0], LORA).config()["lora_parameters"]["keys"]
    assert "mlp.shared_expert.gate_proj" in keys
    assert not {"mlp.gate", "mlp.shared_expert_gate"} & {*keys}


def test_an_unknown_layer_is_answered_with_those_of_the_experts_too(tmp_path):
    folder = tiny_model(tmp_path, model_type="qwen3_moe", **KINDS["qwen3_moe"])
    with pytest.raises(ValueError, match=r"no linear layer \['w1'\]; it has .*'mlp.switch_mlp.up_proj'"):
        Adapters(models.load(str(folder), 256)[0], LoRAConfig(layers=["w1"]))


def test_quantised_experts_take_adapters_as_mlx_lm_does(tmp_path):
    plain = Oracle(tiny_model(tmp_path / "plain", dim=64, model_type="mixtral", **KINDS["mixtral"]))
    quantised, config = quantize_model(plain.model, load_config(tmp_path / "plain"), group_size=32, bits=4)
    folder = tmp_path / "quantised"
    save(folder, tmp_path / "plain", quantised, plain.tokenizer, config)
    lm = models.load(str(folder), 256)[0]
    adapters = Adapters(lm, LORA)
    inner = [module for _, module in lm.model.named_modules() if isinstance(module, QuantizedSwitchLinear)]
    assert len(inner) == 3 * len(lm.model.layers)
    parameters = moved(adapters, 1)
    adapters.publish("red", parameters, 1)
    with adapters.rows([0, 1, 1, 0]):
        mixed = logits(lm, TOKENS)
    expected = Oracle(folder, save_adapter(tmp_path / "a", adapters, parameters)).logits(TOKENS[1].tolist())
    np.testing.assert_allclose(mixed[1], expected, atol=2e-3)
