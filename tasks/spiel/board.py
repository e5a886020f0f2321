"""One game of OpenSpiel as texts, and its scripted players. OpenSpiel is imported when a game is first wanted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from engine import TaskError

MOST_ACTIONS = 10_000
"""Games with more different moves are refused."""
MOST_STATES = 50_000
"""Games with more positions have no `nash_conv`: it takes too long."""
MOST_DECISIONS = 2_000
"""The same for more different decisions, of which each is asked for."""
ROLLOUTS = 2
"""Random games by which the tree search judges a position."""


def spiel() -> Any:
    """OpenSpiel, imported when a game is first wanted."""
    try:
        import pyspiel
    except ImportError as error:
        raise TaskError("openspiel: needs OpenSpiel: pip install 'selfplay-tui[games]'") from error
    return pyspiel


class Decision(NamedTuple):
    """What somebody may have to decide."""

    role: str
    view: str
    moves: dict[str, int]


class Board:
    """One game of OpenSpiel as texts."""

    def __init__(self, name: str, parameters: Mapping[str, Any]) -> None:
        pyspiel = spiel()
        try:
            self.game = pyspiel.load_game(name, dict(parameters)) if parameters else pyspiel.load_game(name)
        except Exception as error:  # of several kinds, by what is missing
            raise TaskError(f"openspiel: option 'game': {name!r} can't be loaded: {first_line(error)}") from error
        self.type = kind = self.game.get_type()
        if problem := unfit(pyspiel, self.game, name):
            raise TaskError(f"openspiel: option 'game': {name!r} {problem}")
        self.perfect = kind.information == pyspiel.GameType.Information.PERFECT_INFORMATION
        self.zero_sum = kind.utility == pyspiel.GameType.Utility.ZERO_SUM
        self.tells_history = kind.provides_information_state_string and not (
            self.perfect and kind.provides_observation_string
        )
        self.roles = [f"P{player}" for player in range(self.game.num_players())]

    def begin(self, rng: random.Random, openings: int = 0) -> Any:
        """A position in which somebody is to move: after chance, and up to so many random moves."""
        while True:
            state = settled(self.game.new_initial_state(), rng)
            for _ in range(rng.randint(0, openings)):
                if not state.is_terminal():
                    state.apply_action(rng.choice(state.legal_actions()))
                    settled(state, rng)
            if not state.is_terminal():
                return state

    def moves(self, state: Any) -> dict[str, int]:
        """The legal moves of whoever is to move, each in brackets of its own, different from all others."""
        player, moves = state.current_player(), {}
        for action in state.legal_actions():
            text = " ".join(state.action_to_string(player, action).replace("[", "(").replace("]", ")").split())
            moves[f"[{text}]" if f"[{text}]" not in moves else f"[{text} #{action}]"] = action
        return moves

    def view(self, state: Any) -> str:
        """What whoever is to move knows: all it has seen where information is hidden, else the position."""
        player = state.current_player()
        text = state.information_state_string(player) if self.tells_history else state.observation_string(player)
        return f"{text.rstrip()}\nMoves: {' '.join(self.moves(state))}"

    def illegal(self, role: str) -> dict[str, float]:
        """What an illegal move of this role is worth to each."""
        worst, best = self.game.min_utility(), self.game.max_utility()
        quarter = (best - worst) / 4
        others = quarter if self.zero_sum else worst
        return {other: worst - quarter if other == role else others for other in self.roles}

    @cached_property
    def decisions(self) -> dict[str, Decision] | None:
        """All there may be to decide, by OpenSpiel's text of what is known; None where nothing is hidden, or it is
        too much."""
        if self.perfect or not self.tells_history:
            return None
        found: dict[str, Decision] = {}
        pending, seen = [self.game.new_initial_state()], 0
        while pending:
            state, seen = pending.pop(), seen + 1
            if seen > MOST_STATES or len(found) > MOST_DECISIONS:
                return None
            if state.is_terminal():
                continue
            if not state.is_chance_node() and (known := state.information_state_string()) not in found:
                found[known] = Decision(self.roles[state.current_player()], self.view(state), self.moves(state))
            pending += [state.child(action) for action in state.legal_actions()]
        return found


def unfit(pyspiel: Any, game: Any, name: str) -> str:
    """Why a game can't be played here, or nothing."""
    kind = game.get_type()
    if kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        return f"has players move at the same time; in turn it is 'turn_based_simultaneous_game(game={name})'"
    if kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
        return "isn't one of players who move in turn"
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        return "draws its own chance, so that a run can't be repeated"
    if kind.action_structs_only:
        return "has moves that are no list"
    if not (kind.provides_observation_string or kind.provides_information_state_string):
        return "has no text of what a player sees"
    if game.num_distinct_actions() > MOST_ACTIONS:
        return f"has {game.num_distinct_actions():,} different moves; up to {MOST_ACTIONS:,} can be listed"
    return ""


def settled(state: Any, rng: random.Random) -> Any:
    """The same position after chance has had its turns."""
    while state.is_chance_node():
        actions, weights = zip(*state.chance_outcomes(), strict=True)
        state.apply_action(rng.choices(actions, weights)[0])
    return state


def first_line(error: Exception) -> str:
    return f"{error}".strip().partition("\n")[0]


Bot = Callable[[Any, random.Random], int]
"""(position, rng) → a legal action."""


def random_bot(state: Any, rng: random.Random) -> int:
    return rng.choice(state.legal_actions())


def searching_bot(game: Any, simulations: int) -> Bot:
    """Monte Carlo tree search (Coulom 2006) by OpenSpiel, anew in each position, seeded by the rollout."""
    pyspiel = spiel()

    def play(state: Any, rng: random.Random) -> int:
        judge = pyspiel.RandomRolloutEvaluator(ROLLOUTS, rng.getrandbits(31))
        bot = pyspiel.MCTSBot(game, judge, math.sqrt(2), simulations, 64, True, rng.getrandbits(31), False)
        return bot.step(state)

    return play
