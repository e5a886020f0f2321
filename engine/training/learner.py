"""The learner: its own copy of one adapter, an optimiser, and steps cut into microbatches."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import mlx.core as mx
import numpy as np

from engine.config import TrainConfig
from engine.inference import models
from engine.inference.adapters import Adapters, Parameters
from engine.inference.families import Packed
from engine.inference.models import LanguageModel
from engine.training import batching, budget, passes, preferences
from engine.training.average import Average, split_state
from engine.training.batching import Microbatch, Minibatch, Row
from engine.training.measures import Measures
from engine.training.objective import Weights, log_ratios
from engine.training.optimiser import Optimiser
from engine.types import AVERAGE, POLICY, Fate, TrainingRecord


class Learner:
    """Learns one adapter from records of what its player said. Lives on the device thread.

    `step` computes; nothing reaches the players before `publish`. The state is `parameters`, the moments, the
    average, `version`, the steps taken and the measured budget: after `load_state(state())` training goes on bit
    for bit as it would have. The shuffle's generator is made from the seed and the step, and needs no state.
    """

    def __init__(
        self, lm: LanguageModel, adapters: Adapters, train: TrainConfig, seed: int, total: int = 100
    ) -> None:
        """`total` are the steps of the run, over which the learning rate falls if it does."""
        self.lm = lm
        self.adapters = adapters
        self.train = train
        self.seed = seed
        self.total = total
        self.version = 0
        self.steps = 0
        self.measured_tokens = self.measured_length = 0
        """The budget where `train.microbatch_tokens` is 0, and the longest rows it was measured for."""
        self._needed: budget.Cost | None = None
        self._needed_length = 0
        """What a pass needs at least, on a GPU, and the longest rows it was measured for."""
        self._optimiser = Optimiser(adapters.families, adapters.initial(seed), train)
        self._average = Average()

    @property
    def parameters(self) -> Parameters:
        """The adapter by name, views of the optimiser's arrays."""
        return self.adapters.families.unpack(self._optimiser.packed)

    @parameters.setter
    def parameters(self, parameters: Parameters) -> None:
        self._optimiser.packed = self.adapters.families.pack(parameters)

    def step(self, records: Sequence[TrainingRecord]) -> Generator[None, None, dict[str, float]]:
        """Learn from records: one microbatch forward and backward a `next`, one update a minibatch.

        DPO goes over each microbatch once more before, without a gradient.

        Returns metrics, those of `Measures.metrics` and

        - `turns` learnt from; `unlearnable`: turns left out, empty or sampled at temperature 0 (no gradient);
        - `age_mean`, `age_max`: versions between the learner and the oldest token of a turn, over turns;
        - `learning_rate`; `lora_b_norm`, of full fine-tuning `difference_norm`: 0 means that the adapter still does
          nothing;
        - `updates`; `nonfinite`: updates left out because loss or gradient was not finite;
        - `skipped`: 1 if there was no update at all, such as where nothing was to learn: no active token, or no
          advantage but 0 and no preference. Weights and moments are then as they were.

        Of each record it says in `learnt` what became of it.

        Abandoned halfway, it leaves the updates already made.

        Raises:
            ValueError: a malformed record (see `batching.rows`), or a reference that is no player.
        """
        train = self.train
        self._prepare_reference(train)
        learnable = [record for record in records if record.tokens and record.temperature > 0.0]
        pairs = preferences.pairs(learnable) if train.dpo > 0.0 else []
        rng = np.random.default_rng((self.seed, self.steps))
        rows = batching.rows(learnable)
        most, multiple = self._budget(train, rows), budget.multiple()
        minibatches = batching.minibatches(rows, train.minibatches, most, rng, pairs, multiple)
        self._optimiser.configure(train, self.steps, self.total)
        measures = Measures(self.version)
        measures.leave((record for record in records if record.tokens and record.temperature <= 0.0), Fate.GREEDY)
        updates = nonfinite = 0
        for minibatch in minibatches:
            if not _teaches(minibatch, train):
                measures.leave(minibatch.records, Fate.IDLE)
                continue
            loss, gradients = yield from self._gradient(minibatch, train, measures)
            norm = self._optimiser.update(gradients, loss, train.grad_clip)
            if norm is None:
                nonfinite += 1
                measures.discard(minibatch)
            else:
                updates += 1
                measures.keep(minibatch, loss, norm)
        self.steps += 1
        ages = [self.version - record.version for record in learnable]
        if updates:
            self._average.follow(self._optimiser.packed, train.average)
        return {
            **measures.metrics(),
            "turns": float(len(learnable)),
            "unlearnable": float(len(records) - len(learnable)),
            "age_mean": sum(ages) / max(1, len(ages)),
            "age_max": float(max(ages, default=0)),
            "learning_rate": self._optimiser.learning_rate,
            **self._norm_of_learnt(),
            "updates": float(updates),
            "nonfinite": float(nonfinite),
            "skipped": float(updates == 0),
        }

    def _gradient(
        self, minibatch: Minibatch, train: TrainConfig, measures: Measures
    ) -> Generator[None, None, tuple[float, Packed]]:
        """The loss of a minibatch and its gradient, summed up over microbatches."""
        packed = self._optimiser.packed
        judgement, loss = None, 0.0
        if len(minibatch.pairs):
            logratios = np.zeros(len(minibatch.lengths))
            for microbatch in minibatch.microbatches:
                with budget.explained(microbatch), budget.waiting(self._room(microbatch, train)):
                    found = log_ratios(self.lm, self.adapters, packed, microbatch, train)
                logratios += np.bincount(microbatch.segments, found, len(logratios))
                yield
            judgement = preferences.judge(minibatch.pairs, minibatch.conversations, logratios, train.dpo_beta)
            measures.prefer(judgement)
            loss = train.dpo * float(judgement.losses.mean())
        weights = Weights.of(minibatch, judgement, train)
        rest, gradients = yield from passes.gradient(
            self.lm, self.adapters, packed, minibatch.microbatches, weights, train, measures, self._room
        )
        return loss + rest, gradients

    def publish(self, player: str = POLICY) -> int:
        """Copy the parameters into the player's slot as the next version, and return its number."""
        self.adapters.publish_packed(player, self._optimiser.packed, self.version + 1)
        self.version += 1
        return self.version

    @property
    def averaged(self) -> Parameters | None:
        """The running mean of the parameters by name; None where none is kept, or no step has been made."""
        return self.adapters.families.unpack(self._average.packed) if self._average.packed is not None else None

    def publish_average(self) -> None:
        """Copy the average into its player's slot, under the policy's version: for whoever measures it."""
        self.adapters.publish_packed(AVERAGE, self._average.packed or self._optimiser.packed, self.version)

    def reconfigure(self, train: TrainConfig, total: int | None = None) -> None:
        """Use other hyperparameters from the next step on; moments stay. Any thread may call it."""
        self.train, self.total = train, self.total if total is None else total

    def state(self) -> dict[str, mx.array]:
        """Everything `load_state` needs, ready for a safetensors file."""
        return {
            **self._optimiser.state(),
            **self._average.state(self.adapters.families),
            "version": _counter(self.version),
            "steps": _counter(self.steps),
            "seed": _counter(self.seed),
            "measured_tokens": _counter(self.measured_tokens),
            "measured_length": _counter(self.measured_length),
        }

    def load_state(self, state: dict[str, mx.array]) -> None:
        """Go on from a `state`. The slots are not touched: publish `parameters` as `version` to play on.

        Raises:
            ValueError: it is of an adapter with other layers or another rank, of another optimiser, or of another
                version of this program; nothing has been loaded.
        """
        average, state = split_state(state)
        self._optimiser.check_state(state)
        own = split_state(self.state())[1]
        odd = sorted(own.keys() ^ state.keys())
        counters = [name for name in odd if "." not in name]  # parameters and moments have the names of layers
        if counters:
            raise ValueError(
                f"the learner's state was written by another version of this program: the two differ in "
                f"{', '.join(counters)}. Go on with that version, or begin a new run from the adapter beside it: "
                f"lora.start"
            )
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
        self._average.load_state(average, self.adapters.families)
        self.version, self.steps, self.seed = (int(state[name]) for name in ("version", "steps", "seed"))
        self.measured_tokens, self.measured_length = int(state["measured_tokens"]), int(state["measured_length"])

    def _budget(self, train: TrainConfig, rows: Sequence[Row]) -> int:
        """Padded tokens in a backward pass: those configured, or as measured and kept until rows are twice as long.

        For where attention scores are kept, a token of a longer row takes more.
        """
        if train.microbatch_tokens:
            return train.microbatch_tokens
        longest = max((row.length for row in rows), default=0)
        if longest > self.measured_length:
            self.measured_length = 1 << (longest - 1).bit_length()
            self.measured_tokens = budget.tokens(
                self.lm, self._optimiser.packed, train, self._cost_of(self.measured_length, train)
            )
        return self.measured_tokens

    def _room(self, microbatch: Microbatch, train: TrainConfig) -> float | None:
        """Bytes that a pass may have in use on a GPU: what it needs. On a CPU None, for MLX would wait by turning
        in a loop, on the core that the app has."""
        if models.machine().on_cpu:
            return None
        length = microbatch.tokens.shape[1]
        if self._needed is None or length > self._needed_length:
            with budget.waiting(0):
                self._needed, self._needed_length = self._cost_of(length, train, precise=True), length
        return self._needed.of(microbatch.size)

    def _cost_of(self, length: int, train: TrainConfig, precise: bool = False) -> budget.Cost:
        return budget.cost(self.lm, self.adapters, self._optimiser.packed, train, length, precise=precise)

    def _prepare_reference(self, train: TrainConfig) -> None:
        if train.kl == 0.0 and train.dpo == 0.0:
            return
        if train.kl_reference == AVERAGE:
            if not train.average:  # one switched off may still have its player, and would be kept close to for good
                raise ValueError(
                    f"train.kl_reference is {AVERAGE!r}, but train.average is 0 and there is none: set it above 0, "
                    f"or name another player"
                )
            self.publish_average()  # as it is when a step begins
        players = self.adapters.players
        if train.kl_reference not in players:
            raise ValueError(f"train.kl_reference is {train.kl_reference!r}; the players are {', '.join(players)}")

    def _norm_of_learnt(self) -> dict[str, float]:
        """Of what is zero as long as nothing has been learnt."""
        full, packed = self.adapters.lora.kind == "full", self._optimiser.packed
        name, leaf = ("difference_norm", "weight") if full else ("lora_b_norm", "lora_b")
        squares = [float(mx.sum(mx.square(packed[family]))) for family in self.adapters.families.of(leaf)]
        return {name: math.sqrt(sum(squares))}


def _teaches(minibatch: Minibatch, train: TrainConfig) -> bool:
    """Whether anything in it asks for other weights; divergence and entropy alone don't make an update."""
    moved = train.policy > 0.0 and minibatch.advantages.any()
    chosen = train.sft > 0.0 and (minibatch.advantages > 0.0).any()
    return bool(moved or chosen or len(minibatch.pairs))


def _counter(value: int) -> mx.array:
    return mx.array(np.array(value, np.uint64))
