"""Negotiation: talk, offers and hidden values. Zero-sum by comparison, or neither zero-sum nor common interest.

`variant = "simple"` is SPIRAL's Simple Negotiation (arXiv 2506.24119), zero-sum: the larger gain wins ±1, an
illegal move is −1.5 and +0.5 for the other. `variant = "hidden"` has two to five share a pool of which each has
values of its own (after Lewis et al. 2017, arXiv 1706.05125): the reward is the share got of the most one could
have, 0 without a deal, −0.5 for an illegal move. Every seat is a role, and RAE compares each with itself. In words
each role's turns are one conversation; in short notation a position is shown alone.

Known to go wrong: in the simple game nobody needs to trade, who never accepts can't lose, and two good players draw
every game and learn nothing more, though both would gain by trading (`openings` and `draw` help). With hidden
values self-play agrees on claims that only its own kind accepts; hence fixed opponents in evaluation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Annotated, Any, Literal

from engine import (
    Arena,
    Between,
    Count,
    Episode,
    EpisodeRequest,
    EpisodeState,
    GenerateResult,
    Message,
    RewardFunction,
    Role,
    Rollout,
    Rubric,
    Task,
    TaskError,
    from_beginnings,
    mean,
    quoted,
    read_move,
    seats_in_turn,
    standing,
)
from tasks.negotiating.bargain import Bargain, Move, Position
from tasks.negotiating.pool import Pool
from tasks.negotiating.trade import Trade

Bot = Callable[[Bargain, Position, random.Random], Move]

BOTS: dict[str, Bot] = {
    "random": lambda rules, position, rng: rng.choice(list(rules.menu(position).values())),
    "fair": lambda rules, position, rng: rules.fair(position),
}


def outcome(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """What the rules say each role gained; nothing where an illegal move ended it."""
    return dict(rollout.extras["returns"])


def illegal_move(rollout: Rollout, arena: Arena) -> dict[str, float]:
    """What an illegal move costs who made it, and what the others get for it."""
    return dict(rollout.extras["illegal"])


def draw_worth(value: float) -> RewardFunction:
    """A reward for all where nobody got anything of it: shaping, by which the game is no longer zero-sum."""

    def draw(rollout: Rollout, arena: Arena) -> dict[str, float]:
        drawn = rollout.extras["offender"] is None and not any(rollout.extras["returns"].values())
        return dict.fromkeys(rollout.extras["returns"], value if drawn else 0.0)

    return draw


class Negotiate(Episode):
    """One negotiation. A request may seat a bot: `players={"P1": "fair"}`. Equal artifacts begin alike."""

    rubric = Rubric([outcome, illegal_move])

    def __init__(self, rules: Bargain, *, openings: int = 0, draw: float = 0.0) -> None:
        super().__init__(Rubric([outcome, illegal_move, draw_worth(draw)]) if draw else None)
        self.rules, self.openings = rules, openings
        self.roles = [f"P{seat}" for seat in range(rules.seats)]

    async def rollout(self, arena: Arena, artifact: Any, state: EpisodeState) -> EpisodeState:
        rules, roles = self.rules, self.roles
        position = self._opening(state.rng if artifact is None else random.Random(f"{arena.seed}:{artifact}"))
        heard = {role: [rules.opening(position, seat)] for seat, role in enumerate(roles)}
        chats: dict[str, list[Message]] = {role: [] for role in roles}
        offender = None
        while not rules.over(position):
            role, menu = roles[position.seat], rules.menu(position)
            if bot := BOTS.get(state.players.get(role, "")):
                move = bot(rules, position, state.rng)
                said = next(text for text, means in menu.items() if means == move)
            else:
                chats[role].append({"role": "user", "content": self._told(position, heard[role])})
                messages = list(chats[role]) if rules.words else chats[role][-1:]
                said = (await self.call_model(role, messages, arena, legal=list(menu))).text
                chats[role].append({"role": "assistant", "content": said})
                move = rules.read(position, said) if rules.words else menu.get(read_move(said, list(menu)) or "")
                if move is None:
                    state.turns[-1].illegal = True
                    offender = role
                    break
            heard[role] = []
            for other in roles:
                if other != role:
                    heard[other].append(quoted(f"{role} says", said))
            position = rules.play(position, move)
        state.data = self._found(position, offender)
        return state

    def _opening(self, rng: random.Random) -> Position:
        while True:
            position = self.rules.deal(rng)
            for _ in range(rng.randint(0, self.openings)):
                if not self.rules.over(position):
                    position = self.rules.play(position, BOTS["random"](self.rules, position, rng))
            if not self.rules.over(position):
                return position

    def _told(self, position: Position, heard: list[str]) -> str:
        if not self.rules.words:
            return self.rules.observe(position)
        return "\n".join([*heard, self.rules.describe(position)])

    def _found(self, position: Position, offender: str | None) -> dict[str, Any]:
        cost, consolation = self.rules.illegal
        zeros = dict.fromkeys(self.roles, 0.0)
        returns = dict(zip(self.roles, self.rules.returns(position), strict=True))
        illegal = {role: cost if role == offender else consolation for role in self.roles}
        return {
            "returns": zeros if offender else returns,
            "illegal": illegal if offender else zeros,
            "offender": offender,
            "values": position.values,
            "holdings": position.holdings,
            "gains": dict(zip(self.roles, position.gains(), strict=True)),
            "deals": position.deals,
            "efficiency": self.rules.efficiency(position),
            "pareto": self.rules.is_pareto(position),
        }


class Negotiation(Task):
    """Options: `variant`; `players` and `turns` where values are hidden; `openings`: up to so many random moves
    come first; `draw`: what it is worth when nobody wins, or nobody gets anything; `repeats`: negotiations from
    each beginning, those that GRPO compares; `notation`: talk, or moves of a few characters for a small model."""

    def __init__(
        self,
        *,
        variant: Literal["simple", "hidden"] = "simple",
        players: Annotated[int, Between(2, 5)] = 2,
        turns: Annotated[int, Between(2, 100)] = 10,
        openings: Annotated[int, Between(0, 5)] = 0,
        draw: Annotated[float, Between(-0.99, 0.0)] = 0.0,
        repeats: Count = 1,
        notation: Literal["compact", "words"] = "words",
    ) -> None:
        words = notation == "words"
        if variant == "simple" and (players, turns) != (2, 10):
            raise TaskError(
                "negotiation: options 'players' and 'turns' are for variant = \"hidden\"; \"simple\" has 2 and 10"
            )
        self.rules = Trade(words) if variant == "simple" else Pool(players, turns, words)
        self.openings, self.draw, self.repeats = openings, draw, repeats

    def setup(self, arena: Arena) -> None:
        episode = Negotiate(self.rules, openings=self.openings, draw=self.draw)
        for role in episode.roles:
            arena.add_role(Role(role, system_prompt=self.rules.rules if self.rules.words else self.rules.prompt))
        arena.add_episode("negotiation", episode)
        arena.add_episode("negotiation-match", Negotiate(self.rules))

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        return from_beginnings(arena, "negotiation", n, self.repeats)

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        """In one seat against bots in the others, each seat in turn; and in all of them, with itself."""
        found = {}
        for bot in BOTS:
            found |= await self._matches(arena, bot, n, f"{label}/{bot}")
        requests = [EpisodeRequest("negotiation-match", is_trainable=False) for _ in range(n)]
        found |= measured(await arena.generate_rollouts(requests, label=f"{label}/itself"), "with_itself")
        found["illegal"] = max(value for name, value in found.items() if name.startswith("illegal"))
        return found

    async def _matches(self, arena: Arena, bot: str, n: int, label: str) -> dict[str, float]:
        roles = [f"P{seat}" for seat in range(self.rules.seats)]
        played = await seats_in_turn(arena, "negotiation-match", roles, bot, n, label=label)
        return standing(played, bot) | measured([result for result, _ in played], f"vs_{bot}")


def measured(results: list[GenerateResult], name: str) -> dict[str, float]:
    """Whether there was a deal, how much of the joint gain was found, whether nothing was left on the table."""
    extras = [result.rollout.extras for result in results if result.rewards]
    return {
        f"deals_{name}": mean(e["deals"] > 0 for e in extras),
        f"efficiency_{name}": mean(e["efficiency"] for e in extras),
        f"pareto_{name}": mean(e["pareto"] for e in extras),
        f"illegal_{name}": mean(e["offender"] is not None for e in extras),
    }
