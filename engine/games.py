"""Two-player turn games: rules as pure functions, and one driver that plays them.

A game's module is its rules. Who sits where, what an illegal move costs and how a reply is read are the
same for all games and live here; how strength is measured is `engine.matches`.
"""

from __future__ import annotations

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from engine.arena import Arena
from engine.episode import Episode, EpisodeState
from engine.rubric import RewardFunction, Rubric
from engine.types import EpisodeRequest, Rollout

State = TypeVar("State")

ILLEGAL_OFFENDER, ILLEGAL_OTHER = -1.5, 0.5
"""What an illegal move is worth to each side in a zero-sum game (SPIRAL, arXiv 2506.24119)."""

BRACKETED = re.compile(r"\[[^\[\]]*\]")


class Game(ABC, Generic[State]):
    """The rules of a two-player zero-sum game. States are immutable and hashable; seats are 0 and 1."""

    seats: tuple[str, str] = ("First", "Second")
    """The roles of seat 0 and seat 1."""
    perfect_information: bool = True
    prompt: str = ""
    """The system prompt of both roles in compact notation, what `pocket` was taught."""
    rules: str = ""
    """The system prompt in words: the rules and how to answer, for a model that has never seen the game."""

    @abstractmethod
    def deals(self) -> list[State]:
        """Every position a game may begin with, all equally likely."""

    def initial(self, rng: random.Random) -> State:
        """A position to begin with."""
        return rng.choice(self.deals())

    @abstractmethod
    def seat(self, state: State) -> int:
        """Whose turn it is."""

    @abstractmethod
    def legal(self, state: State) -> list[str]:
        """The moves as a player writes them, such as `"[2]"`; never empty while the game goes on.

        They are also the whole replies that a constrained role can give.
        """

    @abstractmethod
    def play(self, state: State, move: str) -> State:
        """The position after a legal move."""

    @abstractmethod
    def returns(self, state: State) -> tuple[float, float] | None:
        """What each seat gains, or None while the game goes on."""

    @abstractmethod
    def observe(self, state: State, seat: int) -> str:
        """All that the player in that seat knows, in compact notation. Never the other's secrets."""

    def describe(self, state: State, seat: int) -> str:
        """The same in words."""
        return self.observe(state, seat)

    def habits(self, policy: Callable[[State], dict[str, float]]) -> dict[str, float]:
        """Figures of a policy that are worth watching beside its strength, by name.

        Asked for in games of imperfect information, where a position's moves have exact probabilities.
        """
        return {}


Bot = Callable[..., str]
"""A scripted player: (game, position, rng) → a legal move."""


def random_move(game: Game[State], state: State, rng: random.Random) -> str:
    return rng.choice(game.legal(state))


def read_move(reply: str, legal: list[str]) -> str | None:
    """The one move a reply names, or None. Two different brackets are ambiguous, and never guessed."""
    named = set(BRACKETED.findall(reply))
    return next(iter(named)) if len(named) == 1 and named <= set(legal) else None


def outcome(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """What the rules say each role gained; nothing where an illegal move ended the game."""
    return dict(rollout.extras["returns"])


def illegal_move(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """−1.5 for the role that made an illegal move, +0.5 for the other."""
    offender = rollout.extras["illegal"]
    if offender is None:
        return dict.fromkeys(rollout.extras["returns"], 0.0)
    return {role: ILLEGAL_OFFENDER if role == offender else ILLEGAL_OTHER for role in rollout.extras["returns"]}


def draw_worth(value: float) -> RewardFunction:
    """A reward for both roles where nobody won. Below 0 it is shaping: the game is then not zero-sum any more."""

    def draw(rollout: Rollout, arena: Arena) -> dict[str, float]:
        returns = rollout.extras["returns"]
        drawn = rollout.extras["illegal"] is None and not any(returns.values())
        return dict.fromkeys(returns, value if drawn else 0.0)

    return draw


class GameEpisode(Episode):
    """Plays one game, a role in each seat. A request may seat a bot: `players={"O": "random"}`.

    `roles`: who sits in seat 0 and seat 1, where it isn't the game's own seats.
    Equal artifacts stand for equal beginnings; without one the rollout draws its own.

    `openings`: up to so many uniformly random legal moves come first, so that self-play keeps visiting
    positions its own policy has ruled out (without them the entropy collapses and learning stops).
    `draw`: what a draw is worth to each side. Two players who never lose to each other draw every game, and learn
    nothing more; a draw that costs both a little has them prefer positions in which the other may still go wrong.
    """

    rubric = Rubric([outcome, illegal_move])

    def __init__(
        self,
        game: Game[Any],
        *,
        openings: int = 0,
        draw: float = 0.0,
        words: bool = False,
        bots: dict[str, Bot] | None = None,
        roles: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(Rubric([outcome, illegal_move, draw_worth(draw)]) if draw else None)
        self.game = game
        self.roles = roles or game.seats
        self.openings = openings
        self.view = game.describe if words else game.observe
        self.bots = bots or {}

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        game = self.game
        position = self._opening(state.rng if artifact is None else random.Random(f"{arena.seed}:{artifact}"))
        illegal = None
        while game.returns(position) is None:
            seat = game.seat(position)
            role = self.roles[seat]
            bot = self.bots.get(state.players.get(role, ""))
            if bot is not None:
                move = bot(game, position, state.rng)
            else:
                legal = game.legal(position)
                reply = await self.call_model(role, self.view(position, seat), arena, legal=legal)
                move = read_move(reply.text, legal)
                if move is None:
                    state.turns[-1].illegal = True
                    illegal = role
                    break
            position = game.play(position, move)
        state.data = {
            "returns": dict(zip(self.roles, game.returns(position) or (0.0, 0.0), strict=True)),
            "illegal": illegal,
        }
        return state

    def _opening(self, rng: random.Random) -> Any:
        while True:
            position = self.game.initial(rng)
            for _ in range(rng.randint(0, self.openings)):
                if self.game.returns(position) is None:
                    position = self.game.play(position, random_move(self.game, position, rng))
            if self.game.returns(position) is None:
                return position


def from_beginnings(arena: Arena, episode_type: str, n: int, repeats: int) -> list[EpisodeRequest]:
    """The next `n` games, each beginning played `repeats` times over: those of one beginning are compared."""
    beginnings = [arena.played + i // repeats for i in range(n)]
    if repeats == 1:  # each begins elsewhere: there is nothing to compare it with
        return [EpisodeRequest(episode_type, group=f"{beginning}") for beginning in beginnings]
    return [EpisodeRequest(episode_type, {"beginning": beginning}) for beginning in beginnings]
