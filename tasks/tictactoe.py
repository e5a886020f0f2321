"""Tic-tac-toe: nine cells, three in a row.

Perfect information and deep enough that a move has to be read off the board: where a small model stalls
is in seeing lines, so the compact notation spells all eight of them out.
Cells 0–8 row by row, a move is `[n]`, X moves first, as in TextArena.
"""

from __future__ import annotations

from engine import Game

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


class TicTacToe(Game[str]):
    """State: nine characters, each X, O, or the cell's own digit while it is empty."""

    seats = ("X", "O")
    prompt = "Tic-tac-toe."
    rules = (
        "You are playing tic-tac-toe. The cells are numbered 0 to 8, row by row. X and O take turns to mark an "
        "empty cell; three in a row, column or diagonal win. Think briefly, then give your move as a cell's "
        "number in square brackets, such as [4]. Use brackets only for the move."
    )

    def deals(self) -> list[str]:
        return ["012345678"]

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

    def describe(self, state: str, seat: int) -> str:
        board = "\n".join(" | ".join(state[row : row + 3]) for row in (0, 3, 6))
        return f"You are {self.seats[seat]}.\n{board}\nMoves: {', '.join(self.legal(state))}. Where do you play?"
