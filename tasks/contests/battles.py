"""Battles between two agents, who are roles of one policy: what each gets is what it does to their ratings."""

from __future__ import annotations

from typing import Any

from engine import Arena, Episode, EpisodeState, GameEpisode, Judge, Rollout, Rubric, elo_gain
from tasks.contests import Referee


def rating_change(rollout: Rollout, arena: Arena) -> dict[str, float] | None:
    """What the battle does to the rating of either agent, in units of `k`; None without a verdict."""
    (first, one), (second, other) = rollout.artifact["ratings"].items()
    score = rollout.extras["score"]
    if score is None:
        return None
    gained = elo_gain(one, other, score, k=1.0)
    return {first: gained, second: -gained}


class GameBattle(GameEpisode):
    """A game between two agents. An illegal move loses it."""

    rubric = Rubric([rating_change])

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        await super().rollout(arena, artifact.get("beginning"), state)
        first, second = self.roles
        gained = state.data["returns"][first]
        score = 0.5 if gained == 0 else float(gained > 0)
        illegal = state.data["illegal"]
        state.data["score"] = score if illegal is None else float(illegal == second)
        return state


class AnswerBattle(Episode):
    """Two agents answer the same question, and a judge says who did it better."""

    rubric = Rubric([rating_change])

    def __init__(self, judge: Judge, agents: tuple[str, str]) -> None:
        super().__init__()
        self.agents, self.referee = agents, Referee("judge", judge)

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        prompt = artifact["prompt"]
        first, second = [(await self.call_model(agent, prompt, arena)).text for agent in self.agents]
        for turn in state.turns:
            turn.illegal = self.referee.worth_of(prompt, turn.completion.text) is None
        judgement = await self.referee.compare(arena, prompt, first, second)
        judgement.keep_in(state.data)
        state.data |= {"score": judgement.value, "illegal": None}
        return state
