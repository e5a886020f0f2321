"""Refine: a writer drafts, a critic says what is wrong, a refiner puts it right, and so on for some rounds.

Cooperative and of several turns: all are paid for how good the last version is, critic and refiner also for how
much better it is than the first. The refiner is a role of its own, so that nobody gains by a poor first draft.
Quality is computed by rule (a sentence to an exact brief; a number to be guessed) or graded by a judge. Every
version is kept, as (draft, critique, better draft) data. Self-Refine (arXiv 2303.17651) does this by prompts alone;
CTRL (2502.03492) pays a critic by what its critique leads to, and Critique-RL (2510.24320) found that it has to be
paid for true critiques as well.

Known to go wrong: a refiner that copies the draft is never worse, and a critique that says nothing costs nothing; a
judge prefers what is longer, so that refining becomes lengthening.
"""

from __future__ import annotations

import math
import random
from statistics import fmean
from typing import Annotated, Any, Literal

from engine import (
    Arena,
    Between,
    Count,
    Episode,
    EpisodeRequest,
    EpisodeState,
    Judge,
    Message,
    Role,
    Rollout,
    Rubric,
    Task,
    TaskError,
)
from tasks.refining import Guess, Sentence, Subject

ROLES = ("Writer", "Critic", "Refiner")


def final(rollout: Rollout, arena: Arena) -> dict[str, float] | None:
    """The quality of the last version, for all; None where there is no verdict on it."""
    quality = rollout.extras["versions"][-1]["quality"]
    return None if quality is None else dict.fromkeys(ROLES, quality)


def improvement(rollout: Rollout, arena: Arena) -> dict[str, float] | None:
    """By how much the last version is better than the first, for critic and refiner."""
    first, last = (rollout.extras["versions"][place]["quality"] for place in (0, -1))
    return None if first is None or last is None else dict.fromkeys(ROLES[1:], last - first)


def honesty(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """The share of critiques that are true, for the critic, where a rule can tell."""
    told = [version["true"] for version in rollout.extras["versions"][1:] if version["true"] is not None]
    return {"Critic": fmean(told)} if told else {}


class Refining(Episode):
    """One brief: a draft, and `rounds` of critique and refinement."""

    def __init__(self, subject: Subject, rounds: int, weights: list[float], judge: Judge | None) -> None:
        super().__init__(Rubric([final, improvement, honesty], weights))
        self.subject, self.rounds, self.judge = subject, rounds, judge

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        subject = self.subject
        draft = await self._said("Writer", subject.write(artifact), arena)
        versions: list[dict[str, Any]] = [{"text": draft}]
        for _ in range(self.rounds):
            asked = subject.criticise(artifact, draft)
            critique = await self._said("Critic", asked, arena)
            asked, true = subject.refine(artifact, draft, critique), subject.is_true(artifact, draft, critique)
            draft = await self._said("Refiner", asked, arena)
            versions.append({"text": draft, "critique": critique, "true": true})
        for version in versions if self.judge is None else (versions[0], versions[-1]):
            version["quality"] = await self._quality(arena, artifact, version["text"])
        state.data = {"brief": artifact, "versions": versions}
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return state.data

    async def _said(self, role: str, asked: str, arena: Arena) -> str:
        """A role's reply, after what it is shown."""
        legal = self.subject.critiques if role == "Critic" else self.subject.drafts
        messages: list[Message] = [*self.subject.shown(role), {"role": "user", "content": asked}]
        return (await self.call_model(role, messages, arena, legal=legal)).text

    async def _quality(self, arena: Arena, brief: Any, text: str) -> float | None:
        if self.judge is None:
            return self.subject.quality(brief, text)
        return await self.judge.rate(arena, self.subject.write(brief), text)


class Refine(Task):
    """Options: the `kind` of brief; `rounds` of critique and refinement; `samples` of each brief in a step; the
    weights of the `final` quality, of the `improvement`, and of the critic's `honesty` where a rule can tell;
    whether quality is computed by `rule` or graded by a `judge`, and that judge's own options (`judging`); how many
    `numbers` there are to guess, and the critic's `words` for higher, lower and right."""

    def __init__(
        self,
        *,
        kind: Literal["sentence", "guess"] = "sentence",
        rounds: Annotated[int, Between(1, 8)] = 1,
        samples: Count = 8,
        final: Annotated[float, Between(0.0, 10.0)] = 1.0,
        improvement: Annotated[float, Between(0.0, 10.0)] = 1.0,
        honesty: Annotated[float, Between(0.0, 10.0)] = 1.0,
        quality: Literal["rule", "judge"] = "rule",
        judging: dict[str, Any] | None = None,
        numbers: Annotated[int, Between(2, 99)] = 9,
        words: list[str] | None = None,
    ) -> None:
        words = ["higher", "lower", "right"] if words is None else words
        if len(set(words)) != 3 or "" in words:
            raise TaskError(f"refine: option 'words' wants three words, for higher, lower and right, not {words}")
        if kind == "guess" and quality == "judge":
            raise TaskError("refine: option 'quality' is 'rule' with kind = 'guess': a distance needs no judge")
        self.subject: Subject = Sentence() if kind == "sentence" else Guess(numbers, words)
        judge = Judge.configured("refine", judging) if quality == "judge" else None
        self.episode = Refining(self.subject, rounds, [final, improvement, honesty], judge)
        self.samples = samples

    def setup(self, arena: Arena) -> None:
        for role, most in zip(ROLES, (64, 96, 64), strict=True):
            arena.add_role(Role(role, system_prompt=self.subject.prompts[role], max_tokens=most))
        arena.add_episode("refine", self.episode)

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        rng = random.Random(f"{arena.seed}:refine:{arena.played}")
        briefs = [self.subject.brief(rng) for _ in range(math.ceil(n / self.samples))]
        return [EpisodeRequest("refine", brief) for brief in briefs for _ in range(self.samples)][:n]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """On fixed briefs: the quality of the `first` and of the `last` version, the `improvement`, the share of
        critiques that are `honest` where a rule can tell, and of episodes with `no_verdict`."""
        requests = [EpisodeRequest("refine", brief, is_trainable=False) for brief in self.subject.exam(n)]
        results = await arena.generate_rollouts(requests, label=label)
        scored = [result.rollout.extras["versions"] for result in results if result.rollout.is_scored]
        first, last = (fmean([v[place]["quality"] for v in scored] or [0.0]) for place in (0, -1))
        told = [version["true"] for versions in scored for version in versions[1:] if version["true"] is not None]
        return {
            "first": first,
            "last": last,
            "improvement": last - first,
            "honest": fmean(told or [0.0]),
            "no_verdict": 1.0 - len(scored) / len(results),
        }
