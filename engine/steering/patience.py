"""A disk that is full or read-only holds a run up and ends nothing: what can't be written is written later."""

from __future__ import annotations

import sqlite3

from engine.types import EngineError


def may_pass(error: EngineError) -> bool:
    """Whether a write failed for what is outside of the run and can be mended: the disk, not what was written.

    MLX reports a failed write as `RuntimeError`.
    """
    return isinstance(error.__cause__, OSError | sqlite3.OperationalError | RuntimeError)
