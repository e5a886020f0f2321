"""Parameters of equal kind and shape as one array: an adapter is a handful of arrays at any depth of model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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

    @property
    def names(self) -> list[str]:
        """Of all parameters, family by family."""
        return [name for names in self.members.values() for name in names]

    def of(self, leaf: str) -> list[str]:
        """The families of parameters of that kind, such as "lora_b"."""
        return [family for family in self.members if family.partition(".")[0] == leaf]

    def pack(self, parameters: Parameters, families: Iterable[str] | None = None) -> Packed:
        """Copied together: all, or those of some families only. Not evaluated yet."""
        chosen = self.members if families is None else families
        return {family: mx.stack([parameters[name] for name in self.members[family]]) for family in chosen}

    def unpack(self, packed: Packed) -> Parameters:
        """Views by name. To differentiate by a packed adapter, see `Adapters.value_and_grad`."""
        return {
            name: part.squeeze(0)
            for family, names in self.members.items()
            for name, part in zip(names, mx.split(packed[family], len(names)), strict=True)
        }
