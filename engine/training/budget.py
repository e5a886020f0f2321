"""How many tokens one backward pass may have: what was measured to fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import mlx.core as mx
import numpy as np

from engine.config import TrainConfig
from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.families import Packed
from engine.inference.models import LanguageModel
from engine.training import batching, logprobs
from engine.training.batching import Microbatch
from engine.training.objective import Weights, backward, differentiable
from engine.types import EngineError, TrainingRecord

SHARE = 0.5
"""Of the memory that isn't in use: players' keys and values grow, and allocators keep what was freed."""
PASS, SCORES = 512, 256
"""Tokens of the pass that is measured, at least, and active tokens whose scores are measured."""
LEAST, MOST = 256, 16384
"""Tokens. A tick has one such pass, and players wait for it."""


def tokens(lm: LanguageModel, adapters: Adapters, packed: Packed, train: TrainConfig, length: int) -> int:
    """The budget for rows of up to `length` tokens, a power of two, so that small differences change nothing.

    A small backward pass gives the bytes of a token; what there is only once is counted with them, so that they are
    rather too many. The scores, of which no more are made at once than a chunk has, are measured apart. On the
    device thread, before anything is learnt.
    """
    length = batching.padded(length, multiple())
    left = SHARE * (models.machine().memory - mx.get_active_memory())
    rows = min(-(-PASS // length), lm.vocab_size)  # each begins with another token, or they would be one row
    a_token = _peak(lambda: _pass(lm, adapters, packed, train, rows, length)) / (rows * length)
    chunk = max(1, logprobs.CHUNK_ELEMENTS // lm.vocab_size)
    a_score = _peak(lambda: _scores(lm, train, min(SCORES, chunk))) / min(SCORES, chunk)
    within_chunk = left / (a_token + a_score)
    return rounded(within_chunk if within_chunk <= chunk else (left - a_score * chunk) / a_token)


def multiple() -> int:
    """What rows are padded to a multiple of: see `batching.padded`."""
    return 128 if mx.cuda.is_available() and mx.default_device() == mx.Device(mx.gpu) else 1


def rounded(fitting: float) -> int:
    """The largest power of two of so many tokens, within bounds."""
    return int(min(MOST, max(LEAST, 2.0 ** np.floor(np.log2(max(1.0, fitting))))))


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
    """Bytes beyond those in use before."""
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(work())
    return mx.get_peak_memory() - before


def _pass(
    lm: LanguageModel, adapters: Adapters, packed: Packed, train: TrainConfig, rows: int, length: int
) -> object:
    """One active token a row: the logits are measured apart."""
    records = [
        TrainingRecord(str(row), 0, "", "", [row, *[0] * (length - 1)], [0], [0.0], [0], 1.0) for row in range(rows)
    ]
    [minibatch] = batching.minibatches(batching.rows(records), 1, rows * length, np.random.default_rng(0))
    [microbatch] = minibatch.microbatches
    return backward(lm, adapters, packed, microbatch, Weights.of(minibatch, None, train), train)


def _scores(lm: LanguageModel, train: TrainConfig, count: int) -> mx.array:
    """The gradient of so many tokens' scores by their hidden states."""
    hidden = mx.zeros((count, lm.hidden(mx.array([[0]])).shape[-1]), lm.dtype)
    targets, ones = mx.zeros(count, mx.int32), mx.ones(count)

    def total(hidden: mx.array) -> mx.array:
        base = hidden if train.kl > 0.0 else None
        scores = logprobs.score(lm, hidden, targets, ones, base, differentiable=differentiable(train))
        return sum((mx.sum(score) for score in scores if score is not None), mx.array(0.0))

    return mx.grad(total)(hidden)
