"""A decode step in few operations, for Llama-shaped models on an x86 CPU.

There an operation on a small batch costs 10 to 30 µs whatever it does, and a step of mlx-lm's modules is hundreds
of them. Here queries, keys and values are one product, adapters and all, and are turned at once; gate and up are
one product; and what is the same in all layers is made once.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.inference import fastmath, shaped
from engine.inference.adapters import Adapters
from engine.inference.cache import BatchCache
from engine.inference.models import LanguageModel
from engine.inference.padded import Padded
from engine.inference.shaped import DOWN, GATE, LINEARS, Body, O, Product, Q, Where

GROUPS = ((Q, O), (O, GATE), (GATE, DOWN), (DOWN, len(LINEARS)))
"""Which `LINEARS` are one product: from, to."""
REMEMBERED = 32
"""Of how many sets of players the adapters, taken together, are kept: rows come and go all the time."""

LowRank = tuple[mx.array, mx.array] | None
"""A and B of a product, [in, R] and [R, out], or several, [slots, …]. None: it isn't adapted."""
Layers = list[list[LowRank]]
"""Of each layer, by `GROUPS`."""


def misfit(lm: LanguageModel, kind: str) -> str | None:
    """Why a model with adapters of this `lora.kind` isn't decoded by a `Lean` step here; None if it is."""
    if not fastmath.available():
        return "this isn't an x86 CPU under Linux"
    if lm.dtype != mx.float32:
        return f"it computes in {lm.dtype}"
    if kind != "lora":
        return f"it knows no lora.kind {kind!r}"
    return shaped.misfit(lm.model)


class Lean(Padded):
    """Rows that all end at the same column, through a pass of our own instead of mlx-lm's modules."""

    share = 0.8  # measured with `pocket` on two cores

    def __init__(self, lm: LanguageModel, adapters: Adapters) -> None:
        """`lm` is one for which `misfit` is None."""
        super().__init__(lm, adapters)
        self._body = Body(lm.model, lm.context)
        self._joined = _Joined(adapters, self._body)
        cosines, sines = self._body.tables
        if self._body.paired:
            self._turns = mx.repeat(cosines, 2, axis=-1), mx.stack([-sines, sines], axis=-1).flatten(-2)
        else:
            self._turns = mx.concatenate([cosines] * 2, axis=-1), mx.concatenate([-sines, sines], axis=-1)
        mx.eval(self._turns)

    def step(self, tokens: np.ndarray, slots: np.ndarray) -> mx.array:
        return self._lm.head(self._hidden(mx.array(tokens), _Players(self._joined, slots)))

    def _hidden(self, tokens: mx.array, players: _Players) -> mx.array:
        """[B] → [B, d]."""
        body, there = self._body, self._there
        turns, mask = self._places(there[0])
        h = body.embed(tokens)
        for layer, cache, (qkv, out, gate_up, down) in zip(body.layers, there, players.layers, strict=True):
            x = mx.fast.rms_norm(h, layer.before_attention, body.epsilon)
            heads = players.product(layer.qkv, qkv, x).reshape(len(x), -1, body.head)
            mixed = self._attend(heads, layer.head_norms, turns, cache, mask)
            h = h + players.product(layer.out, out, mixed)
            x = mx.fast.rms_norm(h, layer.before_mlp, body.epsilon)
            gate, up = mx.split(players.product(layer.gate_up, gate_up, x), 2, axis=-1)
            h = h + players.product(layer.down, down, fastmath.fast_swiglu(gate, up))
        return mx.fast.rms_norm(h, body.last, body.epsilon)

    def _places(self, cache: BatchCache) -> tuple[tuple[mx.array, mx.array], mx.array | None]:
        """What turns the heads of each row, [B or 1, 1, D] each; and what is added to scores [B, 1, 1, columns]."""
        padding, end = cache.padding, cache.length
        cosines, sines = self._turns
        if not padding.any():
            return (cosines[end][None, None], sines[end][None, None]), None
        ends = mx.array(end - padding)
        hidden = np.where(np.arange(end + 1) < padding[:, None], np.float32(fastmath.MASKED), np.float32(0.0))
        return (cosines[ends][:, None], sines[ends][:, None]), mx.array(hidden)[:, None, None]

    def _attend(
        self,
        heads: mx.array,
        norms: tuple[mx.array, mx.array] | None,
        turns: tuple[mx.array, mx.array],
        cache: BatchCache,
        mask: mx.array | None,
    ) -> mx.array:
        """Heads [B, those of queries, of keys, of values, D] → what the values make of it, [B, heads · D]."""
        body = self._body
        count = body.heads + body.kv_heads
        turned, values = heads[:, :count], heads[:, count:, None]
        if norms is not None:
            both = zip(mx.split(turned, [body.heads], axis=1), norms, strict=True)
            turned = mx.concatenate([mx.fast.rms_norm(x, weight, body.epsilon) for x, weight in both], axis=1)
        turned = (turned * turns[0] + self._swapped(turned) * turns[1])[:, :, None]
        queries, keys = mx.split(turned, [body.heads], axis=1)
        keys, values = cache.update_and_fetch(keys, values)
        return fastmath.fast_attention(queries, keys, values, body.scale, mask).flatten(1)

    def _swapped(self, x: mx.array) -> mx.array:
        """The other of each pair of numbers that are turned together."""
        if self._body.paired:
            return x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].flatten(-2)
        half = x.shape[-1] // 2
        return mx.concatenate([x[..., half:], x[..., :half]], axis=-1)


