"""The layers of a Llama-shaped model as a function of one token a row, in few launches. CUDA only.

Everything between a layer's four products happens in the kernels of `kernels.py`; queries, keys and values are
one product, and so are gate and up. Models that aren't shaped so, and other devices, decode with mlx-lm's modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.inference.kernels import Kernels, Matrices
from engine.inference.linears import dimensions

SHAPED = ("mlx_lm.models.llama", "mlx_lm.models.qwen2", "mlx_lm.models.qwen3")
"""Modules of mlx-lm whose models are norm, attention, norm, gated SiLU, and nothing else."""

LINEARS = (
    *("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    *("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
)
Q, K, V, O, GATE, UP, DOWN = range(len(LINEARS))  # noqa: E741

Where = Sequence[tuple[int, int] | None]
"""Where the A of each of a layer's `LINEARS` are, then the B: number of the stack, and parameter in it."""


class Joined:
    """Linear layers of one input as one product. Their weights become views of one array: nothing is held twice."""

    def __init__(self, linears: Sequence[Any]) -> None:
        first = linears[0]
        self._quantised = first if isinstance(first, nn.QuantizedLinear) else None
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
    qkv: Joined
    out: Joined
    gate_up: Joined
    down: Joined
    head_norms: tuple[mx.array, mx.array] | None


class Stack:
    """A model's layers, from tokens to what the head reads."""

    def __init__(self, model: Any, rank: int, context: int, kernels: type = Kernels) -> None:
        """`model` is mlx-lm's, one for which `misfit` is None; `rank` that of its adapters.

        `kernels` has the interface of `Kernels`.
        """
        body = model.model
        attention = body.layers[0].self_attn
        self.heads, self.kv_heads = attention.n_heads, attention.n_kv_heads
        self.head = _bare(attention.k_proj).weight.shape[0] // self.kv_heads
        self.dtype = body.layers[0].input_layernorm.weight.dtype
        self.layers = [_layer(index, layer) for index, layer in enumerate(body.layers)]
        self._embed, self._last = body.embed_tokens, body.norm.weight
        self._tables = rotary_tables(attention.rope, self.head, context)
        self._bare, self._adapted = (
            kernels(
                heads=self.heads,
                kv_heads=self.kv_heads,
                head=self.head,
                inputs=max(dimensions(_bare(linear))[1] for linear in _linears(body.layers[0])),
                scale=float(attention.scale),
                epsilon=float(body.norm.eps),
                paired=_paired(attention.rope),
                rank=own,
            )
            for own in (0, rank)
        )

    def hidden(
        self,
        tokens: mx.array,
        slots: mx.array,
        ends: mx.array,
        cache: mx.array,
        stacks: Sequence[mx.array],
        where: Sequence[Where],
    ) -> mx.array:
        """What the head reads [B, d], for tokens [B] at the positions `ends` [B]; their keys and values are kept.

        `cache` [layers, 2, B, columns, kv heads, D] is changed in place. `stacks` hold the adapters of all slots,
        as `Matrices` has them, and `where` says for each layer what is whose; no stacks: the base model speaks.
        """
        kernels = self._adapted if stacks else self._bare
        h, added = self._embed(tokens), None
        for layer, parts in zip(self.layers, where, strict=True):
            found = [Matrices(stacks[part[0]], part[1]) if part and stacks else None for part in parts]
            a, b = found[: len(LINEARS)], found[len(LINEARS) :]
            h, x, z = kernels.norm(h, layer.before_attention, slots, added, (a[Q], a[K], a[V]))
            mixed = kernels.attend(
                layer.qkv(x), z, (b[Q], b[K], b[V]), slots, layer.head_norms, self._tables, cache, layer.index, ends
            )
            added = layer.out(mixed), mixed, a[O], b[O]
            h, x, z = kernels.norm(h, layer.before_mlp, slots, added, (a[GATE], a[UP]))
            gated = kernels.gate(layer.gate_up(x), z, (b[GATE], b[UP]), slots)
            added = layer.down(gated), gated, a[DOWN], b[DOWN]
        return kernels.norm(h, self._last, slots, added, ())[1]


def misfit(model: Any, rank: int) -> str | None:
    """Why a model with adapters of this rank can't be decoded by a `Stack`; None if it can."""
    if type(model).__module__ not in SHAPED:
        return f"{type(model).__module__} isn't one of {', '.join(SHAPED)}"
    if any(getattr(layer, "use_sliding", False) for layer in model.model.layers):
        return "some of its layers attend to a window"
    attention = model.model.layers[0].self_attn
    head = _bare(attention.k_proj).weight.shape[0] // attention.n_kv_heads
    if head not in (64, 128):
        return f"its heads have {head} numbers, not 64 or 128"
    if attention.n_heads // attention.n_kv_heads > 8:
        return "more than 8 heads share their keys"
    if rank & (rank - 1) or rank > 64:
        return f"lora.rank is {rank}, not a power of two up to 64"
    for layer in model.model.layers:
        linears = [_bare(linear) for linear in _linears(layer)]
        if any(len({_stored(linear) for linear in joined}) > 1 for joined in (linears[Q:O], linears[GATE:DOWN])):
            return "layers that would be one product are stored in different ways"
    return None


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
    attention, linears = layer.self_attn, [_bare(linear) for linear in _linears(layer)]
    norms = (attention.q_norm.weight, attention.k_norm.weight) if hasattr(attention, "q_norm") else None
    return Layer(
        index=mx.array([index], dtype=mx.int32),
        before_attention=layer.input_layernorm.weight,
        before_mlp=layer.post_attention_layernorm.weight,
        qkv=Joined(linears[Q:O]),
        out=Joined(linears[O:GATE]),
        gate_up=Joined(linears[GATE:DOWN]),
        down=Joined(linears[DOWN:]),
        head_norms=norms,
    )


def _linears(layer: Any) -> list[Any]:
    """The `LINEARS` of a layer, their adapters around them."""
    return [getattr(getattr(layer, part), name) for part, name in (path.split(".") for path in LINEARS)]


def _stored(linear: Any) -> tuple[Any, ...]:
    """What has to be the same in layers that become one product."""
    quantised = isinstance(linear, nn.QuantizedLinear)
    packed = (linear.bits, linear.group_size, linear.mode) if quantised else ()
    return type(linear), linear.weight.dtype, "bias" in linear, packed


def _paired(rope: Any) -> bool:
    """Whether positions turn neighbours (2i, 2i + 1), and not (i, i + D/2)."""
    return bool(getattr(rope, "traditional", False))


def _bare(linear: Any) -> Any:
    """The layer under an adapter."""
    return getattr(linear, "linear", linear)
