"""Linears that read the same input, such as q, k and v, computed as one while they are learnt.

Their weights lie side by side, so do their A, and their B are the blocks of a diagonal: one product, not three.
What is learnt is the same, and so is its gradient. On a GPU a pass of a 135M model has 3,490 kernels instead of
4,644, and its host, which is what learning waits for there, a quarter less to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from engine.inference.families import Families, Packed
from engine.inference.linears import Active, Parameters, SlotLinear

SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))
"""What models of mlx-lm call linears of one module that it calls on the same input."""
LEAVES = ("lora_a", "lora_b")
"""What is learnt of each."""


class Siblings:
    """Linears with a LoRA, called one after the other on one input: the first computes what all return."""

    def __init__(self, linears: Sequence[SlotLinear], active: Active) -> None:
        self.members = [linear.name for linear in linears]
        parent = self.members[0].rpartition(".")[0]
        self.name = f"{parent}.{'+'.join(name.rpartition('.')[2] for name in self.members)}"
        self._active = active
        joined, self._ends = _joined([linear.linear for linear in linears])
        self._whole = SlotLinear(joined, self.name, active)
        self._input: mx.array | None = None
        self._outputs: dict[str, mx.array] = {}
        for linear in linears:
            linear.siblings = self

    @property
    def active(self) -> bool:
        """Whether forward passes use them as one now."""
        return self._active.slots is None and f"{self.name}.lora_a" in (self._active.parameters or ())

    def output(self, member: str, x: mx.array) -> mx.array:
        """[B, L, in] → [B, L, out] of one of them."""
        if x is not self._input or member not in self._outputs:
            outputs = mx.split(self._whole(x), self._ends, axis=-1)
            self._input, self._outputs = x, dict(zip(self.members, outputs, strict=True))
        output = self._outputs.pop(member)
        if not self._outputs:
            self._input = None
        return output


def join(linears: Mapping[str, SlotLinear], active: Active) -> list[Siblings]:
    """Those among a block's adapted linears, given by path. Others than LoRAs over plain weights stay alone."""
    found = []
    for path in linears:
        stem, dot, leaf = path.rpartition(".")
        for names in SIBLINGS:
            paths = [f"{stem}{dot}{name}" for name in names]
            if leaf == names[0] and all(_can_join(linears.get(path)) for path in paths):
                found.append(Siblings([linears[path] for path in paths], active))
    return found


def worthwhile() -> bool:
    """On a CPU there are no launches to save, and the zeros beside the diagonal cost a small model 3%."""
    return mx.default_device() != mx.Device(mx.cpu)


class Joined:
    """How an adapter's parameters lie while it is learnt: in a few stacks, those of siblings as one."""

    def __init__(self, families: Families, groups: Iterable[Siblings]) -> None:
        places = {name: (family, at) for family, names in families.members.items() for at, name in enumerate(names)}
        joined: dict[tuple[object, ...], list[Siblings]] = {}
        alone = dict(places)
        for group in groups:
            shapes = [families.shapes[places[f"{name}.{leaf}"][0]] for name in group.members for leaf in LEAVES]
            joined.setdefault(tuple(shapes), []).append(group)
            for name in group.members:
                for leaf in LEAVES:
                    del alone[f"{name}.{leaf}"]
        self._stacks: list[_Stack] = []
        for family in families.members:
            names = [name for name in families.members[family] if name in alone]
            if names:
                self._stacks.append(_Stack(names, [_Taken.of(names, places)], _only))
        for alike in joined.values():
            for leaf, put in zip(LEAVES, (_side_by_side, _on_a_diagonal), strict=True):
                columns = zip(*(group.members for group in alike), strict=True)  # all q, all k, all v
                taken = [_Taken.of([f"{name}.{leaf}" for name in names], places) for names in columns]
                self._stacks.append(_Stack([f"{group.name}.{leaf}" for group in alike], taken, put))

    def stacks(self, packed: Packed) -> list[mx.array]:
        """Of a packed adapter. Linear in it, and differentiable."""
        return [stack.put([taken(packed) for taken in stack.taken]) for stack in self._stacks]

    def unpack(self, stacks: Sequence[mx.array]) -> Parameters:
        """Views by name; those of siblings under theirs together."""
        return {
            name: part.squeeze(0)
            for stack, array in zip(self._stacks, stacks, strict=True)
            for name, part in zip(stack.names, mx.split(array, len(stack.names)), strict=True)
        }

    def pack(self, parameters: Parameters) -> list[mx.array]:
        """The reverse of `unpack`, copied."""
        return [mx.stack([parameters[name] for name in stack.names]) for stack in self._stacks]


@dataclass(frozen=True, slots=True)
class _Taken:
    """Some parameters of one family, [parameters, *shape]."""

    family: str
    at: mx.array | None
    """Their places there; None where they are all of it."""

    @classmethod
    def of(cls, names: Sequence[str], places: Mapping[str, tuple[str, int]]) -> _Taken:
        [family] = {places[name][0] for name in names}
        whole = sum(other == family for other, _ in places.values())
        at = [places[name][1] for name in names]
        return cls(family, None if at == list(range(whole)) else mx.array(at, dtype=mx.uint32))

    def __call__(self, packed: Packed) -> mx.array:
        return packed[self.family] if self.at is None else packed[self.family][self.at]


@dataclass(frozen=True, slots=True)
class _Stack:
    """[names, *shape]: what is `taken` of the families, `put` together."""

    names: list[str]
    taken: list[_Taken]
    put: Callable[[list[mx.array]], mx.array]


def _only(arrays: list[mx.array]) -> mx.array:
    [array] = arrays
    return array


def _side_by_side(arrays: list[mx.array]) -> mx.array:
    """[n, in, r] each → [n, in, Σ r]."""
    return mx.concatenate(arrays, axis=-1)


def _on_a_diagonal(arrays: list[mx.array]) -> mx.array:
    """[n, r, out] each → [n, Σ r, Σ out], zero beside the blocks."""
    rows, before, outputs = [], 0, sum(array.shape[-1] for array in arrays)
    for array in arrays:
        after = outputs - before - array.shape[-1]
        rows.append(mx.pad(array, [(0, 0), (0, 0), (before, after)]))
        before += array.shape[-1]
    return mx.concatenate(rows, axis=1)


def _can_join(linear: SlotLinear | None) -> bool:
    return type(linear) is SlotLinear and type(linear.linear) is nn.Linear


def _joined(linears: Sequence[nn.Module]) -> tuple[nn.Linear, list[int]]:
    """One linear, of whose weight those of the linears are views from now on; and where each but the last ends."""
    sizes = [linear["weight"].shape[0] for linear in linears]
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes) - 1)]
    joined = nn.Linear(1, 1, bias=False)
    joined.weight = mx.concatenate([linear["weight"] for linear in linears])
    if any("bias" in linear for linear in linears):
        biases = [linear.get("bias", mx.zeros(size)) for linear, size in zip(linears, sizes, strict=True)]
        joined.bias = mx.concatenate(biases)
    parts = mx.split(joined.weight, ends)
    mx.eval(joined.parameters(), parts)
    for linear, part in zip(linears, parts, strict=True):
        linear.weight = part
    return joined, ends
