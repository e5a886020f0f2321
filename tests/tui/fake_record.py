"""What a scripted run remembers of its last steps, where a real one has its record."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from engine.reading import tracing
from engine.reading.tracing import Trace
from engine.types import Credit, Fate, GenerateResult, Learnt

DECAY = 0.95


def logprob(token: int) -> float:
    """Of a scripted token: the same one is always as likely."""
    return -0.05 - (token * 37 % 11) / 2


def credited(reward: float, role: str) -> Credit:
    """RAE about a baseline that doesn't move: it has long been there."""
    baseline = 0.12 if role == "First" else -0.12
    after = DECAY * baseline + (1 - DECAY) * reward
    return Credit(reward - baseline, reward, baseline, group=f"nim/{role}", rule="rae", decay=DECAY, after=after)


def learn(results: Sequence[GenerateResult]) -> None:
    """The learner's word on each turn: now and then a token was clipped, and a turn was stale."""
    for result in results:
        for turn in result.rollout.turns:
            tokens = turn.completion.tokens
            ratios = turn.ratios = [0.7 + (token * 29 % 7) / 10 for token in tokens]
            if not tokens or turn.credit is None:
                continue
            clipped = sum(ratio > 1.2 for ratio in ratios)
            loss = -turn.credit.advantage * len(tokens) / 1000
            turn.learnt = Learnt(Fate.LEARNT, 0, sum(ratios) / len(ratios), max(ratios), clipped, loss)


class FakeRecord:
    def __init__(self, steps: int = 20) -> None:
        self._steps: deque[tuple[int, bool, Sequence[GenerateResult]]] = deque(maxlen=steps)

    def add(self, step: int, results: Sequence[GenerateResult], *, evaluation: bool = False) -> None:
        self._steps.append((step, evaluation, results))

    def trace(self, rollout_id: str) -> Trace | None:
        for step, evaluation, results in reversed(self._steps):
            found = tracing.of([results], rollout_id, step)
            if found is not None:
                return replace(found, episode=replace(found.episode, evaluation=evaluation))
        return None
