"""Rows in flight on CUDA: all keys and values in one array, and one compiled step of all of them.

A row joins by being written into a free place and leaves by being forgotten, so neither costs the others anything.
Row b fills its columns from 0 to `ends[b] - 1`: no padding, no mask. Places and columns grow in few sizes, for each
has a graph of its own.

The attention kernel writes a row's new key and value into the array in place, and MLX doesn't know. So nothing
else may read or write the array within the evaluation of a step: the last step is evaluated before anything else
happens to the array, and what others get of it is a copy, evaluated at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from engine.inference.adapters import Adapters
from engine.inference.cache import BatchCache, Layers
from engine.inference.decoding import Stack
from engine.inference.models import LanguageModel

COLUMNS = 256
"""Columns are added by so many."""
PLACES = 8
"""The fewest there are; more come in powers of two."""


class Places:
    """A `Decoder` for models that a `Stack` can hold."""

    share = 0.4  # measured on an H100: it is the launches that count there

    def __init__(self, lm: LanguageModel, adapters: Adapters, stack: Stack, *, compiled: bool = True) -> None:
        self._lm, self._adapters, self._stack = lm, adapters, stack
        self._step: Any = mx.compile(self._next) if compiled else self._next
        self._where = stack.body.where(adapters.places)
        self.clear()

    @property
    def columns(self) -> int:
        return int(self._ends.max())

    def clear(self) -> None:
        """Forget every row, and give the memory back."""
        self._place = np.empty(0, np.int32)
        self._ends = np.empty(0, np.int32)
        self._array: mx.array | None = None
        self._logits: mx.array | None = None

    def join(self, layers: Layers) -> None:
        self._settle()
        padding, length = layers[0].padding, layers.columns
        ends = length - padding
        sides = [mx.stack([layer.state[side][..., :length, :] for layer in layers]) for side in (0, 1)]
        joining = mx.stack(sides, axis=1).transpose(0, 1, 2, 4, 3, 5)  # [layers, 2, rows, columns, kv heads, D]
        if padding.any():
            columns = np.minimum(padding[:, None] + np.arange(length), length - 1)
            joining = mx.take_along_axis(joining, mx.array(columns)[None, None, :, :, None, None], axis=3)
        self._make_room(len(ends), int(ends.max()))
        free = np.setdiff1d(np.arange(self._shape[2], dtype=np.int32), self._place)[: len(ends)]
        array = self._array
        assert array is not None
        array[:, :, mx.array(free), :length] = joining.astype(array.dtype)
        mx.eval(array)
        self._place = np.concatenate([self._place, free])
        self._ends = np.concatenate([self._ends, ends.astype(np.int32)])

    def leave(self, kept: np.ndarray) -> None:
        self._place, self._ends = self._place[kept], self._ends[kept]
        if not len(self._place):
            self.clear()

    def taken(self, rows: np.ndarray) -> Layers:
        return self.spread(rows.tolist(), self._ends[rows].tolist())

    def spread(self, rows: Sequence[int], counts: Sequence[int]) -> Layers:
        self._settle()
        assert self._array is not None
        length = max(0, *counts)
        padding = length - np.asarray(counts, dtype=np.int32)
        columns = np.clip(np.arange(length)[None] - padding[:, None], 0, self._shape[3] - 1)
        taken = self._array[:, :, mx.array(self._place[np.asarray(rows)])[:, None], mx.array(columns)]
        taken = taken.transpose(0, 1, 2, 4, 3, 5)
        mx.eval(taken)
        return Layers(BatchCache.filled(padding, layer[0], layer[1]) for layer in taken)

    def step(self, tokens: np.ndarray, slots: np.ndarray) -> mx.array:
        self._settle()
        self._make_room(0, int(self._ends.max()) + 1)
        count = self._shape[2]
        fed, used, ends = np.zeros(count, np.int32), np.zeros(count, np.int32), np.full(count, -1, np.int32)
        fed[self._place], used[self._place], ends[self._place] = tokens, slots, self._ends
        stacks = self._adapters.stacks if slots.any() else []
        logits = self._step(mx.array(fed), mx.array(used), mx.array(ends), self._array, stacks)
        self._ends += 1
        self._logits = logits
        in_order = len(self._place) == count and (self._place == np.arange(count)).all()
        return logits if in_order else logits[mx.array(self._place)]

    def _settle(self) -> None:
        """A step writes in place when it is evaluated: that has to be over before the array is used otherwise."""
        if self._logits is not None:
            mx.eval(self._logits)
            self._logits = None

    def _next(
        self, tokens: mx.array, slots: mx.array, ends: mx.array, array: mx.array, stacks: list[mx.array]
    ) -> mx.array:
        return self._lm.head(self._stack.hidden(tokens, slots, ends, array, stacks, self._where))

    @property
    def _shape(self) -> tuple[int, ...]:
        body = self._stack.body
        if self._array is None:
            return (len(body.layers), 2, 0, 0, body.kv_heads, body.head)
        return self._array.shape

    def _make_room(self, rows: int, columns: int) -> None:
        """Have places for so many more rows, and so many columns."""
        layers, sides, places, width, *rest = self._shape
        needed = len(self._place) + rows
        more_places = max(PLACES, 1 << (needed - 1).bit_length()) if needed > places else places
        more_columns = -(-columns // COLUMNS) * COLUMNS if columns > width else width
        if (more_places, more_columns) == (places, width):
            return
        grown = mx.zeros((layers, sides, more_places, more_columns, *rest), self._stack.body.dtype)
        if self._array is not None:
            grown[:, :, :places, :width] = self._array
        mx.eval(grown)
        self._array = grown
