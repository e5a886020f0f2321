"""What a run takes in memory, told from its configuration and its model's files before it begins. No MLX here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.config import Config, LoRAConfig, ModelConfig, TrainConfig
from engine.inference.facts import Facts, Machine

FITS, TIGHT = 0.7, 0.95
"""Shares of the machine's memory up to which a run fits easily, or at all."""

KEPT_HIDDEN, KEPT_INNER, KEPT_SCORES = 8, 3, 1.5
"""How many vectors of the hidden and of the inner size, and of attention scores where they are made at all, a block
keeps of each token for the way back. Measured on Llamas of 2 to 30 blocks, as the next."""
WORKED_HIDDEN, WORKED_INNER, WORKED_SCORES = 10, 5, 3
"""And how many come to these of the block that is computed at the time."""
LOGITS = 9
"""How many float32 arrays of a chunk's logits there are at once."""
CHUNK_ELEMENTS = 1 << 24
"""Most logits (positions × vocabulary) that learning makes at once: 64 MiB in float32."""
MOST_TOKENS = 16384
"""Of a backward pass, where the number is measured. A tick has one such pass, and players wait for it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes. What there is once every row is as long as it may be and a backward pass has all its tokens."""

    weights: int
    kv: int
    """Keys and values of all rows, and of what was said before."""
    adapters: int
    """Policy, base, and the average if there is one, in their slots."""
    learner: int
    """The parameters learnt, their gradient, the optimiser's moments, and the average if there is one."""
    microbatch: int
    """What a backward pass keeps."""
    least: int
    """All of it for one row in play, and one in a backward pass: with less nothing goes."""

    @property
    def most(self) -> int:
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, int]:
        """By what they are for."""
        return {
            "weights": self.weights,
            "keys and values": self.kv,
            "adapters": self.adapters,
            "learner": self.learner,
            "a backward pass": self.microbatch,
        }

    def fit(self, machine: Machine) -> str:
        """`"fits"`; `"tight"`: not everything at its largest, and perhaps with smaller settings; or `"too big"`."""
        if self.most <= FITS * machine.memory:
            return "fits"
        return "tight" if self.least <= TIGHT * machine.memory else "too big"


Need = Callable[[Facts, bool], Estimate]
"""What a model needs, of its facts and whether it is computed on a CPU."""


def of_run(config: Config) -> Need:
    """What a run of this configuration needs of a model."""
    return lambda facts, on_cpu: estimate(facts, on_cpu, config.model, config.lora, config.train)


def estimate(facts: Facts, on_cpu: bool, model: ModelConfig, lora: LoRAConfig, train: TrainConfig) -> Estimate:
    """As these are configured. On a CPU numbers are float32, on a GPU of half precision, but for what is learnt.

    A measured budget (`train.microbatch_tokens = 0`) is made to fit, and counts with a quarter of its most tokens.
    """
    context = min(facts.context or model.context, model.context)
    budget = max(context, train.microbatch_tokens or MOST_TOKENS // 4)
    weights = facts.weights(on_cpu)
    adapters, learner = learnt_bytes(facts.learnt(lora), train)
    kv = facts.kv(context, on_cpu)
    passes = [_backward(facts, on_cpu, tokens, context, train.checkpoint_layers) for tokens in (budget, context)]
    return Estimate(
        weights=weights,
        kv=kv * model.rows + (model.prefix_mb << 20 if model.rows > 1 else 0),
        adapters=adapters,
        learner=learner,
        microbatch=passes[0],
        least=weights + kv + adapters + learner + passes[1],
    )


def learnt_bytes(count: int, train: TrainConfig) -> tuple[int, int]:
    """Of an adapter of so many numbers, in float32: in the slots, and in the learner."""
    average = 1 if train.average else 0
    moments = 0 if train.optimiser == "adafactor" else 2
    return 4 * (2 + average) * count, 4 * (2 + moments + average) * count


def _backward(facts: Facts, on_cpu: bool, tokens: int, length: int, checkpointed: bool) -> int:
    """Bytes that a pass over so many tokens, in rows of `length`, has at once."""
    scores = facts.heads * length if on_cpu else 0  # on a GPU attention is one kernel, and its scores are nowhere
    block = KEPT_HIDDEN * facts.hidden + KEPT_INNER * facts.inner + KEPT_SCORES * scores
    worked = WORKED_HIDDEN * facts.hidden + WORKED_INNER * facts.inner + WORKED_SCORES * scores
    kept = facts.layers * facts.hidden + block if checkpointed else facts.layers * block
    logits = min(tokens * facts.vocabulary, CHUNK_ELEMENTS) * LOGITS * 4
    return int(tokens * (kept + worked) * (4 if on_cpu else 2)) + logits
