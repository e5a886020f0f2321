"""How many tokens one backward pass may have: what was measured to fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from engine.config import TrainConfig
from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.estimate import MOST_TOKENS, learnt_bytes
from engine.inference.families import Packed
from engine.inference.kernels import on_cuda
from engine.inference.models import LanguageModel
from engine.training import batching, logprobs
from engine.training.batching import Microbatch, Minibatch
from engine.training.objective import Weights, backward, differentiable
from engine.types import EngineError, TrainingRecord

SHARE = 0.5
"""Of the memory that weights and learner leave: players' keys and values take some, and what was freed is kept."""
PASS, SCORES = 512, 256
"""Tokens of the pass that is measured, at least, and active tokens whose scores are measured."""
TIMES = 3
"""How often: MLX allocates ahead of what it computes, and how far depends on the threads' timing. Single ones were
apart by half, the largest of three by less than 1%, and longer passes by 0.1% anyway."""
LARGER = 4
"""How many times as many tokens the second pass of a precise measure has."""
LEAST_TOKENS = 256


class Cost(NamedTuple):
    """Bytes that a backward pass has in use at once."""

    a_token: float
    a_score: float
    """Of an active token, while its chunk is computed."""
    chunk: int
    """Most active tokens whose scores are computed at once."""
    once: float = 0.0
    """Whatever the tokens are, such as the gradient."""

    def of(self, tokens: int) -> float:
        return self.once + self.a_token * tokens + self.a_score * min(tokens, self.chunk)


def cost(
    lm: LanguageModel, adapters: Adapters, packed: Packed, train: TrainConfig, length: int, *, precise: bool = False
) -> Cost:
    """Measured on small passes over rows of `length`, as MLX allocates where it isn't made to wait.

    What there is only once is counted with a token's bytes, so that they are rather too many; a `precise` measure
    takes a second, larger pass and tells the two apart. What is in memory besides doesn't count, or equal runs
    would have unequal budgets.
    """
    length = batching.padded(length, multiple())
    rows = min(-(-PASS // length), lm.vocab_size)  # each begins with another token, or they would be one row

    def whole(rows: int) -> int:
        small = _minibatch(rows, length)
        weights, [microbatch] = Weights.of(small, None, train), small.microbatches
        with explained(microbatch):
            return _peak(lambda: backward(lm, adapters, packed, microbatch, weights, train))

    chunk = logprobs.chunk(lm, logprobs.fused_with(train.kl > 0.0))
    scored = min(SCORES, chunk)
    a_score = _peak(lambda: _scores(lm, train, scored)) / scored
    found = whole(rows)
    if not precise or LARGER * rows > lm.vocab_size:
        return Cost(found / (rows * length), a_score, chunk)
    a_token = max(0.0, (whole(LARGER * rows) - found) / ((LARGER - 1) * rows * length))
    return Cost(a_token, a_score, chunk, max(0.0, found - a_token * rows * length))


def tokens(lm: LanguageModel, packed: Packed, train: TrainConfig, cost: Cost) -> int:
    """The budget: what fits, as a power of two, so that small differences change nothing."""
    left = SHARE * (models.machine().memory - held(lm, packed, train))
    fitting = left / (cost.a_token + cost.a_score)
    return rounded(fitting if fitting <= cost.chunk else (left - cost.a_score * cost.chunk) / cost.a_token)


@contextmanager
def waiting(beyond: float | None) -> Iterator[None]:
    """Within, MLX waits for what it has begun while more than `beyond` bytes are in use beside those of now.

    It takes an operation's memory when it schedules it, and schedules far ahead of what is computed: on a GPU a
    pass that needs 10 GB at a time had 24. With None it doesn't wait.
    """
    if beyond is None:
        yield
        return
    limit = mx.set_memory_limit(int(mx.get_active_memory() + beyond))
    try:
        yield
    finally:
        mx.set_memory_limit(limit)


def held(lm: LanguageModel, packed: Packed, train: TrainConfig) -> int:
    """Bytes that are in memory whatever is played: the weights, and the adapter in its slots and in the learner."""
    arrays = cast(list[tuple[str, mx.array]], tree_flatten(lm.model.parameters()))
    weights = sum(array.nbytes for _, array in arrays)
    slots, learner = learnt_bytes(sum(array.size for array in packed.values()), train)
    return weights + slots + learner


def multiple() -> int:
    """What rows are padded to a multiple of: see `batching.padded`."""
    return 128 if on_cuda() else 1


def rounded(fitting: float) -> int:
    """The largest power of two of so many tokens, within bounds."""
    return int(min(MOST_TOKENS, max(LEAST_TOKENS, 2.0 ** np.floor(np.log2(max(1.0, fitting))))))


@contextmanager
def explained(microbatch: Microbatch) -> Iterator[None]:
    """Says what to lower where the memory doesn't suffice for a backward pass.

    Raises:
        EngineError: in place of MLX's own error.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if "alloc" not in str(error) and "memory" not in str(error):
            raise
        rows, width = microbatch.tokens.shape
        raise EngineError(
            f"there is not enough memory for a pass over {microbatch.size} tokens ({rows} rows of "
            f"{width}): {error}. Lower train.microbatch_tokens, or the roles' max_tokens if it is one row; or set "
            f"train.checkpoint_layers = true"
        ) from error


def _peak(work: Callable[[], object]) -> int:
    """The most bytes beyond those in use before."""
    found = []
    for _ in range(TIMES):
        mx.synchronize()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        mx.eval(work())
        found.append(mx.get_peak_memory() - before)
    return max(found)


def _minibatch(rows: int, length: int) -> Minibatch:
    """One pass, with one active token a row: the logits are measured apart."""
    records = [
        TrainingRecord(str(row), 0, "", "", [row, *[0] * (length - 1)], [0], [0.0], [0], 1.0) for row in range(rows)
    ]
    [made] = batching.minibatches(batching.rows(records), 1, rows * length, np.random.default_rng(0))
    return made


def _scores(lm: LanguageModel, train: TrainConfig, count: int) -> mx.array:
    """The gradient of so many tokens' scores by their hidden states."""
    hidden = mx.zeros((count, lm.hidden(mx.array([[0]])).shape[-1]), lm.dtype)
    targets, ones = mx.zeros(count, mx.int32), mx.ones(count)

    def total(hidden: mx.array) -> mx.array:
        base = hidden if train.kl > 0.0 else None
        scores = logprobs.score(lm, hidden, targets, ones, base, differentiable=differentiable(train))
        return sum((mx.sum(score) for score in scores if score is not None), mx.array(0.0))

    return mx.grad(total)(hidden)
