"""Rotary embeddings of very small heads on CUDA.

MLX 0.32 launches its kernel with a block of head / 2 × positions × heads, and CUDA allows 64 in the last of these.
One position of heads of 16 numbers or fewer asks for 128 once there are rows enough: "invalid argument".
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

SMALL = 16
"""The most numbers in a head that this is needed for."""


class TwoPositions(nn.Module):
    """A rotary embedding that is never given a single position: the kernel's block is then half as deep."""

    def __init__(self, rope: Any) -> None:
        super().__init__()
        self.rope = rope

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """[B, heads, L, D] at the positions from `offset`, a number or [B]."""
        if x.shape[-2] > 1:
            return self.rope(x, offset=offset)
        return self.rope(mx.repeat(x, 2, axis=-2), offset=offset)[..., :1, :]


def install(model: Any) -> None:
    """Make an mlx-lm model with very small heads work on CUDA; others are left as they are."""
    for layer in model.layers:
        attention: Any = getattr(layer, "self_attn", None)
        rope = getattr(attention, "rope", None)
        if getattr(rope, "dims", SMALL + 1) <= SMALL:
            attention.rope = TwoPositions(rope)
