"""Tic-tac-toe: nine cells, three in a row.

Perfect information and deep enough that a move has to be read off the board: where a small model stalls
is in seeing lines, so the compact notation spells all eight of them out.
Cells 0–8 row by row, a move is `[n]`, X moves first, as in TextArena.
"""

from __future__ import annotations

import random

from engine.games import Game

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class TicTacToe(Game[str]):
    """State: nine characters, each X, O, or the cell's own digit while it is empty."""

    seats = ("X", "O")

    def initial(self, rng: random.Random) -> str:
        return "012345678"

    def seat(self, state: str) -> int:
        return sum(cell in "XO" for cell in state) % 2

    def legal(self, state: str) -> list[str]:
        return [f"[{cell}]" for cell in state if cell not in "XO"]

    def play(self, state: str, move: str) -> str:
        return state.replace(move[1], self.seats[self.seat(state)])

    def returns(self, state: str) -> tuple[float, float] | None:
        for line in LINES:
            marks = {state[cell] for cell in line}
            if len(marks) == 1:
                return (1.0, -1.0) if marks == {"X"} else (-1.0, 1.0)
        return None if self.legal(state) else (0.0, 0.0)

    def observe(self, state: str, seat: int) -> str:
        return f"{self.seats[seat]} " + " ".join("".join(state[cell] for cell in line) for line in LINES)
