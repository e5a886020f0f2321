"""Bargaining as pure functions: offers stand for a round, all others accept or it falls, and goods are never made.

An offer is written down as what everybody would hold if it were accepted. So to accept one is to put it in place
of what is held, and what can't be paid shows as less than nothing.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from itertools import product
from math import prod
from typing import Literal, NamedTuple

Goods = tuple[int, ...]
"""How many of each good."""
Holdings = tuple[Goods, ...]
"""What each seat holds, by seat."""
Move = Holdings | Literal["accept", "deny"]
"""An offer, or an answer to one. Who says nothing of a standing offer turns it down."""

BRACKETED = re.compile(r"\[([^\[\]]*)\]")
ITEM = re.compile(r"([0-9]{1,6}) ([a-z]+)")


class Position(NamedTuple):
    """Where a negotiation stands. Seats speak in turn."""

    values: Holdings
    """What one of each good is worth to each seat: its secret."""
    start: Holdings
    holdings: Holdings
    offer: Holdings | None = None
    """The one that stands: made within the last round, and accepted by all who have spoken since."""
    accepted: int = 0
    turn: int = 0
    deals: int = 0

    @property
    def seat(self) -> int:
        return self.turn % len(self.holdings)

    def gains(self) -> list[int]:
        """By how much each seat's goods are worth more than those it began with."""
        return self._between(self.start, self.holdings)

    def added(self, holdings: Holdings) -> list[int]:
        """By how much each seat's goods would be worth more than those it holds."""
        return self._between(self.holdings, holdings)

    def _between(self, before: Holdings, after: Holdings) -> list[int]:
        return [
            worth(new, values) - worth(old, values)
            for old, new, values in zip(before, after, self.values, strict=True)
        ]


class Bargain(ABC):
    """What differs from one negotiation to another. Texts are in words, or short for a small model that knows
    poker: to accept is to call, to turn down is to fold."""

    goods: tuple[str, ...]
    pool: Goods
    """How many of each good there are, all seats together."""
    seats: int
    turns: int
    """Turns of all seats together, after which what is held is what counts."""
    illegal: tuple[float, float]
    """What an illegal move is worth to who made it, and to the others."""
    rules: str
    prompt: str
    words: bool

    @abstractmethod
    def deal(self, rng: random.Random) -> Position:
        """Where it begins."""

    @abstractmethod
    def offers(self, position: Position) -> list[Holdings]:
        """Offers to choose from, where a role is held to a list; in words others may be made."""

    @abstractmethod
    def understood(self, position: Position, text: str) -> Holdings | None:
        """The offer that a bracket in words makes, or None if it makes none."""

    @abstractmethod
    def spell(self, position: Position, offer: Holdings) -> str:
        """How the seat whose turn it is writes an offer."""

    def spelled(self, position: Position) -> Mapping[str, Holdings]:
        """The offers to choose from, by how they are written."""
        return {self.spell(position, offer): offer for offer in self.offers(position)}

    @abstractmethod
    def over(self, position: Position) -> bool: ...

    @abstractmethod
    def returns(self, position: Position) -> list[float]:
        """What each seat has gained when it is over."""

    @abstractmethod
    def observe(self, position: Position) -> str:
        """What the seat whose turn it is must know, in a few characters."""

    @abstractmethod
    def describe(self, position: Position) -> str:
        """What the seat whose turn it is must know now, in words."""

    @abstractmethod
    def opening(self, position: Position, seat: int) -> str:
        """What a seat is told before anyone speaks, in words."""

    def menu(self, position: Position) -> dict[str, Move]:
        """Moves by how they are written; the last ones answer an offer. To turn down what isn't there is a pass."""
        accept, deny = ("[Accept]", "[Deny]") if self.words else ("[call]", "[fold]")
        menu: dict[str, Move] = {**self.spelled(position)}
        if self.may(position, "accept"):
            menu[accept] = "accept"
        return {**menu, deny: "deny"}

    def read(self, position: Position, reply: str) -> Move | None:
        """The one move a reply in words makes; talk alone turns down what stands. None: illegal, never guessed."""
        named = {" ".join(inside.lower().split()) for inside in BRACKETED.findall(reply)}
        if len(named) > 1:
            return None
        text = named.pop() if named else "deny"
        move = text if text in ("accept", "deny") else self.understood(position, text)
        return move if move is not None and self.may(position, move) else None

    def may(self, position: Position, move: Move) -> bool:
        """Whether a move is legal: one offers only what one has, and accepts only what one can pay."""
        if move == "accept":
            return position.offer is not None and min(position.offer[position.seat]) >= 0
        return move == "deny" or min(move[position.seat]) >= 0

    def play(self, position: Position, move: Move) -> Position:
        """The position after a legal move."""
        turn = position.turn + 1
        if move == "accept" and position.accepted + 1 == self.seats - 1:
            assert position.offer is not None
            return position._replace(
                holdings=position.offer, offer=None, accepted=0, turn=turn, deals=position.deals + 1
            )
        if move == "accept":
            return position._replace(accepted=position.accepted + 1, turn=turn)
        return position._replace(offer=None if move == "deny" else move, accepted=0, turn=turn)

    def efficiency(self, position: Position) -> float:
        """The joint gain as a share of the largest there is: each good with who values it most."""
        best = [max(values) for values in zip(*position.values, strict=True)]
        most = worth(self.pool, tuple(best))
        begun = sum(worth(held, values) for held, values in zip(position.start, position.values, strict=True))
        return sum(position.gains()) / (most - begun) if most > begun else 1.0

    def is_pareto(self, position: Position) -> bool:
        """Whether nobody could have more of what they value without another having less."""
        changes = map(position.added, allocations(self.pool, self.seats))
        return not any(min(change) >= 0 and any(change) for change in changes)

    def fair(self, position: Position) -> Move:
        """What is good for all, with everybody's values known: takes an offer by which all gain, and itself no less
        than half of what they gain on average; offers that of the list whose gains have the largest product."""
        if position.offer is not None and self.may(position, "accept"):
            added = position.added(position.offer)
            if min(added) > 0 and 2 * self.seats * added[position.seat] >= sum(added):
                return "accept"
        good = [offer for offer in self.offers(position) if min(position.added(offer)) > 0]
        return max(good, key=lambda offer: prod(position.added(offer))) if good else "deny"


def worth(goods: Goods, values: Goods) -> int:
    return sum(count * value for count, value in zip(goods, values, strict=True))


def items(text: str, goods: tuple[str, ...]) -> Goods | None:
    """`"2 wood, 1 gold"` as a number of each good, each named once; None if it is anything else."""
    counts: dict[str, int] = {}
    for part in text.split(","):
        found = ITEM.fullmatch(part.strip())
        name = next((good for good in goods if found and found[2] in (good, good + "s")), None)
        if found is None or name is None or name in counts or not int(found[1]):
            return None
        counts[name] = int(found[1])
    return tuple(counts.get(good, 0) for good in goods)


@cache
def allocations(pool: Goods, seats: int) -> list[Holdings]:
    """Every way of giving out a pool to the last piece."""
    return [tuple(zip(*shares, strict=True)) for shares in product(*(_shared(count, seats) for count in pool))]


def _shared(count: int, seats: int) -> list[Goods]:
    if seats == 1:
        return [(count,)]
    return [(mine, *rest) for mine in range(count + 1) for rest in _shared(count - mine, seats - 1)]
