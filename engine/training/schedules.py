"""The learning rate of each step."""

from __future__ import annotations

import math

from engine.config import TrainConfig

WARMUP_START = 0.1
"""Share of the learning rate the first step has."""


def rate(step: int, total: int, train: TrainConfig) -> float:
    """The learning rate of the step after `step` others, of a run of `total`.

    Over `train.warmup` steps it rises in a line from `WARMUP_START` of `learning_rate` to all of it. From there,
    with p the share of the steps after warm-up that are done, it is `learning_rate` times

    - constant: 1
    - linear: 1 − (1 − f) · p
    - cosine: f + (1 − f) · (1 + cos πp) / 2, of SGDR without restarts (arXiv 1608.03983, equation 5)

    where f is `final_rate`, reached as the run ends: the last step is still one step's worth above it. After
    warm-up, steps beyond `total` have p = 1.
    """
    if step < train.warmup:
        return train.learning_rate * (WARMUP_START + (1.0 - WARMUP_START) * (step / train.warmup))
    done = (step - train.warmup) / (total - train.warmup) if step < total else 1.0
    match train.schedule:
        case "constant":
            share = 1.0
        case "linear":
            share = 1.0 - (1.0 - train.final_rate) * done
        case "cosine":
            share = train.final_rate + (1.0 - train.final_rate) * (1.0 + math.cos(math.pi * done)) / 2.0
    return train.learning_rate * share
