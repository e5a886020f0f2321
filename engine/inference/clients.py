"""The asyncio side of inference: ask for a completion, get a future.

`LocalClient` speaks to a batcher on the device thread, one message a tick each way. `ScriptedClient` answers from
a function, with no model at all.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from engine.client import OnTokens
from engine.config import ModelConfig
from engine.inference.tokenizer import ByteTokenizer, Tokenizer
from engine.types import Completion, EngineError, Message, Sampling, StopReason

if TYPE_CHECKING:  # MLX must not be imported before the device thread has put a BLAS under it
    from engine.inference.adapters import Adapters
    from engine.inference.batcher import Batcher, Finished, Request, Tick
    from engine.inference.device import Device
    from engine.inference.models import LanguageModel

OnDone = Callable[[], None]


@dataclass(slots=True)
class Pending:
    """A completion asked for."""

    future: asyncio.Future[Completion]
    prompt: list[int]
    sampling: Sampling
    player: str
    on_tokens: OnTokens | None
    on_done: OnDone | None


class LocalClient:
    """Completions from the model on the device thread.

    In lockstep, batches don't depend on the timing of threads: requests go out with `flush`, and the device ticks
    from then until a tick in which a completion ended. Its results are delivered, `settle` is called, and the
    next flush sets the device going again. Otherwise requests go out once per turn of the event loop, and the
    device ticks whenever there is something to do.
    """

    def __init__(
        self,
        device: Device,
        lm: LanguageModel,
        adapters: Adapters,
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        lockstep: bool = False,
    ) -> None:
        from engine.inference.batcher import Batcher

        self.settle: Callable[[], None] | None = None
        self.tokenizer = tokenizer
        self.lockstep = lockstep
        self._device = device
        self._lm, self._adapters = lm, adapters
        batcher = Batcher(lm, adapters, rows=config.rows, prefill_tokens=config.prefill_tokens)
        self._server = Server(device, batcher, lockstep, self._deliver, self._cancel_all)
        self._pending: dict[int, Pending] = {}
        self._next_id = 0
        self._outbox: list[Request] = []
        self._withdrawn: list[int] = []
        self._sending = False
        self._sent: set[int] = set()
        """Requests the device hasn't reported on."""
        self._ticking = False
        """Lockstep: the device was set going, and hasn't delivered an end since."""
        device.serve(self._server)

    def submit(
        self,
        messages: list[Message],
        sampling: Sampling,
        player: str,
        key: int,
        *,
        on_tokens: OnTokens | None = None,
        on_done: OnDone | None = None,
    ) -> asyncio.Future[Completion]:
        """Ask for a completion.

        `on_tokens` is called after each tick that brought tokens; `on_done` exactly once, before whoever awaits
        the future goes on. Cancelling the future withdraws the request.

        The future raises KeyError for a player there isn't, ValueError for a request that can't be run, and
        `EngineError` if the device fails.
        """
        from engine.inference.batcher import Request

        prompt = self.tokenizer.prompt(messages)
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        id, self._next_id = self._next_id, self._next_id + 1
        self._pending[id] = Pending(future, prompt, sampling, player, on_tokens, on_done)
        self._outbox.append(Request(id, prompt, sampling, player, key, stream=on_tokens is not None))
        future.add_done_callback(partial(self._if_cancelled, id))
        self._send_soon()
        return future

    def flush(self) -> None:
        """Everything that can act has acted: what was submitted goes to the device as one batch, and it may tick.

        Outside lockstep this only hastens what happens anyway. While the device ticks, it does nothing: the next
        delivery is followed by another settling.
        """
        if not self._ticking:
            self._send()

    async def score(
        self, messages: list[Message], replies: Sequence[str], sampling: Sampling, player: str
    ) -> list[float]:
        """Log-probability of each reply, its end of turn included, after the same prompt."""
        from engine.inference.scoring import reply_logprobs

        prompt = self.tokenizer.prompt(messages)
        tokens = [[*self.tokenizer.encode(reply), self.tokenizer.end_of_turn] for reply in replies]
        return await self._device.call(
            reply_logprobs, self._lm, self._adapters, player, prompt, tokens, sampling.temperature
        )

    @property
    def in_flight(self) -> int:
        """Completions asked for and not yet given."""
        return len(self._pending)

    def _send_soon(self) -> None:
        if not self.lockstep and not self._sending:
            self._sending = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._sending = False
        requests, self._outbox = self._outbox, []
        withdrawn, self._withdrawn = self._withdrawn, []
        self._sent.update(request.id for request in requests)
        if not self._sent:
            return
        self._ticking = self.lockstep
        try:
            self._device.post(partial(self._server.accept, requests, withdrawn))
        except RuntimeError as error:
            self._fail_all(EngineError(str(error)))

    def _fail_all(self, error: EngineError) -> None:
        from engine.inference.batcher import Finished

        self._sent.clear()
        self._ticking = False
        for id in list(self._pending):
            self._resolve(Finished(id, error=error))

    def _cancel_all(self) -> None:
        """The device stopped, also on what it hasn't looked at yet."""
        self._outbox.clear()
        self._sent.clear()
        for id in list(self._pending):
            pending = self._pending.pop(id)
            _call(pending.on_done)
            pending.future.cancel()

    def _if_cancelled(self, id: int, future: asyncio.Future[Completion]) -> None:
        if not future.cancelled() or (pending := self._pending.pop(id, None)) is None:
            return
        _call(pending.on_done)
        if id in self._sent:
            self._withdrawn.append(id)
            self._send_soon()
        else:
            self._outbox = [request for request in self._outbox if request.id != id]

    def _deliver(self, tick: Tick) -> None:
        """On the event loop: what a tick brought."""
        for id, token, logprob in tick.tokens:
            if (pending := self._pending.get(id)) is not None:
                _call(pending.on_tokens, [token], [logprob])
        if not tick.finished:
            return
        self._ticking = False
        for finished in tick.finished:
            self._sent.discard(finished.id)
            self._resolve(finished)
        if self.settle is not None:
            self.settle()

    def _resolve(self, finished: Finished) -> None:
        pending = self._pending.pop(finished.id, None)
        if pending is None:  # cancelled on this side before the device reported on it
            return
        _call(pending.on_done)
        if pending.future.done():  # cancelled in this same turn of the loop
            return
        if finished.error is not None:
            pending.future.set_exception(finished.error)
        else:
            pending.future.set_result(self._completion(pending, finished))

    def _completion(self, pending: Pending, finished: Finished) -> Completion:
        return Completion(
            text=self.tokenizer.decode(finished.tokens),
            prompt_tokens=pending.prompt,
            tokens=finished.tokens,
            logprobs=finished.logprobs,
            versions=finished.versions,
            stop_reason=finished.stop_reason,
            player=pending.player,
            sampling=pending.sampling,
        )


