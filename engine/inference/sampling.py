"""One sampler call for a whole batch, and randomness that belongs to a request and not to its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from engine.inference import choosing, fastmath
from engine.inference.choosing import LEAST
from engine.inference.kernels import on_cuda

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
LAST_SHIFT = np.uint64(31)

BLOCK = 256
"""Tokens summed up together when a sample is looked for: about the square root of a large vocabulary."""
JUST_BELOW_ONE = 1.0 - 2.0**-24


def uniforms(keys: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Random numbers in (0, 1), float32 [B], that depend on (key, position) alone.

    SplitMix64 (Steele, Lea, Flood 2014): the position-th output of the stream that begins at the key, both [B].
    The key itself is mixed first, so that neighbouring keys don't share a stream shifted by one.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64
        state = _mix(keys.astype(np.uint64)) + (positions.astype(np.uint64) + np.uint64(1)) * GOLDEN
    # The middle of one of 2^23 intervals: never 0, at which tokens of no weight to speak of would be drawn.
    return ((_mix(state) >> np.uint64(41)).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-23)


def _mix(z: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        for shift, factor in MIX:
            z = (z ^ (z >> shift)) * factor
    return z ^ (z >> LAST_SHIFT)


class Stages(NamedTuple):
    """Which stages of `draw` a batch needs. Hashable, so that a compiled `draw` can be kept for each."""

    sampled: bool
    """Some row isn't greedy."""
    greedy: bool
    """Some row is."""
    scaled: bool
    """Some row has a temperature other than 1."""
    top_p: bool
    top_k: int
    """The largest k; 0 where no row has one."""
    min_p: bool
    masked: bool
    """Some logit may be −inf, of which `fastmath` makes a weight of 5e-20."""

    @property
    def truncates(self) -> bool:
        return self.top_p or self.top_k > 0 or self.min_p


def stages(
    temperature: np.ndarray,
    top_p: np.ndarray | None = None,
    top_k: np.ndarray | None = None,
    min_p: np.ndarray | None = None,
    *,
    masked: bool = True,
) -> Stages:
    """What these settings, numpy arrays [B], ask for. None, or 1, 0 and 0, keep every token."""
    return Stages(
        sampled=bool((temperature != 0).any()),
        greedy=bool((temperature == 0).any()),
        scaled=bool(((temperature != 0) & (temperature != 1)).any()),
        top_p=top_p is not None and bool((top_p < 1).any()),
        top_k=0 if top_k is None else max(0, int(top_k.max(initial=0))),
        min_p=min_p is not None and bool((min_p > 0).any()),
        masked=masked,
    )


def sample(
    logits: mx.array,
    uniforms: np.ndarray,
    temperature: np.ndarray,
    top_p: np.ndarray | None = None,
    top_k: np.ndarray | None = None,
    min_p: np.ndarray | None = None,
) -> tuple[mx.array, mx.array]:
    """Sample one token a row: `draw` with the stages that these numpy arrays [B] ask for."""
    arrays = (None if setting is None else mx.array(setting) for setting in (temperature, top_p, top_k, min_p))
    return draw(stages(temperature, top_p, top_k, min_p), logits, mx.array(uniforms), *arrays)


