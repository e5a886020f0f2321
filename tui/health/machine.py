"""Does the machine hold?"""

from __future__ import annotations

import os
from functools import cache

from tui.health.finding import Finding, graded
from tui.interface import StatusLike
from tui.words import memory as size

MEMORY_WATCH, MEMORY_BAD = 0.8, 0.95
"""Shares of the machine's memory that the process has held at most: beyond them it swaps, or is killed."""


@cache
def installed() -> int:
    """Bytes of memory the machine has; 0 where it doesn't say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0


def memory(status: StatusLike | None, there_is: int) -> Finding | None:
    """None before anything is loaded, or where it isn't known how much there is."""
    if status is None or not status.memory or not there_is:
        return None
    share = status.memory / there_is
    level = graded(share, MEMORY_WATCH, MEMORY_BAD)
    held = f"{size(status.memory)} held at most"
    words = held if level == "good" else f"{held}, {share:.0%} of what there is"
    advice = "lower model.rows, model.context or train.microbatch_tokens, and resume"
    return Finding("memory", level, words, advice)
