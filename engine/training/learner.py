"""The learner: its own copy of one adapter, AdamW, and policy-gradient steps cut into microbatches."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import mlx.core as mx
import numpy as np

from engine.config import TrainConfig
from engine.inference.adapters import Adapters, Parameters
from engine.inference.models import LanguageModel
from engine.training import batching, losses
from engine.training.measures import Measures
from engine.training.objective import backward
from engine.training.optimiser import Optimiser
from engine.types import POLICY, TrainingRecord


class Learner:
    """Learns one adapter from records of what its player said. Lives on the device thread.

    `step` computes; nothing reaches the players before `publish`. The state is `parameters`, AdamW's moments,
    `version` and the steps taken: after `load_state(state())` training goes on bit for bit as it would have. The
    shuffle's generator is made from the seed and the step, and so needs no state of its own.
    """

    def __init__(self, lm: LanguageModel, adapters: Adapters, train: TrainConfig, seed: int) -> None:
        self.lm = lm
        self.adapters = adapters
        self.train = train
        self.seed = seed
        self.version = 0
        self.steps = 0
        self._optimiser = Optimiser(adapters.families, adapters.initial(seed), train)

    @property
    def parameters(self) -> Parameters:
        """The adapter by name, views of the optimiser's arrays."""
        return self.adapters.families.unpack(self._optimiser.packed)

    @parameters.setter
    def parameters(self, parameters: Parameters) -> None:
        self._optimiser.packed = self.adapters.families.pack(parameters)

    def step(self, records: Sequence[TrainingRecord]) -> Generator[None, None, dict[str, float]]:
        """Learn from records: one microbatch forward and backward a `next`, one AdamW update a minibatch.

        Returns metrics, those of `Measures.metrics` and

        - `turns` learnt from; `unlearnable`: turns left out, empty or sampled at temperature 0 (no gradient);
        - `age_mean`: versions between the learner and the oldest token of a turn, mean over turns;
        - `learning_rate`; `lora_b_norm`: 0 means that the adapter still does nothing;
        - `updates`; `nonfinite`: updates left out because loss or gradient was not finite;
        - `skipped`: 1 if there was no update at all, such as where nothing was to learn: no active token, or no
          advantage but 0. Weights and moments are then as they were.

        Abandoned halfway, it leaves the updates already made.

        Raises:
            ValueError: a malformed record (see `batching.rows`).
        """
        train = self.train
        learnable = [record for record in records if record.tokens and record.temperature > 0.0]
        rng = np.random.default_rng((self.seed, self.steps))
        minibatches = batching.minibatches(
            batching.rows(learnable), train.minibatches, train.microbatch_tokens, rng
        )
        self._optimiser.configure(train, self.steps)
        measures = Measures(self.version, train.clip_low, train.clip_high)
        updates = nonfinite = 0
        for minibatch in minibatches:
            if not any(microbatch.advantages.any() for microbatch in minibatch.microbatches):
                continue
            weights = losses.weights(train.normaliser, minibatch.lengths)
            loss, gradients = 0.0, None
            for microbatch in minibatch.microbatches:
                value, measured, added = backward(
                    self.lm, self.adapters, self._optimiser.packed, microbatch, mx.array(weights), train
                )
                gradients = added if gradients is None else {name: gradients[name] + added[name] for name in added}
                # Evaluated at once: a metric kept lazily holds the whole graph that made it.
                mx.eval(value, measured, gradients)
                loss += float(value)
                measures.add(microbatch, weights, {name: np.array(array) for name, array in measured.items()})
                yield
            assert gradients is not None
            norm = self._optimiser.update(gradients, loss, train.grad_clip)
            if norm is None:
                nonfinite += 1
                measures.discard()
            else:
                updates += 1
                measures.keep(minibatch, loss, norm)
        self.steps += 1
        return {
            **measures.metrics(),
            "turns": float(len(learnable)),
            "unlearnable": float(len(records) - len(learnable)),
            "age_mean": sum(self.version - record.version for record in learnable) / max(1, len(learnable)),
            "learning_rate": self._optimiser.learning_rate,
            "lora_b_norm": self._norm_of_b(),
            "updates": float(updates),
            "nonfinite": float(nonfinite),
            "skipped": float(updates == 0),
        }

    def publish(self, player: str = POLICY) -> int:
        """Copy the parameters into the player's slot as the next version, and return its number."""
        self.adapters.publish_packed(player, self._optimiser.packed, self.version + 1)
        self.version += 1
        return self.version

    def reconfigure(self, train: TrainConfig) -> None:
        """Use other hyperparameters from the next step on; AdamW's moments stay. Any thread may call it."""
        self.train = train

    def state(self) -> dict[str, mx.array]:
        """Everything `load_state` needs, ready for a safetensors file."""
        return {
            **self._optimiser.state(),
            "version": _counter(self.version),
            "steps": _counter(self.steps),
            "seed": _counter(self.seed),
        }

    def load_state(self, state: dict[str, mx.array]) -> None:
        """Go on from a `state`. The slots are not touched: publish `parameters` as `version` to play on.

        Raises:
            ValueError: it is of an adapter with other layers or another rank; nothing has been loaded.
        """
        own = self.state()
        odd = sorted(own.keys() ^ state.keys())
        if odd:
            raise ValueError(
                f"the learner's state differs in {len(odd)} keys, such as {odd[0]}: other layers are adapted"
            )
        for name, array in own.items():
            if state[name].shape != array.shape:
                raise ValueError(
                    f"{name} has shape {state[name].shape}, not {array.shape}: the rank or model is another"
                )
        self._optimiser.load_state(state)
        self.version, self.steps, self.seed = (int(state[name]) for name in ("version", "steps", "seed"))

    def _norm_of_b(self) -> float:
        families = self._optimiser.packed.items()
        return math.sqrt(sum(float(mx.sum(mx.square(b))) for family, b in families if family.startswith("lora_b")))


def _counter(value: int) -> mx.array:
    return mx.array(np.array(value, np.uint64))
