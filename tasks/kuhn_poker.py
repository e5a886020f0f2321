"""Kuhn poker: three cards, one bet, and already bluffing.

The smallest game whose best play is random: no fixed move is right with a jack or facing a bet, so a
policy that only sharpens itself cycles, and the distance from equilibrium (NashConv) is exact and cheap.
Rules as in OpenSpiel's `kuhn_poker`: cards J, Q, K; ante 1, bet 1; payoffs in chips.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

from engine import Game

CARDS = "JQK"

LEGAL = {
    "": ["[check]", "[bet]"],
    "c": ["[check]", "[bet]"],
    "b": ["[fold]", "[call]"],
    "cb": ["[fold]", "[call]"],
}
"""What may be done after each history of checks (c), bets (b), folds (f) and calls (k)."""

STAKES = {"cc": 1, "bf": 1, "cbf": 1, "bk": 2, "cbk": 2}
"""How many chips change hands at each end."""

WINNER = {"bf": 0, "cbf": 1}
"""Who wins when somebody folds; at every other end the higher card does."""

LETTER = {"[check]": "c", "[bet]": "b", "[fold]": "f", "[call]": "k"}


class KuhnPoker(Game[tuple[str, str]]):
    """State: (both cards, history)."""

    perfect_information = False
    prompt = "Kuhn poker."
    rules = (
        "You are playing Kuhn poker. There are three cards: J, Q and K; K is the highest. You and your opponent "
        "are dealt one each and put 1 chip in. A player may check or bet 1 chip. After a bet the other may call "
        "with 1 chip or fold. If both check or a bet is called, the higher card takes the pot; after a fold the "
        "other player does. Think briefly, then give your move in square brackets, such as [check]. "
        "Use brackets only for the move."
    )

    def deals(self) -> list[tuple[str, str]]:
        return [(mine + theirs, "") for mine, theirs in permutations(CARDS, 2)]

    def seat(self, state: tuple[str, str]) -> int:
        return len(state[1]) % 2

    def legal(self, state: tuple[str, str]) -> list[str]:
        return LEGAL[state[1]]

    def play(self, state: tuple[str, str], move: str) -> tuple[str, str]:
        return state[0], state[1] + LETTER[move]

    def returns(self, state: tuple[str, str]) -> tuple[float, float] | None:
        cards, history = state
        if history not in STAKES:
            return None
        winner = WINNER.get(history, 0 if CARDS.index(cards[0]) > CARDS.index(cards[1]) else 1)
        stake = float(STAKES[history])
        return (stake, -stake) if winner == 0 else (-stake, stake)

    def observe(self, state: tuple[str, str], seat: int) -> str:
        return f"{state[0][seat]} {state[1]:-<2}"

    def habits(self, policy: Callable[[tuple[str, str]], dict[str, float]]) -> dict[str, float]:
        """The two that chase each other: bets with a jack, and calls of a bet with a queen.

        In equilibrium who acts first bets a jack 0 to 1/3 of the time, and who acts second calls 1/3 of the time.
        """
        return {"jack_bets": policy(("JQ", ""))["[bet]"], "queen_calls": policy(("JQ", "b"))["[call]"]}

    def describe(self, state: tuple[str, str], seat: int) -> str:
        verbs = {"c": "checked", "b": "bet"}
        told = [f"{'You' if i % 2 == seat else 'Your opponent'} {verbs[m]}." for i, m in enumerate(state[1])]
        moves = ", ".join(self.legal(state))
        return " ".join([f"Your card is {state[0][seat]}.", *told, f"Moves: {moves}. What do you do?"])
