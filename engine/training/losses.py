"""Policy losses, divergences and normalisers: arrays in, arrays out. DPO's is in `preferences`.

Shapes: N active tokens (completion tokens, the stop token included; padding never gets here), V vocabulary,
S sequences (completions) of one optimiser update. `segments` [N] names the sequence of each token.

Of a token, `logprobs` is what the policy says now, and `behaviour` what the distribution it was sampled from said;
their difference is the logarithm of its ratio ρ.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import mlx.core as mx
import numpy as np

Normaliser = Literal["dapo", "grpo", "dr_grpo"]

LARGEST_EXPONENT = 20.0
"""Where `exponential` goes on as a straight line: e^20 ≈ 4.9e8, still far from float32's limit."""


def exponential(x: mx.array) -> mx.array:
    """exp(x), continued by its tangent above `LARGEST_EXPONENT`, so that neither value nor gradient overflows.

    Clamping the exponent instead would give exactly the tokens furthest off no gradient at all.
    """
    capped = mx.minimum(x, LARGEST_EXPONENT)
    return mx.exp(capped) * (1.0 + (x - capped))


class PolicyLoss(NamedTuple):
    """What a policy loss gives for each token, all [N]."""

    loss: mx.array
    ratio: mx.array
    """How far the policies are apart, as the loss sees it: of the token, or of its whole sequence."""
    clipped: mx.array
    """Bool: where a bound on the ratio took effect."""


def ppo(
    logprobs: mx.array, behaviour: mx.array, advantages: mx.array, clip_low: float, clip_high: float
) -> PolicyLoss:
    """The clipped surrogate, −min(ρA, clip(ρ, 1−ε_low, 1+ε_high)·A). All arrays [N].

    `clip_high > clip_low` is DAPO's clip-higher. A clipped token has no gradient.

    Source: PPO, arXiv 1707.06347, equation 7; DAPO, arXiv 2503.14476, section 3.1.
    """
    return _clipped(exponential(logprobs - behaviour), advantages, clip_low, clip_high)


def gspo(
    logprobs: mx.array,
    behaviour: mx.array,
    advantages: mx.array,
    segments: mx.array,
    lengths: mx.array,
    clip_low: float,
    clip_high: float,
) -> PolicyLoss:
    """PPO's surrogate of one ratio a sequence, s = exp(mean_t log ρ_t), which the gradient flows through.

    Per token [N], so that the normaliser `grpo` makes the paper's mean over sequences of it. `segments` [N] int and
    `lengths` [S] float, the active tokens of each sequence; all tokens of a sequence have to be here.

    Source: GSPO, arXiv 2507.18071, equations 5 and 7.
    """
    share = (logprobs - behaviour) / lengths[segments]
    means = mx.zeros_like(lengths).at[segments].add(share)
    return _clipped(exponential(means[segments]), advantages, clip_low, clip_high)


def cispo(logprobs: mx.array, behaviour: mx.array, advantages: mx.array, cap: float) -> PolicyLoss:
    """−sg(min(ρ, cap))·A·log π: a large ratio is bounded, and unlike in PPO its token still has a gradient.

    Source: CISPO, MiniMax-M1, arXiv 2506.13585, equations 4 and 5, with no lower bound, as there.
    """
    ratio = exponential(logprobs - behaviour)
    weight = mx.stop_gradient(mx.minimum(ratio, cap))
    return PolicyLoss(-weight * advantages * logprobs, ratio, ratio > cap)


def policy_gradient(logprobs: mx.array, behaviour: mx.array, advantages: mx.array) -> PolicyLoss:
    """−A·log π, whatever policy the tokens were sampled from.

    Source: REINFORCE; R. J. Williams, "Simple statistical gradient-following algorithms" (1992).
    """
    ratio = exponential(logprobs - behaviour)
    return PolicyLoss(-advantages * logprobs, ratio, mx.zeros(ratio.shape, mx.bool_))


