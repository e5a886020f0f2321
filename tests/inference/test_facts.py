"""What is told of a model without loading it is what comes out when it is loaded."""

from __future__ import annotations

import json
import struct

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model, save_model

from engine.config import LoRAConfig
from engine.inference import facts, gguf, gguf_model, models
from engine.inference.adapters import Adapters
from tests.inference.test_experts import KINDS as EXPERTS
from tests.tiny import tiny_model
from tests.tiny_gguf import tiny_gguf

SIZES = {"dim": 64, "heads": 2, "num_key_value_heads": 1, "head_dim": 32}


def numbers(model: nn.Module) -> int:
    return sum(array.size for _, array in tree_flatten(model.parameters()))


def loaded_bytes(model: nn.Module) -> int:
    return sum(array.nbytes for _, array in tree_flatten(model.parameters()))


def quantised(folder, bits: int):
    """The same folder with its layers quantised, as `mlx_lm.convert` writes it."""
    model, config = load_model(folder)
    nn.quantize(model, group_size=32, bits=bits)
    save_model(folder, model)
    settings = {"quantization": {"group_size": 32, "bits": bits}}
    (folder / "config.json").write_text(json.dumps({**config, **settings}))
    return folder


def test_a_folders_parameters_and_bytes_are_those_of_the_loaded_model(tmp_path):
    folder = tiny_model(tmp_path, **SIZES)
    told = facts.read(folder)
    model = models.load(str(folder), 64)[0].model
    assert told.parameters == numbers(model)
    assert told.weights(on_cpu=True) == told.weights(on_cpu=False) == loaded_bytes(model)
    assert told.quantisation == "float32"
    assert told.disk == (folder / "model.safetensors").stat().st_size


def test_half_precision_takes_twice_its_bytes_on_a_cpu(tmp_path):
    folder = tiny_model(tmp_path, **SIZES)
    file = str(folder / "model.safetensors")
    mx.save_safetensors(file, {name: array.astype(mx.bfloat16) for name, array in mx.load(file).items()})
    told = facts.read(folder)
    assert told.quantisation == "bfloat16"
    assert told.weights(on_cpu=True) == 2 * told.weights(on_cpu=False) == 4 * told.parameters


@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantised_folder_has_as_many_parameters_as_before(tmp_path, bits):
    folder = tiny_model(tmp_path, **SIZES)
    before = facts.read(folder).parameters
    told = facts.read(quantised(folder, bits))
    assert (told.parameters, told.quantisation) == (before, f"{bits} bit")
    assert told.weights(on_cpu=True) == loaded_bytes(models.load(str(folder), 64)[0].model)


@pytest.mark.parametrize("kind", ["F16", "Q4_0", "Q4_1", "Q8_0"])
def test_a_gguf_files_parameters_and_bytes_are_those_of_the_loaded_model(tmp_path, kind):
    file = tiny_gguf(tmp_path / "model.gguf", kind=kind)
    told = facts.read(file)
    model = models.load(str(file), 64)[0].model
    assert told.parameters == numbers(model)
    assert told.weights(on_cpu=True) == 4 * told.parameters
    assert told.weights(on_cpu=False) == loaded_bytes(gguf_model.load(gguf.read(file), dense=False)[0])
    assert told.quantisation == kind


def test_keys_and_values_take_what_a_cache_of_so_many_tokens_takes(tmp_path):
    folder = tiny_model(tmp_path, **SIZES)
    lm = models.load(str(folder), 512)[0]
    cache = make_prompt_cache(lm.model)
    lm.hidden(mx.zeros((1, 256), mx.int32), cache)
    taken = sum(array.nbytes for layer in cache for array in layer.state[:2])
    assert facts.read(folder).kv(256, on_cpu=True) == taken
    assert facts.read(folder).kv(256, on_cpu=False) == taken / 2


@pytest.mark.parametrize(
    "lora",
    [
        LoRAConfig(rank=4),
        LoRAConfig(rank=4, kind="dora"),
        LoRAConfig(kind="full"),
        LoRAConfig(rank=4, layers=["q_proj", "mlp.up_proj"]),
        LoRAConfig(rank=4, last_layers=1),
    ],
)
def test_an_adapter_is_counted_as_it_is_made(lora, tmp_path):
    folder = tiny_model(tmp_path, **SIZES)
    adapter = Adapters(models.load(str(folder), 64)[0], lora).initial(0)
    assert facts.read(folder).learnt(lora) == sum(array.size for array in adapter.values())


def test_the_adapters_of_experts_are_counted_too(tmp_path):
    folder = tiny_model(tmp_path, model_type="mixtral", **EXPERTS["mixtral"])
    lora = LoRAConfig(rank=4)
    adapter = Adapters(models.load(str(folder), 64)[0], lora).initial(0)
    assert facts.read(folder).learnt(lora) == sum(array.size for array in adapter.values())


def test_what_a_chat_needs_is_told(tmp_path):
    folder = tiny_model(tmp_path / "folder", eos_token_id=0, max_position_embeddings=100)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 7]}))
    told = facts.read(folder)
    assert told.eos_tokens == {0: "<|endoftext|>", 2: "<|im_end|>", 7: ""}
    assert (told.context, told.chat_template, told.architecture) == (100, True, "llama")
    told = facts.read(tiny_gguf(tmp_path / "model.gguf", max_position_embeddings=100))
    assert told.eos_tokens == {2: "<|im_end|>"}
    assert (told.context, told.chat_template, told.architecture) == (100, True, "llama")


def test_a_folder_without_a_chat_template_is_known(tmp_path):
    folder = tiny_model(tmp_path)
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    assert not facts.read(folder).chat_template


@pytest.mark.parametrize("damage", [b"", b"\xff" * 20, struct.pack("<Q", 4) + b"nope"])
def test_a_damaged_weight_file_is_named(tmp_path, damage):
    folder = tiny_model(tmp_path)
    (folder / "model.safetensors").write_bytes(damage)
    with pytest.raises(ValueError, match=r"model.safetensors isn't a safetensors file"):
        facts.read(folder)
