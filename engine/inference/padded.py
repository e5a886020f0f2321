"""Rows that all end at the same column, through mlx-lm's modules: for any device and any model."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.inference.adapters import Adapters
from engine.inference.cache import Layers
from engine.inference.models import LanguageModel


class Padded:
    """A `Decoder` of any model."""

    share = 1.0

    def __init__(self, lm: LanguageModel, adapters: Adapters) -> None:
        self._lm, self._adapters = lm, adapters
        self._layers: Layers | None = None

    @property
    def columns(self) -> int:
        return self._there.columns

    def clear(self) -> None:
        self._layers = None

    def join(self, layers: Layers) -> None:
        if self._layers is None:
            self._layers = layers
        else:
            self._layers.join(layers)

    def leave(self, kept: np.ndarray) -> None:
        if len(kept):
            self._there.filter(kept)
        else:
            self.clear()

    def taken(self, rows: np.ndarray) -> Layers:
        return self._there.taken(rows)

    def spread(self, rows: Sequence[int], counts: Sequence[int]) -> Layers:
        return self._there.spread(rows, counts)

    def step(self, tokens: np.ndarray, slots: np.ndarray) -> mx.array:
        with self._adapters.rows(slots.tolist()):
            hidden = self._lm.hidden(mx.array(tokens)[:, None], self._there)
        return self._lm.head(hidden[:, -1])

    @property
    def _there(self) -> Layers:
        assert self._layers is not None, "there are no rows"
        return self._layers
