"""A tiny model as a GGUF file, and as a folder in MLX format with the numbers that the file stands for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests import gguf_file
from tests.gguf_file import Tensor
from tests.tiny import CHAT_TEMPLATE, END, ROLES, SPECIALS, tiny_model

KEYS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "rope.freq_base": "rope_theta",
}
NAMES = (
    ("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output"),
    ("model.layers.", "blk."), ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"), ("self_attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
)  # fmt: skip


def tiny_gguf(path: Path, kind: str = "Q8_0", outer: str = "", metadata: dict | None = None, **config: Any) -> Path:
    """Write a random model and return its file; the folder in MLX format is `path` without `.gguf`.

    Matrices are stored as `kind`, embedding and head as `outer` if given, all else in float32. Further keywords
    go into the model's configuration.
    """
    from mlx.core import array, load, save_safetensors

    sizes = {"dim": 64, "num_key_value_heads": 1, "head_dim": 32, **config}
    folder = tiny_model(path.with_suffix(""), **sizes)
    weights = {name: np.array(values) for name, values in dict(load(str(folder / "model.safetensors"))).items()}
    written = json.loads((folder / "config.json").read_text())
    rng = np.random.default_rng(7)
    tensors = {}
    for name, values in weights.items():
        if values.ndim == 1:
            values = values + rng.normal(0.0, 0.2, values.shape).astype(np.float32)
            tensor = Tensor.of("F32", values)
        else:
            outside = "embed_tokens" in name or "lm_head" in name
            tensor = Tensor.of(outer if outer and outside else kind, values)
        weights[name] = tensor.values()
        tensors[gguf_name(name)] = paired(tensor, name, written)
    save_safetensors(str(folder / "model.safetensors"), {name: array(values) for name, values in weights.items()})
    return gguf_file.write(
        path, {**described(written), **tokens(written["vocab_size"]), **(metadata or {})}, tensors
    )


def gguf_name(name: str) -> str:
    for ours, theirs in NAMES:
        name = name.replace(ours, theirs)
    return name


def paired(tensor: Tensor, name: str, config: dict) -> Tensor:
    """A Llama's queries and keys as GGUF has them: rows that turn together, i and i + half, side by side."""
    projection = name.split(".")[-2]
    if config["model_type"] != "llama" or projection not in ("q_proj", "k_proj"):
        return tensor
    heads = config["num_attention_heads" if projection == "q_proj" else "num_key_value_heads"]
    size = tensor.shape[0] // heads
    order = [head * size + i + half for head in range(heads) for i in range(size // 2) for half in (0, size // 2)]
    rows = np.frombuffer(tensor.data, np.uint8).reshape(tensor.shape[0], -1)
    return tensor._replace(data=rows[order].tobytes())


def described(config: dict) -> dict[str, Any]:
    architecture = config["model_type"]
    values = {f"{architecture}.{key}": config[name] for key, name in KEYS.items() if name in config}
    return {"general.architecture": architecture, "general.name": "tiny", **values}


def tokens(vocab: int) -> dict[str, Any]:
    """The tokenizer of `tests.tiny`, every byte a token."""
    from tokenizers import pre_tokenizers

    texts = [*SPECIALS, *sorted(pre_tokenizers.ByteLevel.alphabet()), *ROLES]
    spare = [f"<unused{i}>" for i in range(vocab - len(texts))]
    types = [3] * len(SPECIALS) + [1] * 256 + [4] * len(ROLES) + [5] * len(spare)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*texts, *spare],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.eos_token_id": END,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }
