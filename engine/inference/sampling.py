"""One sampler call for a whole batch, and randomness that belongs to a request and not to its neighbours."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from engine.inference import fastmath

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
LAST_SHIFT = np.uint64(31)


def uniforms(keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Random numbers in [0, 1), float32 [B], that depend on (key, position) alone.

    SplitMix64 (Steele, Lea, Flood 2014): the position-th output of the stream that begins at the key, both [B].
    The key itself is mixed first, so that neighbouring keys don't share a stream shifted by one.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        state = _mix(keys.astype(np.uint64)) + (positions.astype(np.uint64) + np.uint64(1)) * GOLDEN
    return ((_mix(state) >> np.uint64(40)).astype(np.float32)) * np.float32(2.0**-24)


def _mix(z: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        for shift, factor in MIX:
            z = (z ^ (z >> shift)) * factor
    return z ^ (z >> LAST_SHIFT)


def sample(
    logits: mx.array,
    uniforms: np.ndarray,
    temperature: np.ndarray,
    top_p: np.ndarray | None = None,
    top_k: np.ndarray | None = None,
    min_p: np.ndarray | None = None,
) -> tuple[mx.array, mx.array]:
    """Sample one token a row by inverting the cumulative distribution.

    Everything but the logits [B, V] is a numpy array [B]. Each truncation is judged on the whole
    distribution at the row's temperature, and a token must pass all three: top-p keeps the likeliest tokens
    up to and with the one that reaches the mass, top-k the k likeliest, min-p those of at least this share
    of the likeliest one's probability. Tokens as likely as the last one kept are kept too. None, or 1, 0
    and 0, keep every token.

    Tokens are counted in the order of the vocabulary whatever the other rows ask for, so a row's sample is its
    own. Temperature 0 takes the likeliest token.

    Returns:
        Tokens [B] uint32 and their natural log-probabilities [B] in the distribution sampled from, 0 for greedy
        rows. Not evaluated yet.
    """
    logits = logits.astype(mx.float32)
    greedy = temperature == 0
    if greedy.all():
        return mx.argmax(logits, axis=-1), mx.zeros(logits.shape[:1])
    if (temperature != 1).any():
        inverse = 1.0 / np.where(greedy, 1.0, temperature)
        logits = logits * mx.array(inverse.astype(np.float32))[:, None]
    top = mx.max(logits, axis=-1, keepdims=True)
    weights = fastmath.exp(logits - top)
    floor = _least_weight(weights, top_p, top_k, min_p)
    if floor is not None:
        weights = mx.where(weights >= floor, weights, 0.0)
    cumulative = mx.cumsum(weights, axis=-1)
    total = cumulative[:, -1:]
    # At most 1 − 2⁻²⁴ of the total rounds to less than the total, so the first token to exceed it has a weight.
    target = mx.array(uniforms)[:, None] * total
    tokens = mx.sum(cumulative <= target, axis=-1).astype(mx.uint32)
    chosen = mx.take_along_axis(logits, tokens[:, None], axis=-1)
    logprobs = (chosen - top - mx.log(total))[:, 0]
    if greedy.any():
        rows = mx.array(greedy)
        tokens = mx.where(rows, mx.argmax(logits, axis=-1), tokens)
        logprobs = mx.where(rows, 0.0, logprobs)
    return tokens, logprobs


def _least_weight(
    weights: mx.array, top_p: np.ndarray | None, top_k: np.ndarray | None, min_p: np.ndarray | None
) -> mx.array | None:
    """[B, 1]: what a token must weigh to be kept, relative to the likeliest one's 1; None if all are."""
    size = weights.shape[-1]
    p = None if top_p is None or (top_p >= 1).all() else top_p
    k = None if top_k is None or (top_k <= 0).all() else top_k
    floors = [] if min_p is None or (min_p <= 0).all() else [mx.array(min_p.astype(np.float32))[:, None]]
    if p is not None or k is not None:
        descending = -mx.sort(-weights, axis=-1)
        kept = mx.full((weights.shape[0], 1), size, dtype=mx.int32)
        if k is not None:
            kept = mx.minimum(kept, mx.array(np.where(k <= 0, size, k).astype(np.int32))[:, None])
        if p is not None:
            # A token is kept while those before it haven't reached the mass: the first always is.
            before = mx.cumsum(descending, axis=-1) - descending
            mass = mx.array(p.astype(np.float32))[:, None] * mx.sum(weights, axis=-1, keepdims=True)
            within = mx.sum(before < mass, axis=-1, keepdims=True).astype(mx.int32)
            within = mx.maximum(within, mx.array(np.where(p >= 1, size, 1).astype(np.int32))[:, None])
            kept = mx.minimum(kept, within)
        floors.append(mx.take_along_axis(descending, kept - 1, axis=-1))
    if not floors:
        return None
    return floors[0] if len(floors) == 1 else mx.maximum(*floors)
