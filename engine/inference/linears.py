"""Linear layers that add what the player of each row has learnt: what a forward pass with players is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn

if TYPE_CHECKING:
    from engine.inference.siblings import Siblings

Parameters = dict[str, mx.array]
"""`"model.layers.0.self_attn.q_proj.lora_a"` → [in, r], `"….lora_b"` → [r, out], as in adapters.safetensors; with
DoRA also `"….m"` → [out]. With full fine-tuning `"….weight"` → [out, in], the difference to the frozen one."""


@dataclass(slots=True)
class Active:
    """What the slot-aware linears use now: nothing, one adapter for every row, or one a row."""

    parameters: Parameters | None = None
    """One adapter as it is used: lora_b times scale, m as what `DoRALinear.gain` makes of it. Or all slots stacked,
    where `slots` is given."""
    slots: mx.array | None = None
    """[B] uint32: each row's place in the stack."""
    rows: mx.array | None = None
    """[B] uint32, 0 to B − 1, made once for all layers: each product would make its own."""

    def product(self, x: mx.array, matrix: mx.array) -> mx.array:
        """x [B, L, in] times each row's [in, out] → [B, L, out]."""
        if self.slots is None:
            return x @ matrix
        return mx.gather_mm(x, matrix, lhs_indices=self.rows, rhs_indices=self.slots)

    def vector(self, vector: mx.array) -> mx.array:
        """Each row's [out], to go with [B, L, out]."""
        return vector if self.slots is None else vector[self.slots][:, None]


class SlotLinear(nn.Module):
    """A frozen linear layer, quantised or not, that adds the LoRA of each row of its input (arXiv 2106.09685)."""

    def __init__(self, linear: nn.Module, name: str, active: Active) -> None:
        super().__init__()
        self.linear = linear
        self.name = name
        self._a, self._b = f"{name}.lora_a", f"{name}.lora_b"
        self._active = active
        self.siblings: Siblings | None = None

    def shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        """Of the parameters that it looks up, by name."""
        outputs, inputs = dimensions(self.linear)
        return {self._a: (inputs, rank), self._b: (rank, outputs)}

    def __call__(self, x: mx.array) -> mx.array:
        """[B, L, in] → [B, L, out]."""
        parameters = self._active.parameters
        if parameters is None:
            return self.linear(x)
        if self.siblings is not None and self.siblings.active:
            return self.siblings.output(self.name, x)
        a, b = parameters[self._a], parameters[self._b]
        if self._active.slots is None and a.dtype == x.dtype != mx.float32:
            # On a GPU one pass over y where it would be three; of rows, or MLX sums b's gradient up row by row.
            rows = x.reshape(-1, x.shape[-1])
            return mx.addmm(self.linear(rows), rows @ a, b).reshape(*x.shape[:-1], -1)
        y = self.linear(x)
        return y + self._low_rank(x, parameters).astype(y.dtype)

    def _low_rank(self, x: mx.array, parameters: Parameters) -> mx.array:
        product = self._active.product
        return product(product(x, parameters[self._a]), parameters[self._b])


class DoRALinear(SlotLinear):
    """DoRA (arXiv 2402.09353): y = m / ‖W + s (A B)ᵀ‖ ⊙ (W x + s x A B), the norm of each output's weights apart.

    As in section 4.3 there, and in mlx-lm's `DoRALinear`, the norm counts as a constant in the gradient, and a bias
    is added as it is. What is used of m is the `gain`, so that zeros are the bare layer.
    """

    def __init__(self, linear: nn.Module, name: str, active: Active) -> None:
        super().__init__(linear, name, active)
        self._m = f"{name}.m"

    def shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        return super().shapes(rank) | {self._m: (dimensions(self.linear)[0],)}

    def magnitude(self) -> Parameters:
        """m at the start: ‖W‖ of each output, [out].

        Raises:
            ValueError: one is 0.
        """
        m = mx.linalg.norm(dense(self.linear), axis=1)
        if not (m > 0.0).all():
            raise ValueError(
                f"lora.kind 'dora': {self.name} has an output whose weights are all 0, without a direction: name "
                f"other layers in lora.layers, or use 'lora'"
            )
        return {self._m: m}

    def gain(self, parameters: Parameters, scale: float) -> Parameters:
        """What multiplies the output, less 1, [out]; `parameters` as they are learnt. Differentiable by m alone."""
        low_rank = (scale * parameters[self._b].T) @ parameters[self._a].T
        norm = mx.stop_gradient(mx.linalg.norm(dense(self.linear) + low_rank, axis=1))
        return {self._m: parameters[self._m] / norm - 1.0}

    def __call__(self, x: mx.array) -> mx.array:
        y = self.linear(x)
        parameters = self._active.parameters
        if parameters is None:
            return y
        added = self._low_rank(x, parameters)
        product = (y - self.linear["bias"] if "bias" in self.linear else y) + added
        return y + (added + self._active.vector(parameters[self._m]) * product).astype(y.dtype)


class FullLinear(SlotLinear):
    """Full fine-tuning: the weights are the frozen ones plus a difference a player, [out, in]. Not a bias."""

    def __init__(self, linear: nn.Module, name: str, active: Active) -> None:
        super().__init__(linear, name, active)
        self._difference = f"{name}.weight"

    def shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        return {self._difference: dimensions(self.linear)}

    def weight(self) -> Parameters:
        """The frozen one, in float32."""
        return {self._difference: dense(self.linear)}

    def __call__(self, x: mx.array) -> mx.array:
        y = self.linear(x)
        parameters = self._active.parameters
        if parameters is None:
            return y
        # Two products, not one of W + D: in half precision that sum would lose most of a small difference.
        return y + self._active.product(x, parameters[self._difference].swapaxes(-1, -2)).astype(y.dtype)


def dimensions(linear: Any) -> tuple[int, int]:
    """Outputs and inputs; a quantised weight packs 32 / bits inputs into a number."""
    outputs, inputs = linear.weight.shape
    return outputs, inputs * 32 // linear.bits if isinstance(linear, nn.QuantizedLinear) else inputs


def dense(linear: Any) -> mx.array:
    """The weight [out, in] in float32, of a quantised layer what it stands for."""
    if not isinstance(linear, nn.QuantizedLinear):
        return linear.weight.astype(mx.float32)
    whole = mx.dequantize(
        linear.weight,
        linear.scales,
        linear.get("biases"),
        group_size=linear.group_size,
        bits=linear.bits,
        mode=linear.mode,
    )
    return whole.astype(mx.float32)