def draw(
    stages: Stages,
    logits: mx.array,
    uniforms: mx.array,
    temperature: mx.array | None,
    top_p: mx.array | None = None,
    top_k: mx.array | None = None,
    min_p: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Sample one token a row by inverting the cumulative distribution.

    A pure function of arrays: logits [B, V], all others float32 [B] but the int32 `top_k`; those whose stage
    isn't needed are not looked at. Each truncation is judged on the whole distribution at the row's temperature,
    and a token must pass all three: top-p keeps the likeliest tokens up to and with the one that reaches the
    mass, top-k the k likeliest, min-p those of at least this share of the likeliest one's probability. Tokens as
    likely as the last one kept are kept too.

    Tokens are counted in the order of the vocabulary whatever the other rows ask for, so a row's sample is its
    own. Temperature 0 takes the likeliest token.

    Returns:
        Tokens [B] uint32 and their natural log-probabilities [B] in the distribution sampled from, 0 for greedy
        rows. Not evaluated yet.
    """
    if on_cuda():
        assert temperature is not None
        floors = None
        if stages.truncates:
            scaled = logits.astype(mx.float32) * _cold(temperature)
            weights = mx.exp(scaled - mx.max(scaled, axis=-1, keepdims=True))
            floors = mx.broadcast_to(_least_weight(stages, weights, top_p, top_k, min_p)[:, 0], temperature.shape)
        return choosing.choose(logits, uniforms, temperature, floors)
    logits = logits.astype(mx.float32)
    if not stages.sampled:
        return mx.argmax(logits, axis=-1), _certain(logits)
    if stages.scaled:
        assert temperature is not None
        logits = logits * _cold(temperature)
    top = mx.max(logits, axis=-1, keepdims=True)
    weights = fastmath.exp(logits - top)
    if stages.truncates or stages.masked:
        weights = mx.where(weights >= _least_weight(stages, weights, top_p, top_k, min_p), weights, 0.0)
    tokens, total = _invert(weights, uniforms[:, None])
    chosen = mx.take_along_axis(logits, tokens, axis=-1)
    tokens, logprobs = tokens[:, 0], (chosen - top - mx.log(total))[:, 0]
    if stages.greedy:
        assert temperature is not None
        tokens = mx.where(temperature == 0, mx.argmax(logits, axis=-1), tokens)
        logprobs = mx.where(temperature == 0, _certain(logits), logprobs)
    return tokens, logprobs


def _cold(temperature: mx.array) -> mx.array:
    """[B, 1]: what logits are multiplied by; 1 for greedy rows."""
    return (1.0 / mx.where(temperature == 0, 1.0, temperature))[:, None]


def _certain(logits: mx.array) -> mx.array:
    """Log-probability 0 [B], but NaN where logits [B, V] aren't numbers: weights gone bad have to be noticed."""
    return mx.where(mx.any(mx.isnan(logits), axis=-1), mx.nan, 0.0)


def _least_weight(
    stages: Stages, weights: mx.array, top_p: mx.array | None, top_k: mx.array | None, min_p: mx.array | None
) -> mx.array:
    """[B, 1], or a scalar for all rows: what a token must weigh to be kept, relative to the likeliest one's 1."""
    floor = mx.array(LEAST)
    size = weights.shape[-1]
    if stages.min_p:
        assert min_p is not None
        floor = mx.maximum(floor, min_p[:, None])
    if stages.top_k:
        assert top_k is not None
        k = min(stages.top_k, size)
        # Sorting the k likeliest is cheap; finding them is one pass.
        likeliest = mx.sort(mx.topk(weights, k, axis=-1), axis=-1)
        last = mx.take_along_axis(likeliest, mx.clip(k - top_k, 0, k - 1)[:, None], axis=-1)
        floor = mx.maximum(floor, mx.where((top_k > 0)[:, None], last, 0.0))
    if stages.top_p:
        assert top_p is not None
        descending = -mx.sort(-weights, axis=-1)
        # A token is kept while those before it haven't reached the mass: the first always is.
        before = mx.cumsum(descending, axis=-1) - descending
        mass = top_p[:, None] * mx.sum(weights, axis=-1, keepdims=True)
        kept = mx.maximum(mx.sum(before < mass, axis=-1, keepdims=True), 1)
        last = mx.take_along_axis(descending, kept - 1, axis=-1)
        floor = mx.maximum(floor, mx.where((top_p < 1)[:, None], last, 0.0))
    return floor


def _invert(weights: mx.array, share: mx.array) -> tuple[mx.array, mx.array]:
    """The token at which the running sum of weights [B, V] exceeds a share [B, 1] of the total.

    In a large vocabulary first the block of tokens is found, then the token in it: a running sum over all of it
    gathers errors (7e-5 of the log-probability at 49k tokens).

    Returns:
        Tokens [B, 1] uint32, each with a positive weight, and the total [B, 1].
    """
    B, V = weights.shape
    if V <= 2 * BLOCK and mx.default_device() == mx.Device(mx.cpu):
        # Summed up in order, so a token without weight is never the first beyond, and the last sum is beyond all.
        running = mx.cumsum(weights, axis=-1)
        total = running[:, -1:]
        return mx.argmax((running > share * total).astype(mx.int32), axis=-1, keepdims=True), total
    if V <= 4 * BLOCK:
        total = mx.sum(weights, axis=-1, keepdims=True)
        return _first_beyond(weights, share * total)[0], total
    blocks = -(-V // BLOCK)
    if V % BLOCK:
        weights = mx.pad(weights, [(0, 0), (0, blocks * BLOCK - V)])
    weights = weights.reshape(B, blocks, BLOCK)
    sums = mx.sum(weights, axis=-1)
    total = mx.sum(sums, axis=-1, keepdims=True)
    block, before, target = _first_beyond(sums, share * total)
    inside = mx.take_along_axis(weights, block[..., None], axis=1)[:, 0]
    token, _, _ = _first_beyond(inside, target - before)
    return block * BLOCK + token, total


def _first_beyond(weights: mx.array, target: mx.array) -> tuple[mx.array, mx.array, mx.array]:
    """The first place with a weight where the running sum of weights [B, n] exceeds a target [B, 1].

    Sums made in another order differ in their last bits: a target below 0, or one that no running sum exceeds, is
    brought back into the range. Returns place [B, 1], the sum before it, and the target used.
    """
    running = mx.where(weights > 0, mx.cumsum(weights, axis=-1), 0.0)
    target = mx.clip(target, 0.0, mx.max(running, axis=-1, keepdims=True) * JUST_BELOW_ONE)
    place = mx.argmax((running > target).astype(mx.int32), axis=-1, keepdims=True)
    before = mx.take_along_axis(running, place, axis=-1) - mx.take_along_axis(weights, place, axis=-1)
    return place, before, target


def adjusted(
    logits: mx.array,
    penalties: np.ndarray | None = None,
    seen: Sequence[Sequence[int] | np.ndarray] | None = None,
    biases: Sequence[Sequence[tuple[int, float]]] | None = None,
    allowed: Sequence[Sequence[int] | None] | None = None,
) -> mx.array:
    """Logits [B, V] with what single rows ask for, as float32 [B, V]: penalty, then bias, then mask.

    `penalties` float32 [B]: the logits of the tokens a row has `seen` in prompt and reply (ids, repeats allowed)
    are divided by it where positive, multiplied where not (CTRL, arXiv 1909.05858; the prompt counts, as in Hugging
    Face's transformers). `biases`: a row's (token, value) pairs, added. `allowed`: the ids a row may choose
    among, None for all; every other logit becomes −inf. Not evaluated yet.
    """
    logits = logits.astype(mx.float32)
    if penalties is not None and seen is not None:
        rows, tokens = _places([ids if p != 1 else () for ids, p in zip(seen, penalties, strict=True)])
        if len(rows):
            before, penalty = logits[rows, tokens], mx.array(penalties.astype(np.float32))[rows]
            # Written, not added up: a token seen twice is penalised once.
            logits[rows, tokens] = mx.where(before > 0, before / penalty, before * penalty)
    if biases is not None:
        rows, tokens = _places([[token for token, _ in row] for row in biases])
        if len(rows):
            values = np.array([value for row in biases for _, value in row], np.float32)
            logits = logits.at[rows, tokens].add(mx.array(values))
    if allowed is not None:
        free = mx.array([ids is None for ids in allowed])
        may = mx.broadcast_to(free[:, None], logits.shape)
        rows, tokens = _places([() if ids is None else ids for ids in allowed])
        if len(rows):
            may[rows, tokens] = mx.array(True)
        logits = mx.where(may, logits, -mx.inf)
    return logits


def _places(ids: Sequence[Sequence[int] | np.ndarray]) -> tuple[mx.array, mx.array]:
    """Token ids of each row as flat indices (row, token)."""
    lengths = [len(row) for row in ids]
    rows = np.repeat(np.arange(len(ids), dtype=np.int32), lengths)
    flat = [np.asarray(row, np.int32) for row in ids if len(row)]
    tokens = np.concatenate(flat) if flat else np.zeros(0, np.int32)
    return mx.array(rows), mx.array(tokens)
