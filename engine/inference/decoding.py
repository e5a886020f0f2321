"""The layers of a Llama-shaped model as a function of one token a row, in few launches. CUDA only.

Everything between a layer's four products happens in the kernels of `kernels.py`. Models that aren't shaped so, and
other devices, decode otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from engine.inference import shaped
from engine.inference.kernels import Kernels, Matrices
from engine.inference.shaped import DOWN, GATE, LINEARS, UP, Body, K, O, Q, V, Where


class Stack:
    """A model's layers, from tokens to what the head reads."""

    def __init__(self, model: Any, rank: int, context: int, kernels: type = Kernels) -> None:
        """`model` is mlx-lm's, one for which `misfit` is None; `rank` that of its adapters.

        `kernels` has the interface of `Kernels`.
        """
        self.body = body = Body(model, context)
        self._bare, self._adapted = (
            kernels(
                heads=body.heads,
                kv_heads=body.kv_heads,
                head=body.head,
                inputs=body.inputs,
                scale=body.scale,
                epsilon=body.epsilon,
                paired=body.paired,
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
        kernels, body = self._adapted if stacks else self._bare, self.body
        h, added = body.embed(tokens), None
        for layer, parts in zip(body.layers, where, strict=True):
            found = [Matrices(stacks[part[0]], part[1]) if part and stacks else None for part in parts]
            a, b = found[: len(LINEARS)], found[len(LINEARS) :]
            h, x, z = kernels.norm(h, layer.before_attention, slots, added, (a[Q], a[K], a[V]))
            mixed = kernels.attend(
                layer.qkv(x), z, (b[Q], b[K], b[V]), slots, layer.head_norms, body.tables, cache, layer.index, ends
            )
            added = layer.out(mixed), mixed, a[O], b[O]
            h, x, z = kernels.norm(h, layer.before_mlp, slots, added, (a[GATE], a[UP]))
            gated = kernels.gate(layer.gate_up(x), z, (b[GATE], b[UP]), slots)
            added = layer.down(gated), gated, a[DOWN], b[DOWN]
        return kernels.norm(h, body.last, slots, added, ())[1]


def misfit(model: Any, rank: int) -> str | None:
    """Why a model with adapters of this rank can't be decoded by a `Stack`; None if it can."""
    unlike = shaped.misfit(model)
    if unlike is not None:
        return unlike
    head, sharing = shaped.heads(model)
    if head not in (64, 128):
        return f"its heads have {head} numbers, not 64 or 128"
    if sharing > 8:
        return "more than 8 heads share their keys"
    if rank & (rank - 1) or rank > 64:
        return f"lora.rank is {rank}, not a power of two up to 64"
    return None
