"""A person in the place of a model: what they are asked, and how their words become a completion.

The arena doesn't know of it. A role whose player is `PERSON` asks the arena's client like any other, and is made
constrained, so that what the task says is legal arrives as the choices of its sampling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from engine.client import Client, OnTokens
from engine.events import Event, TurnStarted
from engine.inference.pending import tell
from engine.inference.tokenizer import Tokenizer
from engine.types import PERSON, Completion, Message, Sampling

LONGEST = 20_000
"""Characters of what a person says at once."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a person is asked, word for word what a model would be."""

    rollout_id: str
    turn: int
    role: str
    messages: list[Message]
    legal: tuple[str, ...] = ()
    """The replies that are legal, as the task writes them; empty where it doesn't say."""
    strict: bool = False
    """Whether no others are taken, as the role is constrained in the run."""


@dataclass(eq=False, slots=True)
class _Open:
    ask: Ask
    sampling: Sampling
    future: asyncio.Future[Completion]
    on_done: Callable[[], None] | None


class Seats:
    """A client that puts to a person what their roles are asked, and to another client everything else."""

    def __init__(self, client: Client, tokenizer: Tokenizer, strict: Collection[str] = ()) -> None:
        """`strict` are the roles that can only say what is legal."""
        self.settle: Callable[[], None] | None = None
        self._client, self._tokenizer, self._strict = client, tokenizer, frozenset(strict)
        client.settle = self._settled
        self._open: list[_Open] = []
        self._announced: TurnStarted | None = None

    @property
    def asked(self) -> Ask | None:
        """What waits for the person longest."""
        return self._open[0].ask if self._open else None

    def answer(self, text: str, *, anyway: bool = False) -> None:
        """What the person says to what is `asked`; `anyway` what isn't legal too, unless the role is strict.

        Raises `ValueError` if nothing is asked, or if it isn't legal, is empty or longer than `LONGEST`.
        """
        if not self._open:
            raise ValueError("nothing is asked of you now")
        asked, text = self._open[0], text.strip()
        legal = asked.ask.legal
        if legal and text not in legal and (asked.ask.strict or not anyway):
            shown = ", ".join(legal[:12]) + (", …" if len(legal) > 12 else "")
            raise ValueError(f"{text[:40]!r} isn't legal here; legal is: {shown}")
        if not text:
            raise ValueError("say at least one letter")
        if len(text) > LONGEST:
            raise ValueError(f"that is {len(text):,} characters long; the most is {LONGEST:,}")
        completion = self._completion(asked, text)
        self._open.pop(0)
        tell(asked.on_done)
        asked.future.set_result(completion)

    def hear(self, event: Event) -> None:
        """Told of all that the arena announces: what a role is asked is announced right before it is asked."""
        if isinstance(event, TurnStarted) and event.player == PERSON:
            self._announced = event

    # A client

    def submit(
        self,
        messages: list[Message],
        sampling: Sampling,
        player: str,
        key: int,
        *,
        on_tokens: OnTokens | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> asyncio.Future[Completion]:
        if player != PERSON:
            return self._client.submit(messages, sampling, player, key, on_tokens=on_tokens, on_done=on_done)
        turn = self._announced
        assert turn is not None
        strict = turn.role in self._strict
        ask = Ask(turn.rollout_id, turn.turn, turn.role, messages, sampling.choices, strict)
        opened = _Open(ask, sampling, asyncio.get_running_loop().create_future(), on_done)
        self._open.append(opened)
        opened.future.add_done_callback(partial(self._if_withdrawn, opened))
        return opened.future

    def flush(self) -> None:
        self._client.flush()

    def report(self) -> None:
        self._client.report()

    def forget(self) -> None:
        self._client.forget()

    async def score(
        self, messages: list[Message], replies: Sequence[str], sampling: Sampling, player: str
    ) -> list[float]:
        return await self._client.score(messages, replies, sampling, player)

    def _settled(self) -> None:
        if self.settle is not None:
            self.settle()

    def _if_withdrawn(self, opened: _Open, future: asyncio.Future[Completion]) -> None:
        if future.cancelled() and opened in self._open:
            self._open.remove(opened)
            tell(opened.on_done)

    def _completion(self, asked: _Open, text: str) -> Completion:
        """Nothing was sampled: its tokens are those of the text, each with log-probability 0."""
        tokens = [*self._tokenizer.encode(text), self._tokenizer.end_of_turn]
        return Completion(
            text=text,
            prompt_tokens=self._tokenizer.prompt(asked.ask.messages),
            tokens=tokens,
            logprobs=[0.0] * len(tokens),
            versions=[0] * len(tokens),
            player=PERSON,
            sampling=asked.sampling,
        )
