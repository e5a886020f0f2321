"""The arena: where episodes are registered, scheduled and played, and models are asked.

Every live episode is known here, which is what makes a run repeatable: in lockstep the device may tick only
when no episode can act any more. An episode is *blocked* while it waits for a completion or for episodes it
spawned, and *runnable* otherwise; when the last runnable one blocks, the client is flushed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from engine.artifacts import ArtifactStore
from engine.client import Client
from engine.credit import CreditAssigner, RAECredit, training_records
from engine.episode import Episode, EpisodeState
from engine.events import EpisodeFinished, EpisodeStarted, Event, TokensSampled, TurnFinished, TurnStarted
from engine.humans import Humans
from engine.rubric import Rewards, RewardSetting, Together, add_rewards
from engine.scopes import Scoped, qualified
from engine.types import (
    BASE,
    POLICY,
    REWARD_EDIT,
    Completion,
    EngineError,
    EpisodeRequest,
    GenerateResult,
    Message,
    Role,
    Rollout,
    Sampling,
    TrainingRecord,
    Turn,
    settled,
)

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Live:
    """An episode in play."""

    rollout: Rollout
    state: EpisodeState
    parent: _Live | None
    arena: Arena
    """As the episode's task knows it."""
    is_trainable: bool
    roles: dict[str, Role]
    """The roles as they were when the tree began: an edit reaches the next tree, never half of one."""
    rewards: dict[str, RewardSetting]
    """The same of what the configuration says of rewards."""
    children: list[GenerateResult] = field(default_factory=list)
    asked: int = 0
    consulted: int = 0
    spawned: int = 0
    waiting: int = 0
    over: bool = False


_current: ContextVar[_Live | None] = ContextVar("live_episode", default=None)
_stand_in: ContextVar[str] = ContextVar("stand_in", default=POLICY)