class Server:
    """The client's other half, on the device thread: a batcher, and when it may tick."""

    def __init__(
        self,
        device: Device,
        batcher: Batcher,
        lockstep: bool,
        deliver: Callable[[Tick], None],
        closed: Callable[[], None],
    ) -> None:
        self._device, self._batcher = device, batcher
        self._lockstep = lockstep
        self._deliver, self._closed = deliver, closed
        self._open = not lockstep

    def accept(self, requests: Iterable[Request], withdrawn: Iterable[int]) -> None:
        """Take what the client sent, and go."""
        refused = []
        for request in requests:
            try:
                self._batcher.add(request)
            except (KeyError, ValueError) as error:
                refused.append((request.id, error))
        for id in withdrawn:
            self._batcher.cancel(id)
        self._open = True
        self._report_failures(refused)

    def ready(self) -> bool:
        return self._open and len(self._batcher) > 0

    def tick(self) -> None:
        tick = self._batcher.tick()
        if tick.finished and self._lockstep:
            self._open = False
        if tick.finished or tick.tokens:
            self._device.deliver(self._deliver, tick)

    def fail(self, error: Exception) -> None:
        failure = EngineError(f"generating failed: {type(error).__name__}: {error}")
        failure.__cause__ = error
        self._report_failures([(id, failure) for id in self._batcher.clear()])

    def close(self) -> None:
        self._batcher.clear()
        self._device.deliver(self._closed)

    def _report_failures(self, failures: list[tuple[int, Exception]]) -> None:
        from engine.inference.batcher import Finished, Tick

        if failures:
            self._open = not self._lockstep
            finished = [Finished(id, error=error) for id, error in failures]
            self._device.deliver(self._deliver, Tick(finished=finished))


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
        self._asked: list[tuple[Pending, list[Message], int]] = []
        self._answering = False

    def submit(
        self,
        messages: list[Message],
        sampling: Sampling,
        player: str,
        key: int,
        *,
        on_tokens: OnTokens | None = None,
        on_done: OnDone | None = None,
    ) -> asyncio.Future[Completion]:
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        pending = Pending(future, self.tokenizer.prompt(messages), sampling, player, on_tokens, on_done)
        self._asked.append((pending, messages, key))
        future.add_done_callback(lambda future: _call(on_done) if future.cancelled() else None)
        if not self.lockstep:
            self.flush()
        return future

    def flush(self) -> None:
        if self._asked and not self._answering:
            self._answering = True
            asyncio.get_running_loop().call_soon(self._answer)

    async def score(
        self, messages: list[Message], replies: Sequence[str], sampling: Sampling, player: str
    ) -> list[float]:
        """As `submit` records them: every token of a reply, and its end, has the same probability."""
        return [self.LOGPROB * (len(self.tokenizer.encode(reply)) + 1) for reply in replies]

    def _answer(self) -> None:
        self._answering = False
        asked, self._asked = self._asked, []
        for pending, messages, key in asked:
            if pending.future.cancelled():
                continue
            try:
                completion = self._completion(pending, self._reply(messages, pending.player, random.Random(key)))
            except Exception as error:
                _call(pending.on_done)
                pending.future.set_exception(error)
            else:
                _call(pending.on_tokens, completion.tokens, completion.logprobs)
                _call(pending.on_done)
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


def _call(callback: Callable[..., None] | None, *arguments: Any) -> None:
    """A callback that raises must not keep the other results from those who wait: the loop's handler reports it."""
    if callback is None:
        return
    try:
        callback(*arguments)
    except Exception as error:
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"a client's callback {callback!r} raised", "exception": error}
        )
