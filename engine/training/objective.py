"""What one microbatch adds to an update: its loss, its gradient, and what is measured of its tokens."""

from __future__ import annotations

import mlx.core as mx

from engine.config import TrainConfig
from engine.inference.adapters import Adapters
from engine.inference.families import Packed
from engine.inference.models import LanguageModel
from engine.training import losses
from engine.training.batching import Microbatch
from engine.training.logprobs import active_hidden, score

Measured = dict[str, mx.array]
"""[N] arrays: policy_loss, ratio, logprobs, entropy, and kl where there is one."""


def backward(
    lm: LanguageModel,
    adapters: Adapters,
    packed: Packed,
    microbatch: Microbatch,
    weights: mx.array,
    train: TrainConfig,
) -> tuple[mx.array, Measured, Packed]:
    """Loss, measurements and gradient, not evaluated yet.

    `weights` [S] are those of `losses.weights`, for all sequences of the update.
    """
    tokens, positions = mx.array(microbatch.tokens), mx.array(microbatch.positions)
    targets, segments = mx.array(microbatch.targets), mx.array(microbatch.segments)
    behaviour, advantages = mx.array(microbatch.behaviour), mx.array(microbatch.advantages)
    temperatures = mx.array(microbatch.temperatures)
    reference = None
    if train.kl > 0.0:
        with adapters.rows([0] * len(tokens)):
            reference = active_hidden(lm, tokens, positions)

    def objective(packed: Packed) -> tuple[mx.array, Measured]:
        with adapters.learning(adapters.families.unpack(packed)):
            hidden = active_hidden(lm, tokens, positions)
        scores = score(lm, hidden, targets, temperatures, reference, microbatch.allowed)
        policy, ratio = losses.ppo_clip(scores.logprobs, behaviour, advantages, train.clip_low, train.clip_high)
        measured = {"policy_loss": policy, "ratio": ratio, "logprobs": scores.logprobs, "entropy": scores.entropy}
        total = policy - train.entropy * scores.entropy if train.entropy > 0.0 else policy
        if scores.reference is not None and scores.forward_kl is not None:
            forward = train.kl_kind == "forward"
            measured["kl"] = scores.forward_kl if forward else losses.k3(scores.logprobs, scores.reference)
            total = total + train.kl * measured["kl"]
        return losses.normalise(total, segments, weights), measured

    (loss, measured), gradients = mx.value_and_grad(objective)(packed)
    return loss, measured, gradients