def _clipped(ratio: mx.array, advantages: mx.array, low: float, high: float) -> PolicyLoss:
    loss = -mx.minimum(ratio * advantages, mx.clip(ratio, 1.0 - low, 1.0 + high) * advantages)
    above = mx.logical_and(advantages > 0.0, ratio > 1.0 + high)
    below = mx.logical_and(advantages < 0.0, ratio < 1.0 - low)
    return PolicyLoss(loss, ratio, mx.logical_or(above, below))


def k3(logprobs: mx.array, reference: mx.array) -> mx.array:
    """An estimate of KL(policy‖reference) from each sampled token: exp(d) − d − 1, d = reference − policy. [N].

    Never negative, and unbiased for tokens sampled from the policy.

    Source: J. Schulman, "Approximating KL divergence" (2020); GRPO, arXiv 2402.03300, equation 4.
    """
    difference = reference - logprobs
    return exponential(difference) - difference - 1.0


def entropy(logits: mx.array, probabilities: mx.array, normaliser: mx.array) -> mx.array:
    """Exact entropy in nats at each position: log Z − Σ_v p_v·z_v.

    `logits` z [N, V] (divided by the temperature), `probabilities` p [N, V] their softmax, `normaliser` log Z [N]
    their logsumexp.
    """
    return normaliser - mx.sum(probabilities * logits, axis=-1)


def forward_kl(
    logits: mx.array,
    normaliser: mx.array,
    reference: mx.array,
    probabilities: mx.array,
    reference_normaliser: mx.array,
) -> mx.array:
    """Exact KL(reference‖policy) in nats at each position, Σ_v q_v·(log q_v − log p_v). [N].

    Its gradient by the policy's logits is p − q, which does not fade where the policy has become certain.

    `logits` [N, V] and `normaliser` [N] are the policy's; `reference` [N, V] logits, `probabilities` q [N, V] and
    `reference_normaliser` [N] the reference's, all at the same temperature.
    """
    return mx.sum(probabilities * (reference - logits), axis=-1) - reference_normaliser + normaliser


def weights(normaliser: Normaliser, lengths: np.ndarray) -> np.ndarray:
    """What the loss of one token of each sequence counts, so that a step's loss is Σ weight·loss over its tokens.

    The denominator is that of the whole optimiser step, whose active tokens a sequence are `lengths` [S]; hence
    splitting the step into microbatches changes nothing. Returns float32 [S].

    - `dapo`: 1 / all active tokens. Every token weighs the same (arXiv 2503.14476, section 3.3).
    - `grpo`: 1 / (sequences · the sequence's own tokens). Every sequence weighs the same (arXiv 2402.03300).
    - `dr_grpo`: 1 / (sequences · tokens of the longest). No reward for being long or short (arXiv 2503.20783).

    Raises:
        ValueError: a sequence without tokens, or a normaliser that does not exist.
    """
    lengths = np.asarray(lengths)
    if lengths.size == 0:
        return np.zeros(0, np.float32)
    if lengths.min() < 1:
        raise ValueError(
            f"sequence {int(lengths.argmin())} has {lengths.min()} active tokens; each needs at least 1"
        )
    match normaliser:
        case "dapo":
            denominators = np.full(lengths.shape, lengths.sum())
        case "grpo":
            denominators = lengths.size * lengths
        case "dr_grpo":
            denominators = np.full(lengths.shape, lengths.size * lengths.max())
        case _:
            raise ValueError(f"normaliser {normaliser!r} does not exist; there are 'dapo', 'grpo' and 'dr_grpo'")
    return (1.0 / denominators).astype(np.float32)


def chosen_weights(advantages: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """What a token of each sequence counts, so that Σ weight·(−log π) is the mean over the tokens chosen.

    Chosen are the sequences whose advantage is above 0; the others weigh 0. Both arrays [S]; returns float32 [S].
    """
    chosen = np.asarray(advantages) > 0.0
    return (chosen / max(1, int(np.sum(lengths, where=chosen)))).astype(np.float32)


def normalise(losses: mx.array, segments: mx.array, sequence_weights: mx.array) -> mx.array:
    """Σ weight·loss over tokens: losses [N], segments [N] int, sequence_weights [S] from `weights`. A scalar."""
    return mx.sum(losses * sequence_weights[segments])
