"""A GGUF file's numbers as an mlx-lm model. Device thread only."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.inference.gguf import GGUFError, Header
from engine.inference.gguf_config import ROPE_FACTORS, config

GROUP = 32
"""Numbers that share a scale in Q4_0, Q4_1 and Q8_0."""

OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
IN_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""GGUF's names of what has weights to mlx-lm's."""

Weights = dict[str, mx.array]


def load(header: Header, dense: bool) -> tuple[Any, dict[str, Any]]:
    """The mlx-lm model and its configuration, as a config.json would have it.

    With `dense` every weight becomes float32, exactly what the file stands for. Else layers stay quantised as
    they are in the file, and all other numbers become bfloat16: half precision has not the range for the
    activations of models trained in bfloat16.

    Raises:
        GGUFError: if the file holds another model, or its tensors aren't those of the model it describes.
    """
    from mlx_lm.utils import _get_classes

    header.check()
    tensors: Weights = mx.load(str(header.path))  # type: ignore[assignment]
    factors = tensors.pop(ROPE_FACTORS, None)
    described = config(header)
    model_class, arguments_class = _get_classes(described)
    model = model_class(arguments_class.from_dict(described))
    weights = _renamed(header, tensors)
    if header.architecture == "llama":
        _order_halves(weights, described)
    if dense:
        weights = _dequantised(weights)
    else:
        weights = {name: _bfloat16(array) for name, array in weights.items()}
        nn.quantize(model, class_predicate=lambda path, _: _quantisation(weights, path) or False)
    try:
        model.load_weights(list(weights.items()), strict=True)
    except ValueError as error:
        raise GGUFError(f"{header.path} doesn't hold the model it describes: {error}") from error
    if factors is not None:
        for layer in model.layers:
            layer.self_attn.rope._freqs = layer.self_attn.rope._freqs * factors.astype(mx.float32)
    return model, described


def _renamed(header: Header, tensors: Weights) -> Weights:
    """Under mlx-lm's names. A quantised tensor is three arrays: weight, scales and biases."""
    renamed, unknown = {}, []
    for name, array in tensors.items():
        owner, _, part = name.rpartition(".")
        outer, *inner = owner.split(".", 2)
        if outer == "blk" and len(inner) == 2 and inner[1] in IN_A_LAYER:
            renamed[f"model.layers.{inner[0]}.{IN_A_LAYER[inner[1]]}.{part}"] = array
        elif owner in OUTSIDE:
            renamed[f"{OUTSIDE[owner]}.{part}"] = array
        else:
            unknown.append(name)
    if unknown:
        shown = ", ".join(sorted(unknown)[:3])
        raise GGUFError(
            f"{header.path} holds {len(unknown)} tensors that a plain {header.architecture} hasn't: {shown}"
        )
    return renamed


def _order_halves(weights: Weights, described: dict[str, Any]) -> None:
    """Put the rows of the query and key projections back into the order of the model's own weights, in place.

    A rotary embedding turns pairs of numbers. The model's authors pair i with i + head_dim / 2, GGUF's Llamas
    2i with 2i + 1, and their rows are ordered accordingly. (`rope_traditional` would turn the same pairs, but an
    adapter trained that way would fit no other copy of the model.)
    """
    heads = {"q_proj": described["num_attention_heads"], "k_proj": described["num_key_value_heads"]}
    for name, array in weights.items():
        count = heads.get(name.split(".")[-2])
        if count:
            pairs = array.reshape(count, -1, 2, *array.shape[1:])
            weights[name] = pairs.swapaxes(1, 2).reshape(array.shape)


def _dequantised(weights: Weights) -> Weights:
    dense = {}
    for name, array in weights.items():
        path, _, part = name.rpartition(".")
        quantised = _quantisation(weights, path)
        if not quantised:
            dense[name] = array.astype(mx.float32)
        elif part == "weight":
            scales, biases = (weights[f"{path}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
            dense[name] = mx.dequantize(array, scales, biases, **quantised)
        elif part == "bias":
            dense[name] = array.astype(mx.float32)
    return dense


def _quantisation(weights: Weights, path: str) -> dict[str, Any] | None:
    """How a layer is quantised, as `nn.quantize` wants to know it; None if it isn't."""
    scales = weights.get(f"{path}.scales")
    if scales is None:
        return None
    return {"group_size": GROUP, "bits": weights[f"{path}.weight"].shape[-1] * 32 // (scales.shape[-1] * GROUP)}


def _bfloat16(array: mx.array) -> mx.array:
    return array.astype(mx.bfloat16) if mx.issubdtype(array.dtype, mx.floating) else array
