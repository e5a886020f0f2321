"""What an arena asks: something that completes chats. The engine's own lives in `engine.inference.clients`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.types import Completion, Message, Sampling

OnTokens = Callable[[list[int], list[float]], None]
"""Called with new tokens and their log-probabilities when a report is due, and with the last ones before the end.

Of a reply that is over before the first report it isn't called at all.
"""


class Client(Protocol):
    settle: Callable[[], None] | None
    """Called after each delivery of results, so that the arena can flush if nothing became runnable."""

    def submit(
        self,
        messages: list[Message],
        sampling: Sampling,
        player: str,
        key: int,
        *,
        on_tokens: OnTokens | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> asyncio.Future[Completion]:
        """Ask for a completion. `on_done` is called right before the future resolves, in the same step.

        Raises `EngineError` through the future when the engine fails.
        """
        ...

    def flush(self) -> None:
        """Everything that can act has acted: what was submitted may start."""
        ...

    def report(self) -> None:
        """Somebody looks: have what replies in flight have said so far told soon, by their `on_tokens`.

        Whoever isn't asked reports all the same, about once a second.
        """
        ...

    def forget(self) -> None:
        """A set of episodes begins: in a reproducible run, what was computed before must not touch it."""
        ...

    async def score(
        self, messages: list[Message], replies: Sequence[str], sampling: Sampling, player: str
    ) -> list[float]:
        """Log-probability of each reply (its end of turn included) after the same prompt."""
        ...