class Arena:
    """Roles, episodes and artifact stores, and the playing of them. Subclass to override `get_batch`."""

    def __init__(
        self,
        client: Client | None = None,
        *,
        credit: CreditAssigner | None = None,
        batch_size: int = 8,
        seed: int = 0,
        on_event: Callable[[Event], None] | None = None,
        on_labelled: Callable[[list[GenerateResult]], None] | None = None,
    ) -> None:
        self.prefix = ""
        """What stands before its names where the whole is seen: see `within`."""
        self.roles: MutableMapping[str, Role] = {}
        self.episodes: MutableMapping[str, Episode] = {}
        self.stores: MutableMapping[str, ArtifactStore] = {}
        self.rewards: dict[str, RewardSetting] = {}
        """What the configuration says of reward functions, by their names; the same in every scope."""
        self.credit: CreditAssigner = credit or RAECredit()
        self.batch_size = batch_size
        self.seed = seed
        self.edits: MutableMapping[str, int] = {}
        """Role → number of the prompt edit in force."""
        self.played = 0
        """Top-level training episodes begun so far: the next one's id."""
        self.on_event = on_event
        """Told of live events; without it tokens are not streamed either."""
        self.on_labelled = on_labelled
        """Given the results of every labelled set, such as an evaluation's games."""
        self.humans = Humans(self._announce)
        """Questions to the person who watches."""
        self.live = 0
        """Episodes in play."""
        self._scopes: tuple[str, ...] = ()
        """How the names begin that belong to one of several tasks."""
        self._runnable = 0
        self._settling = False
        self._client: Client | None = None
        if client is not None:
            self.connect(client)

    # Registration

    def connect(self, client: Client) -> None:
        """Say who answers. Before the first episode."""
        self._client = client
        client.settle = self._settle

    def add_role(self, role: Role) -> None:
        self.roles[role.id] = role

    add_actor = add_role
    """The name `legos` programs use."""

    def add_episode(self, name: str, episode: Episode) -> None:
        self.episodes[name] = episode

    def add_store(self, name: str, store: ArtifactStore) -> None:
        self.stores[name] = store

    def within(self, name: str) -> Arena:
        """This arena for one of several tasks: it shares all but names, which are the task's own.

        What the task adds as `First` is here `name/First`. An empty name is the arena itself.
        """
        if not name:
            return self
        if f"{name}/" not in self._scopes:
            self._scopes += (f"{name}/",)
        return _Scope(self, name)

    # The training distribution

    def get_batch(self) -> list[EpisodeRequest]:
        """The episodes one step learns from."""
        raise NotImplementedError(f"{type(self).__name__} must override get_batch() to be trained")

    # Playing

    async def generate_rollouts(
        self, requests: Sequence[EpisodeRequest], *, label: str = "", together: Together | None = None
    ) -> list[GenerateResult]:
        """Play episodes at once; results in the order of the requests.

        Inside an episode the results become its children, and train only if it does. At the top level,
        `label` names a set that is no part of training: its rollouts are `label/0`, `label/1`, ….
        An episode that raises gives a rollout with `error`; `EngineError` passes through.

        `together` compares what was played, before anyone is told that it is over: what it gives is added to the
        rewards each has by its own rubric. Candidates of a tournament get theirs so, from battles that their
        parent goes on to hold.
        """
        parent = _current.get()
        arenas = [self.within(request.task) for request in requests]
        for arena, request in zip(arenas, requests, strict=True):
            if request.episode_type not in arena.episodes:
                known = ", ".join(sorted(arena.episodes)) or "none"
                raise KeyError(f"no episode {request.episode_type!r} in this arena; there are: {known}")
        if not requests:
            return []
        if parent is None:
            self.client.forget()
        lives = [
            arena._begin(request, parent, label, i)
            for i, (arena, request) in enumerate(zip(arenas, requests, strict=True))
        ]
        if parent is not None:
            self._block(parent, len(lives))
        tasks = [
            asyncio.create_task(live.arena._play(live, request, is_over=together is None))
            for live, request in zip(lives, requests, strict=True)
        ]
        try:
            played = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            for live in lives:  # a task cancelled before its first step never reaches its own ending
                self._end(live)
        results = [
            qualified(result, arena.prefix.removeprefix(self.prefix))
            for arena, result in zip(arenas, played, strict=True)
        ]
        if parent is not None:
            parent.children += results
        if together is not None:
            await self._compare(results, together)
        if parent is None and label and self.on_labelled is not None:
            self.on_labelled([qualified(result, self.prefix) for result in results])
        return results

    async def run_episode(
        self, episode_type: str, artifact: Any = None, *, is_trainable: bool = True
    ) -> GenerateResult:
        """Play one episode."""
        return (await self.generate_rollouts([EpisodeRequest(episode_type, artifact, is_trainable)]))[0]

    async def call_model(
        self,
        prompt: str | list[Message],
        role_id: str | None = None,
        *,
        player: str | None = None,
        legal: Sequence[str] = (),
        **sampling: Any,
    ) -> Completion:
        """Ask a model.

        With a role, the turn is recorded in the current episode and may train. Without one it is an oracle:
        the base model by default, never recorded, never trained. `legal` are the answers that are allowed,
        where the episode knows them: a constrained role can give no other. `sampling` overrides what is in
        `Sampling`, such as temperature, max_tokens or stop; `choices` limits the reply whatever the role.
        """
        messages: list[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        live = _current.get()
        if role_id is None:
            return await self._consult(live, messages, _speaker(player or BASE), _changed(Sampling(), sampling))
        if live is None:
            raise RuntimeError(f"role {role_id!r} can only speak inside an episode; start one with run_episode")
        role = live.roles.get(role_id)
        if role is None:
            known = ", ".join(sorted(live.roles)) or "none"
            raise KeyError(f"no role {role_id!r} in this arena; there are: {known}")
        messages = _as_asked(role, live.rollout.tags.get(role_id), messages)
        player = _speaker(player or live.state.players.get(role_id, role.player))
        if role.constrained and legal:
            sampling.setdefault("choices", legal)
        return await self._speak(live, role, messages, player, _changed(role.sampling, sampling))

    async def ask_human(
        self,
        question: str,
        *,
        choices: Sequence[str] = (),
        about: Sequence[str] = (),
        seconds: float | None = 300.0,
    ) -> str | None:
        """Ask the person who watches, from inside an episode; the others play on meanwhile.

        They are shown the texts that it is `about`, and answer with one of `choices` or, without any, in their own
        words. None where they skip it, don't answer in time, or aren't there.
        """
        live = _current.get()
        if live is None:
            raise RuntimeError("a person can only be asked inside an episode; start one with run_episode")
        answer = self.humans.ask(live.rollout.id, question, choices, about, seconds)
        if answer is None:
            return None
        self._block(live)
        try:
            return await answer
        finally:
            self._unblock(live)

    @contextmanager
    def standing_in(self, player: str) -> Iterator[None]:
        """Within, `player` speaks wherever the policy would: so an evaluation measures it and needn't know of it.

        It concerns what is begun within, and nothing that is played beside it. What a stand-in says never trains.
        """
        token = _stand_in.set(player)
        try:
            yield
        finally:
            _stand_in.reset(token)

    async def score(self, prompt: str | list[Message], replies: Sequence[str], role_id: str) -> list[float]:
        """Log-probability that the role would answer with each of `replies`, end of turn included.

        If the role is constrained, that it would among these.
        """
        role = self.roles[role_id]
        sampling = _changed(role.sampling, {"choices": replies} if role.constrained else {})
        messages: list[Message] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        messages = _as_asked(role, role.tags[-1] if role.tags else None, messages)
        return await self.client.score(messages, replies, sampling, _speaker(role.player))

    def records(self, results: list[GenerateResult]) -> list[TrainingRecord]:
        """Assign credit and turn a batch into training records."""
        self.credit.assign(results)
        return training_records(results)

    @property
    def client(self) -> Client:
        if self._client is None:
            raise RuntimeError("this arena has no client: pass one to Arena(client) or call connect(client)")
        return self._client

    # One episode

    def _begin(self, request: EpisodeRequest, parent: _Live | None, label: str, index: int) -> _Live:
        if parent is not None:
            rollout_id = f"{parent.rollout.id}.{parent.spawned}"
            parent.spawned += 1
        elif label:
            rollout_id = f"{label}/{index}"
        else:
            rollout_id = str(self.played)
            self.played += 1
        if parent is not None:
            roles, rewards, edits = parent.roles, parent.rewards, dict(parent.rollout.edits)
        else:
            roles = {name: role for name, role in self.roles.items() if not name.startswith(self._scopes)}
            rewards = dict(self.rewards)
            edits = {role: self.edits.get(role, 0) for role in roles}
            edits |= {f"{REWARD_EDIT}{name}": setting.edit for name, setting in rewards.items()}
        is_trainable = request.is_trainable and not label and (parent is None or parent.is_trainable)
        live = _Live(
            rollout=Rollout(
                rollout_id,
                request.episode_type,
                request.artifact,
                request.group,
                edits=edits,
                tags={name: self._tag(role, rollout_id, is_trainable) for name, role in roles.items() if role.tags},
            ),
            state=EpisodeState(
                id=rollout_id,
                rng=random.Random(f"{self.seed}:{rollout_id}"),
                players=dict(request.players),
            ),
            parent=parent,
            arena=self,
            is_trainable=is_trainable,
            roles=roles,
            rewards=rewards,
        )
        live.rollout.turns = live.state.turns
        self.live += 1
        self._runnable += 1
        return live

    def _tag(self, role: Role, rollout_id: str, is_trainable: bool) -> str:
        """One of a role's skill tags; what nothing is learnt from, such as an evaluation, is asked of the best."""
        tags = role.tags if is_trainable else role.tags[-1:]
        return random.Random(f"{self.seed}:{rollout_id}:{role.id}").choice(tags)

    async def _compare(self, results: list[GenerateResult], together: Together) -> None:
        name = getattr(together, "__name__", "together")
        given: Sequence[Rewards] = [None] * len(results)
        try:
            compared = await together(results)
            if len(compared) != len(results):
                raise ValueError(f"{name} gave {len(compared)} rewards for {len(results)} episodes")
            given = compared
        finally:
            for result, rewards in zip(results, given, strict=True):
                if result.rollout.is_scored:
                    add_rewards(result.rollout, name, rewards)
                self._announce(EpisodeFinished(qualified(result, self.prefix)))

    async def _play(self, live: _Live, request: EpisodeRequest, *, is_over: bool = True) -> GenerateResult:
        _current.set(live)
        rollout, episode = live.rollout, self.episodes[request.episode_type]
        self._announce(
            EpisodeStarted(
                rollout.id,
                self.prefix + rollout.episode_type,
                live.parent.rollout.id if live.parent else None,
                live.is_trainable,
                {self.prefix + role: player for role, player in live.state.players.items()},
            )
        )
        try:
            state = await episode.rollout(self, request.artifact, live.state)
            rollout.extras = episode.get_extras(state)
            await episode.rubric.score(rollout, self, live.rewards if live.is_trainable else {})
        except EngineError:
            raise
        except Exception as error:  # a task's fault costs one episode, not the run
            logger.warning("episode %s failed", rollout.id, exc_info=True)
            rollout.error = f"{type(error).__name__}: {error}"
            rollout.rewards = {}
        finally:
            live.state.turns.sort(key=lambda turn: turn.index)
            self._end(live)
        result = GenerateResult(rollout, live.children, live.is_trainable)
        if is_over and self.on_event is not None:
            self._announce(EpisodeFinished(qualified(result, self.prefix)))
        return result

    async def _speak(
        self, live: _Live, role: Role, messages: list[Message], player: str, sampling: Sampling
    ) -> Completion:
        rollout, index = live.rollout, live.asked
        live.asked += 1
        rollout.players[role.id] = player
        self._announce(TurnStarted(rollout.id, index, self.prefix + role.id, player, messages))

        def on_tokens(tokens: list[int], logprobs: list[float]) -> None:
            self._announce(TokensSampled(rollout.id, index, tokens, logprobs))

        key = request_key(self.seed, rollout.id, str(index))
        watched = on_tokens if self.on_event is not None else None
        completion = await self._ask(live, messages, sampling, player, key, watched)
        trainable = live.is_trainable and player == POLICY
        live.state.turns.append(Turn(role.id, index, messages, completion, trainable))
        version = completion.versions[-1] if completion.versions else 0
        said = self.prefix + role.id, completion.text, version, completion.stop_reason
        self._announce(TurnFinished(rollout.id, index, *said))
        return completion

    async def _consult(
        self, live: _Live | None, messages: list[Message], player: str, sampling: Sampling
    ) -> Completion:
        if live is None:
            return await self._ask(None, messages, sampling, player, request_key(self.seed, "oracle"), None)
        live.consulted += 1
        key = request_key(self.seed, live.rollout.id, "oracle", str(live.consulted))
        return await self._ask(live, messages, sampling, player, key, None)

    async def _ask(
        self,
        live: _Live | None,
        messages: list[Message],
        sampling: Sampling,
        player: str,
        key: int,
        on_tokens: Callable[[list[int], list[float]], None] | None,
    ) -> Completion:
        future = self.client.submit(
            messages,
            sampling,
            player,
            key,
            on_tokens=on_tokens,
            on_done=(lambda: self._unblock(live)) if live else None,
        )
        if live is None:
            self._settle()
        else:
            self._block(live)
        return await future

    # Who can act

    def _block(self, live: _Live, on: int = 1) -> None:
        live.waiting += on
        if live.waiting == on:
            self._runnable -= 1
            self._settle()

    def _unblock(self, live: _Live) -> None:
        live.waiting -= 1
        if live.waiting == 0 and not live.over:
            self._runnable += 1

    def _end(self, live: _Live) -> None:
        if live.over:
            return
        live.over = True
        self.live -= 1
        if live.parent is not None:
            self._unblock(live.parent)  # before leaving, so that the last child hands over to its parent
        if live.waiting == 0:
            self._runnable -= 1
            self._settle()

    def _settle(self) -> None:
        """Flush if nobody can act; one turn of the loop later, so that questions asked at once go out together."""
        if self._runnable == 0 and self._client is not None and not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._settling = False
        if self._runnable == 0 and self._client is not None:
            self._client.flush()

    def _announce(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)


class _Scope(Arena):
    """The arena as one of several tasks knows it. Whatever isn't a table of names is the whole's."""

    _whole: Arena

    def __init__(self, whole: Arena, name: str) -> None:
        prefix = f"{name}/"
        names = ("roles", "episodes", "stores", "edits")
        tables = {table: Scoped(getattr(whole, table), prefix) for table in names}
        self.__dict__.update(tables, _whole=whole, _scopes=(), prefix=whole.prefix + prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_whole"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            self.__dict__[name] = value
        else:
            setattr(self._whole, name, value)


def _speaker(player: str) -> str:
    return _stand_in.get() if player == POLICY else player


def _as_asked(role: Role, tag: str | None, messages: list[Message]) -> list[Message]:
    """What a role is asked, under its system prompt; its skill tag stands before the first thing a user says."""
    if tag is not None:
        first = next((i for i, message in enumerate(messages) if message["role"] == "user"), len(messages))
        said = [tag, *(message["content"] for message in messages[first : first + 1])]
        messages = [*messages[:first], {"role": "user", "content": " ".join(said)}, *messages[first + 1 :]]
    return [{"role": "system", "content": role.system_prompt}, *messages] if role.system_prompt else messages


def _changed(sampling: Sampling, settings: dict[str, Any]) -> Sampling:
    """`ValueError` for choices without a text: they would allow nothing, and leaving them out allows anything."""
    if "choices" in settings:
        choices = settings["choices"]
        if isinstance(choices, str) or not choices:
            raise ValueError(f"choices wants at least one text in a list, not {choices!r}")
        settings = {**settings, "choices": tuple(choices)}
    return replace(sampling, **settled(settings))


def request_key(seed: int, *path: str) -> int:
    """A 64-bit random key of a request's place in the run: a neighbour in the batch can't change it."""
    digest = hashlib.blake2b("\0".join([str(seed), *path]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
