"""Adapters in the form of Hugging Face's `peft`, to and from mlx-lm's: what numbers and configurations mean.

There a layer's matrices are the transposes of ours, `base_model.model.<layer>.lora_A.weight` [r, in] and
`….lora_B.weight` [out, r], and DoRA's m is `….lora_magnitude_vector` [out]. What x A B is multiplied by is
lora_alpha / r, with `use_rslora` lora_alpha / √r. Layers are named as in transformers, whose names mlx-lm keeps for
Llama, Mistral, Qwen and most others.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import mlx.core as mx

from engine.inference.linears import Parameters

PREFIX = "base_model.model."
LEAVES = {"lora_a": "lora_A.weight", "lora_b": "lora_B.weight", "m": "lora_magnitude_vector"}
"""What mlx-lm calls a layer's parameter → what peft does."""

USED = {
    "peft_type", "r", "lora_alpha", "use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "bias",
    "init_lora_weights",
}  # fmt: skip
WITHOUT_EFFECT = {
    "auto_mapping", "base_model_name_or_path", "ensure_weight_tying", "eva_config", "exclude_modules",
    "inference_mode", "layers_pattern", "layers_to_transform", "lora_dropout", "megatron_core", "peft_version",
    "qalora_group_size", "revision", "runtime_config", "target_modules", "task_type",
}  # fmt: skip
"""Settings that change nothing of what a saved adapter does: they chose its layers, began it or trained it."""
HARMLESS_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")
"""Ways of beginning an adapter that leave the model's own weights alone."""


def imported(arrays: Mapping[str, mx.array], config: Mapping[str, Any]) -> tuple[Parameters, dict[str, Any]]:
    """peft's arrays and configuration → mlx-lm's, in float32.

    Where layers have different alphas (`alpha_pattern`) the difference goes into lora_b.

    Raises:
        ValueError: it is no LoRA, or one that can't be had here: what of it.
    """
    _check(config)
    parameters: Parameters = {}
    layers: set[str] = set()
    for key, array in arrays.items():
        layer, leaf = _place(key)
        layers.add(layer)
        array = array.astype(mx.float32)
        parameters[f"{layer}.{leaf}"] = array if leaf == "m" else mx.contiguous(array.T)
    if not layers:
        raise ValueError("it holds no matrix of a LoRA")
    rank, alpha = _rank(config, layers), config["lora_alpha"]
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    for layer in layers:
        own = _of_layer(config, "alpha_pattern", layer, alpha)
        if own != alpha:
            parameters[f"{layer}.lora_b"] = parameters[f"{layer}.lora_b"] * (own / alpha)
    keys = sorted({_in_block(layer) for layer in layers})
    found = {
        "fine_tune_type": "dora" if config.get("use_dora") else "lora",
        "num_layers": len(blocks(layers)),
        "lora_parameters": {"rank": rank, "scale": scale, "dropout": 0.0, "keys": keys},
    }
    return parameters, found


def exported(parameters: Parameters, config: Mapping[str, Any], base: str) -> tuple[Parameters, dict[str, Any]]:
    """mlx-lm's arrays and configuration → peft's. `base` names the model, for `base_model_name_or_path`.

    Raises:
        ValueError: it is something that peft has no LoRA for.
    """
    kind = config.get("fine_tune_type", "lora")
    if kind not in ("lora", "dora"):
        raise ValueError(f"fine_tune_type {kind!r} has no form in peft: only LoRA and DoRA have")
    arrays: Parameters = {}
    layers: set[str] = set()
    for name, array in parameters.items():
        layer, _, leaf = name.rpartition(".")
        if leaf not in LEAVES or array.ndim > 2:
            raise ValueError(f"{name}, of shape {array.shape}, has no form in peft: it is no plain LoRA of a layer")
        layers.add(layer)
        arrays[f"{PREFIX}{layer}.{LEAVES[leaf]}"] = array if leaf == "m" else mx.contiguous(array.T)
    rank, scale = config["lora_parameters"]["rank"], config["lora_parameters"]["scale"]
    alpha = scale * rank
    numbers = blocks(layers)
    found = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": int(alpha) if float(alpha).is_integer() else alpha,
        "lora_dropout": 0.0,
        "target_modules": sorted({_in_block(layer) for layer in layers}),
        "layers_to_transform": numbers if min(numbers, default=0) > 0 else None,  # mlx-lm adapts the last so many
        "use_rslora": False,
        "use_dora": kind == "dora",
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    return arrays, found


def _check(config: Mapping[str, Any]) -> None:
    if config.get("peft_type") != "LORA":
        raise ValueError(f"peft_type is {config.get('peft_type')!r}; only 'LORA' can be had here")
    for key in ("r", "lora_alpha"):
        if not isinstance(config.get(key), (int, float)) or config[key] <= 0:
            raise ValueError(f"{key} is {config.get(key)!r}; it has to be a number above 0")
    if config.get("bias", "none") != "none":
        raise ValueError(f"bias is {config['bias']!r}: biases aren't learnt here")
    start = config.get("init_lora_weights", True)
    if start not in HARMLESS_STARTS:
        raise ValueError(
            f"init_lora_weights is {start!r}, which changes the model's own weights too: convert it to a plain "
            "LoRA first (peft: path_initial_model_for_weight_conversion)"
        )
    for key in sorted(config.keys() - USED - WITHOUT_EFFECT):
        if config[key]:
            raise ValueError(f"{key} is {config[key]!r}, which can't be had here")


def _place(key: str) -> tuple[str, str]:
    """The layer and mlx-lm's name of one of peft's arrays."""
    for leaf, theirs in LEAVES.items():
        if key.startswith(PREFIX) and key.endswith(f".{theirs}"):
            return key.removeprefix(PREFIX).removesuffix(f".{theirs}"), leaf
    raise ValueError(f"{key} is no matrix of a linear layer's LoRA, and can't be had here")


def _rank(config: Mapping[str, Any], layers: set[str]) -> int:
    """The one rank of all layers."""
    ranks = {layer: int(_of_layer(config, "rank_pattern", layer, config["r"])) for layer in sorted(layers)}
    rank, _ = Counter(ranks.values()).most_common(1)[0]
    for layer, own in ranks.items():
        if own != rank:
            raise ValueError(f"rank_pattern: {layer} has rank {own}, others {rank}; all have to be of one rank")
    return rank


def _of_layer(config: Mapping[str, Any], pattern: str, layer: str, otherwise: float) -> float:
    """A setting of one layer; the first regular expression that its name ends with decides, as in peft."""
    for key, value in (config.get(pattern) or {}).items():
        if re.match(rf"(.*\.)?({key})$", layer):
            return value
    return otherwise


def blocks(layers: set[str]) -> list[int]:
    """The numbers of the blocks that layers are in."""
    return sorted({int(found[1]) for layer in layers if (found := re.search(r"\.(\d+)\.", layer))})


def _in_block(layer: str) -> str:
    """`"model.layers.3.self_attn.q_proj"` → `"self_attn.q_proj"`."""
    return re.split(r"\.\d+\.", layer, maxsplit=1)[-1]
