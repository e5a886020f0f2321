"""Linear layers that add the adapter of each row of their input: what a forward pass with players is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

Parameters = dict[str, mx.array]
"""`"model.layers.0.self_attn.q_proj.lora_a"` → [in, r], `"….lora_b"` → [r, out], as in adapters.safetensors."""


@dataclass(slots=True)
class Active:
    """What the slot-aware linears use now: nothing, one adapter for every row, or one a row."""

    parameters: Parameters | None = None
    """One adapter, lora_b times scale already applied; or all slots stacked, where `slots` is given."""
    slots: mx.array | None = None
    """[B] uint32: each row's place in the stack."""


class SlotLinear(nn.Module):
    """A frozen linear layer, quantised or not, that adds the adapter of each row of its input."""

    def __init__(self, linear: nn.Module, name: str, active: Active) -> None:
        super().__init__()
        self.linear = linear
        self._a, self._b = f"{name}.lora_a", f"{name}.lora_b"
        self._active = active

    def __call__(self, x: mx.array) -> mx.array:
        """[B, L, in] → [B, L, out]."""
        y = self.linear(x)
        parameters, slots = self._active.parameters, self._active.slots
        if parameters is None:
            return y
        a, b = parameters[self._a], parameters[self._b]
        if slots is None:
            return y + ((x @ a) @ b).astype(y.dtype)
        z = mx.gather_mm(mx.gather_mm(x, a, rhs_indices=slots), b, rhs_indices=slots)
        return y + z.astype(y.dtype)


def dimensions(linear: Any) -> tuple[int, int]:
    """Outputs and inputs; a quantised weight packs 32 / bits inputs into a number."""
    outputs, inputs = linear.weight.shape
    return outputs, inputs * 32 // linear.bits if isinstance(linear, nn.QuantizedLinear) else inputs
