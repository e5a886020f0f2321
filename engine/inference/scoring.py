"""How likely a player is to give certain replies: one teacher-forced pass, no sampling."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.inference import fastmath
from engine.inference.adapters import Adapters
from engine.inference.constraints import Choices
from engine.inference.models import LanguageModel
from engine.inference.sampling import adjusted

COLDEST = 1e-4
"""Stands for temperature 0, which has no finite log-probabilities."""


def reply_logprobs(
    lm: LanguageModel,
    adapters: Adapters,
    player: str,
    prompt: Sequence[int],
    replies: Sequence[Sequence[int]],
    temperature: float,
    choices: Choices | None = None,
) -> list[float]:
    """Natural log-probability of each reply (token ids, its end of turn included) after the prompt.

    At the given temperature, over the whole vocabulary or, with `choices`, over the tokens these allow after what
    came before; every reply must then be one of them (else KeyError). On the device thread.
    """
    longest = max(len(reply) for reply in replies)
    rows = np.zeros((len(replies), len(prompt) + longest), np.int32)
    mask = np.zeros((len(replies), longest), np.float32)
    for row, reply in enumerate(replies):
        rows[row, : len(prompt)] = prompt
        rows[row, len(prompt) : len(prompt) + len(reply)] = reply
        mask[row, : len(reply)] = 1.0
    tokens = mx.array(rows)
    with adapters.speaking(player):
        hidden = lm.hidden(tokens[:, :-1])[:, len(prompt) - 1 :]
        logits = lm.head(hidden).astype(mx.float32) / max(temperature, COLDEST)
    if choices is not None:
        allowed = [ids for reply in replies for ids in [*choices.along(reply), *[None] * (longest - len(reply))]]
        logits = adjusted(logits.reshape(-1, logits.shape[-1]), allowed=allowed).reshape(logits.shape)
    targets = tokens[:, len(prompt) :]
    chosen = mx.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    logprobs = ((chosen - fastmath.logsumexp(logits)) * mx.array(mask)).sum(axis=-1)
    return np.array(logprobs).tolist()
