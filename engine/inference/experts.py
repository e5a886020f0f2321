"""Expert layers (mixture of experts) that add the adapter of each row of their input, one LoRA an expert.

mlx-lm's `SwitchGLU` and `SwitchMLP` send a token to some of their experts, and sort many tokens by expert first,
which loses the rows they came from. So each token's slot travels in the low bits of its experts' indices: sorted
by these, tokens still are in the order of experts.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchGLU, SwitchLinear, SwitchMLP

from engine.inference.linears import Active, dimensions

SLOT_BITS = 16
"""Of an index: 65,536 slots of as many experts."""


EXPERTS = (SwitchGLU, SwitchMLP)
"""The modules whose linear layers can be adapted: one for all experts of a layer."""


class SlotExperts(nn.Module):
    """A frozen `SwitchGLU` or `SwitchMLP` whose linear layers have become slot-aware."""

    def __init__(self, experts: nn.Module, name: str, active: Active) -> None:
        super().__init__()
        slot_aware = [
            (key, SlotExpertLinear(linear, f"{name}.{key}", active)) for key, linear in linears(experts).items()
        ]
        experts.update_modules(tree_unflatten(slot_aware))
        self.experts = experts
        self._active = active

    def shapes(self, key: str, rank: int) -> dict[str, tuple[int, ...]]:
        """Of the parameters that one of its linear layers looks up, by name."""
        return dict(self.experts.named_modules())[key].shapes(rank)

    def __call__(self, x: mx.array, indices: mx.array) -> mx.array:
        """x [..., in] and the experts of each token [..., k] → [..., k, out]. All tokens of a row are together."""
        slots = self._active.slots
        if slots is not None:
            *tokens, k = indices.shape
            of_token = mx.repeat(slots, indices.size // k // slots.size).reshape(*tokens, 1)
            indices = (indices.astype(mx.uint32) << SLOT_BITS) | of_token
        return self.experts(x, indices)


class SlotExpertLinear(nn.Module):
    """The linear layer of every expert, quantised or not, that adds each token's adapter for that expert.

    An adapter is [experts, r, in] and [experts, out, r], as in mlx-lm's `LoRASwitchLinear`. Where the layer isn't
    adapted, it only takes the slots out of its indices.
    """

    def __init__(self, linear: Any, name: str, active: Active) -> None:
        super().__init__()
        self.linear = linear
        self._experts = linear.num_experts
        self._a, self._b = f"{name}.lora_a", f"{name}.lora_b"
        self._active = active

    def shapes(self, rank: int) -> dict[str, tuple[int, ...]]:
        """As `SlotLinear.shapes`."""
        count, outputs, inputs = self._experts, self.linear.output_dims, self.linear.input_dims
        return {self._a: (count, rank, inputs), self._b: (count, outputs, rank)}

    def __call__(self, x: mx.array, indices: mx.array, sorted_indices: bool = False) -> mx.array:
        parameters, slots = self._active.parameters, self._active.slots
        which, in_order = indices, sorted_indices
        if slots is not None:
            indices, slot = indices >> SLOT_BITS, indices & ((1 << SLOT_BITS) - 1)
            which, in_order = slot * self._experts + indices, False  # of all slots' experts, one after the other
        y = self.linear(x, indices, sorted_indices=sorted_indices)
        if parameters is None or self._a not in parameters:
            return y
        a, b = (parameters[name].swapaxes(-1, -2) for name in (self._a, self._b))
        z = mx.gather_mm(x, a, rhs_indices=which, sorted_indices=in_order)
        return y + mx.gather_mm(z, b, rhs_indices=which, sorted_indices=in_order).astype(y.dtype)


def linears(experts: nn.Module) -> dict[str, Any]:
    """The linear layers of all experts, by their path in the module."""
    found = experts.named_modules()
    return {key: each for key, each in found if isinstance(each, (SwitchLinear, QuantizedSwitchLinear))}


def routers(layer: nn.Module) -> set[str]:
    """The paths of plain linear layers that decide which experts are asked, or how much one counts.

    They lie in the block of the experts and have at most one output for each.
    """
    found = set()
    for path, experts in layer.named_modules():
        if isinstance(experts, EXPERTS):
            block, count = path.rpartition(".")[0], next(iter(linears(experts).values())).num_experts
            found |= {
                key
                for key, linear in layer.named_modules()
                if isinstance(linear, (nn.Linear, nn.QuantizedLinear))
                and key.startswith(f"{block}.")
                and dimensions(linear)[0] <= count
            }
    return found
