"""Log-probability, entropy and divergence at completion positions only.

Shapes: B rows, L their length, D model width, V vocabulary, N active tokens. The full logits [B, L, V] are never
made: 64 × 512 tokens of a 49k vocabulary peaked at 62 GB that way. Hidden states are gathered at the N positions
first, and where N·V is still large the head runs over chunks of positions under `mx.checkpoint`.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import mlx.core as mx

from engine.inference import fastmath
from engine.inference.models import LanguageModel
from engine.training import losses

CHUNK_ELEMENTS = 1 << 25
"""Most logits (positions × vocabulary) kept for the backward pass: 128 MiB in float32, a few times over."""


class Scores(NamedTuple):
    """What is known of each active token, all [N] float32 and all of the distribution at its temperature."""

    logprobs: mx.array
    """Of the token sampled. Natural logarithm."""
    entropy: mx.array
    """Of the whole distribution, in nats."""
    reference: mx.array | None = None
    """The reference policy's log-probability of the token."""
    forward_kl: mx.array | None = None
    """KL(reference‖policy) over the whole vocabulary, in nats."""


def active_hidden(lm: LanguageModel, tokens: mx.array, positions: mx.array) -> mx.array:
    """Hidden states where active tokens are predicted: tokens [B, L], positions [N] into [B·L] → [N, D]."""
    hidden = lm.hidden(tokens)
    return hidden.reshape(-1, hidden.shape[-1])[positions]


def score(
    lm: LanguageModel,
    hidden: mx.array,
    targets: mx.array,
    temperatures: mx.array,
    reference: mx.array | None = None,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> Scores:
    """Score tokens from the hidden states that predict them.

    `hidden` [N, D], `targets` [N] int, `temperatures` [N] > 0: those the tokens were sampled at. `reference` [N, D]
    are hidden states of the reference policy at the same positions; no gradient flows into them. Differentiable by
    `hidden`; the head itself counts as frozen.
    """

    def chunk(hidden: mx.array, start: int) -> tuple[mx.array, ...]:
        part = slice(start, start + hidden.shape[0])
        logits, probabilities, normaliser = _distribution(lm, hidden, temperatures[part])
        logprobs = _at(logits, targets[part]) - normaliser
        found = logprobs, losses.entropy(logits, probabilities, normaliser)
        if reference is None:
            return found
        base, base_probabilities, base_normaliser = map(
            mx.stop_gradient, _distribution(lm, reference[part], temperatures[part])
        )
        return (
            *found,
            _at(base, targets[part]) - base_normaliser,
            losses.forward_kl(logits, normaliser, base, base_probabilities, base_normaliser),
        )

    size = max(1, chunk_elements // lm.vocab_size)
    if len(hidden) <= size:
        return Scores(*chunk(hidden, 0))

    def checkpointed(start: int) -> tuple[mx.array, ...]:
        # One argument to differentiate by: integers among a checkpoint's arguments would be asked for gradients.
        return mx.checkpoint(lambda part: chunk(part, start))(hidden[start : start + size])

    chunks = [checkpointed(start) for start in range(0, len(hidden), size)]
    return Scores(*(mx.concatenate(list(parts)) for parts in zip(*chunks, strict=True)))


def _distribution(
    lm: LanguageModel, hidden: mx.array, temperatures: mx.array
) -> tuple[mx.array, mx.array, mx.array]:
    """Hidden states [n, D] → logits [n, V] over the temperature, probabilities [n, V], logsumexp [n]."""
    logits = lm.head(hidden).astype(mx.float32) / temperatures[:, None]
    probabilities, normaliser = cast(tuple[mx.array, mx.array], _softmax_logsumexp(logits))
    return logits, probabilities, normaliser


def _at(logits: mx.array, targets: mx.array) -> mx.array:
    return mx.take_along_axis(logits, targets[:, None], axis=-1)[:, 0]


# Softmax and logsumexp from one pass of exponentials, with none in the backward pass.
@mx.custom_function
def _softmax_logsumexp(logits: mx.array) -> tuple[mx.array, mx.array]:
    probabilities = fastmath.softmax(logits)
    # The likeliest token's probability is 1/Σ exp(z − max z).
    normaliser = mx.max(logits, axis=-1) - mx.log(mx.max(probabilities, axis=-1))
    return probabilities, normaliser


@_softmax_logsumexp.vjp
def _softmax_logsumexp_vjp(logits, cotangents, outputs) -> mx.array:
    probabilities, _ = outputs
    by_probabilities, by_normaliser = cotangents
    weighted = by_probabilities * probabilities
    total = mx.sum(weighted, axis=-1, keepdims=True)
    return weighted + probabilities * (by_normaliser[:, None] - total)
