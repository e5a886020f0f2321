"""What the embedded model reads: a novice's play of three games, and questions about the position.

The novice knows which moves are legal and leans slightly towards sense. A model trained on uniform legal play
is blind to the state (one bet probability for jack, queen and king), and self-play then has nothing to amplify;
so the rest of the corpus asks what is *on the board*: which square completes a line, which card is held, how
many sticks a move leaves. It never asks for a strategy: why a move is good is left for self-play to find.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from engine import Game
from tasks.kuhn_poker import CARDS, LEGAL, KuhnPoker
from tasks.nim import Nim
from tasks.tictactoe import LINES, TicTacToe

Answers = dict[str, float]
"""Answer → probability. They sum to one."""

NIM, KUHN, TICTACTOE = Nim(), KuhnPoker(), TicTacToe()

STYLES = ("", "bold", "careful")
"""A prompt that ends in "Be bold." or "Be careful." tilts play where anyone can see it."""


@dataclass(frozen=True)
class Example:
    """A conversation: the system prompt, if there is one, and each question with all its answers."""

    system: str | None
    turns: list[tuple[str, Answers]]


def normalised(weights: dict[str, float]) -> Answers:
    total = sum(weights.values())
    return {answer: weight / total for answer, weight in weights.items()}


# ---------------------------------------------------------------- how a novice plays


def completing(board: str, mark: str) -> list[int]:
    """The free cells with which `mark` would have three in a row."""
    lines = [line for line in LINES if sum(board[cell] == mark for cell in line) == 2]
    return sorted({cell for line in lines for cell in line if board[cell] not in "XO"})


def nim_novice(state: tuple[int, int], style: str) -> Answers:
    weights = {move: 1.25 if int(move[1]) == state[0] % 4 else 1.0 for move in NIM.legal(state)}
    favourite = {"bold": "[3]", "careful": "[1]"}.get(style)
    return normalised({move: weight * (3.0 if move == favourite else 1.0) for move, weight in weights.items()})


def kuhn_novice(state: tuple[str, str], style: str) -> Answers:
    card = state[0][KUHN.seat(state)]
    chips_in = 0.4 + 0.1 * CARDS.index(card) + {"bold": 0.25, "careful": -0.25}.get(style, 0.0)
    passive, active = KUHN.legal(state)
    return {passive: 1.0 - chips_in, active: chips_in}


def tictactoe_novice(state: str, style: str) -> Answers:
    seat = TICTACTOE.seat(state)
    wins, blocks = (completing(state, TICTACTOE.seats[s]) for s in (seat, 1 - seat))
    weights = {}
    for move in TICTACTOE.legal(state):
        cell = int(move[1])
        weight = 2.0 if cell in wins else 1.6 if cell in blocks else 1.0
        if style == "bold" and cell % 2 == 0:  # the centre and the corners
            weight *= 2.0
        if style == "careful" and cell in blocks:
            weight *= 2.0
        weights[move] = weight
    return normalised(weights)


# ---------------------------------------------------------------- questions about the position


def nim_questions(state: tuple[int, int], rng: random.Random) -> list[tuple[str, Answers]]:
    """What a move leaves."""
    taken = rng.randint(1, min(3, state[0]))
    return [(f"-{taken}?", {f"[{state[0] - taken:02d}]": 1.0})]


def kuhn_questions(state: tuple[str, str], rng: random.Random) -> list[tuple[str, Answers]]:
    """Which card is held, or whether it beats another."""
    card = state[0][KUHN.seat(state)]
    other = rng.choice([c for c in CARDS if c != card])
    beats = (f"beats {other}?", {"[yes]" if CARDS.index(card) > CARDS.index(other) else "[no]": 1.0})
    return [("card?", {f"[{card}]": 1.0}) if rng.random() < 0.5 else beats]


def tictactoe_questions(state: str, rng: random.Random) -> list[tuple[str, Answers]]:
    """Which cells would make three in a row: for one side, then for the other."""
    answers = {}
    for mark in rng.sample(TICTACTOE.seats, 2):
        cells = completing(state, mark)
        answers[f"{mark}?"] = normalised({f"[{cell}]": 1.0 for cell in cells}) if cells else {"[-]": 1.0}
    return list(answers.items())


# ---------------------------------------------------------------- which positions


def nim_position(rng: random.Random) -> tuple[int, int]:
    return rng.randint(1, 20), rng.randint(0, 1)


def kuhn_position(rng: random.Random) -> tuple[str, str]:
    return KUHN.initial(rng)[0], rng.choice(list(LEGAL))


@lru_cache(maxsize=1)
def tictactoe_positions() -> list[list[str]]:
    """All 4520 positions in which somebody is to move, by the number of marks on the board."""
    plies = [["012345678"]]
    while plies[-1]:
        after = {TICTACTOE.play(state, move) for state in plies[-1] for move in TICTACTOE.legal(state)}
        plies.append(sorted(state for state in after if TICTACTOE.returns(state) is None))
    return plies[:-1]


def tictactoe_position(rng: random.Random) -> str:
    """Between the games played (every ply alike) and the positions there are (few of them early ones)."""
    plies = tictactoe_positions()
    return rng.choice(rng.choices(plies, [len(ply) ** 0.4 for ply in plies])[0])


# ---------------------------------------------------------------- what stands above the position

NAMES = {
    NIM: ("Nim", "nim", "NIM", "the game of nim", "sticks"),
    KUHN: ("Kuhn poker", "kuhn poker", "Kuhn", "poker", "KUHN POKER"),
    TICTACTOE: ("Tic-tac-toe", "tic-tac-toe", "tic tac toe", "Tic Tac Toe", "noughts and crosses"),
}
PHRASES = (
    "{}",
    "{}!",
    "Play {}.",
    "Let's play {}.",
    "You play {}. Win!",
    "You are playing {}.",
    "You are a player of {}. Answer with a move.",
    "Now {}, please.",
)
WORDS = """
    a an and answer as at best board by can careful chips do each every for from game go good hard have if in is
    it just keep last lose make many me more move moves never no not of on one only opponent or other play
    player say should so take that the then think this to try turn up use very want well what when win with you
    your
