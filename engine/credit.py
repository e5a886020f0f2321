"""Credit: from the rewards of a batch of rollout trees to an advantage for every trainable turn.

Which rewards are compared with which is the whole matter. In a zero-sum game between two seats of one
policy the mean reward is 0 whatever is learnt, and one seat may be worth more than the other: RAE keeps a
moving average for each role. Where several rollouts start from the same question, the others are the
baseline: GRPO. Comparing answers to different questions is a fault, so groups follow artifacts and the tree.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from statistics import fmean, stdev
from typing import Any

from engine.types import Credit, GenerateResult, Rollout, TrainingRecord, Turn

STD_EPSILON = 1e-4
"""Added to a group's standard deviation before dividing, as in TRL."""


class CreditAssigner(ABC):
    """Fills in `Turn.credit` of every trainable turn; stateful ones keep their state across steps."""

    def __init__(self, discount: float = 1.0) -> None:
        self.discount = discount

    @abstractmethod
    def assign(self, results: list[GenerateResult]) -> None:
        """Give credit to a batch, in its order, which must not depend on timing."""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but was given {sorted(state)}")

    def _give(self, rollout: Rollout, role: str, credit: Credit) -> None:
        """The role's turns share its credit, discounted by how many of them were still to come."""
        turns = trainable_turns(rollout, role)
        for to_come, turn in enumerate(reversed(turns)):
            turn.credit = Credit(
                credit.advantage * self.discount**to_come,
                credit.reward,
                credit.baseline,
                credit.spread,
                credit.group,
                credit.group_size,
                credit.counts,
            )


class RAECredit(CreditAssigner):
    """Role-conditioned advantage estimation (SPIRAL, arXiv 2506.24119): `A = R − b(episode type, role)`.

    `b` is read before it is updated, `b ← decay·b + (1 − decay)·R`, from 0, once per rollout in the
    batch's order. Not divided by a standard deviation. Only rollouts that train touch a baseline.
    """

    def __init__(self, decay: float = 0.95, discount: float = 1.0) -> None:
        super().__init__(discount)
        self.decay = decay
        self.baselines: dict[str, float] = {}

    def assign(self, results: list[GenerateResult]) -> None:
        for rollout in trainable_rollouts(results):
            for role, reward in sorted(rollout.rewards.items()):
                if not trainable_turns(rollout, role):
                    continue
                key = f"{rollout.episode_type}/{role}"
                baseline = self.baselines.get(key, 0.0)
                self._give(rollout, role, Credit(reward - baseline, reward, baseline, group=key))
                self.baselines[key] = self.decay * baseline + (1 - self.decay) * reward

    def state(self) -> dict[str, Any]:
        return {"baselines": dict(self.baselines)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.baselines = dict(state["baselines"])


class GRPOCredit(CreditAssigner):
    """Group-relative advantages (DeepSeekMath, arXiv 2402.03300): `A = R − mean(group)`, per role.

    At the top level a group is the rollouts of one episode type that started from the same artifact (or
    carry the same `EpisodeRequest.group`) under the same prompt edits; below, the siblings under one
    parent. A group of one, or without spread, gets 0 and leaves the batch. With `normalise`, divided
    by the group's standard deviation.
    """

    def __init__(self, normalise: bool = False, discount: float = 1.0) -> None:
        super().__init__(discount)
        self.normalise = normalise

    def assign(self, results: list[GenerateResult]) -> None:
        groups: dict[str, list[GenerateResult]] = defaultdict(list)
        for result in results:
            rollout = result.rollout
            edits = ",".join(f"{role}#{number}" for role, number in sorted(rollout.edits.items()) if number)
            groups["|".join(filter(None, (rollout.episode_type, group_key(rollout), edits)))].append(result)
        for name, members in groups.items():
            self._assign_group(name, members)

    def _assign_group(self, name: str, members: list[GenerateResult]) -> None:
        rollouts = [m.rollout for m in members if _trains(m)]
        for role in sorted({role for rollout in rollouts for role in rollout.rewards}):
            players = [r for r in rollouts if role in r.rewards and trainable_turns(r, role)]
            rewards = [rollout.rewards[role] for rollout in players]
            if not rewards:
                continue
            mean, spread = fmean(rewards), stdev(rewards) if len(rewards) > 1 else 0.0
            counts = max(rewards) > min(rewards)
            scale = spread + STD_EPSILON if self.normalise else 1.0
            for rollout, reward in zip(players, rewards, strict=True):
                advantage = (reward - mean) / scale if counts else 0.0
                group = f"{name}/{role}"
                self._give(rollout, role, Credit(advantage, reward, mean, spread, group, len(rewards), counts))
        for member in members:
            siblings: dict[str, list[GenerateResult]] = defaultdict(list)
            for child in member.children:
                siblings[child.rollout.episode_type].append(child)
            for kind, children in siblings.items():
                self._assign_group(f"{member.rollout.id}>{kind}", children)


class ConstantCredit(CreditAssigner):
    """Every trainable turn weighs 1: supervised learning on what survived the filter."""

    def assign(self, results: list[GenerateResult]) -> None:
        for rollout in trainable_rollouts(results):
            for role in {turn.role for turn in rollout.turns}:
                reward = rollout.rewards.get(role, 0.0)
                self._give(rollout, role, Credit(1.0, reward, group="constant"))


def group_key(rollout: Rollout) -> str:
    """What a top-level rollout is compared by: its group if it names one, else its artifact."""
    if rollout.group is not None:
        return rollout.group
    return "" if rollout.artifact is None else json.dumps(rollout.artifact, sort_keys=True, default=repr)


def trainable_rollouts(results: Iterable[GenerateResult]) -> list[Rollout]:
    """Every rollout of the trees that may train, parents before children."""
    return [node.rollout for result in results for node in result.walk() if _trains(node)]


def trainable_turns(rollout: Rollout, role: str) -> list[Turn]:
    return [turn for turn in rollout.turns if turn.role == role and turn.trainable and turn.completion.tokens]


def training_records(results: Iterable[GenerateResult]) -> list[TrainingRecord]:
    """One record for each turn that has credit and counts."""
    return [
        TrainingRecord(
            rollout_id=rollout.id,
            turn=turn.index,
            role=turn.role,
            episode_type=rollout.episode_type,
            prompt_tokens=turn.completion.prompt_tokens,
            tokens=turn.completion.tokens,
            logprobs=turn.completion.logprobs,
            versions=turn.completion.versions,
            advantage=turn.credit.advantage,
            temperature=turn.completion.sampling.temperature,
            allowed=turn.completion.allowed,
        )
        for rollout in trainable_rollouts(results)
        for turn in rollout.turns
        if turn.credit is not None and turn.credit.counts
    ]


def _trains(result: GenerateResult) -> bool:
    return result.is_trainable and result.rollout.error is None and result.rollout.unscored is None
