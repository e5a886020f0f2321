"""GGUF files: the same model as in MLX format, to the last bit that the file holds; the rest is refused plainly."""

from __future__ import annotations

import json

import mlx.core as mx
import numpy as np
import pytest

from engine.inference import gguf, gguf_model, models
from engine.inference.adapters import Adapters
from engine.inference.facts import Machine
from engine.inference.models import ModelError
from tests import gguf_file
from tests.gguf_file import Tensor
from tests.inference.conftest import LORA, Oracle, plain_maths
from tests.tiny_gguf import tiny_gguf

TOKENS = [5, 60, 7, 208, 9, 110, 11, 12]
QUANTISED = ("Q4_0", "Q4_1", "Q8_0")
MODELS = {
    **{kind: {"kind": kind} for kind in ("F32", "F16", "BF16", *QUANTISED)},
    "a head in Q8_0": {"kind": "Q4_0", "outer": "Q8_0", "tie_word_embeddings": False},
    "one head for keys each": {"num_key_value_heads": 2},
    "wide heads": {"head_dim": 64},
    "biases": {"attention_bias": True},
    "qwen2": {"model_type": "qwen2", "num_key_value_heads": 1},
    "qwen3": {"model_type": "qwen3", "rope_theta": 1e6},
    "many rotations": {"rope_theta": 5e5, "rms_norm_eps": 1e-6},
}


def logits(lm: models.LanguageModel) -> np.ndarray:
    return np.array(lm.head(lm.hidden(mx.array([TOKENS]))).astype(mx.float32))[0]


@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS.keys())
def test_a_file_gives_the_logits_of_the_same_numbers_in_mlx_format(tmp_path, options):
    file = tiny_gguf(tmp_path / "model.gguf", **options)
    expected = Oracle(file.with_suffix("")).logits(TOKENS)
    lm, _ = models.load(str(file), 256)
    np.testing.assert_allclose(logits(lm), expected, atol=2e-4)


@pytest.mark.parametrize("kind", QUANTISED)
def test_queries_and_keys_in_the_files_order_turn_with_their_neighbours(tmp_path, kind):
    """mlx-lm's other rotary embedding turns neighbours: with it the rows can stay where the file has them."""
    file = tiny_gguf(tmp_path / "model.gguf", kind=kind)
    folder = file.with_suffix("")
    weights = dict(mx.load(str(folder / "model.safetensors")))
    for name, tensor in stored(file, kind).items():
        weights[name] = mx.array(tensor.values())
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "rope_traditional": True}))
    expected = Oracle(folder).logits(TOKENS)
    np.testing.assert_allclose(logits(models.load(str(file), 256)[0]), expected, atol=2e-4)


