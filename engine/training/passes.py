"""The gradient of an update, one backward pass after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import mlx.core as mx
import numpy as np

from engine.config import TrainConfig
from engine.inference.adapters import Adapters
from engine.inference.families import Packed
from engine.inference.models import LanguageModel
from engine.training import budget
from engine.training.batching import Microbatch
from engine.training.measures import Measures
from engine.training.objective import Measured, Weights, backward

Room = Callable[[Microbatch, TrainConfig], float | None]
"""How many bytes a pass may have in use at once, if that is bounded."""


def gradient(
    lm: LanguageModel,
    adapters: Adapters,
    packed: Packed,
    microbatches: Sequence[Microbatch],
    weights: Weights,
    train: TrainConfig,
    measures: Measures,
    room: Room,
) -> Generator[None, None, tuple[float, Packed]]:
    """Loss and gradient summed up over microbatches, one pass a `next`; what is measured goes into `measures`.

    While one pass is computed the graph of the next is built; never are two computed at once.
    """
    loss, gradients = 0.0, Packed()
    under_way: _Pass | None = None
    for microbatch in microbatches:
        value, measured, added = backward(lm, adapters, packed, microbatch, weights, train)
        if under_way is not None:
            loss += under_way.collect(measures)
        gradients = {name: gradients[name] + array if gradients else array for name, array in added.items()}
        under_way = _Pass(microbatch, value, measured, gradients, room(microbatch, train))
        yield
    if under_way is not None:
        loss += under_way.collect(measures)
    return loss, gradients


class _Pass:
    """A backward pass that is being computed."""

    def __init__(
        self, microbatch: Microbatch, value: mx.array, measured: Measured, gradients: Packed, room: float | None
    ) -> None:
        self._microbatch, self._value, self._measured = microbatch, value, measured
        self._gradients = gradients
        with budget.explained(microbatch), budget.waiting(room):
            mx.async_eval(value, measured, gradients)

    def collect(self, measures: Measures) -> float:
        """Wait for it; the loss. Nothing lazy is kept: a metric would hold the whole graph that made it."""
        with budget.explained(self._microbatch):
            mx.eval(self._value, self._measured, self._gradients)
        measures.add(self._microbatch, {name: np.array(array) for name, array in self._measured.items()})
        return float(self._value)
