"""Log-probability, entropy and divergence at completion positions only.

Shapes: B rows, L their length, D model width, V vocabulary, N active tokens, n of them in a chunk. The full
logits [B, L, V] are never made: 64 × 512 tokens of a 49k vocabulary peaked at 62 GB that way. Hidden states are
gathered at the N positions first, and the head runs over chunks of them.

The head is frozen, so of each score's gradient only that by the hidden state [N, D] is wanted, and it can be had
as soon as the logits are there: in the forward pass, chunk by chunk, each kept until the loss says what the score
counts. Nothing of size V outlives its chunk, and a token is multiplied with the head twice, where recomputing the
logits in the backward pass would take three times.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, cast

import mlx.core as mx

from engine.inference import fastmath
from engine.inference.estimate import CHUNK_ELEMENTS
from engine.inference.kernels import on_cuda
from engine.inference.models import LanguageModel
from engine.training import fused, losses
from engine.training.batching import Allowed

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
    chunk_elements: int | None = None,
    *,
    differentiable: Collection[str] = ("logprobs", "entropy", "forward_kl"),
) -> Scores:
    """Score tokens from the hidden states that predict them.

    `hidden` [N, D], `targets` [N] int, `temperatures` [N] > 0: those the tokens were sampled at. `reference` [N, D]
    are hidden states of the reference policy at the same positions; no gradient flows into them. `allowed` limits
    the distributions of both. The scores named in `differentiable` have a gradient by `hidden`, which costs a
    product with the head each; it can't be differentiated again, and the head itself counts as frozen.
    """
    fields = ("logprobs", "entropy", *(("forward_kl",) if reference is not None else ()))
    wanted = [field in differentiable for field in fields]
    frozen = mx.stop_gradient(hidden)
    reference = None if reference is None else mx.stop_gradient(reference)
    fuses = fused_with(reference is not None)
    size = max(1, chunk_elements // lm.vocab_size) if chunk_elements else chunk(lm, fuses)
    chunks: list[list[mx.array]] = []
    for start in range(0, max(1, len(hidden)), size):
        part = slice(start, min(start + size, len(hidden)))
        of_part = frozen[part]
        if chunks:  # one after the other: evaluated side by side they would all hold their logits
            of_part = cast(mx.array, mx.depends(of_part, chunks[-1]))
        mask = None if allowed is None else _mask(allowed, part.start, part.stop, lm.vocab_size)
        base = None if reference is None else reference[part]
        about = targets[part], temperatures[part]
        chunks.append(
            _fused_chunk(lm, of_part, *about, mask, wanted)
            if fuses
            else _chunk(lm, of_part, *about, base, mask, wanted)
        )
    values = [parts[0] if len(parts) == 1 else mx.concatenate(list(parts)) for parts in zip(*chunks, strict=True)]
    of_reference = values.pop() if reference is not None else None
    found, gradients = values[: len(wanted)], iter(values[len(wanted) :])
    for index, is_wanted in enumerate(wanted):
        if is_wanted:
            found[index] = cast(mx.array, _with_gradient(hidden, found[index], next(gradients)))
    return Scores(found[0], found[1], of_reference, found[2] if reference is not None else None)


def fused_with(reference: bool) -> bool:
    """Whether scores, with or without those of a reference policy, are one kernel here."""
    return on_cuda() and not reference


def chunk(lm: LanguageModel, as_one: bool) -> int:
    """Active tokens whose logits are made at once: four times as many where a kernel keeps little else."""
    return max(1, (4 if as_one else 1) * CHUNK_ELEMENTS // lm.vocab_size)


def _fused_chunk(
    lm: LanguageModel,
    hidden: mx.array,
    targets: mx.array,
    temperatures: mx.array,
    mask: mx.array | None,
    wanted: list[bool],
) -> list[mx.array]:
    """As `_chunk`, without a reference."""
    logits = lm.head(hidden)
    possible = logits if mask is None else mx.where(mask, logits, mx.array(RULED_OUT, logits.dtype))
    logprobs, entropy, gradients = fused.scores(possible, targets, temperatures, *wanted)
    by_hidden = [_through_head(lm, hidden, each) for each in gradients]
    return _once_all_is_there([logprobs, entropy, *by_hidden], by_hidden)


def _chunk(
    lm: LanguageModel,
    hidden: mx.array,
    targets: mx.array,
    temperatures: mx.array,
    reference: mx.array | None,
    mask: mx.array | None,
    wanted: list[bool],
) -> list[mx.array]:
    """Scores [n] as in `wanted`, the gradients [n, D] by `hidden` of those wanted, and the reference's scores."""
    logits, probabilities, normaliser = _distribution(lm, hidden, temperatures, mask)
    logprobs = _at(logits, targets) - normaliser
    entropy = losses.entropy(logits, probabilities, normaliser)
    values = [logprobs, entropy]
    # By the logits: 1(v = target) − p, here with the other sign, −p · (log p + H), and p − q.
    gradients = []
    if wanted[0]:
        certain = _at(probabilities, targets) - 1.0
        gradients.append(mx.put_along_axis(probabilities, targets[:, None], certain[:, None], axis=-1))
    if wanted[1]:
        gradients.append(probabilities * ((normaliser - entropy)[:, None] - logits))
    of_reference = []
    if reference is not None:
        base, base_probabilities, base_normaliser = _distribution(lm, reference, temperatures, mask)
        values.append(losses.forward_kl(logits, normaliser, base, base_probabilities, base_normaliser))
        of_reference.append(_at(base, targets) - base_normaliser)
        if wanted[2]:
            gradients.append(probabilities - base_probabilities)
    by_hidden = [_through_head(lm, hidden, gradient) / temperatures[:, None] for gradient in gradients]
    if wanted[0]:
        by_hidden[0] = -by_hidden[0]
    return _once_all_is_there([*values, *by_hidden, *of_reference], by_hidden)


