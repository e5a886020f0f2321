"""The learner: its own copy of one adapter, AdamW, and policy-gradient steps cut into microbatches."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np

from engine.config import TrainConfig
from engine.inference.adapters import Adapters, Parameters
from engine.inference.models import LanguageModel
from engine.training import batching, losses
from engine.training.batching import Microbatch
from engine.training.logprobs import active_hidden, score
from engine.training.measures import Measures
from engine.types import POLICY, TrainingRecord

WARMUP_START = 0.1
"""Share of the learning rate the first step has."""


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
        self.parameters: Parameters = adapters.initial(seed)
        self._optimiser = optim.AdamW(train.learning_rate)
        self._optimiser.init(self.parameters)
        mx.eval(self.parameters, self._optimiser.state)

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
        self._configure(train)
        measures = Measures(self.version, train.clip_low, train.clip_high)
        updates = nonfinite = 0
        for minibatch in minibatches:
            if not any(microbatch.advantages.any() for microbatch in minibatch.microbatches):
                continue
            weights = losses.weights(train.normaliser, minibatch.lengths)
            loss, gradients = 0.0, None
            for microbatch in minibatch.microbatches:
                (value, measured), added = self._backward(microbatch, mx.array(weights), train)
                gradients = added if gradients is None else {name: gradients[name] + added[name] for name in added}
                # Evaluated at once: a metric kept lazily holds the whole graph that made it.
                mx.eval(value, measured, gradients)
                loss += float(value)
                measures.add(microbatch, weights, {name: np.array(array) for name, array in measured.items()})
                yield
            assert gradients is not None
            norm = self._update(gradients, loss, train.grad_clip)
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
            "learning_rate": float(self._optimiser.learning_rate),
            "lora_b_norm": self._norm_of_b(),
            "updates": float(updates),
            "nonfinite": float(nonfinite),
            "skipped": float(updates == 0),
        }

    def publish(self, player: str = POLICY) -> int:
        """Copy the parameters into the player's slot as the next version, and return its number."""
        self.adapters.publish(player, self.parameters, self.version + 1)
        self.version += 1
        return self.version

    def reconfigure(self, train: TrainConfig) -> None:
        """Use other hyperparameters from the next step on; AdamW's moments stay. Any thread may call it."""
        self.train = train

    def state(self) -> dict[str, mx.array]:
        """Everything `load_state` needs, ready for a safetensors file."""
        moments = self._optimiser.state
        return {
            **{f"parameters.{name}": array for name, array in self.parameters.items()},
            **{f"{moment}.{name}": moments[name][moment] for moment in ("m", "v") for name in self.parameters},
            "updates": moments["step"],
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
        self.parameters = {name: state[f"parameters.{name}"] for name in self.parameters}
        moments = {name: {moment: state[f"{moment}.{name}"] for moment in ("m", "v")} for name in self.parameters}
        self._optimiser.state = {"step": state["updates"], **moments}
        self.version, self.steps, self.seed = (int(state[name]) for name in ("version", "steps", "seed"))
        mx.eval(self.parameters, self._optimiser.state)

    def _configure(self, train: TrainConfig) -> None:
        """An AdamW of these hyperparameters, with the moments so far."""
        moments = self._optimiser.state
        self._optimiser = optim.AdamW(
            train.learning_rate, betas=list(train.betas), weight_decay=train.weight_decay, bias_correction=True
        )
        self._optimiser.state = moments
        rise = min(1.0, self.steps / train.warmup) if train.warmup else 1.0
        self._optimiser.learning_rate = train.learning_rate * (WARMUP_START + (1.0 - WARMUP_START) * rise)

    def _backward(
        self, microbatch: Microbatch, weights: mx.array, train: TrainConfig
    ) -> tuple[tuple[mx.array, dict[str, mx.array]], Parameters]:
        """((loss, [N] arrays to measure), gradients), not evaluated yet."""
        tokens, positions = mx.array(microbatch.tokens), mx.array(microbatch.positions)
        targets, segments = mx.array(microbatch.targets), mx.array(microbatch.segments)
        behaviour, advantages = mx.array(microbatch.behaviour), mx.array(microbatch.advantages)
        temperatures = mx.array(microbatch.temperatures)
        reference = None
        if train.kl > 0.0:
            with self.adapters.rows([0] * len(tokens)):
                reference = active_hidden(self.lm, tokens, positions)

        def objective(parameters: Parameters) -> tuple[mx.array, dict[str, mx.array]]:
            with self.adapters.learning(parameters):
                hidden = active_hidden(self.lm, tokens, positions)
            scores = score(self.lm, hidden, targets, temperatures, reference, microbatch.allowed)
            policy, ratio = losses.ppo_clip(scores.logprobs, behaviour, advantages, train.clip_low, train.clip_high)
            measured = {
                "policy_loss": policy,
                "ratio": ratio,
                "logprobs": scores.logprobs,
                "entropy": scores.entropy,
            }
            total = policy - train.entropy * scores.entropy if train.entropy > 0.0 else policy
            if scores.reference is not None and scores.forward_kl is not None:
                forward = train.kl_kind == "forward"
                measured["kl"] = scores.forward_kl if forward else losses.k3(scores.logprobs, scores.reference)
                total = total + train.kl * measured["kl"]
            return losses.normalise(total, segments, weights), measured

        return mx.value_and_grad(objective)(self.parameters)

    def _update(self, gradients: Parameters, loss: float, grad_clip: float) -> float | None:
        """One AdamW update; the gradient's norm before clipping, or None where nothing finite could be applied."""
        gradients, before = optim.clip_grad_norm(gradients, grad_clip)
        norm = float(before)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return None
        self.parameters = self._optimiser.apply_gradients(gradients, self.parameters)
        mx.eval(self.parameters, self._optimiser.state)
        return norm

    def _norm_of_b(self) -> float:
        squares = [mx.sum(mx.square(array)) for name, array in self.parameters.items() if name.endswith("lora_b")]
        return math.sqrt(sum(float(square) for square in squares))


def _counter(value: int) -> mx.array:
    return mx.array(np.array(value, np.uint64))
