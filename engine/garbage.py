"""Python's garbage collector while a run plays: it stops every thread, so it looks at little and seldom.

A full collection looked at the model's libraries, a few 100,000 objects that stay: 40 to 70 ms, once a second in a
game of short turns. What a run makes is freed as soon as nobody refers to it; cycles are few.
"""

from __future__ import annotations

import gc

SELDOM = 10
"""How many times as rare as otherwise full collections are."""


class Settled:
    """From a run's loading to its end; nothing of it is left after `release`."""

    def __init__(self) -> None:
        self._holds = True
        young, middle, old = gc.get_threshold()
        gc.set_threshold(young, middle, SELDOM * old)
        gc.freeze()

    def release(self) -> None:
        """Lets go, once. What others froze is thawed too, for Python can't tell: the model would stay with it."""
        if self._holds:
            self._holds = False
            # divided, not put back as it was: of two runs the one that began first may end first
            young, middle, old = gc.get_threshold()
            gc.set_threshold(young, middle, old // SELDOM)
            gc.unfreeze()
