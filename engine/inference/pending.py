"""A completion asked for, and how whoever asked is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from engine.client import OnTokens
from engine.types import Completion, Message, Sampling


@dataclass(slots=True)
class Pending:
    """A completion asked for and not yet given."""

    future: asyncio.Future[Completion]
    messages: list[Message]
    sampling: Sampling
    player: str
    key: int
    on_tokens: OnTokens | None
    on_done: Callable[[], None] | None
    prompt: list[int] = field(default_factory=list)
    """The messages in the chat template; empty until it is the request's turn."""
    deadline: float | None = None
    """In `time.monotonic()`."""
    timer: asyncio.TimerHandle | None = None
    """Ends it where it waits on this side until then."""
    told: int = 0
    """Tokens that `on_tokens` was called with."""


def tell(callback: Callable[..., None] | None, *arguments: Any) -> None:
    """A callback that raises must not keep the other results from those who wait: the loop's handler reports it."""
    if callback is None:
        return
    try:
        callback(*arguments)
    except Exception as error:
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a client's callback {callback!r} raised", "exception": error}
        )
