"""Two-player turn games: rules as pure functions, one driver that plays them.

A game's module is its rules. Who sits where, what an illegal move costs, how a reply is read and how
strength is measured are the same for all of them and live here and in `engine.matches`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

State = TypeVar("State")


class Game(ABC, Generic[State]):
    """The rules of a two-player game. States are immutable and hashable; seats are 0 and 1."""

    seats: tuple[str, str] = ("First", "Second")
    """The roles of seat 0 and seat 1."""

    @abstractmethod
    def initial(self, rng: random.Random) -> State:
        """A fresh position, dealt or drawn with `rng`."""

    @abstractmethod
    def seat(self, state: State) -> int:
        """Whose turn it is."""

    @abstractmethod
    def legal(self, state: State) -> list[str]:
        """The moves as a player writes them, such as `"[2]"`."""

    @abstractmethod
    def play(self, state: State, move: str) -> State:
        """The position after a legal move."""

    @abstractmethod
    def returns(self, state: State) -> tuple[float, float] | None:
        """What each seat gains, or None while the game goes on."""

    @abstractmethod
    def observe(self, state: State, seat: int) -> str:
        """What the player in that seat is shown: never the other's secrets."""
