"""Head to head: two replies of one policy to one prompt, and the better one is reinforced.

Self-play without a score: all that is known is which of two is better, by a judge in both orders or by a rule. Each
reply is a rollout of its own under their duel, with the same prompt and role, and gets +1 or −1, 0 for a draw; so
under `credit.kind = "grpo"` the other is the baseline, and with `train.dpo` the two are a preference pair, as in
online DPO (Guo et al., arXiv 2402.04792) and self-rewarding models (Yuan et al., arXiv 2401.10020). Known to go
wrong: as the two become alike most duels are drawn and teach nothing; and what a judge likes is what is learnt,
such as length, so that `win_vs_base` by the same judge says that it is pleased, not that it is right.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from engine import (
    BASE,
    Arena,
    ArtifactStore,
    Count,
    Episode,
    EpisodeRequest,
    EpisodeState,
    GenerateResult,
    Judge,
    Role,
    Task,
    mean,
)
from tasks.contests import WRITER, Candidate, Referee, problems, system_prompt


class Duel(Episode):
    """Two candidates as children, scored together. `rival`: who writes the second, if not the role's own player."""

    comparisons = ("duel",)

    def __init__(self, referee: Referee, rival: str | None = None) -> None:
        super().__init__()
        self.referee, self.rival = referee, rival

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        async def duel(results: list[GenerateResult]) -> list[dict[str, float] | None]:
            first, second = self.referee.replies(artifact["prompt"], results)
            judgement = await self.referee.compare(arena, artifact["prompt"], first, second)
            judgement.keep_in(state.data)
            value = state.data["value"] = judgement.value
            return [None, None] if value is None else [{WRITER: 2 * value - 1}, {WRITER: 1 - 2 * value}]

        requests = [
            EpisodeRequest("candidate", artifact, players=players)
            for players in ({}, {WRITER: self.rival} if self.rival else {})
        ]
        state.child_results = await arena.generate_rollouts(requests, together=duel)
        return state


class HeadToHead(Task):
    """Options: `decided_by` a `judge`, or by the rule `largest` or `smallest`; `prompts`, a file with one a line,
    for a judge; duels on each prompt in a step (`repeats`); `judge`, a table of what `Judge` takes."""

    def __init__(
        self,
        *,
        decided_by: Literal["judge", "largest", "smallest"] = "judge",
        prompts: str = "",
        repeats: Count = 1,
        judge: dict[str, Any] | None = None,
    ) -> None:
        self.decided_by, self.repeats = decided_by, repeats
        self.problems, self.held_out = problems(decided_by, prompts)
        self.referee = Referee(decided_by, Judge.configured("head_to_head", judge))

    def setup(self, arena: Arena) -> None:
        arena.add_role(Role(WRITER, system_prompt=system_prompt(self.decided_by), max_tokens=128))
        arena.add_episode("candidate", Candidate())
        arena.add_episode("duel", Duel(self.referee))
        arena.add_episode("match", Duel(self.referee, BASE))
        arena.add_store("prompts", ArtifactStore(self.problems, seed=arena.seed))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        prompts = arena.stores["prompts"].sample(math.ceil(n / self.repeats))
        return [EpisodeRequest("duel", prompt.data) for prompt in prompts for _ in range(self.repeats)][:n]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Duels with the base model on held-out prompts: won, drawn and lost as shares of those with a verdict,
        `unscored` and `disagreed` of all; and by a rule, how many of the policy's replies were the `best`."""
        held_out = [self.held_out[i % len(self.held_out)] for i in range(n)]
        requests = [EpisodeRequest("match", problem, is_trainable=False) for problem in held_out]
        results = await arena.generate_rollouts(requests, label=label)
        played = [result.rollout.extras for result in results if result.rollout.error is None]
        values = [extras["value"] for extras in played if extras["value"] is not None]
        metrics = {
            "win_vs_base": mean(value == 1 for value in values),
            "draw_vs_base": mean(value == 0.5 for value in values),
            "loss_vs_base": mean(value == 0 for value in values),
            "unscored": mean(extras["value"] is None for extras in played),
            "disagreed": mean(extras["judge"][0]["agreed"] is False for extras in played),
        }
        if self.decided_by != "judge":
            replies = [result.children[0].rollout.extras.get("reply", "") for result in results]
            answered = zip(held_out, replies, strict=True)
            metrics["best"] = mean(self.referee.is_best(problem["prompt"], reply) for problem, reply in answered)
        return metrics
