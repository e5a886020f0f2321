"""OpenSpiel: a door to its games. Any one whose players move in turn and whose positions and moves can be written.

    [task]
    name = "openspiel"
    options = { game = "connect_four" }

A player is shown what OpenSpiel says it knows, with the legal moves in brackets, and answers with one of them.
Rewards are the game's returns times `scale`. An illegal move ends the game: the offender gets a quarter of its
range less than the worst return; in a zero-sum game the others get a quarter of it (−1.5 and +0.5 where returns are
±1, as in SPIRAL, arXiv 2506.24119), in any other the worst return, so that nobody gains by it.

Known to go wrong: moves are OpenSpiel's words, which a model has to copy exactly; a position is shown as it is
printed, which may leave out whose pieces are whose; and long games of random moves teach little.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from engine import (
    Arena,
    Between,
    Count,
    Episode,
    EpisodeRequest,
    EpisodeState,
    Role,
    Rollout,
    Rubric,
    Task,
    from_beginnings,
    mean,
    read_move,
    seats_in_turn,
    standing,
)
from tasks.spiel.board import Board, Bot, Decision, random_bot, searching_bot, settled, spiel


def outcome(rollout: Rollout, arena: Arena) -> dict[str, float] | None:
    """What OpenSpiel says each role gained; 0 where an illegal move ended it, no reward where it was too long."""
    return rollout.extras["returns"]


def illegal_move(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """What an illegal move costs who made it, and what the others get for it."""
    return dict(rollout.extras["illegal"])


class Match(Episode):
    """One game, a role for each player. A request may seat a bot: `players={"P1": "random"}`."""

    def __init__(
        self,
        board: Board,
        *,
        longest: int,
        scale: float,
        openings: int = 0,
        bots: Mapping[str, Bot] | None = None,
    ) -> None:
        super().__init__(Rubric([outcome, illegal_move], [scale, scale]))
        self.board, self.longest, self.openings, self.bots = board, longest, openings, bots or {}

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        board, offender = self.board, None
        rng = state.rng if artifact is None else random.Random(f"{arena.seed}:{artifact}")
        position, moves = board.begin(rng, self.openings), 0
        while not position.is_terminal() and moves < self.longest:
            role = board.roles[position.current_player()]
            if bot := self.bots.get(state.players.get(role, "")):
                action = bot(position, state.rng)
            else:
                legal = board.moves(position)
                reply = await self.call_model(role, board.view(position), arena, legal=list(legal))
                move = read_move(reply.text, list(legal))
                if move is None:
                    state.turns[-1].illegal = True
                    offender = role
                    break
                action = legal[move]
            position.apply_action(action)
            settled(position, state.rng)
            moves += 1
        zeros = dict.fromkeys(board.roles, 0.0)
        over = dict(zip(board.roles, position.returns(), strict=True)) if position.is_terminal() else None
        state.data = {
            "returns": zeros if offender else over,
            "illegal": board.illegal(offender) if offender else zeros,
            "offender": offender,
            "history": position.history(),
        }
        return state


class OpenSpiel(Task):
    """Options: `game` and its `parameters`, as OpenSpiel names them; `openings`: up to so many random moves come
    first; `repeats`: games from each beginning, those that GRPO compares; `scale` of rewards; `longest`: moves
    after which a game is given up, without a reward; `simulations` of the tree search to play against."""

    def __init__(
        self,
        *,
        game: str = "connect_four",
        parameters: dict[str, bool | int | float | str] = {},  # noqa: B006
        openings: Annotated[int, Between(0, 1000)] = 0,
        repeats: Count = 1,
        scale: Annotated[float, Between(1e-6, 1e6)] = 1.0,
        longest: Count = 400,
        simulations: Annotated[int, Between(0, 100_000)] = 50,
        notation: Literal["compact", "words"] = "words",
    ) -> None:
        self.board = Board(game, parameters)
        self.openings, self.repeats, self.longest, self.scale = openings, repeats, longest, scale
        self.words = notation == "words"
        self.bots: dict[str, Bot] = {"random": random_bot}
        if self.board.perfect and simulations:
            self.bots["search"] = searching_bot(self.board.game, simulations)

    def setup(self, arena: Arena) -> None:
        for player, role in enumerate(self.board.roles):
            arena.add_role(Role(role, system_prompt=self._prompt(player)))
        match = partial(Match, self.board, longest=self.longest, scale=self.scale)
        arena.add_episode("game", match(openings=self.openings))
        arena.add_episode("game-match", match(bots=self.bots))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        return from_beginnings(arena, "game", n, self.repeats)

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """In each seat in turn against bots in the others; in small games of hidden information, `nash_conv`."""
        found = {}
        for bot in self.bots:
            found |= await self._matches(arena, bot, n if bot == "random" else max(2, n // 4), f"{label}/{bot}")
        found["illegal"] = found["illegal_vs_random"]
        if self.board.decisions is not None:
            found["nash_conv"] = await self._nash_conv(arena, self.board.decisions)
        return found

    async def _matches(self, arena: Arena, bot: str, n: int, label: str) -> dict[str, float]:
        played = await seats_in_turn(arena, "game-match", self.board.roles, bot, n, label=label)
        lost = mean(result.rollout.extras["offender"] == mine for result, mine in played if result.rewards)
        return standing(played, bot) | {f"illegal_vs_{bot}": lost}

    async def _nash_conv(self, arena: Arena, decisions: Mapping[str, Decision]) -> float:
        """What all players together could gain by best responses, by OpenSpiel: 0 at an equilibrium. From the
        policy's exact probabilities of every legal move, renormalised over these."""
        table = {}
        for information, (role, view, moves) in decisions.items():
            scores = await arena.score(view, list(moves), role)
            weights = [math.exp(score - max(scores)) for score in scores]
            table[information] = [(a, w / sum(weights)) for a, w in zip(moves.values(), weights, strict=True)]
        pyspiel = spiel()
        return float(pyspiel.nash_conv(self.board.game, pyspiel.TabularPolicy(table)))

    def _prompt(self, player: int) -> str:
        board = self.board
        if not self.words:
            return f"{board.type.long_name}."
        position = board.begin(random.Random(0))
        example = next(iter(board.moves(position)))
        return (
            f"You are player {player} of {len(board.roles)} (counted from 0) in the game {board.type.long_name}. "
            "In each turn you are shown what you know, and the moves you may make. Think briefly, then answer with "
            f"one of these moves, copied exactly with its square brackets, such as {example}. Use square brackets "
            "for nothing else: a reply with two moves, or with none, loses."
        )
