"""The arena: where episodes are registered, scheduled and played, and models are asked."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from engine.artifacts import ArtifactStore
from engine.asking import as_asked, as_messages, changed, request_key
from engine.client import Client
from engine.credit import CreditAssigner, RAECredit, training_records
from engine.episode import Episode, EpisodeState
from engine.events import EpisodeFinished, EpisodeStarted, Event, TokensSampled, TurnFinished, TurnStarted
from engine.humans import Humans
from engine.lockstep import Live, Lockstep
from engine.rubric import Rewards, RewardSetting, Together, add_rewards, in_force
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
)

logger = logging.getLogger(__name__)


_current: ContextVar[Live | None] = ContextVar("live_episode", default=None)
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
        self.own_roles: dict[str, Role] = {}
        """The roles as the task made them, beneath what a configuration says."""
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
        """Top-level training episodes begun so far: the next one's id; in `Task.requests` those of that task."""
        self.on_event = on_event
        """Told of live events; without it tokens are not streamed either."""
        self.on_labelled = on_labelled
        """Given the results of every labelled set, such as an evaluation's games."""
        self.humans = Humans(self._announce)
        """Questions to the person who watches."""
        self._scopes: tuple[str, ...] = ()
        """How the names begin that belong to one of several tasks."""
        self._lockstep = Lockstep()
        if client is not None:
            self.connect(client)

    # Registration

    def connect(self, client: Client) -> None:
        """Say who answers. Before the first episode."""
        self._lockstep.client = client
        client.settle = self._lockstep.settle

    def add_role(self, role: Role) -> None:
        self.roles[role.id] = role

    add_actor = add_role
    """The name `legos` programs use."""

    def add_episode(self, name: str, episode: Episode) -> None:
        self.episodes[name] = episode

    def add_store(self, name: str, store: ArtifactStore) -> None:
        self.stores[name] = store

    def within(self, name: str, *, played: int | None = None) -> Arena:
        """This arena for one of several tasks: it shares all but names, which are the task's own.

        What the task adds as `First` is here `name/First`. An empty name is the arena itself. `played` takes the
        place of the count of all: a task that goes through its data in turn would skip what others were given.
        """
        if not name:
            return self
        if f"{name}/" not in self._scopes:
            self._scopes += (f"{name}/",)
        return _Scope(self, name, {} if played is None else {"played": played})

    # The training distribution

    def get_batch(self) -> list[EpisodeRequest]:
        """The episodes one step learns from."""
        raise NotImplementedError(f"{type(self).__name__} must override get_batch() to be trained")

    # Playing

    async def generate_rollouts(
        self,
        requests: Sequence[EpisodeRequest],
        *,
        label: str = "",
        learnt: bool = False,
        together: Together | None = None,
    ) -> list[GenerateResult]:
        """Play episodes at once; results in the order of the requests.

        Inside an episode the results become its children, and train only if it does. At the top level,
        `label` names a set that is no part of training, unless it is to be `learnt` from all the same: its rollouts
        are `label/0`, `label/1`, ….
        An episode that raises gives a rollout with `error`; `EngineError` passes through.

        `together` compares what was played, before anyone is told that it is over: what it gives is added to the
        rewards each has by its own rubric. Candidates of a tournament get theirs so, from battles that their
        parent goes on to hold. A configuration can weigh it if the parent names it among its `comparisons`.
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
            arena._begin(request, parent, label, i, learnt=learnt)
            for i, (arena, request) in enumerate(zip(arenas, requests, strict=True))
        ]
        if parent is not None:
            self._lockstep.block(parent, len(lives))
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
                self._lockstep.end(live)
        results = [
            qualified(result, arena.prefix.removeprefix(self.prefix))
            for arena, result in zip(arenas, played, strict=True)
        ]
        if parent is not None:
            parent.children += results
        if together is not None:
            await self._compare(lives, results, together)
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
        live = _current.get()
        if role_id is None:
            settings = changed(Sampling(), sampling)
            return await self._consult(live, as_messages(prompt), _speaker(player or BASE), settings)
        if live is None:
            raise RuntimeError(f"role {role_id!r} can only speak inside an episode; start one with run_episode")
        role = live.roles.get(role_id)
        if role is None:
            known = ", ".join(sorted(live.roles)) or "none"
            raise KeyError(f"no role {role_id!r} in this arena; there are: {known}")
        messages = as_asked(role, live.rollout.tags.get(role_id), prompt)
        player = _speaker(player or live.state.players.get(role_id, role.player))
        if role.constrained and legal:
            sampling.setdefault("choices", legal)
        return await self._speak(live, role, messages, player, changed(role.sampling, sampling))

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
        self._lockstep.block(live)
        try:
            return await answer
        finally:
            self._lockstep.unblock(live)

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
        sampling = changed(role.sampling, {"choices": replies} if role.constrained else {})
        messages = as_asked(role, role.tags[-1] if role.tags else None, prompt)
        return await self.client.score(messages, replies, sampling, _speaker(role.player))

    def records(self, results: list[GenerateResult]) -> list[TrainingRecord]:
        """Assign credit and turn a batch into training records."""
        self.credit.assign(results)
        return training_records(results)

    @property
    def client(self) -> Client:
        if self._lockstep.client is None:
            raise RuntimeError("this arena has no client: pass one to Arena(client) or call connect(client)")
        return self._lockstep.client

    def report(self) -> None:
        """Have the tokens of turns under way announced soon; unasked they are announced about once a second."""
        if self._lockstep.client is not None:
            self._lockstep.client.report()

    @property
    def live(self) -> int:
        """Episodes in play."""
        return self._lockstep.live

    # One episode

    def _begin(self, request: EpisodeRequest, parent: Live | None, label: str, index: int, *, learnt: bool) -> Live:
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
        is_outside = bool(label) and not learnt
        is_trainable = request.is_trainable and not is_outside and (parent is None or parent.is_trainable)
        live = Live(
            rollout=Rollout(
                rollout_id,
                request.episode_type,
                request.artifact,
                request.group,
                edits=edits,
                tags=self._tags(roles, parent, rollout_id, is_trainable),
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
        self._lockstep.begin()
        return live

    def _tags(
        self, roles: dict[str, Role], parent: Live | None, rollout_id: str, is_trainable: bool
    ) -> dict[str, str]:
        """Role → skill tag: drawn for a whole tree, as what children do is part of what their parents are paid for.

        What nothing is learnt from, such as an evaluation, is asked of the most skilled.
        """
        if parent is not None and is_trainable:
            return dict(parent.rollout.tags)
        known = {name: role.tags if is_trainable else role.tags[-1:] for name, role in roles.items() if role.tags}
        return {
            name: random.Random(f"{self.seed}:{rollout_id}:{name}").choice(tags) for name, tags in known.items()
        }

    async def _compare(self, lives: list[Live], results: list[GenerateResult], together: Together) -> None:
        name = getattr(together, "__name__", "together")
        given: Sequence[Rewards] = [None] * len(results)
        try:
            compared = await together(results)
            if len(compared) != len(results):
                raise ValueError(f"{name} gave {len(compared)} rewards for {len(results)} episodes")
            given = compared
        finally:
            for live, result, rewards in zip(lives, results, given, strict=True):
                rollout = result.rollout
                if rollout.is_scored:
                    settings = in_force(live.settings, self.prefix + rollout.episode_type)
                    add_rewards(rollout, name, rewards, settings.get(name), prefix=self.prefix)
                self._announce(EpisodeFinished(qualified(result, self.prefix)))

    async def _play(self, live: Live, request: EpisodeRequest, *, is_over: bool = True) -> GenerateResult:
        _current.set(live)
        rollout, episode = live.rollout, self.episodes[request.episode_type]
        self._announce(
            EpisodeStarted(
                rollout.id,
                self.prefix + rollout.episode_type,
                live.parent.rollout.id if live.parent else None,
                live.is_trainable,
                {self.prefix + role: player for role, player in live.state.players.items()},
                qualified(GenerateResult(rollout), self.prefix).rollout.edits,
            )
        )
        try:
            state = await episode.rollout(self, request.artifact, live.state)
            rollout.extras = episode.get_extras(state)
            rollout.players = {
                **live.state.players,
                **rollout.players,
            }  # a bot asks no model, and played all the same
            await episode.rubric.score(rollout, self, live.settings)
        except EngineError:
            raise
        except Exception as error:  # a task's fault costs one episode, not the run
            logger.warning("episode %s failed", rollout.id, exc_info=True)
            rollout.error = f"{type(error).__name__}: {error}"
            rollout.rewards = {}
        finally:
            live.state.turns.sort(key=lambda turn: turn.index)
            self._lockstep.end(live)
        result = GenerateResult(rollout, live.children, live.is_trainable)
        if is_over and self.on_event is not None:
            self._announce(EpisodeFinished(qualified(result, self.prefix)))
        return result

    async def _speak(
        self, live: Live, role: Role, messages: list[Message], player: str, sampling: Sampling
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
        self._announce(TurnFinished(rollout.id, index, *said, completion.tokens, completion.logprobs))
        return completion

    async def _consult(
        self, live: Live | None, messages: list[Message], player: str, sampling: Sampling
    ) -> Completion:
        if live is None:
            return await self._ask(None, messages, sampling, player, request_key(self.seed, "oracle"), None)
        live.consulted += 1
        key = request_key(self.seed, live.rollout.id, "oracle", str(live.consulted))
        return await self._ask(live, messages, sampling, player, key, None)

    async def _ask(
        self,
        live: Live | None,
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
            on_done=(lambda: self._lockstep.unblock(live)) if live else None,
        )
        if live is None:
            self._lockstep.settle()
        else:
            self._lockstep.block(live)
        return await future

    def _announce(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)


class _Scope(Arena):
    """The arena as one of several tasks knows it. Whatever isn't its `own`, or a table of names, is the whole's."""

    _whole: Arena

    def __init__(self, whole: Arena, name: str, own: dict[str, Any]) -> None:
        prefix = f"{name}/"
        names = ("roles", "episodes", "stores", "edits")
        tables = {table: Scoped(getattr(whole, table), prefix) for table in names}
        self.__dict__.update(tables | own, _whole=whole, _scopes=(), prefix=whole.prefix + prefix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_whole"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__:
            self.__dict__[name] = value
        else:
            setattr(self._whole, name, value)


def _speaker(player: str) -> str:
    return _stand_in.get() if player == POLICY else player
