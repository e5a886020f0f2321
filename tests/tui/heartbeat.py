"""How long the event loop is held by one piece of work: nothing is drawn and no key is heard meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Beats:
    """What the loop did, piece by piece."""

    holds: list[tuple[float, str]] = field(default_factory=list)
    """Seconds of computing on the loop's thread, and what it was: not what the machine and other threads do."""

    @property
    def longest(self) -> float:
        return max((seconds for seconds, _ in self.holds), default=0.0)

    def told(self, many: int = 5) -> str:
        worst = sorted(self.holds, reverse=True)[:many]
        return "\n".join(f"{1000 * seconds:6.1f} ms {what}" for seconds, what in worst)


@contextmanager
def heartbeat() -> Iterator[Beats]:
    """Measures every callback of the loops in this process."""
    beats = Beats()
    run = asyncio.Handle._run  # type: ignore[attr-defined]

    def measured(handle: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        beats.holds.append((time.thread_time() - begun, _name(handle)))

    asyncio.Handle._run = measured  # type: ignore[attr-defined]
    try:
        yield beats
    finally:
        asyncio.Handle._run = run  # type: ignore[attr-defined]


def pace() -> float:
    """How much slower this machine computes at the moment than the one that bounds were written on."""
    found = []
    for _ in range(5):
        begun = time.thread_time()
        sum(number % 7 for number in range(100_000))
        found.append(time.thread_time() - begun)
    return max(min(found) / 0.0034, 1.0)


def _name(handle: asyncio.Handle) -> str:
    callback = handle._callback  # type: ignore[attr-defined]
    task = getattr(callback, "__self__", None)
    return task.get_name() if isinstance(task, asyncio.Task) else f"{callback}"