class _Players:
    """Whose adapters the rows of one step use.

    Rows are laid in lanes of one player each, all as long as the next: a batched product has a matrix a lane.
    """

    def __init__(self, joined: _Joined, slots: np.ndarray) -> None:
        lanes, rows, places = in_lanes(slots)
        self.layers = joined.of_slots(tuple(lanes.tolist()))
        self._rows, self._places = (mx.array(rows), mx.array(places)) if len(lanes) > 1 else (None, None)

    def product(self, linears: Product, low_rank: LowRank, x: mx.array) -> mx.array:
        """[B, in] → [B, out]."""
        y = linears(x)
        if low_rank is None:
            return y
        a, b = low_rank
        if self._rows is None:
            return mx.addmm(y, x @ a, b)
        return y + (x[self._rows] @ a @ b).flatten(0, 1)[self._places]


def in_lanes(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slots [B] → the slot of each lane [N], the rows in it [N, width], and the place of each row among these [B].

    A lane is as long as the rows of a player are on average, so there are fewer than twice as many as players, and
    less than half of all places, which then hold row 0, are empty.
    """
    players, counts = np.unique(slots, return_counts=True)
    width = -(-len(slots) // len(players))
    lanes = -(-counts // width)
    firsts, before = np.cumsum(lanes) - lanes, np.cumsum(counts) - counts
    order = np.argsort(slots, kind="stable")
    places = np.empty(len(slots), np.int32)
    places[order] = np.repeat(firsts * width - before, counts) + np.arange(len(slots))
    rows = np.zeros(lanes.sum() * width, np.int32)
    rows[places] = np.arange(len(slots))
    return np.repeat(players, lanes), rows.reshape(-1, width), places


class _Joined:
    """The adapters of all slots as the products want them: A side by side, B on a diagonal. Copied anew after each
    change, for while others refer to the slots MLX doesn't update them in place."""

    def __init__(self, adapters: Adapters, body: Body) -> None:
        self._adapters = adapters
        self._products = [(layer.qkv, layer.out, layer.gate_up, layer.down) for layer in body.layers]
        self._where = body.where(adapters.places)
        self._none: Layers = [[None] * len(GROUPS) for _ in body.layers]
        self._changes = -1
        self._stacked: Layers = []
        self._taken: dict[tuple[int, ...], Layers] = {}

    def of_slots(self, slots: tuple[int, ...]) -> Layers:
        """Of one slot, or of several one after the other, [slots, …] each."""
        if slots == (0,):
            return self._none
        if self._changes != self._adapters.changes:
            self._changes = self._adapters.changes
            self._taken.clear()
            self._stacked = self._stack()
        taken = self._taken.pop(slots, None) or _taken(self._stacked, slots)
        self._taken[slots] = taken
        if len(self._taken) > REMEMBERED:
            del self._taken[next(iter(self._taken))]
        return taken

    def _stack(self) -> Layers:
        """Of all slots, by number."""
        stacks = self._adapters.stacks
        stacked = [
            [self._join(stacks, where, group, product) for group, product in zip(GROUPS, products, strict=True)]
            for where, products in zip(self._where, self._products, strict=True)
        ]
        mx.eval(stacked)
        return stacked

    def _join(self, stacks: Sequence[mx.array], where: Where, group: tuple[int, int], product: Product) -> LowRank:
        a, b, before = [], [], 0
        for linear, outputs in zip(range(*group), product.outputs, strict=True):
            at_a, at_b = where[linear], where[len(LINEARS) + linear]
            if at_a is not None and at_b is not None:
                after = sum(product.outputs) - before - outputs
                a.append(_copied(stacks, *at_a))
                b.append(mx.pad(_copied(stacks, *at_b), [(0, 0), (0, 0), (before, after)]))
            before += outputs
        return (mx.concatenate(a, axis=2), mx.concatenate(b, axis=1)) if a else None


def _taken(stacked: Layers, slots: tuple[int, ...]) -> Layers:
    at = slots[0] if len(slots) == 1 else mx.array(slots)
    taken = [[pair and (pair[0][at], pair[1][at]) for pair in layer] for layer in stacked]
    mx.eval(taken)
    return taken


def _copied(stacks: Sequence[mx.array], number: int, parameter: int) -> mx.array:
    """One parameter of all slots, [slots, …]. An index alone would give a view."""
    return stacks[number][mx.array([parameter])][0]
