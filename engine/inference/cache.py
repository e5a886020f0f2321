"""Keys and values of a batch whose rows begin at different columns.

The interface is what models of mlx-lm use (`offset`, `make_mask`, `update_and_fetch`). Against its
`BatchKVCache` this one knows the padding on the host: rows of equal length need neither a mask nor
offsets one a row, leaving and joining wait for nothing, and it grows by small steps, since on a CPU each
copy of a mostly empty cache costs as much as a layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.base import create_causal_mask


class BatchCache:
    """One layer's keys and values, [B, heads, columns, D]; row i is filled from column `padding[i]` on."""

    step = 32
    """Columns it grows by."""

    def __init__(self, left_padding: Sequence[int] | np.ndarray, window: int | None = None) -> None:
        """`window` is how far a layer of sliding attention looks back, itself included."""
        self.padding = np.asarray(left_padding, dtype=np.int32)
        self.window = window
        self.length = 0
        self._keys: mx.array | None = None
        self._values: mx.array | None = None
        self._offset: int | mx.array | None = None

    @classmethod
    def filled(cls, left_padding: Sequence[int] | np.ndarray, keys: mx.array, values: mx.array) -> BatchCache:
        """Keys and values that are there already, [B, heads, columns, D]."""
        cache = cls(left_padding)
        cache._keys, cache._values, cache.length = keys, values, keys.shape[2]
        return cache

    @property
    def offset(self) -> int | mx.array:
        """The position of the next token: one for all rows where none is padded, else [B]."""
        if self._offset is None:
            self._offset = mx.array(self.length - self.padding) if self.padding.any() else self.length
        return self._offset

    @property
    def state(self) -> tuple[mx.array, mx.array]:
        assert self._keys is not None
        assert self._values is not None
        return self._keys, self._values

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Append columns; returns all keys and values so far."""
        start, self.length = self.length, self.length + keys.shape[2]
        self._offset = None
        if self._keys is None or self._values is None:
            self._keys, self._values = keys, values
            return keys, values
        if self.length > self._keys.shape[2]:
            more = -(-keys.shape[2] // self.step) * self.step
            self._keys = _grown(self._keys, start, more)
            self._values = _grown(self._values, start, more)
        self._keys[..., start : self.length, :] = keys
        self._values[..., start : self.length, :] = values
        return self._keys[..., : self.length, :], self._values[..., : self.length, :]

    def make_mask(self, N: int, return_array: bool = False, window_size: int | None = None) -> Any:
        """What N new columns may see: None for everything, "causal", or a boolean array [B or 1, 1, N, columns]."""
        window = window_size or self.window
        if window is not None and self.length + N <= window:
            window = None
        if not self.padding.any() and window is None and not return_array:
            return None if N == 1 else "causal"
        padding = mx.array(self.padding) if self.padding.any() else None
        return create_causal_mask(N, offset=self.length, window_size=window, left_padding=padding)

    def filter(self, rows: np.ndarray) -> None:
        """Keep these rows, in this order; a row may be kept several times."""
        self.padding = self.padding[rows]
        useless = int(self.padding.min())
        self.padding = self.padding - useless
        self.length -= useless
        self._offset = None
        if self._keys is not None and self._values is not None:
            kept = mx.array(rows)
            self._keys = self._keys[..., useless:, :][kept]
            self._values = self._values[..., useless:, :][kept]

    def extend(self, other: BatchCache) -> None:
        """Let the rows of another cache join; the shorter of the two is padded on the left."""
        joined = self.joined([self, other])
        self._keys, self._values = joined.state
        self.padding, self.length, self._offset = joined.padding, joined.length, None

    @classmethod
    def joined(cls, caches: Sequence[BatchCache]) -> BatchCache:
        """The rows of several caches, one after the other, all ending at the same column."""
        length = max(cache.length for cache in caches)
        whole = cls(np.concatenate([cache.padding + length - cache.length for cache in caches]), caches[0].window)
        keys, values = map(list, zip(*(cache._justified(length) for cache in caches), strict=True))
        whole._keys, whole._values = mx.concatenate(keys), mx.concatenate(values)
        whole.length = length
        return whole

    def taken(self, rows: np.ndarray) -> BatchCache:
        """A copy of these rows, one array each of keys and values. Not evaluated yet."""
        padding = self.padding[rows]
        useless = int(padding.min())
        copied = BatchCache(padding - useless, self.window)
        copied.length = self.length - useless
        kept = mx.array(rows)
        copied._keys, copied._values = (array[..., useless : self.length, :][kept] for array in self.state)
        return copied

    def spread(self, rows: Sequence[int], counts: Sequence[int]) -> BatchCache:
        """Rows that hold the first `counts[i]` columns of row `rows[i]` and all end at the same column.

        A count below 0 is a row that begins so many columns later: what is appended until then is padding to it.
        """
        length = max(0, *counts)
        spread = BatchCache(length - np.asarray(counts), self.window)
        columns = self.padding[np.asarray(rows)][:, None] + np.arange(length)[None] - spread.padding[:, None]
        row, column = mx.array(np.asarray(rows))[:, None], mx.array(np.clip(columns, 0, self.length - 1))
        keys, values = self.state
        spread._keys, spread._values = (array[row, :, column].transpose(0, 2, 1, 3) for array in (keys, values))
        spread.length = length
        return spread

    @property
    def bytes(self) -> int:
        """Of keys and values."""
        return sum(array.nbytes for array in self.state)

    def _justified(self, length: int) -> tuple[mx.array, mx.array]:
        """Keys and values with `length` columns, the last ones full."""
        keys, values = (array[..., : self.length, :] for array in self.state)
        if self.length == length:
            return keys, values
        widths = [(0, 0), (0, 0), (length - self.length, 0), (0, 0)]
        return mx.pad(keys, widths), mx.pad(values, widths)


class Layers(list[BatchCache]):
    """Keys and values of some rows, one cache a layer: the list that models of mlx-lm take."""

    @property
    def columns(self) -> int:
        return self[0].length

    @property
    def bytes(self) -> int:
        return sum(layer.bytes for layer in self)

    @property
    def arrays(self) -> list[tuple[mx.array, mx.array]]:
        """All there is to evaluate."""
        return [layer.state for layer in self]

    @classmethod
    def joined(cls, parts: Sequence[Layers]) -> Layers:
        """The rows of several, one after the other."""
        return parts[0] if len(parts) == 1 else cls(BatchCache.joined(layer) for layer in zip(*parts, strict=True))

    def filter(self, rows: np.ndarray) -> None:
        """As `BatchCache.filter`."""
        for layer in self:
            layer.filter(rows)

    def join(self, others: Layers) -> None:
        """As `BatchCache.extend`."""
        for layer, other in zip(self, others, strict=True):
            layer.extend(other)

    def taken(self, rows: np.ndarray) -> Layers:
        """As `BatchCache.taken`."""
        return Layers(layer.taken(rows) for layer in self)

    def spread(self, rows: Sequence[int], counts: Sequence[int]) -> Layers:
        """As `BatchCache.spread`."""
        return Layers(layer.spread(rows, counts) for layer in self)


def _grown(array: mx.array, filled: int, more: int) -> mx.array:
    rows, heads, _, size = array.shape
    return mx.concatenate([array[..., :filled, :], mx.zeros((rows, heads, more, size), array.dtype)], axis=2)
