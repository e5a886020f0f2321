"""What was asked can't be done as asked."""

from __future__ import annotations

import sys

USAGE_ERROR = 2


class UsageError(Exception):
    """What was asked can't be done as asked: one sentence for stderr."""


def refuse(error: Exception) -> int:
    """Says why on stderr; returns the exit code."""
    print(f"selfplay-tui: {error}", file=sys.stderr)
    return USAGE_ERROR
