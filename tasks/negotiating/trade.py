"""Simple Negotiation as in SPIRAL (arXiv 2506.24119): two traders with stocks of Wood and Gold.

A trade of equal numbers does both good, and nobody wins by it: what counts is who has gained more.
"""

from __future__ import annotations

import random
from itertools import product

from tasks.negotiating.bargain import Bargain, Goods, Holdings, Position, items

VALUES = ((5, 15), (15, 5))
"""What a Wood and a Gold are worth to each seat."""
LESS = (0, 1)
"""Which good each seat values less."""
STOCK = (10, 10)
SIZES = (1, 2, 3)
"""How many of a good the offers to choose from give or want."""


class Trade(Bargain):
    goods = ("wood", "gold")
    pool = (20, 20)
    seats = 2
    turns = 10
    illegal = (-1.5, 0.5)
    prompt = "Trade."
    rules = (
        "Two traders, P0 and P1, speak in turn, ten turns in all. Each begins with 10 Wood and 10 Gold, and has "
        "values of its own for them, which the other isn't told. Whose goods have gained more in value at the end "
        "wins. "
        "Say little, and make one move, in square brackets:\n"
        "[Offer: 3 Wood -> 2 Gold] to offer 3 of your Wood for 2 of the other's Gold,\n"
        "[Accept] to take the offer made to you,\n"
        "[Deny] to turn it down; an offer of your own does so too.\n"
        "You lose at once if you offer what you don't have, accept what you can't pay or what nobody offered, or "
        "make two moves. Use square brackets for nothing else. What the other trader said is quoted after '>'."
    )

    def __init__(self, words: bool) -> None:
        self.words = words

    def deal(self, rng: random.Random) -> Position:
        return Position(VALUES, (STOCK, STOCK), (STOCK, STOCK))

    def offers(self, position: Position) -> list[Holdings]:
        """Something of what one values less for something of what one values more."""
        less = LESS[position.seat]
        made = [
            self._after(position, single(less, size), single(1 - less, price))
            for size, price in product(SIZES, SIZES)
        ]
        return [offer for offer in made if min(map(min, offer)) >= 0]

    def understood(self, position: Position, text: str) -> Holdings | None:
        verb, colon, terms = text.partition(":")
        sides = [items(side, self.goods) for side in terms.split("->")]
        if verb.strip() != "offer" or not colon or len(sides) != 2:
            return None
        give, get = sides
        if give is None or get is None or any(map(min, zip(give, get, strict=True))):  # wood for wood is no offer
            return None
        return self._after(position, give, get)

    def spell(self, position: Position, offer: Holdings) -> str:
        give, get = self._terms(position, offer)
        return f"[Offer: {named(give)} -> {named(get)}]" if self.words else f"[{sum(give)}>{sum(get)}]"

    def over(self, position: Position) -> bool:
        return position.turn == self.turns

    def returns(self, position: Position) -> list[float]:
        ours, theirs = position.gains()
        return [float((ours > theirs) - (ours < theirs)), float((theirs > ours) - (theirs < ours))]

    def observe(self, position: Position) -> str:
        """Turns left; if an offer stands, what it takes of the good valued less and gives of the other."""
        left = f"{self.turns - position.turn:02}"
        if position.offer is None:
            return left
        give, get = self._terms(position, position.offer)
        return f"{left} {sum(give)}>{sum(get)} b-"

    def describe(self, position: Position) -> str:
        told = [f"You hold {named(position.holdings[position.seat])}."]
        if position.offer is not None:
            give, get = self._terms(position, position.offer)
            told.append(f"You are offered {named(get)} for {named(give)} of yours.")
        elif position.turn:
            told.append("No offer stands.")
        return " ".join([*told, f"Turns left, yours and the other's together: {self.turns - position.turn}."])

    def opening(self, position: Position, seat: int) -> str:
        wood, gold = position.values[seat]
        return f"You are P{seat}. To you a Wood is worth {wood} and a Gold {gold}."

    def _after(self, position: Position, give: Goods, get: Goods) -> Holdings:
        """What both would hold if the seat whose turn it is gave and got this."""
        seat, held = position.seat, position.holdings
        mine = tuple(h - a + b for h, a, b in zip(held[seat], give, get, strict=True))
        theirs = tuple(h + a - b for h, a, b in zip(held[1 - seat], give, get, strict=True))
        return (mine, theirs) if seat == 0 else (theirs, mine)

    def _terms(self, position: Position, offer: Holdings) -> tuple[Goods, Goods]:
        """What the seat whose turn it is would give and get."""
        change = [
            after - held for held, after in zip(position.holdings[position.seat], offer[position.seat], strict=True)
        ]
        return tuple(max(0, -by) for by in change), tuple(max(0, by) for by in change)


def single(good: int, count: int) -> Goods:
    return (count, 0) if good == 0 else (0, count)


def named(goods: Goods) -> str:
    wood, gold = goods
    return ", ".join([f"{wood} Wood"] * bool(wood) + [f"{gold} Gold"] * bool(gold)) or "nothing"