def stored(file, kind: str) -> dict[str, Tensor]:
    """The query and key projections as they lie in the file."""
    header, data = gguf.read(file), file.read_bytes()
    start = len(data) - max(-(-(info.offset + info.bytes) // 32) * 32 for info in header.tensors.values())
    found = {}
    for layer in range(2):
        for name in ("q", "k"):
            info = header.tensors[f"blk.{layer}.attn_{name}.weight"]
            begin = start + info.offset
            found[f"model.layers.{layer}.self_attn.{name}_proj.weight"] = Tensor(
                kind, info.shape, data[begin : begin + info.bytes]
            )
    return found


@pytest.mark.parametrize("kind", QUANTISED)
def test_layers_that_stay_quantised_stand_for_the_same_numbers(tmp_path, kind):
    file = tiny_gguf(tmp_path / "model.gguf", kind=kind)
    model, _ = gguf_model.load(gguf.read(file), dense=False)
    packed = model.model.layers[0].self_attn.q_proj
    assert (packed.bits, packed.group_size) == (8 if kind == "Q8_0" else 4, 32)
    with plain_maths():
        actual = np.array(model(mx.array([TOKENS])).astype(mx.float32))[0]
    expected = Oracle(file.with_suffix("")).logits(TOKENS)
    # bfloat16 keeps eight bits of every scale and activation
    assert np.abs(actual - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(("kind", "bytes", "halves"), [("Q6_K", 210, (208,))])
def test_an_embedding_in_larger_blocks_is_read_to_half_precision(tmp_path, kind, bytes, halves):
    rng = np.random.default_rng(3)
    blocks = rng.integers(0, 256, (262, bytes), np.uint8)
    for place in halves:
        blocks[:, place : place + 2] = rng.uniform(0, 1e-4, (262, 1)).astype(np.float16).view(np.uint8)
    embedding = Tensor(kind, (262, 256), blocks.tobytes())
    file = tiny_gguf(tmp_path / "model.gguf", dim=256)
    changed(file, {"token_embd.weight": embedding})
    lm, _ = models.load(str(file), 64)
    np.testing.assert_allclose(
        np.array(lm.model.model.embed_tokens.weight), embedding.values(), rtol=1e-3, atol=1e-6
    )


def changed(file, tensors: dict[str, Tensor | None], **metadata) -> None:
    """Write the file again with other tensors (None leaves one out) and metadata."""
    header, data = gguf.read(file), file.read_bytes()
    start = len(data) - max(-(-(info.offset + info.bytes) // 32) * 32 for info in header.tensors.values())
    kept = {
        name: Tensor(info.kind.name, info.shape, data[start + info.offset : start + info.offset + info.bytes])
        for name, info in header.tensors.items()
    }
    both = {name: tensor for name, tensor in {**kept, **tensors}.items() if tensor is not None}
    gguf_file.write(file, {**header.metadata, **metadata}, both)


def test_frequencies_are_divided_as_the_file_says(tmp_path):
    """Llama 3.1 computes its divisors from a formula, GGUF writes them out."""
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    file = tiny_gguf(tmp_path / "model.gguf", rope_scaling={**scaling, "original_max_position_embeddings": 64})
    changed(file, {"rope_freqs.weight": Tensor.of("F32", llama3_divisors(10_000.0, 32, 8.0, 1.0, 4.0, 64))})
    many = list(range(3, 200))
    expected = Oracle(file.with_suffix("")).logits(many)
    lm, _ = models.load(str(file), 256)
    np.testing.assert_allclose(np.array(lm.head(lm.hidden(mx.array([many]))))[0], expected, atol=5e-4)


def llama3_divisors(base: float, size: int, factor: float, low: float, high: float, old: int) -> np.ndarray:
    waves = 2 * np.pi * base ** (np.arange(0, size, 2) / size)
    smooth = (old / waves - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    return np.where(waves < old / high, 1.0, np.where(waves > old / low, factor, between)).astype(np.float32)


def test_positions_are_scaled_as_the_file_says(tmp_path):
    file = tiny_gguf(
        tmp_path / "model.gguf",
        rope_scaling={"rope_type": "linear", "factor": 4.0},
        metadata={"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
    )
    expected = Oracle(file.with_suffix("")).logits(TOKENS)
    np.testing.assert_allclose(logits(models.load(str(file), 256)[0]), expected, atol=2e-4)


def test_rows_of_queries_and_keys_come_back_in_the_models_own_order(tmp_path):
    file = tiny_gguf(tmp_path / "model.gguf", kind="F32")
    own = dict(mx.load(str(file.with_suffix("") / "model.safetensors")))
    model, _ = gguf_model.load(gguf.read(file), dense=True)
    for layer in (0, 1):
        attention = model.model.layers[layer].self_attn
        for name in ("q_proj", "k_proj"):
            expected = own[f"model.layers.{layer}.self_attn.{name}.weight"]
            np.testing.assert_array_equal(np.array(attention[name].weight), np.array(expected))


def test_an_adapter_trained_on_a_file_fits_the_same_model_in_mlx_format(tmp_path):
    file = tiny_gguf(tmp_path / "model.gguf")
    lm = models.load(str(file), 256)[0]
    adapters = Adapters(lm, LORA)
    rng = np.random.default_rng(1)
    learnt = {
        name: mx.array(rng.normal(0.0, 0.2, array.shape).astype(np.float32))
        for name, array in adapters.initial(0).items()
    }
    adapters.publish("red", learnt, version=1)
    with adapters.rows([adapters.slot("red")]):
        actual = logits(lm)
    folder = tmp_path / "adapter"
    folder.mkdir()
    mx.save_safetensors(str(folder / "adapters.safetensors"), learnt)
    (folder / "adapter_config.json").write_text(json.dumps(adapters.config()))
    expected = Oracle(file.with_suffix(""), folder).logits(TOKENS)
    np.testing.assert_allclose(actual, expected, atol=5e-4)
    assert np.abs(expected - Oracle(file.with_suffix("")).logits(TOKENS)).max() > 0.1


def test_the_context_is_the_files_own(tmp_path):
    file = tiny_gguf(tmp_path / "model.gguf", max_position_embeddings=100)
    assert models.load(str(file), 4096)[0].context == 100


def bytes_of(count: int, shape=(64, 64)) -> Tensor:
    return Tensor("Q5_0", shape, bytes(count))


REFUSED = {
    "another architecture": (
        {"metadata": {"general.architecture": "mamba"}}, {}, "architecture 'mamba'; llama, qwen2, qwen3",
    ),
    "another kind": (
        {}, {"blk.0.attn_q.weight": bytes_of(2 * 64 * 22)}, "attn_q.weight is stored as Q5_0; read are F32, F16",
    ),
    "a tensor too many": (
        {}, {"blk.0.ffn_gate_inp.weight": Tensor.of("F32", np.ones((4, 64)))}, "a plain llama hasn't: blk",
    ),
    "a tensor too few": ({}, {"blk.1.ffn_up.weight": None}, "model.layers.1.mlp.up_proj.weight"),
    "no embedding": ({}, {"token_embd.weight": None}, "has no token_embd.weight"),
    "another shape": ({}, {"output_norm.weight": Tensor.of("F32", np.ones(32))}, "model.norm.weight"),
    "parts": ({"metadata": {"split.count": 3}}, {}, "one of 3 parts"),
    "partly rotated heads": ({"metadata": {"llama.rope.dimension_count": 16}}, {}, "only a part of each head"),
    "unknown scaling": (
        {"metadata": {"llama.rope.scaling.type": "longrope", "llama.rope.scaling.factor": 2.0}}, {}, "'longrope'",
    ),
    "no chat template": ({"metadata": {"tokenizer.chat_template": ""}}, {}, "no chat template"),
    "no tokens": ({"metadata": {"tokenizer.ggml.tokens": []}}, {}, "has no tokenizer"),
    "another tokenizer": ({"metadata": {"tokenizer.ggml.model": "rwkv"}}, {}, "of the kind 'rwkv'"),
    "an unknown cut": ({"metadata": {"tokenizer.ggml.pre": "novel"}}, {}, "it cuts text in the way 'novel'"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "tensors", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_isnt_read_is_named(tmp_path, options, tensors, message):
    file = tiny_gguf(tmp_path / "model.gguf", **options)
    if tensors:
        changed(file, tensors)
    with pytest.raises(ModelError, match=message) as caught:
        models.load(str(file), 64)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"PK\3\4" + data, "doesn't begin with GGUF"),
        (lambda data: data[:4] + b"\x01\0\0\0" + data[8:], "version 1"),
        (lambda data: data[:-100], "the download broke off"),
        (lambda data: data[:300], "is damaged"),
        (lambda data: data[:24] + b"\xff" * 8 + data[32:], "is damaged"),
        (lambda data: b"GGUF", "is damaged"),
    ],
    ids=["no GGUF", "too old", "cut off", "cut in the header", "absurd lengths", "nothing in it"],
)
def test_a_damaged_file_is_refused_before_it_is_loaded(tmp_path, damage, message):
    file = tiny_gguf(tmp_path / "model.gguf")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ModelError, match=message):
        models.load(str(file), 64)


def test_a_model_that_cant_fit_is_refused_before_it_is_loaded(tmp_path, monkeypatch):
    file = tiny_gguf(tmp_path / "model.gguf")
    monkeypatch.setattr(models, "machine", lambda: Machine(1000.0, on_cpu=True))
    with pytest.raises(ModelError, match="and this machine has"):
        models.load(str(file), 64)
