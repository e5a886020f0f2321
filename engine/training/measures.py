"""What one optimiser step measured, token by token, summed up into metrics."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from engine.training import losses
from engine.training.batching import Microbatch, Minibatch


class Measures:
    """Collects [N] arrays of microbatches; those of a minibatch count once its update is made."""

    def __init__(self, version: int, clip_low: float, clip_high: float) -> None:
        self.version = version
        self.clip_low = clip_low
        self.clip_high = clip_high
        self._kept: dict[str, list[np.ndarray]] = defaultdict(list)
        self._pending: list[tuple[str, np.ndarray]] = []
        self._minibatches: list[tuple[float, float]] = []
        self._tokens = self._computed_tokens = 0

    def add(self, microbatch: Microbatch, weights: np.ndarray, measured: dict[str, np.ndarray]) -> None:
        """`measured` holds [N] arrays: policy_loss, ratio, logprobs, entropy, and kl where there is one."""
        self._pending += [(name, measured[name]) for name in ("ratio", "entropy", "kl") if name in measured]
        ratio, advantages = measured["ratio"], microbatch.advantages
        self._pending.append(("clipped", losses.clipped(ratio, advantages, self.clip_low, self.clip_high)))
        self._pending.append(("policy_loss", measured["policy_loss"] * weights[microbatch.segments]))
        if not self._minibatches:
            own = microbatch.versions == self.version
            self._pending.append(("mismatch", np.abs(measured["logprobs"] - microbatch.behaviour)[own]))

    def keep(self, minibatch: Minibatch, loss: float, grad_norm: float) -> None:
        """The minibatch's update was made."""
        for name, values in self._pending:
            self._kept[name].append(values)
        self._pending.clear()
        self._minibatches.append((loss, grad_norm))
        self._tokens += minibatch.tokens
        self._computed_tokens += sum(microbatch.size for microbatch in minibatch.microbatches)

    def discard(self) -> None:
        """The minibatch's update was left out."""
        self._pending.clear()

    def metrics(self) -> dict[str, float]:
        """Plain floats. A key that was not measured is left out, never NaN.

        - `loss`, `policy_loss`, `grad_norm` (before clipping): means over updates;
        - over active tokens: `entropy` (nats), `kl` if it has a weight, `ratio_mean`, `ratio_max`, `clip_fraction`;
        - `mismatch_mean`, `mismatch_max`: |log-probability here − when sampled| of tokens of the learner's own
          version, before the first update. Numerical drift between sampler and learner, to sit near 0;
        - `tokens` (prompt and completion of every conversation), `active_tokens`, and `computed_tokens`: with
          padding, and conversations that are alike once.
        """
        joined = {name: np.concatenate(arrays) for name, arrays in self._kept.items()}
        active = joined["ratio"].size if joined else 0
        found = {
            "tokens": float(self._tokens),
            "active_tokens": float(active),
            "computed_tokens": float(self._computed_tokens),
        }
        if not joined:
            return found
        loss, norm = np.mean(self._minibatches, axis=0)
        found |= {
            "loss": float(loss),
            "policy_loss": float(joined["policy_loss"].sum()) / len(self._minibatches),
            "grad_norm": float(norm),
            "entropy": float(joined["entropy"].mean()),
            "ratio_mean": float(joined["ratio"].mean()),
            "ratio_max": float(joined["ratio"].max()),
            "clip_fraction": float(joined["clipped"].mean()),
        }
        if "kl" in joined:
            found["kl"] = float(joined["kl"].mean())
        if joined["mismatch"].size:
            found["mismatch_mean"] = float(joined["mismatch"].mean())
            found["mismatch_max"] = float(joined["mismatch"].max())
        return found
