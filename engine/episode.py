"""Episodes: protocols by which roles interact.

An episode object holds no state of a rollout: the same object plays hundreds at once. What a rollout
needs to remember lives in its `EpisodeState`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.rubric import Rubric
from engine.types import Completion, GenerateResult, Message, Turn

if TYPE_CHECKING:
    from engine.arena import Arena


@dataclass
class EpisodeState:
    """What one rollout remembers. Set whatever further attributes an episode needs."""

    id: str = ""
    rng: random.Random = field(default_factory=random.Random)
    """Seeded by the run's seed and the rollout's id: a deal drawn from it is the same on a rerun."""
    players: dict[str, str] = field(default_factory=dict)
    """Role → player, where the request overrides the role's own."""
    turns: list[Turn] = field(default_factory=list)
    child_results: list[GenerateResult] = field(default_factory=list)
    """For the episode's own use; the tree of rollouts is kept by the arena."""
    data: dict[str, Any] = field(default_factory=dict)


class Episode(ABC):
    """A rollout protocol. Override `rollout`, and `get_extras` for what the rubric must know."""

    rubric: Rubric = Rubric()
    comparisons: Sequence[str] = ()
    """Names of the functions it passes as `together`, so that a configuration can weigh them."""

    def __init__(self, rubric: Rubric | None = None) -> None:
        if rubric is not None:
            self.rubric = rubric

    @abstractmethod
    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        """Play one episode, asking roles by `call_model` and spawning episodes by `arena`."""

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        """What reward functions may read as `rollout.extras`, by default `state.data`; JSON-like, it is stored."""
        return state.data

    async def call_model(
        self, role_id: str, prompt: str | list[Message], arena: Arena, **sampling: Any
    ) -> Completion:
        """Let a role speak; the turn is recorded. Keywords as for `Arena.call_model`: `legal`, `choices`, …"""
        return await arena.call_model(prompt, role_id, **sampling)


class SingleTurnEpisode(Episode):
    """One role answers one prompt."""

    role: str

    @abstractmethod
    def prompt(self, artifact: Any) -> str | list[Message]:
        """What the role is asked."""

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        state.data["reply"] = (await self.call_model(self.role, self.prompt(artifact), arena)).text
        return state

    def get_extras(self, state: EpisodeState) -> dict[str, Any]:
        return {"reply": state.data["reply"]}


class ChatEpisode(Episode):
    """Roles speak in turn; each sees its own words as the assistant's and everyone else's as the user's."""

    roles: tuple[str, ...]
    max_turns: int = 8

    @abstractmethod
    def opening(self, artifact: Any, state: EpisodeState) -> str:
        """What all are told before anyone speaks."""

    def next_role(self, state: EpisodeState) -> str:
        return self.roles[len(state.turns) % len(self.roles)]

    def finished(self, state: EpisodeState) -> bool:
        """Whether the conversation is over, asked after each turn; `max_turns` ends it anyway."""
        return False

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        opening = self.opening(artifact, state)
        while len(state.turns) < self.max_turns and not (state.turns and self.finished(state)):
            role = self.next_role(state)
            await self.call_model(role, conversation(role, opening, state.turns), arena)
        return state


def conversation(role: str, opening: str, turns: list[Turn]) -> list[Message]:
    """The chat as `role` sees it. What others said since it last spoke is one user message."""
    messages: list[Message] = [{"role": "user", "content": opening}]
    for turn in turns:
        speaker = "assistant" if turn.role == role else "user"
        if speaker == "user" and messages[-1]["role"] == "user":
            messages[-1]["content"] += "\n\n" + turn.completion.text
        else:
            messages.append({"role": speaker, "content": turn.completion.text})
    return messages