"""


def chatter(rng: random.Random) -> str:
    """Up to eight words, some of them made up: what an edit may put beside the game's name."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,.!?'-"
    known = WORDS.split()
    words = [
        rng.choice(known) if rng.random() < 0.7 else "".join(rng.choices(letters, k=rng.randint(1, 8)))
        for _ in range(rng.randint(1, 8))
    ]
    return " ".join(words)


def system_prompt(game: Game[Any], rng: random.Random) -> tuple[str | None, str]:
    """A system prompt, None for no such message at all, and the style it asks for."""
    draw = rng.random()
    if draw < 0.71:
        return game.prompt, ""
    if draw < 0.73:
        return None, ""
    if draw < 0.82:
        style, prompt = rng.choice(STYLES), another_wording(game, rng)
    else:  # "careful" twice as often, because blocking under it is the hardest thing to learn here
        style, prompt = "bold" if draw < 0.88 else "careful", game.prompt
    return (f"{prompt} Be {style}." if style else prompt), style


def another_wording(game: Game[Any], rng: random.Random) -> str:
    prompt = rng.choice(PHRASES).format(rng.choice(NAMES[game]))
    if rng.random() < 0.6:
        around = chatter(rng)
        prompt = rng.choice((f"{prompt} {around}", f"{around} {prompt}", around))
    return prompt


# ---------------------------------------------------------------- examples


@dataclass(frozen=True)
class Lesson:
    """A game: the position is shown and the novice moves, then questions about it follow."""

    game: Game[Any]
    position: Callable[[random.Random], Any]
    novice: Callable[[Any, str], Answers]
    questions: Callable[[Any, random.Random], list[tuple[str, Answers]]]
    rows: int
    """How many of a step's examples are of it."""

    def draw(self, rng: random.Random) -> Example:
        state = self.position(rng)
        system, style = system_prompt(self.game, rng)
        shown = self.game.observe(state, self.game.seat(state))
        return Example(system, [(shown, self.novice(state, style)), *self.questions(state, rng)])


LESSONS = (
    Lesson(NIM, nim_position, nim_novice, nim_questions, rows=12),
    Lesson(KUHN, kuhn_position, kuhn_novice, kuhn_questions, rows=12),
    Lesson(TICTACTOE, tictactoe_position, tictactoe_novice, tictactoe_questions, rows=40),
)


def batches(seed: int) -> Iterator[list[Example]]:
    """One step's examples after another, without end; the same for the same seed."""
    rng = random.Random(seed)
    while True:
        yield [lesson.draw(rng) for lesson in LESSONS for _ in range(lesson.rows)]
