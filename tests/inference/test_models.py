"""Loading: what can't be had is said plainly and soon, and what can has the shape the engine needs."""

from __future__ import annotations

import json
import time

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from huggingface_hub import constants

from engine.inference import models
from engine.inference.facts import Machine
from engine.inference.models import LanguageModel, ModelError
from tests.tiny import tiny_model

TOKENS = [5, 6, 7, 8, 9, 10]


def folder_with(path, model_type: str, **config):
    sizes = {"num_key_value_heads": 1, "head_dim": 16, "tie_word_embeddings": True, **config}
    return tiny_model(path, model_type=model_type, **sizes)


SHAPES = {
    "llama, tied": {"model_type": "llama"},
    "llama, with a head": {"model_type": "llama", "tie_word_embeddings": False},
    "llama, sliding window": {
        "model_type": "llama",
        "layer_types": ["full_attention", "sliding_attention"],
        "sliding_window": 4,
    },
    "qwen2": {"model_type": "qwen2"},
    "qwen3": {"model_type": "qwen3"},
    "mistral, through llama": {"model_type": "mistral"},
    "gemma": {"model_type": "gemma"},
    "gemma3, sliding window": {"model_type": "gemma3_text", "sliding_window": 4, "sliding_window_pattern": 2},
}


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES.keys())
def test_hidden_head_and_batched_cache_give_the_models_own_logits(tmp_path, config):
    lm, _ = models.load(str(folder_with(tmp_path, **config)), 256)
    expected = np.array(lm.model(mx.array([TOKENS])))[0]
    # A padded row beside a longer one, token by token through the cache.
    rows = mx.array([[0, 0, 0, *TOKENS], [11, 12, 13, *TOKENS]])
    cache = lm.make_cache([3, 0])
    columns = [lm.hidden(rows[:, :5], cache), *(lm.hidden(rows[:, i : i + 1], cache) for i in range(5, 9))]
    logits = np.array(lm.head(mx.concatenate(columns, axis=1)))[0, 3:]
    np.testing.assert_allclose(logits, expected, atol=1e-3)


def test_the_embedded_model_loads_and_knows_where_a_turn_ends():
    lm, tokenizer = models.load("pocket", 64)
    assert tokenizer.end_of_turn in lm.eos_tokens
    prompt = tokenizer.prompt([{"role": "user", "content": "hello"}])
    assert max(prompt) < lm.vocab_size
    assert tokenizer.decode(tokenizer.encode("[3]")) == "[3]"


def test_a_model_of_another_shape_is_refused(lm):
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone = nn.Linear(2, 2)

    with pytest.raises(ModelError, match=r"isn't built as model.model and a head"):
        LanguageModel(Strange(), "strange", lm.path, {}, 64)


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "cohere", "logit_scale": 0.06, "layer_norm_eps": 1e-5, "use_qk_norm": False},
        {"model_type": "gemma2", "query_pre_attn_scalar": 16},
    ],
    ids=["scales its logits", "masks batches wrongly"],
)
def test_a_model_whose_logits_would_come_out_wrong_is_refused(tmp_path, config):
    with pytest.raises(ModelError, match="other logits than the row alone"):
        models.load(str(folder_with(tmp_path, **config)), 64)


def test_a_model_with_another_kind_of_memory_is_refused(tmp_path):
    mamba = {"intermediate_size": 64, "state_size": 4, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True}
    folder = tiny_model(tmp_path, model_type="mamba", time_step_rank=2, **mamba)
    with pytest.raises(ModelError):
        models.load(str(folder), 64)


def test_on_a_cpu_half_precision_weights_become_float32(tmp_path):
    folder = tiny_model(tmp_path)
    weights = mx.load(str(folder / "model.safetensors"))
    mx.save_safetensors(
        str(folder / "model.safetensors"), {name: array.astype(mx.float16) for name, array in weights.items()}
    )
    lm, _ = models.load(str(folder), 64)
    if mx.default_device() == mx.Device(mx.cpu):
        assert {array.dtype for array in lm.model.layers[0].mlp.up_proj.values()} == {mx.float32}
    assert not lm.model.trainable_parameters().get("lm_head")


def test_the_context_is_the_smaller_of_the_asked_and_the_models_own(tmp_path):
    folder = tiny_model(tmp_path, max_position_embeddings=100)
    assert models.load(str(folder), 64)[0].context == 64
    assert models.load(str(folder), 4096)[0].context == 100


def test_every_end_of_turn_token_that_any_file_names_is_known(tmp_path):
    folder = tiny_model(tmp_path, eos_token_id=0)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 7]}))
    lm, tokenizer = models.load(str(folder), 64)
    assert lm.eos_tokens == tokenizer.eos_tokens == {0, 2, 7}
    assert tokenizer.end_of_turn == 2


BROKEN = {
    "no folder": (lambda path: path / "nowhere", "there is no folder"),
    "no config": (lambda path: path, "no config.json"),
    "no weights": (lambda path: drop(tiny_model(path), "model.safetensors"), r"no model\*.safetensors"),
    "gguf": (lambda path: path / "model.gguf", "there is no file"),
    "unknown type": (lambda path: changed(tiny_model(path), model_type="nonesuch"), "nonesuch not supported"),
    "other sizes": (lambda path: changed(tiny_model(path), hidden_size=64), "can't be loaded"),
    "no tokenizer": (lambda path: drop(tiny_model(path), "tokenizer.json"), "can't be loaded"),
    "too big": (lambda path: changed(tiny_model(path)), "and this machine has"),
}


def drop(folder, name):
    (folder / name).unlink()
    return folder


def changed(folder, **config):
    written = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**written, **config}))
    return folder


@pytest.mark.parametrize(("make", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_source_that_cant_be_loaded_is_said_plainly(tmp_path, monkeypatch, make, message):
    source = make(tmp_path)
    if message == "and this machine has":
        monkeypatch.setattr(models, "machine", lambda: Machine(1000.0, on_cpu=True))
    with pytest.raises(ModelError, match=message) as caught:
        models.load(str(source), 64)
    assert str(source) in str(caught.value)


def test_a_hub_id_that_isnt_cached_fails_at_once_when_offline(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    start = time.monotonic()
    with pytest.raises(ModelError, match="isn't complete in the local cache and HF_HUB_OFFLINE is set"):
        models.load("nobody/nothing", 64)
    assert time.monotonic() - start < 2


def test_a_hub_that_doesnt_answer_is_named_as_the_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def unreachable(self, repo, **options):
        assert options["timeout"] <= 10
        raise ConnectionError("no route to host")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    with pytest.raises(ModelError, match=r"the hub can't be reached \(no route to host\).*use 'pocket'"):
        models.load("nobody/nothing", 64)


def test_what_is_no_hub_id_is_looked_for_as_a_folder():
    with pytest.raises(ModelError, match="there is no folder"):
        models.load("pokcet", 64)
