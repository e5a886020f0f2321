"""A disk that is full or read-only holds a run up and ends nothing: what can't be written is written later."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import TypeVar

from engine.pace import Pace
from engine.types import EngineError

T = TypeVar("T")


async def insist(write: Callable[[], Awaitable[T]], pace: Pace) -> T:
    """Writes. Where the disk doesn't take it and a person is there, pauses, and tries again when the run goes on.

    Nobody there would mend a disk: then, and when the run is to stop, the error is raised.
    """
    while True:
        try:
            return await write()
        except EngineError as error:
            if pace.stopping or not pace.attended or not _may_pass(error):
                raise
            pace.pause(f"{error}")
            await pace.going()


def _may_pass(error: EngineError) -> bool:
    """Whether a write failed for what is outside of the run and can be mended: the disk, not what was written.

    MLX reports a failed write as `RuntimeError`.
    """
    return isinstance(error.__cause__, OSError | sqlite3.OperationalError | RuntimeError)
