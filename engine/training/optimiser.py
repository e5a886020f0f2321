"""AdamW over an adapter that is packed into families: a handful of arrays, whatever the model's depth."""

from __future__ import annotations

import math

import mlx.core as mx
import mlx.optimizers as optim

from engine.config import TrainConfig
from engine.inference.families import Families, Packed
from engine.inference.linears import Parameters

WARMUP_START = 0.1
"""Share of the learning rate the first step has."""
MOMENTS = ("m", "v")


class Optimiser:
    """The learner's float32 parameters and what is remembered of their gradients."""

    def __init__(self, families: Families, parameters: Parameters, train: TrainConfig) -> None:
        self._families = families
        self.packed: Packed = families.pack(parameters)
        self._adamw = optim.AdamW(train.learning_rate)
        self._adamw.init(self.packed)
        mx.eval(self.packed, self._adamw.state)

    @property
    def learning_rate(self) -> float:
        return float(self._adamw.learning_rate)

    def configure(self, train: TrainConfig, steps: int) -> None:
        """Use these hyperparameters for the step after so many; moments stay."""
        moments = self._adamw.state
        self._adamw = optim.AdamW(
            train.learning_rate, betas=list(train.betas), weight_decay=train.weight_decay, bias_correction=True
        )
        self._adamw.state = moments
        rise = min(1.0, steps / train.warmup) if train.warmup else 1.0
        self._adamw.learning_rate = train.learning_rate * (WARMUP_START + (1.0 - WARMUP_START) * rise)

    def update(self, gradients: Packed, loss: float, grad_clip: float) -> float | None:
        """One update; the gradient's norm before clipping, or None where nothing finite could be applied."""
        gradients, before = optim.clip_grad_norm(gradients, grad_clip)
        norm = float(before)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return None
        self.packed = self._adamw.apply_gradients(gradients, self.packed)
        mx.eval(self.packed, self._adamw.state)
        return norm

    def state(self) -> dict[str, mx.array]:
        """Parameters and moments by name, ready for a safetensors file."""
        state = {f"parameters.{name}": array for name, array in self._families.unpack(self.packed).items()}
        for moment in MOMENTS:
            packed = {family: self._adamw.state[family][moment] for family in self.packed}
            state |= {f"{moment}.{name}": array for name, array in self._families.unpack(packed).items()}
        return state | {"updates": self._adamw.state["step"]}

    def load_state(self, state: dict[str, mx.array]) -> None:
        """Go on from a `state`, whose names and shapes must be this one's."""

        def packed(kind: str) -> Packed:
            start = f"{kind}."
            named = {name.removeprefix(start): array for name, array in state.items() if name.startswith(start)}
            return self._families.pack(named)

        self.packed = packed("parameters")
        moments = {moment: packed(moment) for moment in MOMENTS}
        by_family = {family: {moment: moments[moment][family] for moment in MOMENTS} for family in self.packed}
        self._adamw.state = {"step": state["updates"], **by_family}
        mx.eval(self.packed, self._adamw.state)
