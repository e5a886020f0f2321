"""Completions from the model in this process: ask, and get a future.

This is the asyncio side. It speaks to a batcher on the device thread, one message a tick each way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from engine.client import OnTokens
from engine.inference import constraints
from engine.inference.pending import Pending, tell
from engine.inference.requests import Finished, Request, Tick
from engine.inference.server import Server
from engine.inference.stops import before_stop
from engine.inference.tokenizer import Remembered, Tokenizer
from engine.types import Completion, EngineError, Message, Sampling, StopReason

if TYPE_CHECKING:  # these import MLX, which must not happen before the device thread has put a BLAS under it
    from engine.inference.batcher import Batcher
    from engine.inference.device import Device
    from engine.inference.prefix_cache import Stats

REMEMBERED = 1024
"""Lists of choices, and tables of biases, whose tokens are remembered."""


class LocalClient:
    """Completions from the model on the device thread.

    In lockstep, batches don't depend on the timing of threads: requests go out with `flush`, and the device ticks
    from then until a tick in which a completion ended. Its results are delivered, `settle` is called, and the
    next flush sets the device going again. Otherwise requests go out once per turn of the event loop, and the
    device ticks whenever there is something to do.

    At most `queue` requests are with the device. The others wait here in their order, their prompts not yet
    rendered; to whoever awaits them this is no different. A request with `seconds` is the one thing that depends
    on the clock: a run in which one comes too late can't be repeated exactly.
    """

    def __init__(
        self,
        device: Device,
        batcher: Batcher,
        tokenizer: Tokenizer,
        *,
        queue: int,
        lockstep: bool = False,
        aside: bool = False,
    ) -> None:
        """`batcher` was made on the device thread, as all that computes has to be. `aside` as in `Device.serve`."""
        self.settle: Callable[[], None] | None = None
        self.tokenizer = tokenizer
        self.lockstep = lockstep
        self._device, self._batcher = device, batcher
        self._server = Server(device, batcher, lockstep, self._deliver, self._cancel_all)
        self._pending: dict[int, Pending] = {}
        self._next_id = 0
        self._queue = queue
        self._outbox: dict[int, Pending] = {}
        """Not yet with the device, in their order."""
        self._choices: Remembered[constraints.Choices] = Remembered(REMEMBERED)
        self._biases: Remembered[tuple[tuple[int, float], ...]] = Remembered(REMEMBERED)
        self._forget = False
        self._withdrawn: list[int] = []
        self._sending = False
        self._sent: set[int] = set()
        """Requests the device hasn't reported on."""
        self._ticking = False
        """Lockstep: the device was set going, and hasn't delivered an end since."""
        device.serve(self._server, aside=aside)

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
        """Ask for a completion.

        `on_tokens` is called as `OnTokens` says, `on_done` exactly once, before whoever awaits the future goes on.
        Cancelling the future withdraws the request.

        The future raises KeyError for a player there isn't, ValueError for a request that can't be run, and
        `EngineError` if the device fails.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()
        id, self._next_id = self._next_id, self._next_id + 1
        pending = Pending(future, messages, sampling, player, key, on_tokens, on_done)
        if sampling.seconds is not None:
            pending.deadline = time.monotonic() + sampling.seconds
            pending.timer = loop.call_later(sampling.seconds, self._expire, id)
        self._pending[id] = self._outbox[id] = pending
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

    def report(self) -> None:
        """Those who listen by `on_tokens` are told soon what was said so far; unasked, once a second."""
        with suppress(RuntimeError):  # the device was stopped: there is nothing more to tell
            self._device.post(self._batcher.report)

    def forget(self) -> None:
        """A new set of requests begins: in lockstep, what was computed before has no influence on it.

        So it comes out the same to the last bit, whatever a run has done in this process before.
        """
        self._forget = self.lockstep

    async def publish(self, player: str, put: Callable[[], object], *, drain: bool = False) -> None:
        """Have new weights put in a player's place, by a function called on the device thread between two ticks.

        What the player is saying goes on with them. With `drain` its completions in flight are finished first;
        those that have not begun wait meanwhile, and everyone else's go on.
        """
        if not drain:
            await self._device.call(put)
            return
        self._device.post(partial(self._server.hold, player))
        try:
            await self._device.work(self._server.drained(player, put))
        finally:
            with suppress(RuntimeError):  # the device was stopped, and nobody waits any more
                self._device.post(partial(self._server.release, player))

    async def score(
        self, messages: list[Message], replies: Sequence[str], sampling: Sampling, player: str
    ) -> list[float]:
        """Log-probability of each reply, its end of turn included, after the same prompt."""
        from engine.inference.scoring import reply_logprobs

        prompt = self.tokenizer.prompt(messages)
        tokens = [[*self.tokenizer.encode(reply), self.tokenizer.end_of_turn] for reply in replies]
        choices = self._choices_of(sampling)
        return await self._device.call(
            reply_logprobs,
            self._batcher.lm,
            self._batcher.adapters,
            player,
            prompt,
            tokens,
            sampling.temperature,
            choices,
        )

    @property
    def in_flight(self) -> int:
        """Completions asked for and not yet given."""
        return len(self._pending)

    @property
    def stats(self) -> Stats:
        """Prompt tokens asked for and computed, so far."""
        return self._server.stats

    def _send_soon(self) -> None:
        if not self.lockstep and not self._sending:
            self._sending = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._sending = False
        withdrawn, self._withdrawn = self._withdrawn, []
        requests = self._due()
        self._sent.update(request.id for request in requests)
        if not self._sent:
            return
        self._ticking = self.lockstep
        forget, self._forget = self._forget, False
        try:
            self._device.post(partial(self._server.accept, requests, withdrawn, forget=forget))
        except RuntimeError as error:
            self._fail_all(EngineError(str(error)))

    def _due(self) -> list[Request]:
        """As many of those who wait as the device may have. Who can't be asked for is told so."""
        due = []
        while self._outbox and len(self._sent) + len(due) < self._queue:
            id = next(iter(self._outbox))
            pending = self._outbox.pop(id)
            try:
                due.append(self._request(id, pending))
            except Exception as error:  # a template, or a text that isn't a token
                self._resolve(Finished(id, error=error))
        return due

    def _request(self, id: int, pending: Pending) -> Request:
        sampling = pending.sampling
        if "" in sampling.stop:
            raise ValueError("stop: an empty text would end every reply before its first token")
        pending.prompt = self.tokenizer.prompt(pending.messages)
        request = Request(
            id,
            pending.prompt,
            sampling,
            pending.player,
            pending.key,
            stream=pending.on_tokens is not None,
            stop=tuple(text.encode() for text in sampling.stop),
            deadline=pending.deadline,
        )
        if sampling.logit_bias:
            bias = sampling.logit_bias
            request.bias = self._biases.get(bias, lambda: constraints.bias_of(self.tokenizer, bias))
        request.choices = self._choices_of(sampling)
        if request.choices is not None:  # a choice is never cut short: that would be a reply not allowed
            request.sampling = replace(sampling, max_tokens=max(sampling.max_tokens, request.choices.longest))
            request.stop = ()
        return request

    def _choices_of(self, sampling: Sampling) -> constraints.Choices | None:
        texts = sampling.choices
        if not texts:
            return None
        return self._choices.get(texts, lambda: constraints.choices(self.tokenizer, texts))

    def _expire(self, id: int) -> None:
        """The deadline of a request: the device sees to it itself where it has it."""
        pending = self._outbox.pop(id, None)
        if pending is None:
            return
        ended = Finished(id, stop_reason=StopReason.DEADLINE)
        try:
            pending.prompt = self.tokenizer.prompt(pending.messages)
        except Exception as error:  # of a template
            ended.error = error
        self._resolve(ended)
        if self.settle is not None:
            self.settle()

    def _fail_all(self, error: EngineError) -> None:
        self._outbox.clear()
        self._sent.clear()
        self._ticking = False
        for id in list(self._pending):
            self._resolve(Finished(id, error=error))

    def _cancel_all(self) -> None:
        """The device stopped, also on what it hasn't looked at yet."""
        self._outbox.clear()
        self._sent.clear()
        for id in list(self._pending):
            pending = self._take(id)
            assert pending is not None
            tell(pending.on_done)
            pending.future.cancel()

    def _if_cancelled(self, id: int, future: asyncio.Future[Completion]) -> None:
        if not future.cancelled() or (pending := self._take(id)) is None:
            return
        tell(pending.on_done)
        if id in self._sent:
            self._withdrawn.append(id)
            self._send_soon()
        else:
            self._outbox.pop(id, None)

    def _deliver(self, tick: Tick) -> None:
        """On the event loop: what a tick brought."""
        for id, tokens, logprobs in tick.tokens:
            if (pending := self._pending.get(id)) is not None:
                pending.told += len(tokens)
                tell(pending.on_tokens, tokens, logprobs)
        if not tick.finished:
            return
        self._ticking = False
        for finished in tick.finished:
            self._sent.discard(finished.id)
            self._resolve(finished)
        if self._outbox:
            self._send_soon()
        if self.settle is not None:
            self.settle()

    def _take(self, id: int) -> Pending | None:
        """It is over for a request, one way or the other."""
        pending = self._pending.pop(id, None)
        if pending is not None and pending.timer is not None:
            pending.timer.cancel()
        return pending

    def _resolve(self, finished: Finished) -> None:
        pending = self._take(finished.id)
        if pending is None:  # cancelled on this side before the device reported on it
            return
        if 0 < pending.told < len(finished.tokens):
            tell(pending.on_tokens, finished.tokens[pending.told :], finished.logprobs[pending.told :])
        tell(pending.on_done)
        if pending.future.done():  # cancelled in this same turn of the loop
            return
        if finished.error is not None:
            pending.future.set_exception(finished.error)
        else:
            pending.future.set_result(self._completion(pending, finished))

    def _completion(self, pending: Pending, finished: Finished) -> Completion:
        stops = () if pending.sampling.choices else pending.sampling.stop
        return Completion(
            text=before_stop(self.tokenizer.decode(finished.tokens), stops),
            prompt_tokens=pending.prompt,
            tokens=finished.tokens,
            logprobs=finished.logprobs,
            versions=finished.versions,
            allowed=finished.allowed,
            stop_reason=finished.stop_reason,
            player=pending.player,
            sampling=pending.sampling,
        )
