"""Credit: from the rewards of a batch of rollout trees to an advantage for every trainable turn.

Which rewards are compared with which is the whole matter. In a zero-sum game between two seats of one
policy the mean reward is 0 whatever is learnt, and one seat may be worth more than the other: RAE keeps a
moving average for each role. Where several rollouts start from the same question, the others are the
baseline: GRPO. Comparing answers to different questions is a fault, so groups follow artifacts and the tree.

Every turn keeps the sum it came from: `A = discount · (R − baseline)`, with `normalise` divided by the spread.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from statistics import fmean, stdev
from typing import Any

from engine.rows import to_json
from engine.types import Credit, Fate, GenerateResult, Learnt, Rollout, TrainingRecord, Turn

STD_EPSILON = 1e-4
"""Added to a group's standard deviation before dividing, as in TRL."""

LABEL = 60
"""Characters of an artifact that a group's name holds."""


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
        """Go on from a `state`. Raises `ValueError` if it is another assigner's."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state, but was given {sorted(state)}")

    def _give(self, rollout: Rollout, role: str, credit: Credit) -> None:
        """The role's turns share its credit, discounted by how many of them were still to come."""
        turns = trainable_turns(rollout, role)
        for to_come, turn in enumerate(reversed(turns)):
            discount = self.discount**to_come
            turn.credit = replace(credit, advantage=discount * credit.advantage, discount=discount)


class RAECredit(CreditAssigner):
    """Role-conditioned advantage estimation (SPIRAL, arXiv 2506.24119): `A = R − b(episode type, role)`.

    `b` is read before it is updated, `b ← decay·b + (1 − decay)·R`, from 0, once per rollout in the
    batch's order. Not divided by a standard deviation. Only rollouts that train touch a baseline. A role
    that is asked under skill tags has a baseline for each.
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
                whose = f"{rollout.episode_type}/{_short(role, rollout)}"
                key = "|".join(filter(None, (whose, rollout.tags.get(role))))
                baseline = self.baselines.get(key, 0.0)
                self.baselines[key] = after = self.decay * baseline + (1 - self.decay) * reward
                credit = Credit(reward - baseline, reward, baseline, group=key)
                self._give(rollout, role, replace(credit, rule="rae", decay=self.decay, after=after))

    def state(self) -> dict[str, Any]:
        return {"baselines": dict(self.baselines)}

    def load_state(self, state: dict[str, Any]) -> None:
        if "baselines" not in state:
            raise ValueError(f"{type(self).__name__} keeps baselines, but was given {sorted(state)}")
        self.baselines = dict(state["baselines"])


class GRPOCredit(CreditAssigner):
    """Group-relative advantages (DeepSeekMath, arXiv 2402.03300): `A = R − mean(group)`, per role.

    See `groups` for what is compared. A group of one, or without spread, gets 0 and leaves the batch. With
    `normalise`, divided by the group's standard deviation (n − 1 in its denominator) plus `STD_EPSILON`.
    """

    def __init__(self, normalise: bool = False, discount: float = 1.0) -> None:
        super().__init__(discount)
        self.normalise = normalise

    def assign(self, results: list[GenerateResult]) -> None:
        for name, rollouts in groups(results):
            for role in sorted({role for rollout in rollouts for role in rollout.rewards}):
                self._compare(name, role, [r for r in rollouts if role in r.rewards and trainable_turns(r, role)])

    def _compare(self, name: str, role: str, rollouts: list[Rollout]) -> None:
        rewards = [rollout.rewards[role] for rollout in rollouts]
        if not rewards:
            return
        mean, spread = fmean(rewards), stdev(rewards) if len(rewards) > 1 else 0.0
        counts = not _equal(rewards)
        scale = spread + STD_EPSILON if self.normalise else 1.0
        for rollout, reward in zip(rollouts, rewards, strict=True):
            advantage = (reward - mean) / scale if counts else 0.0
            group = f"{name}/{_short(role, rollout)}"
            credit = Credit(advantage, reward, mean, spread, group, len(rewards), counts=counts)
            self._give(rollout, role, replace(credit, rule="grpo", scale=scale))


class ConstantCredit(CreditAssigner):
    """Every trainable turn weighs 1: supervised learning on what survived the filter."""

    def assign(self, results: list[GenerateResult]) -> None:
        for rollout in trainable_rollouts(results):
            for role in {turn.role for turn in rollout.turns}:
                reward = rollout.rewards.get(role, 0.0)
                self._give(rollout, role, Credit(1.0, reward, group="constant", rule="constant"))


def groups(results: Iterable[GenerateResult], parent: str = "") -> Iterator[tuple[str, list[Rollout]]]:
    """Names of groups, and the rollouts of each that may train: the top level first, then siblings at every level.

    Compared are rollouts beside each other in the tree (of one batch, or under one parent) that are of one episode
    type, began with the same artifact, and were played under the same edits and the same skill tags. Where every
    artifact is unique by nature, as where each proposer is given a document of its own, `EpisodeRequest.group` says
    what to compare.
    """
    found: dict[tuple[str, str, str, str], list[GenerateResult]] = defaultdict(list)
    for result in results:
        rollout = result.rollout
        edits = ",".join(f"{name}#{number}" for name, number in sorted(rollout.edits.items()) if number)
        tags = ",".join(f"{role}={tag}" for role, tag in sorted(rollout.tags.items()))
        found[rollout.episode_type, _beginning(rollout), edits, tags].append(result)
    for (kind, beginning, edits, tags), members in found.items():
        name = "|".join(filter(None, (parent + kind, _label(beginning), edits, tags)))
        yield name, [member.rollout for member in members if _trains(member)]
    for result in results:
        yield from groups(result.children, f"{result.rollout.id}>")


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
            reward=turn.credit.reward,
            tags=tuple(sorted(rollout.tags.items())),
        )
        for rollout in trainable_rollouts(results)
        for turn in rollout.turns
        if turn.credit is not None and turn.credit.counts
    ]


def keep_learnt(results: Iterable[GenerateResult], records: Iterable[TrainingRecord], version: int) -> None:
    """Puts what the learner, of that version, made of each record beside its turn's credit.

    It was given those that aren't stale, and said something of each.
    """
    told = {(record.rollout_id, record.turn): record for record in records}
    for rollout in trainable_rollouts(results):
        for turn in rollout.turns:
            record = told.get((rollout.id, turn.index))
            if record is not None:
                turn.learnt = record.learnt or Learnt(Fate.STALE, version - record.version)
                turn.ratios = record.ratios


def _trains(result: GenerateResult) -> bool:
    return result.is_trainable and result.rollout.is_scored


def _beginning(rollout: Rollout) -> str:
    """What a rollout is compared by: the group it names, or else its artifact, whole."""
    if rollout.group is not None:
        return f"group {rollout.group}"
    return "" if rollout.artifact is None else to_json(rollout.artifact, sort_keys=True)


def _short(role: str, rollout: Rollout) -> str:
    """A role without the task that its episode's name begins with too, where there are several."""
    task, slash, _ = rollout.episode_type.partition("/")
    return role.removeprefix(task + slash) if slash else role


def _label(beginning: str) -> str:
    """Short enough to be kept with every turn: a document is named by its first words and a digest."""
    if len(beginning) <= LABEL:
        return beginning
    return f"{beginning[: LABEL - 10]}… {blake2b(beginning.encode(), digest_size=4).hexdigest()}"


def _equal(rewards: list[float]) -> bool:
    """Whether rewards differ by no more than rounding: then what differs is noise, and nothing to learn from."""
    return math.isclose(min(rewards), max(rewards), rel_tol=1e-9, abs_tol=1e-12)
