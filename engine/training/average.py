"""A running mean of the learner's parameters: steadier than the latest of them, and a player of its own."""

from __future__ import annotations

import mlx.core as mx

from engine.inference.families import Families, Packed

PREFIX = "average."
COUNT = "steps"


class Average:
    """After the n-th step that changed the parameters `w`, the average `a` becomes

        a + (w − a) · (1 − decay) / (1 − decay^n)

    An exponential moving average with Adam's correction for its beginning (arXiv 1412.6980, 3): the first
    `1 / (1 − decay)` steps make nearly their plain mean, and what learning began with is no part of it. If it
    started there, it would be mostly the base model for as long.

    Averaging the iterates of noisy steps is Polyak's and Juditsky's (1992). In a zero-sum game more than noise is
    averaged: the policies circle around an equilibrium, and it is their mean that comes near it (Freund and
    Schapire 1999). The mean of their *weights* is another thing, and close to it only where they lie close
    together. Hence the forgetting; and hence the average is measured, and neither plays nor learns.
    """

    def __init__(self) -> None:
        self.packed: Packed | None = None
        """Float32; None before the first step."""
        self._count = 0

    def follow(self, packed: Packed, decay: float) -> None:
        """Take in the parameters after a step. A decay of 0 forgets all; another one after it begins anew."""
        if not decay:
            self.packed, self._count = None, 0
            return
        self._count += 1
        before = self.packed or packed
        share = (1.0 - decay) / (1.0 - decay**self._count)
        self.packed = {
            family: before[family] + share * (array - before[family]) for family, array in packed.items()
        }
        mx.eval(self.packed)

    def state(self, families: Families) -> dict[str, mx.array]:
        """By name, ready for a safetensors file; empty where there is no average."""
        if self.packed is None:
            return {}
        named = {f"{PREFIX}{name}": array for name, array in families.unpack(self.packed).items()}
        return named | {f"{PREFIX}{COUNT}": mx.array(self._count, mx.uint64)}

    def load_state(self, state: dict[str, mx.array], families: Families) -> None:
        """Go on from a `state`."""
        self.packed, self._count = None, 0
        if state:
            named = {name.removeprefix(PREFIX): array for name, array in state.items()}
            self._count = int(named.pop(COUNT))
            self.packed = families.pack(named)
            mx.eval(self.packed)


def split_state(state: dict[str, mx.array]) -> tuple[dict[str, mx.array], dict[str, mx.array]]:
    """What is of an average in a learner's state, and the rest."""
    own = {name: array for name, array in state.items() if name.startswith(PREFIX)}
    return own, {name: array for name, array in state.items() if name not in own}
