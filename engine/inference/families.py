"""Parameters of equal kind and shape as one array: an adapter is a handful of arrays at any depth of model."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from engine.inference.linears import Parameters

Packed = dict[str, mx.array]
"""One adapter: `"lora_a.576x8"` → all its parameters of that kind and shape, [parameters, *shape]."""


class Families:
    """Which parameters of an adapter are one array, and as which one of it."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.members: dict[str, list[str]] = {}
        """Family → its parameters' names, in the order in which they lie."""
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Family → the shape of one of its parameters."""
        for name, shape in shapes.items():
            family = f"{name.rpartition('.')[2]}.{'x'.join(map(str, shape))}"
            self.members.setdefault(family, []).append(name)
            self.shapes[family] = shape

    def pack(self, parameters: Parameters) -> Packed:
        """Copied together. Not evaluated yet."""
        return {family: mx.stack([parameters[name] for name in names]) for family, names in self.members.items()}

    def unpack(self, packed: Packed) -> Parameters:
        """Views by name. Their gradients meet again in one concatenation a family."""
        return {
            name: part[0]
            for family, names in self.members.items()
            for name, part in zip(names, mx.split(packed[family], len(names)), strict=True)
        }
