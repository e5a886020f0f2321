"""Nim: 8 to 20 sticks, take one to three, who takes the last one wins.

The smallest game with a secret worth finding (leave a multiple of four), so the first preset: a policy
can be watched discovering it within a minute. Perfect information, no draws, and whoever starts wins unless
dealt a multiple of four: an advantage of the seat that a baseline per role takes out of the reward.
"""

from __future__ import annotations

from engine import Game


class Nim(Game[tuple[int, int]]):
    """State: (sticks left, seat to move)."""

    prompt = "Nim."
    rules = (
        "You are playing a game with a pile of sticks. Two players take turns; in a turn a player takes 1, 2 or 3 "
        "sticks. Whoever takes the last stick wins. Think briefly, then give your move as [1], [2] or [3]. "
        "Use square brackets only for the move."
    )

    def deals(self) -> list[tuple[int, int]]:
        return [(sticks, 0) for sticks in range(8, 21)]

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

    def describe(self, state: tuple[int, int], seat: int) -> str:
        return f"Sticks left: {state[0]}. Moves: {', '.join(self.legal(state))}. How many do you take?"
