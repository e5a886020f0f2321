"""Nim: 8 to 20 sticks, take one to three, who takes the last one wins.

The smallest game with a secret worth finding (leave a multiple of four), so the first preset: a policy
can be watched discovering it within a minute. Perfect information, no draws, and whoever starts wins unless
dealt a multiple of four: an advantage of the seat that a baseline per role takes out of the reward.
"""

from __future__ import annotations

import random

from engine.games import Game


class Nim(Game[tuple[int, int]]):
    """State: (sticks left, seat to move)."""

    def initial(self, rng: random.Random) -> tuple[int, int]:
        return rng.randint(8, 20), 0

    def seat(self, state: tuple[int, int]) -> int:
        return state[1]

    def legal(self, state: tuple[int, int]) -> list[str]:
        return [f"[{n}]" for n in (1, 2, 3) if n <= state[0]]

    def play(self, state: tuple[int, int], move: str) -> tuple[int, int]:
        return state[0] - int(move[1]), 1 - state[1]

    def returns(self, state: tuple[int, int]) -> tuple[float, float] | None:
        if state[0] > 0:
            return None
        winner = 1 - state[1]
        return (1.0, -1.0) if winner == 0 else (-1.0, 1.0)

    def observe(self, state: tuple[int, int], seat: int) -> str:
        return f"{state[0]:02d}"
