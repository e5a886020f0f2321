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
from engine.training.batching import Allowed

CHUNK_ELEMENTS = 1 << 25
"""Most logits (positions × vocabulary) kept for the backward pass: 128 MiB in float32, a few times over."""
RULED_OUT = -1e9
"""The logit of a token that isn't allowed: finite, so that no infinity meets a zero or another infinity."""


class Scores(NamedTuple):
    """What is known of each active token, all [N] float32 and all of the distribution it was sampled from.

    That is the one at its temperature, over the tokens that were allowed.
    """

    logprobs: mx.array
    """Of the token sampled. Natural logarithm."""
    entropy: mx.array
    """Of the whole distribution, in nats."""
    reference: mx.array | None = None
    """The reference policy's log-probability of the token."""
    forward_kl: mx.array | None = None
    """KL(reference‖policy), exact, in nats."""


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
    allowed: Allowed | None = None,
    chunk_elements: int = CHUNK_ELEMENTS,
) -> Scores:
    """Score tokens from the hidden states that predict them.

    `hidden` [N, D], `targets` [N] int, `temperatures` [N] > 0: those the tokens were sampled at. `reference` [N, D]
    are hidden states of the reference policy at the same positions; no gradient flows into them. `allowed` limits
    the distributions of both. Differentiable by `hidden`; the head itself counts as frozen.
    """

    def chunk(hidden: mx.array, start: int) -> tuple[mx.array, ...]:
        part = slice(start, start + hidden.shape[0])
        mask = None if allowed is None else _mask(allowed, part.start, part.stop, lm.vocab_size)
        logits, probabilities, normaliser = _distribution(lm, hidden, temperatures[part], mask)
        logprobs = _at(logits, targets[part]) - normaliser
        found = logprobs, losses.entropy(logits, probabilities, normaliser)
        if reference is None:
            return found
        base, base_probabilities, base_normaliser = map(
            mx.stop_gradient, _distribution(lm, reference[part], temperatures[part], mask)
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
    lm: LanguageModel, hidden: mx.array, temperatures: mx.array, mask: mx.array | None
) -> tuple[mx.array, mx.array, mx.array]:
    """Hidden states [n, D] → logits [n, V] over the temperature, probabilities [n, V], logsumexp [n].

    Where the mask [n, V] is false a token is ruled out: its probability is 0, and so is the logit returned, which
    only ever counts times that probability.
    """
    logits = lm.head(hidden).astype(mx.float32) / temperatures[:, None]
    possible = logits if mask is None else mx.where(mask, logits, RULED_OUT)
    probabilities, normaliser = cast(tuple[mx.array, mx.array], _softmax_logsumexp(possible))
    return logits if mask is None else mx.where(mask, logits, 0.0), probabilities, normaliser


def _mask(allowed: Allowed, start: int, stop: int, vocab_size: int) -> mx.array:
    """[n, V] bool: what the active tokens from `start` to before `stop` were chosen among."""
    limited, rows, tokens = (mx.array(array) for array in allowed.places(start, stop))
    mask = mx.broadcast_to(mx.logical_not(limited)[:, None], (stop - start, vocab_size))
    if rows.size:
        mask[rows, tokens] = mx.array(True)
    return mask


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
