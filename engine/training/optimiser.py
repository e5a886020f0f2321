"""What is learnt, and MLX's optimiser for it: AdamW or Adafactor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import mlx.optimizers as optim

from engine.config import TrainConfig
from engine.inference.families import Families, Packed
from engine.inference.linears import Parameters
from engine.training.schedules import rate

MOMENTS = {"adamw": ("m", "v"), "adafactor": ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")}
"""What each remembers of gradients, as MLX names it. Adafactor: of a matrix the first two, of a vector the last."""


class Optimiser:
    """The learner's float32 parameters and what is remembered of their gradients.

    AdamW (arXiv 1711.05101, with bias correction) computes number by number, so it is given the packed arrays: a
    handful, whatever the model's depth. Adafactor (arXiv 1804.04235) looks at rows, columns and the size of a whole
    parameter, so it is given each on its own. It has no first moment, and steps by the learning rate alone:
    `relative_step` and `scale_parameter` are off, for the one would ignore the schedule, and the other learn what
    begins at zero (LoRA's B) a thousand times slower.
    """

    def __init__(self, families: Families, parameters: Parameters, train: TrainConfig) -> None:
        self._families = families
        self.kind = train.optimiser
        self.packed: Packed = families.pack(parameters)
        self._optimiser = _made(train, train.learning_rate)
        self._optimiser.init(self._tree(self.packed))
        mx.eval(self.packed, self._optimiser.state)

    @property
    def learning_rate(self) -> float:
        return float(self._optimiser.learning_rate)

    def configure(self, train: TrainConfig, steps: int, total: int) -> None:
        """Use these hyperparameters for the step after so many, of a run of `total`; moments stay.

        Raises:
            ValueError: if it is another optimiser.
        """
        if train.optimiser != self.kind:
            raise ValueError(
                f"train.optimiser is {train.optimiser!r}, but this run learns with {self.kind!r}, "
                "whose moments the other can't use: start a new run with it"
            )
        state = self._optimiser.state
        self._optimiser = _made(train, rate(steps, total, train))
        self._optimiser.state = state | {"learning_rate": self._optimiser.learning_rate}

    def update(self, gradients: Packed, loss: float, grad_clip: float) -> float | None:
        """One update; the gradient's norm before clipping, or None where nothing finite could be applied."""
        gradients, before = optim.clip_grad_norm(gradients, grad_clip)
        norm = float(before)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return None
        updated = self._optimiser.apply_gradients(self._tree(gradients), self._tree(self.packed))
        self.packed = updated if self.kind == "adamw" else self._families.pack(updated)
        mx.eval(self.packed, self._optimiser.state)
        return norm

    def state(self) -> dict[str, mx.array]:
        """Parameters and moments by name, ready for a safetensors file."""
        state = {f"parameters.{name}": array for name, array in self._families.unpack(self.packed).items()}
        own: dict[str, Any] = self._optimiser.state
        for moment in MOMENTS[self.kind]:
            if self.kind == "adamw":
                moments = self._families.unpack({family: own[family][moment] for family in self.packed})
            else:
                names = self._families.names
                moments = {name: own[name][moment] for name in names if moment in own[name]}
            state |= {f"{moment}.{name}": array for name, array in moments.items()}
        return state | {"updates": own["step"]}

    def load_state(self, state: Mapping[str, mx.array]) -> None:
        """Go on from a `state`, whose names and shapes must be this one's."""
        by_kind = {kind: _named(state, kind) for kind in ("parameters", *MOMENTS[self.kind])}
        self.packed = self._families.pack(by_kind.pop("parameters"))
        if self.kind == "adamw":
            by_kind = {moment: self._families.pack(arrays) for moment, arrays in by_kind.items()}
        moments: dict[str, dict[str, mx.array]] = {}
        for moment, arrays in by_kind.items():
            for name, array in arrays.items():
                moments.setdefault(name, {})[moment] = array
        self._optimiser.state = {
            "step": state["updates"],
            "learning_rate": self._optimiser.learning_rate,
            **moments,
        }
        mx.eval(self.packed, self._optimiser.state)

    def check_state(self, state: Mapping[str, mx.array]) -> None:
        """Raises ValueError if a `state` is that of another optimiser, saying which."""
        for kind, moments in MOMENTS.items():
            if kind != self.kind and any(
                name.startswith(tuple(f"{moment}." for moment in moments)) for name in state
            ):
                raise ValueError(f"the learner's state is that of {kind!r}; train.optimiser is {self.kind!r}")

    def _tree(self, packed: Packed) -> Packed | Parameters:
        """As the optimiser takes it."""
        return packed if self.kind == "adamw" else self._families.unpack(packed)


def _made(train: TrainConfig, learning_rate: float) -> optim.Optimizer:
    if train.optimiser == "adamw":
        return optim.AdamW(
            learning_rate, betas=list(train.betas), weight_decay=train.weight_decay, bias_correction=True
        )
    return optim.Adafactor(
        learning_rate, weight_decay=train.weight_decay, scale_parameter=False, relative_step=False
    )


def _named(state: Mapping[str, mx.array], kind: str) -> Parameters:
    start = f"{kind}."
    return {name.removeprefix(start): array for name, array in state.items() if name.startswith(start)}