def _once_all_is_there(found: list[mx.array], by_hidden: list[mx.array]) -> list[mx.array]:
    """None is there before the gradients are: what waited would hold the logits."""
    return cast(list[mx.array], mx.depends(found, by_hidden)) if by_hidden else found


def _through_head(lm: LanguageModel, hidden: mx.array, gradient: mx.array) -> mx.array:
    """A gradient by the head's logits [n, V] → by the hidden states [n, D]."""
    dtype = lm.head(hidden).dtype
    return mx.vjp(lm.head, [hidden], [gradient.astype(dtype)])[1][0]


@mx.custom_function
def _with_gradient(hidden: mx.array, values: mx.array, gradient: mx.array) -> mx.array:
    """`values` [n] whose gradient by `hidden` [n, D] is known."""
    return values


@_with_gradient.vjp
def _with_gradient_vjp(primals, cotangent, output) -> tuple[mx.array, mx.array, mx.array]:
    hidden, values, gradient = primals
    return (cotangent[:, None] * gradient).astype(hidden.dtype), mx.zeros_like(values), mx.zeros_like(gradient)


def _distribution(
    lm: LanguageModel, hidden: mx.array, temperatures: mx.array, mask: mx.array | None
) -> tuple[mx.array, mx.array, mx.array]:
    """Hidden states [n, D] → logits [n, V] over the temperature, probabilities [n, V], logsumexp [n].

    Where the mask [n, V] is false a token is ruled out: its probability is 0, and so is the logit returned, which
    only ever counts times that probability.
    """
    logits = lm.head(hidden).astype(mx.float32) / temperatures[:, None]
    possible = logits if mask is None else mx.where(mask, logits, RULED_OUT)
    probabilities = fastmath.softmax(possible)
    # The likeliest token's probability is 1/Σ exp(z − max z).
    normaliser = mx.max(possible, axis=-1) - mx.log(mx.max(probabilities, axis=-1))
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
