"""What one optimiser step measured, token by token, summed up into metrics, and for each turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from engine.training.batching import Microbatch, Minibatch
from engine.training.preferences import Judgement
from engine.types import Fate, Learnt, TrainingRecord

AVERAGED = ("ratio", "clipped", "entropy", "kl")
"""What is averaged over active tokens."""
SUMMED = ("policy_loss", "sft_loss")
"""What is weighted already: its sum over an update is the update's."""


class Measures:
    """Collects what was measured of microbatches; a minibatch's counts once its update is made."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._kept: dict[str, list[np.ndarray]] = defaultdict(list)
        self._pending: list[tuple[str, np.ndarray]] = []
        self._updates: list[tuple[float, float]] = []
        self._tokens = self._computed_tokens = 0

    def add(self, microbatch: Microbatch, measured: dict[str, np.ndarray]) -> None:
        """`measured` are the arrays of `objective.Measured`."""
        self._pending += [(name, measured[name]) for name in (*AVERAGED, *SUMMED) if name in measured]
        if not self._updates:
            own = microbatch.versions == self.version
            self._pending.append(("mismatch", np.abs(measured["logprobs"] - microbatch.behaviour)[own]))

    def prefer(self, judgement: Judgement) -> None:
        """What was said of the minibatch's pairs."""
        self._pending += [("dpo_loss", judgement.losses), ("dpo_accuracy", judgement.margins > 0.0)]

    def keep(self, minibatch: Minibatch, loss: float, grad_norm: float) -> None:
        """The minibatch's update was made."""
        self._tell(minibatch)
        for name, values in self._pending:
            self._kept[name].append(values)
        self._pending.clear()
        self._updates.append((loss, grad_norm))
        self._tokens += minibatch.tokens
        self._computed_tokens += sum(microbatch.size for microbatch in minibatch.microbatches)

    def discard(self, minibatch: Minibatch) -> None:
        """The minibatch's update was left out."""
        self.leave(minibatch.records, Fate.NONFINITE)
        self._pending.clear()

    def leave(self, records: Iterable[TrainingRecord], fate: Fate) -> None:
        """Say of turns why nothing was learnt from them."""
        for record in records:
            record.learnt = Learnt(fate, self.version - record.version)

    def _tell(self, minibatch: Minibatch) -> None:
        """Say of each turn what was measured of its tokens, which lie one turn after the other."""
        ratios, clipped, losses = (
            np.concatenate([values for kind, values in self._pending if kind == name])
            for name in ("ratio", "clipped", "policy_loss")
        )
        start = 0
        for record in minibatch.records:
            own = slice(start, start := start + len(record.tokens))
            record.ratios = ratios[own].tolist()
            record.learnt = Learnt(
                Fate.LEARNT,
                self.version - record.version,
                float(ratios[own].mean()),
                float(ratios[own].max()),
                int(clipped[own].sum()),
                float(losses[own].sum()),
            )

    def metrics(self) -> dict[str, float]:
        """Plain floats. A key that was not measured is left out, never NaN.

        - `loss`, `policy_loss` and `sft_loss` (before their weights), `grad_norm` (before clipping): means over
          updates;
        - over active tokens: `entropy` (nats), `kl` if it has a weight, `ratio_mean`, `ratio_max`, `clip_fraction`
          (where the loss bounded the ratio);
        - `mismatch_mean`, `mismatch_max`: |log-probability here − when sampled| of tokens of the learner's own
          version, before the first update. Numerical drift between sampler and learner, to sit near 0;
        - over preference pairs, where there are any: `pairs` (how many), `dpo_loss`, and `dpo_accuracy`, the share
          whose preferred side has gained more on the other than in the reference;
        - `tokens` (prompt and completion of every conversation), `active_tokens`, and `computed_tokens`: with
          padding, and conversations that are alike once. Passes without a gradient aren't counted.
        """
        joined = {name: np.concatenate(arrays) for name, arrays in self._kept.items()}
        found = {
            "tokens": float(self._tokens),
            "active_tokens": float(joined["ratio"].size if joined else 0),
            "computed_tokens": float(self._computed_tokens),
        }
        if not joined:
            return found
        loss, norm = np.mean(self._updates, axis=0)
        found |= {
            "loss": float(loss),
            "grad_norm": float(norm),
            "entropy": float(joined["entropy"].mean()),
            "ratio_mean": float(joined["ratio"].mean()),
            "ratio_max": float(joined["ratio"].max()),
            "clip_fraction": float(joined["clipped"].mean()),
        }
        found |= {name: float(joined[name].sum()) / len(self._updates) for name in SUMMED if name in joined}
        if "kl" in joined:
            found["kl"] = float(joined["kl"].mean())
        if joined["mismatch"].size:
            found["mismatch_mean"] = float(joined["mismatch"].mean())
            found["mismatch_max"] = float(joined["mismatch"].max())
        if "dpo_loss" in joined:
            found["pairs"] = float(joined["dpo_loss"].size)
            found |= {name: float(joined[name].mean()) for name in ("dpo_loss", "dpo_accuracy")}
        return found
