"""What the rows in flight are decoded by, and which one a model gets."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx
import numpy as np

from engine.inference import lean
from engine.inference.adapters import Adapters
from engine.inference.cache import Layers
from engine.inference.decoding import Stack, misfit
from engine.inference.kernels import on_cuda
from engine.inference.lean import Lean
from engine.inference.models import LanguageModel
from engine.inference.padded import Padded
from engine.inference.places import Places

logger = logging.getLogger(__name__)


class Decoder(Protocol):
    """Keys and values of the rows in flight, numbered in the order they joined, and their next logits."""

    share: float
    """What a step costs, as a share of a pass of mlx-lm's modules over as many tokens."""

    @property
    def columns(self) -> int:
        """How many tokens the longest row holds, at least."""
        ...

    def clear(self) -> None:
        """Forget every row."""
        ...

    def join(self, layers: Layers) -> None:
        """Rows that have been prefilled come after those there are. `layers` is not to be used afterwards."""
        ...

    def leave(self, kept: np.ndarray) -> None:
        """Only the rows `kept` go on, in this order."""
        ...

    def taken(self, rows: np.ndarray) -> Layers:
        """A copy of all that some rows hold."""
        ...

    def spread(self, rows: Sequence[int], counts: Sequence[int]) -> Layers:
        """A copy of the first `counts[i]` columns of row `rows[i]`, for each i, as `BatchCache.spread`."""
        ...

    def step(self, tokens: np.ndarray, slots: np.ndarray) -> mx.array:
        """Logits [B, V] after one more token [B] of each row, whose adapters lie in `slots` [B]. Not evaluated."""
        ...


def decoder(lm: LanguageModel, adapters: Adapters) -> Decoder:
    """The fastest one for a model and this machine."""
    lora = adapters.lora
    if not on_cuda():
        return Padded(lm, adapters) if lean.misfit(lm, lora.kind) else Lean(lm, adapters)
    unfit = misfit(lm.model, lora.rank) if lora.kind == "lora" else f"its kernels know no lora.kind {lora.kind!r}"
    if unfit is None:
        return Places(lm, adapters, Stack(lm.model, lora.rank, lm.context))
    logger.info("%s is decoded by mlx-lm's modules, which is slower: %s", lm.source, unfit)
    return Padded(lm, adapters)
