"""Is the run well? What is to be watched in self-play, in words, with what to do about it."""

from __future__ import annotations

from engine.events import RunState
from tui.health import learning, machine, playing
from tui.health.finding import GRAVITY, Finding, Level
from tui.interface import StatusLike
from tui.state import Store

__all__ = ["Finding", "Level", "findings"]


def findings(
    store: Store, status: StatusLike | None, left_out: int = 0, installed: int | None = None
) -> list[Finding]:
    """What there is to say, the gravest first, else always in the same order.

    `left_out` counts events the screen came too late for; `installed` is the machine's memory in bytes.
    """
    metrics = store.metrics
    failed = store.run_state is RunState.FAILED
    said = [
        Finding("run", "bad", "failed: the reason stands above") if failed else None,
        learning.signal(store),
        learning.moved(metrics),
        learning.finite(store),
        playing.illegal(metrics, status),
        playing.truncated(metrics),
        playing.judge(store),
        playing.seats(store),
        learning.mismatch(metrics),
        learning.behind(store),
        learning.stale(metrics, status),
        playing.failed(store, status),
        machine.memory(status, machine.installed() if installed is None else installed),
    ]
    if left_out:
        said.append(Finding("screen", "watch", f"{left_out:,} live events left out", "the run itself lost nothing"))
    return sorted((one for one in said if one is not None), key=lambda one: GRAVITY[one.level])
