"""The model that a GGUF file describes, in the words of a config.json. No MLX here."""

from __future__ import annotations

from typing import Any

from engine.inference.gguf import GGUFError, Header

ROPE_FACTORS = "rope_freqs.weight"
"""What Llama 3.1 and later divide each frequency of the rotary embedding by, [head_dim / 2]."""


def config(header: Header) -> dict[str, Any]:
    """What the metadata say, in the words of a config.json.

    Raises:
        GGUFError: if something is missing or of a kind that mlx-lm's model hasn't.
    """
    embedding = header.tensors.get("token_embd.weight")
    if embedding is None:
        raise GGUFError(f"{header.path} has no token_embd.weight")
    heads, width = header.need("attention.head_count"), header.need("embedding_length")
    if not isinstance(heads, int):
        raise GGUFError(f"{header.path}: its layers have different numbers of heads, which isn't supported")
    head_dim = header.get("attention.key_length", width // heads)
    if header.get("rope.dimension_count", head_dim) != head_dim:
        raise GGUFError(f"{header.path}: only a part of each head is rotated, which isn't supported")
    return {
        "model_type": header.architecture,
        "hidden_size": width,
        "num_hidden_layers": header.need("block_count"),
        "intermediate_size": header.need("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": header.get("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": header.need("attention.layer_norm_rms_epsilon"),
        "vocab_size": embedding.shape[0],
        "max_position_embeddings": header.need("context_length"),
        "rope_theta": header.get("rope.freq_base", 10_000.0),
        "rope_scaling": _rope_scaling(header),
        "attention_bias": "blk.0.attn_q.bias" in header.tensors,
        "tie_word_embeddings": "output.weight" not in header.tensors,
    }


def _rope_scaling(header: Header) -> dict[str, Any] | None:
    if ROPE_FACTORS in header.tensors:  # mlx-lm's kind with one divisor a frequency, here to be filled in
        return {"rope_type": "llama3", "factor": 1.0}
    kind = header.get("rope.scaling.type", "none")
    factor = header.get("rope.scaling.factor", header.get("rope.scale_linear", 1.0))
    if kind == "none" and header.get("rope.scale_linear"):
        kind = "linear"
    if kind == "none" or factor in (0.0, 1.0):
        return None
    if kind not in ("linear", "yarn"):
        raise GGUFError(
            f"{header.path}: rotary embeddings are scaled by {kind!r}; 'linear' and 'yarn' are supported"
        )
    original = header.get("rope.scaling.original_context_length")
    return {"rope_type": kind, "factor": factor} | (
        {"original_max_position_embeddings": original} if original else {}
    )
