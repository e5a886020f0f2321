"""Which episodes can act: what makes a run repeatable.

In lockstep the device may tick only when no episode can act any more. An episode is *blocked* while it waits for a
completion, a person or episodes it spawned, and *runnable* otherwise; when the last runnable one blocks, the client
is flushed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.client import Client
from engine.episode import EpisodeState
from engine.rubric import RewardSetting, Settings
from engine.types import GenerateResult, Role, Rollout

if TYPE_CHECKING:
    from engine.arena import Arena


@dataclass(eq=False, slots=True)
class Live:
    """An episode in play."""

    rollout: Rollout
    state: EpisodeState
    parent: Live | None
    arena: Arena
    """As the episode's task knows it."""
    is_trainable: bool
    roles: dict[str, Role]
    """The roles as they were when the tree began: an edit reaches the next tree, never half of one."""
    rewards: dict[str, RewardSetting]
    """The same of what the configuration says of rewards."""
    children: list[GenerateResult] = field(default_factory=list)
    asked: int = 0
    consulted: int = 0
    spawned: int = 0
    waiting: int = 0
    over: bool = False

    @property
    def settings(self) -> Settings:
        """What is scored by: nothing is configured of what isn't learnt from."""
        return self.rewards if self.is_trainable else {}


class Lockstep:
    """Counts the episodes that can act, of all tasks."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.live = 0
        """Episodes in play."""
        self._runnable = 0
        self._settling = False

    def begin(self) -> None:
        self.live += 1
        self._runnable += 1

    def block(self, live: Live, on: int = 1) -> None:
        live.waiting += on
        if live.waiting == on:
            self._runnable -= 1
            self.settle()

    def unblock(self, live: Live) -> None:
        live.waiting -= 1
        if live.waiting == 0 and not live.over:
            self._runnable += 1

    def end(self, live: Live) -> None:
        if live.over:
            return
        live.over = True
        self.live -= 1
        if live.parent is not None:
            self.unblock(live.parent)  # before leaving, so that the last child hands over to its parent
        if live.waiting == 0:
            self._runnable -= 1
            self.settle()

    def settle(self) -> None:
        """Flush if nobody can act; one turn of the loop later, so that questions asked at once go out together."""
        if self._runnable == 0 and self.client is not None and not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._settling = False
        if self._runnable == 0 and self.client is not None:
            self.client.flush()
