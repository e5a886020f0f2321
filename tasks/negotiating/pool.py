"""A pool to be shared by two to five, each with values of its own that the others aren't told.

As in *Deal or No Deal?* (Lewis et al. 2017, arXiv 1706.05125), everything together is worth 10 to each, and nobody
gets anything unless all agree. Neither zero-sum nor common interest: who claims much risks the deal.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cached_property

from tasks.negotiating.bargain import Bargain, Holdings, Position, allocations, items

POOL = (3, 2, 1)
WHOLE = 10
"""What all of the pool is worth to each seat."""
VALUES = [(a, b, WHOLE - 3 * a - 2 * b) for a in range(4) for b in range(6) if 3 * a + 2 * b <= WHOLE]
"""All values of a book, a hat and the ball by which the pool is worth that."""


class Pool(Bargain):
    goods = ("book", "hat", "ball")
    pool = POOL
    illegal = (-0.5, 0.0)
    prompt = "Share."

    def __init__(self, seats: int, turns: int, words: bool) -> None:
        self.seats, self.turns, self.words = seats, turns, words
        self.rules = (
            f"{seats} people, {', '.join(f'P{seat}' for seat in range(seats))}, speak in turn and share 3 books, "
            "2 hats and 1 ball. Each has values of its own for them, which the others aren't told. After "
            f"{turns} turns in all without a proposal that everybody else has accepted, nobody gets anything. "
            "Say little, and make one move, in square brackets:\n"
            "[Propose: P0 2 books, 1 hat; P1 1 book, 1 hat, 1 ball] to propose who gets what, to the last piece,\n"
            "[Accept] to agree to the proposal that stands,\n"
            "[Deny] to turn it down; a proposal of your own does so too.\n"
            "You lose at once if a proposal doesn't add up, if you accept when nothing is proposed, or if you make "
            "two moves. Use square brackets for nothing else. What others said is quoted after '>'."
        )

    def deal(self, rng: random.Random) -> Position:
        nothing = ((0,) * len(self.pool),) * self.seats
        return Position(tuple(rng.choice(VALUES) for _ in range(self.seats)), nothing, nothing)

    def offers(self, position: Position) -> list[Holdings]:
        return allocations(self.pool, self.seats)

    def understood(self, position: Position, text: str) -> Holdings | None:
        verb, colon, terms = text.partition(":")
        shares: dict[str, tuple[int, ...]] = {}
        for part in terms.split(";"):
            who, _, what = part.strip().partition(" ")
            share = items(what, self.goods)
            if share is None or who in shares:
                return None
            shares[who] = share
        everyone = [f"p{seat}" for seat in range(self.seats)]
        given = tuple(map(sum, zip(*shares.values(), strict=True)))
        if verb.strip() != "propose" or not colon or set(shares) - set(everyone) or given != self.pool:
            return None
        return tuple(shares.get(who, (0,) * len(self.pool)) for who in everyone)

    def spell(self, position: Position, offer: Holdings) -> str:
        if not self.words:
            return f"[{'|'.join(''.join(map(str, share)) for share in offer)}]"
        return (
            f"[Propose: {'; '.join(f'P{seat} {named(share)}' for seat, share in enumerate(offer) if any(share))}]"
        )

    def spelled(self, position: Position) -> Mapping[str, Holdings]:
        return self._spelled

    @cached_property
    def _spelled(self) -> dict[str, Holdings]:
        """The same in every position, and many where many share."""
        position = self.deal(random.Random(0))
        return {self.spell(position, offer): offer for offer in self.offers(position)}

    def over(self, position: Position) -> bool:
        return position.deals == 1 or position.turn == self.turns

    def returns(self, position: Position) -> list[float]:
        """What each got, as a share of the most it could have."""
        return [gain / WHOLE for gain in position.gains()]

    def observe(self, position: Position) -> str:
        """Turns left; own values; and the proposal that stands, if there is one."""
        seen = (
            f"{self.turns - position.turn:02} P{position.seat} {' '.join(map(str, position.values[position.seat]))}"
        )
        return seen if position.offer is None else f"{seen} {self.spell(position, position.offer)[1:-1]} b-"

    def describe(self, position: Position) -> str:
        stands = "No proposal stands." if position.turn else ""
        if position.offer is not None:
            share = position.offer[position.seat]
            stands = f"The proposal that stands gives you {named(share) if any(share) else 'nothing'}."
        return f"{stands} Turns left, all together: {self.turns - position.turn}.".strip()

    def opening(self, position: Position, seat: int) -> str:
        book, hat, ball = position.values[seat]
        return f"You are P{seat}. To you a book is worth {book}, a hat {hat} and the ball {ball}."


def named(share: tuple[int, ...]) -> str:
    return ", ".join(
        f"{count} {good}{'s' * (count > 1)}" for count, good in zip(share, Pool.goods, strict=True) if count
    )
