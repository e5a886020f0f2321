"""Tournament: many replies of one policy to one prompt, battled out in pairs; what counts is what was won.

Selection among N candidates when only comparisons can be had. Candidates are rollouts under their tournament, with
the same prompt and role, scored together once all battles are over: the share of battles won (a draw is half), less
the mean of all. Under `credit.kind = "grpo"` that is the advantage; under `"rae"` it is too, as its mean is 0. A
battle is a child as well, without turns; `verifiers` asks the judge several times in each order and goes by the
majority. In a round robin everyone meets everyone, N(N − 1)/2 battles; in a knockout the winners go on, N − 1,
which says who is best and little of the rest. Known to go wrong: judges that contradict themselves make circles (A
beats B beats C beats A), which a round robin averages and a knockout hides.
"""

from __future__ import annotations

import random
from itertools import combinations
from typing import Annotated, Any, Literal

from engine import (
    BASE,
    Arena,
    ArtifactStore,
    Between,
    Count,
    Episode,
    EpisodeRequest,
    EpisodeState,
    GenerateResult,
    Judge,
    Role,
    Task,
    TaskError,
    mean,
)
from tasks.contests import WRITER, Candidate, Referee, problems, system_prompt


class Battle(Episode):
    """Two replies to a prompt, and who won. No role speaks."""

    def __init__(self, referee: Referee) -> None:
        super().__init__()
        self.referee = referee

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        judgement = await self.referee.compare(arena, artifact["prompt"], artifact["first"], artifact["second"])
        judgement.keep_in(state.data)
        state.data["value"] = judgement.value
        return state


async def round_robin(arena: Arena, prompt: str, replies: list[str], rng: random.Random) -> list[list[float]]:
    """What each scored in its battles with all others; those without a verdict are left out."""
    pairs = list(combinations(range(len(replies)), 2))
    points: list[list[float]] = [[] for _ in replies]
    for (i, j), value in zip(pairs, await battles(arena, prompt, replies, pairs), strict=True):
        if value is not None:
            points[i].append(value)
            points[j].append(1 - value)
    return points


async def knockout(arena: Arena, prompt: str, replies: list[str], rng: random.Random) -> list[list[float]]:
    """What each scored in every round, 0 once it is out; after a draw, chance says who goes on. Nothing for anyone
    where a battle had no verdict: who would have gone on isn't known."""
    points: list[list[float]] = [[] for _ in replies]
    left = rng.sample(range(len(replies)), len(replies))
    while len(left) > 1:
        pairs = list(zip(left[::2], left[1::2], strict=True))
        left = []
        for (i, j), value in zip(pairs, await battles(arena, prompt, replies, pairs), strict=True):
            if value is None:
                return [[] for _ in replies]
            points[i].append(value)
            points[j].append(1 - value)
            left.append(i if value > 0.5 else j if value < 0.5 else rng.choice((i, j)))
    rounds = max(map(len, points))
    return [won + [0.0] * (rounds - len(won)) for won in points]


FORMATS = {"round_robin": round_robin, "knockout": knockout}


async def battles(
    arena: Arena, prompt: str, replies: list[str], pairs: list[tuple[int, int]]
) -> list[float | None]:
    """What the first of each pair scored; all battles at once."""
    artifacts = [{"prompt": prompt, "first": replies[i], "second": replies[j]} for i, j in pairs]
    results = await arena.generate_rollouts([EpisodeRequest("battle", artifact) for artifact in artifacts])
    return [result.rollout.extras.get("value") for result in results]


class TournamentEpisode(Episode):
    """Candidates, then battles. `rival`: who writes every second candidate, if not the role's own player."""

    comparisons = ("standing",)

    def __init__(self, referee: Referee, candidates: int, format: str, rival: str | None = None) -> None:
        super().__init__()
        self.referee, self.hold = referee, FORMATS[format]
        self.players = [{WRITER: rival} if rival and i % 2 else {} for i in range(candidates)]

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        async def standing(results: list[GenerateResult]) -> list[dict[str, float] | None]:
            prompt = artifact["prompt"]
            points = await self.hold(arena, prompt, self.referee.replies(prompt, results), state.rng)
            scores = [mean(won) if won else None for won in points]
            state.data["scores"] = scores
            middle = mean(score for score in scores if score is not None)
            return [None if score is None else {WRITER: score - middle} for score in scores]

        requests = [EpisodeRequest("candidate", artifact, players=players) for players in self.players]
        state.child_results = await arena.generate_rollouts(requests, together=standing)
        return state


class Tournament(Task):
    """Options: `candidates` of each prompt; `format`; `verifiers`, an odd number of verdicts in each order;
    `decided_by`, `prompts` and `judge` as in `head_to_head`."""

    def __init__(
        self,
        *,
        candidates: Annotated[int, Between(2, 64)] = 4,
        format: Literal["round_robin", "knockout"] = "round_robin",
        verifiers: Count = 1,
        decided_by: Literal["judge", "largest", "smallest"] = "judge",
        prompts: str = "",
        judge: dict[str, Any] | None = None,
    ) -> None:
        if format == "knockout" and candidates & (candidates - 1):
            raise TaskError(
                f"tournament: option 'candidates' of a knockout is a power of 2, so that nobody is left without an "
                f"opponent, not {candidates}"
            )
        votes = {"votes": verifiers, "temperature": 0.7} if verifiers > 1 else {}
        self.referee = Referee(decided_by, Judge.configured("tournament", judge, **votes))
        self.candidates, self.format, self.decided_by = candidates, format, decided_by
        self.problems, self.held_out = problems(decided_by, prompts)

    def setup(self, arena: Arena) -> None:
        arena.add_role(Role(WRITER, system_prompt=system_prompt(self.decided_by), max_tokens=128))
        arena.add_episode("candidate", Candidate())
        arena.add_episode("battle", Battle(self.referee))
        arena.add_episode("tournament", TournamentEpisode(self.referee, self.candidates, self.format))
        arena.add_episode("match", TournamentEpisode(self.referee, self.candidates, "round_robin", BASE))
        arena.add_store("prompts", ArtifactStore(self.problems, seed=arena.seed))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        return [EpisodeRequest("tournament", prompt.data) for prompt in arena.stores["prompts"].sample(n)]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """Round robins on held-out prompts in which every second candidate is the base model's: what the policy's
        scored against those (`score_vs_base`, 0.5 where neither is better); of all battles, `unscored` and
        `disagreed`; and by a rule, how many of the policy's replies were the `best` possible."""
        held_out = [self.held_out[i % len(self.held_out)] for i in range(n)]
        requests = [EpisodeRequest("match", problem, is_trainable=False) for problem in held_out]
        results = await arena.generate_rollouts(requests, label=label)
        written, fought, crossed = [], [], []
        for problem, result in zip(held_out, results, strict=True):
            candidates, held = result.children[: self.candidates], result.children[self.candidates :]
            written += [(problem["prompt"], mine.rollout.extras.get("reply", "")) for mine in candidates[::2]]
            fought += [battle.rollout.extras for battle in held]
            for (i, j), battle in zip(combinations(range(self.candidates), 2), held, strict=False):
                value = battle.rollout.extras.get("value")
                if value is not None and (i + j) % 2:
                    crossed.append(value if j % 2 else 1 - value)
        metrics = {
            "score_vs_base": mean(crossed),
            "unscored": mean(extras.get("value") is None for extras in fought),
            "disagreed": mean(extras["judge"][0]["agreed"] is False for extras in fought if extras),
        }
        if self.decided_by != "judge":
            metrics["best"] = mean(self.referee.is_best(prompt, reply) for prompt, reply in written)
        return metrics
