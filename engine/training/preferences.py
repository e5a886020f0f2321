"""Preference pairs: which conversations of a step are compared, and how DPO pulls at their tokens. NumPy only.

A conversation is all that one role said in one rollout. DPO's gradient by a token's log-probability is a constant
for its whole conversation, given the sums of log-ratios of both sides. So these sums are computed first, without a
gradient, and what is left is linear in the tokens: the two sides of a pair needn't share a microbatch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from engine.types import TrainingRecord

Conversation = tuple[str, str]
"""Rollout and role, as `TrainingRecord.conversation`."""


class Pair(NamedTuple):
    """Two conversations that began alike, of which the first got the higher reward."""

    preferred: Conversation
    other: Conversation


class Judgement(NamedTuple):
    """What DPO says of the pairs of an update."""

    losses: np.ndarray
    """[P]: of each pair."""
    margins: np.ndarray
    """[P]: log-ratio to the reference of the preferred conversation minus that of the other."""
    pulls: np.ndarray
    """[S] float32: minus the derivative of the mean loss by the log-probability of a token of each sequence."""


def pairs(records: Sequence[TrainingRecord]) -> list[Pair]:
    """Best with worst, second best with second worst, and so on; no conversation twice.

    Compared are conversations of one role in one type of episode under the same skill tags whose first prompts are
    equal token by token, and which got different rewards. Of equal rewards the conversation that comes first in
    `records` counts as better.
    """
    openings: dict[Conversation, TrainingRecord] = {}
    for record in records:
        first = openings.setdefault(record.conversation, record)
        if record.turn < first.turn:
            openings[record.conversation] = record
    alike: dict[tuple[object, ...], list[TrainingRecord]] = defaultdict(list)
    for opening in openings.values():
        alike[opening.episode_type, opening.role, opening.tags, tuple(opening.prompt_tokens)].append(opening)
    made = []
    for group in alike.values():
        ranked = sorted(group, key=lambda record: -record.reward)
        for better, worse in zip(ranked[: len(ranked) // 2], reversed(ranked), strict=False):
            if better.reward > worse.reward:
                made.append(Pair(better.conversation, worse.conversation))
    return made


def dpo(margins: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """−log σ(β·margin) of each pair [P], and minus its derivative by the margin, β·σ(−β·margin) [P].

    A margin is log π − log π_ref of the preferred conversation minus that of the other, each summed up over its
    completion tokens.

    Source: DPO, arXiv 2305.18290, equation 7.
    """
    rewards = beta * np.asarray(margins, np.float64)
    return np.logaddexp(0.0, -rewards), beta * np.exp(-np.logaddexp(0.0, rewards))


def judge(pairs: np.ndarray, conversations: np.ndarray, logratios: np.ndarray, beta: float) -> Judgement:
    """Losses, margins and pulls, from what each sequence says.

    `pairs` [P, 2] int are conversations, the preferred one first; `conversations` [S] int says whose each sequence
    is; `logratios` [S] is log π − log π_ref summed up over its tokens.
    """
    sums = np.bincount(conversations, logratios)
    margins = sums[pairs[:, 0]] - sums[pairs[:, 1]]
    loss, growth = dpo(margins, beta)
    pulls = np.zeros_like(sums)
    pulls[pairs[:, 0]] = growth / len(pairs)
    pulls[pairs[:, 1]] = -growth / len(pairs)
    return Judgement(loss, margins, pulls[conversations].astype(np.float32))
