"""Models that are norm, attention, norm, gated SiLU and nothing else, taken apart for decode steps of our own.

Queries, keys and values are one product of their input, and so are gate and up. mlx-lm's modules go on working,
with views of the same weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.inference.linears import dimensions

SHAPED = ("mlx_lm.models.llama", "mlx_lm.models.qwen2", "mlx_lm.models.qwen3")
"""Modules of mlx-lm whose models are so."""

LINEARS = (
    *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
)
Q, K, V, O, GATE, UP, DOWN = range(len(LINEARS))  # noqa: E741

Where = Sequence[tuple[int, int] | None]
"""Where the A of each of a layer's `LINEARS` are, then the B: number of the stack, and parameter in it."""


class Product:
    """Linear layers of one input as one. Their weights become views of one array: nothing is held twice."""

    def __init__(self, linears: Sequence[Any]) -> None:
        first = linears[0]
        self._quantised = first if isinstance(first, nn.QuantizedLinear) else None
        self.outputs = [dimensions(linear)[0] for linear in linears]
        """Of each of them."""
        self._arrays: dict[str, mx.array] = {}
        for name in ("weight", "scales", "biases", "bias"):
            if name not in first:
                continue
            whole = self._arrays[name] = mx.concatenate([linear[name] for linear in linears])
            mx.eval(whole)
            start = 0
            for linear in linears:
                stop = start + linear[name].shape[0]
                linear[name] = whole[start:stop]
                start = stop
            mx.eval([linear[name] for linear in linears])

    def __call__(self, x: mx.array) -> mx.array:
        """[B, in] → [B, the sum of out]."""
        arrays, bias = self._arrays, self._arrays.get("bias")
        if self._quantised is None:
            weight = arrays["weight"].T
            return x @ weight if bias is None else mx.addmm(bias, x, weight)
        y = mx.quantized_matmul(
            x,
            arrays["weight"],
            arrays["scales"],
            arrays.get("biases"),
            transpose=True,
            group_size=self._quantised.group_size,
            bits=self._quantised.bits,
            mode=self._quantised.mode,
        )
        return y if bias is None else y + bias


@dataclass(slots=True)
class Layer:
    """What one layer computes with."""

    index: mx.array
    before_attention: mx.array
    before_mlp: mx.array
    qkv: Product
    out: Product
    gate_up: Product
    down: Product
    head_norms: tuple[mx.array, mx.array] | None


class Body:
    """A model taken apart, for which `misfit` is None."""

    def __init__(self, model: Any, context: int) -> None:
        """`model` is mlx-lm's; `context`: how many positions a row may have."""
        body = model.model
        attention = body.layers[0].self_attn
        self.heads, self.kv_heads = attention.n_heads, attention.n_kv_heads
        self.head = _head(attention)
        """How many numbers a head has."""
        self.scale, self.epsilon = float(attention.scale), float(body.norm.eps)
        self.dtype = body.layers[0].input_layernorm.weight.dtype
        self.inputs = max(dimensions(linear)[1] for linear in _linears(body.layers[0]))
        """Of the widest of a layer's linears."""
        self.layers = [_layer(index, layer) for index, layer in enumerate(body.layers)]
        self.embed, self.last = body.embed_tokens, body.norm.weight
        self.paired = _paired(attention.rope)
        """Whether positions turn neighbours (2i, 2i + 1), and not (i, i + D/2)."""
        self.tables = rotary_tables(attention.rope, self.head, context)

    def where(self, places: Mapping[str, tuple[int, int]]) -> list[Where]:
        """Of each layer, by `Adapters.places`."""
        return [
            [places.get(f"model.layers.{index}.{linear}.lora_{side}") for side in "ab" for linear in LINEARS]
            for index in range(len(self.layers))
        ]


def misfit(model: Any) -> str | None:
    """Why a model isn't of this shape; None if it is."""
    if type(model).__module__ not in SHAPED:
        return f"{type(model).__module__} isn't one of {', '.join(SHAPED)}"
    if any(getattr(layer, "use_sliding", False) for layer in model.model.layers):
        return "some of its layers attend to a window"
    for layer in model.model.layers:
        linears = _linears(layer)
        if any(len({_stored(linear) for linear in joined}) > 1 for joined in (linears[Q:O], linears[GATE:DOWN])):
            return "layers that would be one product are stored in different ways"
    return None


def heads(model: Any) -> tuple[int, int]:
    """How many numbers a head has, and how many heads share their keys."""
    attention = model.model.layers[0].self_attn
    return _head(attention), attention.n_heads // attention.n_kv_heads


def rotary_tables(rope: Any, head: int, positions: int) -> tuple[mx.array, mx.array]:
    """Cosines and sines [positions, head / 2] of a rotary embedding, whatever its scaling: read off a probe."""
    places = mx.arange(head)
    ones = places % 2 == 0 if _paired(rope) else places < head // 2
    probe = mx.contiguous(mx.broadcast_to(ones.astype(mx.float32), (1, 1, positions, head)))
    turned = rope(probe)[0, 0]
    halves = (
        (turned[:, 0::2], turned[:, 1::2]) if _paired(rope) else (turned[:, : head // 2], turned[:, head // 2 :])
    )
    cosines, sines = (mx.contiguous(half) for half in halves)
    mx.eval(cosines, sines)
    return cosines, sines


def _layer(index: int, layer: Any) -> Layer:
    attention, linears = layer.self_attn, _linears(layer)
    norms = (attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None
    return Layer(
        index=mx.array([index], dtype=mx.int32),
        before_attention=layer.input_layernorm.weight,
        before_mlp=layer.post_attention_layernorm.weight,
        qkv=Product(linears[Q:O]),
        out=Product(linears[O:GATE]),
        gate_up=Product(linears[GATE:DOWN]),
        down=Product(linears[DOWN:]),
        head_norms=norms,
    )


def _linears(layer: Any) -> list[Any]:
    """The `LINEARS` of a layer, without the adapters around them."""
    parts = (path.split(".") for path in LINEARS)
    return [_bare(getattr(getattr(layer, part), name)) for part, name in parts]


def _head(attention: Any) -> int:
    return _bare(attention.k_proj).weight.shape[0] // attention.n_kv_heads


def _stored(linear: Any) -> tuple[Any, ...]:
    """What has to be the same in layers that become one product."""
    quantised = isinstance(linear, nn.QuantizedLinear)
    packed = (linear.bits, linear.group_size, linear.mode) if quantised else ()
    return type(linear), linear.weight.dtype, "bias" in linear, packed


def _paired(rope: Any) -> bool:
    return bool(getattr(rope, "traditional", False))


def _bare(linear: Any) -> Any:
    """The layer under an adapter."""
    return getattr(linear, "linear", linear)
