"""What one microbatch adds to an update: its loss, its gradient, and what is measured of its tokens.

An update's loss is a sum over its tokens, each with the weight of its sequence, so that it doesn't matter which
tokens are computed together. A new policy loss is a function in `losses` and a line in `policy_loss`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from engine.config import TrainConfig
from engine.inference.adapters import Adapters
from engine.inference.families import Packed
from engine.inference.models import LanguageModel
from engine.training import losses, norms
from engine.training.batching import Microbatch, Minibatch
from engine.training.logprobs import Scores, active_hidden, score
from engine.training.memory import in_blocks
from engine.training.preferences import Judgement

Measured = dict[str, mx.array]
"""[N] arrays: logprobs, entropy, ratio, clipped, policy_loss; kl and sft_loss where there are these.

The two losses are weighted: their sums over an update are its losses.
"""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a token of each of an update's S sequences counts."""

    lengths: mx.array
    """[S] float32: active tokens."""
    policy: mx.array
    """[S] float32: in policy loss, divergence and entropy."""
    chosen: mx.array | None = None
    """[S] float32: in supervised learning; None where there is none."""
    pulls: mx.array | None = None
    """[S] float32: how DPO pulls its log-probability up; None where there are no pairs."""

    @classmethod
    def of(cls, minibatch: Minibatch, judgement: Judgement | None, train: TrainConfig) -> Weights:
        return cls(
            mx.array(minibatch.lengths.astype(np.float32)),
            mx.array(losses.weights(train.normaliser, minibatch.lengths)),
            mx.array(losses.chosen_weights(minibatch.advantages, minibatch.lengths)) if train.sft > 0.0 else None,
            mx.array(judgement.pulls) if judgement is not None else None,
        )


def backward(
    lm: LanguageModel,
    adapters: Adapters,
    packed: Packed,
    microbatch: Microbatch,
    weights: Weights,
    train: TrainConfig,
) -> tuple[mx.array, Measured, Packed]:
    """Loss without DPO's, measurements, and gradient with DPO's. Not evaluated yet."""
    segments, advantages = mx.array(microbatch.segments), mx.array(microbatch.advantages)
    behaviour = mx.array(microbatch.behaviour)
    reference = _reference(lm, adapters, microbatch, train) if train.kl > 0.0 else None

    def objective() -> tuple[mx.array, Measured]:
        scores = _scores(lm, adapters, microbatch, reference, train, differentiable(train))
        policy = policy_loss(train, scores.logprobs, behaviour, advantages, segments, weights.lengths)
        measured = {
            "logprobs": scores.logprobs,
            "entropy": scores.entropy,
            "ratio": policy.ratio,
            "clipped": policy.clipped,
            "policy_loss": policy.loss * weights.policy[segments],
        }
        each = train.policy * policy.loss if train.policy > 0.0 else mx.zeros_like(policy.loss)
        if train.entropy > 0.0:
            each = each - train.entropy * scores.entropy
        if scores.reference is not None and scores.forward_kl is not None:
            forward = train.kl_kind == "forward"
            measured["kl"] = scores.forward_kl if forward else losses.k3(scores.logprobs, scores.reference)
            each = each + train.kl * measured["kl"]
        total = losses.normalise(each, segments, weights.policy)
        if weights.chosen is not None:
            measured["sft_loss"] = -scores.logprobs * weights.chosen[segments]
            total = total + train.sft * mx.sum(measured["sft_loss"])
        if weights.pulls is not None:
            # Zero, but for its gradient: the value needs both sides of a pair, and is known already.
            growth = scores.logprobs - mx.stop_gradient(scores.logprobs)
            total = total - train.dpo * losses.normalise(growth, segments, weights.pulls)
        return total, measured

    with norms.frozen(lm):
        return adapters.value_and_grad(objective, packed)


def policy_loss(
    train: TrainConfig,
    logprobs: mx.array,
    behaviour: mx.array,
    advantages: mx.array,
    segments: mx.array,
    lengths: mx.array,
) -> losses.PolicyLoss:
    """The loss that is configured. Arrays [N], but `lengths` [S], the active tokens of each sequence."""
    match train.loss:
        case "ppo":
            return losses.ppo(logprobs, behaviour, advantages, *train.clip)
        case "gspo":
            return losses.gspo(logprobs, behaviour, advantages, segments, lengths, *train.clip)
        case "cispo":
            return losses.cispo(logprobs, behaviour, advantages, train.ratio_cap)
        case "pg":
            return losses.policy_gradient(logprobs, behaviour, advantages)


def log_ratios(
    lm: LanguageModel, adapters: Adapters, packed: Packed, microbatch: Microbatch, train: TrainConfig
) -> np.ndarray:
    """log π − log π_ref of each token [N], computed at once and without a gradient."""
    reference = _reference(lm, adapters, microbatch, train)
    with adapters.learning_packed(packed):
        scores = _scores(lm, adapters, microbatch, reference, train)
    assert scores.reference is not None
    return np.array(scores.logprobs - scores.reference)


def _scores(
    lm: LanguageModel,
    adapters: Adapters,
    microbatch: Microbatch,
    reference: mx.array | None,
    train: TrainConfig,
    differentiable: Collection[str] = (),
) -> Scores:
    """With the adapter that forward passes use now."""
    with in_blocks(lm, adapters, recompute=train.checkpoint_layers):
        hidden = active_hidden(lm, mx.array(microbatch.tokens), mx.array(microbatch.positions))
    targets, temperatures = mx.array(microbatch.targets), mx.array(microbatch.temperatures)
    return score(lm, hidden, targets, temperatures, reference, microbatch.allowed, differentiable=differentiable)


def differentiable(train: TrainConfig) -> set[str]:
    """The scores that the loss is made of. The others are only measured."""
    counts = {"logprobs": True, "entropy": train.entropy > 0.0, "forward_kl": train.kl_kind == "forward"}
    return {score for score, does in counts.items() if does}


def _reference(lm: LanguageModel, adapters: Adapters, microbatch: Microbatch, train: TrainConfig) -> mx.array:
    """The reference policy's hidden states [N, D] where active tokens are predicted."""
    with adapters.speaking(train.kl_reference):
        return active_hidden(lm, mx.array(microbatch.tokens), mx.array(microbatch.positions))
