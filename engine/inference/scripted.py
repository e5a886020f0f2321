"""A client without a model: it answers from a function."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence

from engine.client import OnTokens
from engine.inference.pending import Pending, tell
from engine.inference.tokenizer import ByteTokenizer
from engine.types import Completion, Message, Sampling, StopReason


class ScriptedClient:
    """Answers from a function, for tests and demonstrations: tokens are bytes, and each has the same probability.

    `reply(messages, player, rng)` gives a text, or raises; `rng` is seeded with the request's key. In lockstep
    it answers on `flush`, otherwise on the next turn of the event loop.
    """

    LOGPROB = math.log(0.5)

    def __init__(
        self,
        reply: Callable[[list[Message], str, random.Random], str],
        *,
        lockstep: bool = False,
        versions: Callable[[str], int] = lambda player: 0,
    ) -> None:
        self.settle: Callable[[], None] | None = None
        self.tokenizer = ByteTokenizer()
        self.lockstep = lockstep
        self._reply = reply
        self._versions = versions
        self._asked: list[Pending] = []
        self._answering = False

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
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        prompt = self.tokenizer.prompt(messages)
        self._asked.append(Pending(future, messages, sampling, player, key, on_tokens, on_done, prompt))
        future.add_done_callback(lambda future: tell(on_done) if future.cancelled() else None)
        if not self.lockstep:
            self.flush()
        return future

    def flush(self) -> None:
        if self._asked and not self._answering:
            self._answering = True
            asyncio.get_running_loop().call_soon(self._answer)

    def report(self) -> None:
        """A reply is told whole, when it is there."""

    def forget(self) -> None:
        """There is nothing it remembers."""

    async def score(
        self, messages: list[Message], replies: Sequence[str], sampling: Sampling, player: str
    ) -> list[float]:
        """As `submit` records them: every token of a reply, and its end, has the same probability."""
        return [self.LOGPROB * (len(self.tokenizer.encode(reply)) + 1) for reply in replies]

    def _answer(self) -> None:
        self._answering = False
        asked, self._asked = self._asked, []
        for pending in asked:
            if pending.future.cancelled():
                continue
            try:
                text = self._reply(pending.messages, pending.player, random.Random(pending.key))
                completion = self._completion(pending, text)
            except Exception as error:
                tell(pending.on_done)
                pending.future.set_exception(error)
            else:
                tell(pending.on_tokens, completion.tokens, completion.logprobs)
                tell(pending.on_done)
                pending.future.set_result(completion)
        if self.settle is not None:
            self.settle()

    def _completion(self, pending: Pending, text: str) -> Completion:
        tokens = [*self.tokenizer.encode(text), self.tokenizer.end_of_turn]
        stop_reason = StopReason.STOP
        if len(tokens) > pending.sampling.max_tokens:
            tokens = tokens[: pending.sampling.max_tokens]
            stop_reason = StopReason.LENGTH
        return Completion(
            text=self.tokenizer.decode(tokens),
            prompt_tokens=pending.prompt,
            tokens=tokens,
            logprobs=[self.LOGPROB] * len(tokens),
            versions=[self._versions(pending.player)] * len(tokens),
            stop_reason=stop_reason,
            player=pending.player,
            sampling=pending.sampling,
        )
