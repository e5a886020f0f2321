"""A person plays one episode of a run's task: they speak for some roles, one of the run's players for the others.

It is played in an arena of its own, from which nothing flows back: roles, rewards and artifact stores are as they
are in the run at that moment, random keys are its own (`person-3/0`), and the run learns from it only where that
was asked for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from engine.arena import Arena
from engine.assembly import arena_of
from engine.client import Client
from engine.config import Config
from engine.episode import ChatEpisode
from engine.events import Event, EventStream
from engine.games import GameEpisode
from engine.guards import told
from engine.inference.tokenizer import Tokenizer
from engine.mixture import Mixture
from engine.rollouts import Position
from engine.sitting.seats import Ask, Seats
from engine.store import SITTING
from engine.types import PERSON, POLICY, EpisodeRequest, GenerateResult, RunError

AT_ONCE = 16
"""Replies whose probabilities are computed in one pass."""


class Sitting:
    """One episode under way, or over. Made by `Table.sit`."""

    def __init__(
        self,
        arena: Arena,
        request: EpisodeRequest,
        seats: Seats,
        *,
        number: int,
        roles: Collection[str],
        opponent: str,
        learnt: bool,
    ) -> None:
        self.id = f"{SITTING}{number}"
        self.roles = tuple(roles)
        """Those the person speaks for."""
        self.opponent = opponent
        """The player who speaks where the policy would."""
        self.learnt = learnt
        """Whether the run learns from it."""
        self.stream = EventStream(on_drain=arena.report)
        """What happens in it; nothing of it is among the run's own events."""
        self.result: GenerateResult | None = None
        """Once it was played to its end."""
        self.error = ""
        """Why it ended before that, or couldn't be recorded; empty where it didn't, or the person left."""
        self._arena, self._request, self._seats = arena, request, seats
        self._own_roles = dict(arena.roles)
        for role in self.roles:
            arena.roles[role] = replace(arena.roles[role], player=PERSON, constrained=True)
        arena.connect(seats)
        arena.on_event = self._hear
        self._task: asyncio.Task[None] | None = None

    def begin(self, record: Callable[[Sitting, GenerateResult], None]) -> None:
        """Play; `record` is given what was played before anyone is told that it is over."""
        self._task = asyncio.create_task(self._play(record), name=self.id)

    @property
    def asked(self) -> Ask | None:
        """What waits for the person's answer."""
        return self._seats.asked

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    def answer(self, text: str, *, anyway: bool = False) -> None:
        """Say something in the role that is asked.

        Raises `RunError` where that isn't possible, or not legal. What isn't legal can be said `anyway` in a role
        that isn't constrained: a thought before a move, or whatever the task makes of it.
        """
        try:
            self._seats.answer(text, anyway=anyway)
        except ValueError as error:
            raise RunError(f"{error}") from error

    async def odds(self, player: str = POLICY) -> dict[str, float]:
        """How likely a player would be to give each of the legal replies, in the person's place.

        Under the role's own sampling. What is missing from 1 is any other reply; nothing is, where the role is
        constrained. It takes a forward pass for every `AT_ONCE` replies, in which the run stands still.

        Raises `RunError` if nothing is asked of the person, or anything may be said.
        """
        ask = self.asked
        if ask is None:
            raise RunError("it isn't your turn, so there are no moves to weigh")
        if not ask.legal:
            raise RunError("anything may be said here: there are no legal replies to weigh")
        role = self._own_roles[ask.role]
        sampling = replace(role.sampling, choices=ask.legal if role.constrained else ())
        scores: list[float] = []
        for first in range(0, len(ask.legal), AT_ONCE):
            some = ask.legal[first : first + AT_ONCE]
            scores += await self._seats.score(ask.messages, some, sampling, player)
        return {reply: math.exp(score) for reply, score in zip(ask.legal, scores, strict=True)}

    def hears(self, episode_type: str) -> bool:
        """Whether everyone in such an episode hears all that is said: in chats, and where nothing is hidden."""
        episode = self._arena.episodes.get(episode_type)
        open_game = isinstance(episode, GameEpisode) and episode.game.perfect_information
        return open_game or isinstance(episode, ChatEpisode)

    async def leave(self) -> None:
        """End it, if it isn't over: then nothing of it is kept."""
        if self._task is not None:
            self._task.cancel()
            await self.wait()

    async def wait(self) -> None:
        """Until it is over."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _play(self, record: Callable[[Sitting, GenerateResult], None]) -> None:
        try:
            with self._arena.standing_in(self.opponent):
                [result] = await self._arena.generate_rollouts([self._request], label=self.id, learnt=self.learnt)
            self.result = result
            record(self, result)
        except Exception as error:  # the run goes on; who played is told
            self.error = told(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                self.error = "the model is gone: the run ended"

    def _hear(self, event: Event) -> None:
        self._seats.hear(event)
        self.stream.put(event)


async def seated(
    config: Config,
    mixture: Mixture,
    position: Position,
    client: Client,
    tokenizer: Tokenizer,
    *,
    number: int,
    task: str,
    roles: Collection[str],
    opponent: str,
    learnt: bool,
    edits: Mapping[str, int],
) -> Sitting:
    """A sitting that can begin. `mixture` has tasks of its own, not those that the run plays.

    What is played is the `number`-th of the task's episodes that would come next at `position`.
    """
    arena = arena_of(config, mixture)
    position.restore(arena)
    arena.edits.update(edits)
    chosen = mixture.parts[task].task
    await asyncio.to_thread(chosen.prepare)
    request = chosen.requests(arena.within(task, played=arena.played), number)[-1]
    request = replace(request, task=task)
    seats = Seats(client, tokenizer, [name for name, role in arena.roles.items() if role.constrained])
    return Sitting(arena, request, seats, number=number, roles=roles, opponent=opponent, learnt=learnt)
