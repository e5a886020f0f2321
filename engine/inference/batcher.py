"""Continuous batching: requests join and leave a batch of rows, and every tick gives each row one token.

Runs on the device thread. A row's tokens and log-probabilities don't depend on its neighbours, apart from
the low bits that the shape of a batch changes. Who is admitted when: `scheduling`. How prompts are computed:
`prompting`. What of them needs no computing: `recall`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from engine.config import ModelConfig
from engine.inference.adapters import Adapters
from engine.inference.decoders import decoder
from engine.inference.models import LanguageModel
from engine.inference.prefix_cache import Hit, Stats
from engine.inference.prompting import Prompted, Prompting
from engine.inference.recall import Recall
from engine.inference.requests import Finished, Request, Tick
from engine.inference.rows import Row, Rows
from engine.inference.scheduling import CHUNK, Costs, Scheduler
from engine.inference.tokenizer import Tokenizer
from engine.inference.withdrawing import Withdrawing
from engine.types import StopReason


class Batcher:
    """Decodes up to `rows` completions at once, computing at most about `prefill_tokens` of short prompts a tick.

    `prefix_bytes` bounds the memory for what was said before. `tokenizer` is for stop strings only.
    """

    def __init__(
        self,
        lm: LanguageModel,
        adapters: Adapters,
        *,
        rows: int = 128,
        prefill_tokens: int = 8192,
        prefix_bytes: int = 0,
        tokenizer: Tokenizer | None = None,
        chunk: int = CHUNK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sampled = 0
        """Tokens sampled since the beginning."""
        self.lm, self.adapters, self._tokenizer = lm, adapters, tokenizer
        self._limit = rows
        self._ends = np.zeros(lm.vocab_size, dtype=bool)
        self._ends[[token for token in lm.eos_tokens if token < lm.vocab_size]] = True
        in_flight = decoder(lm, adapters)
        self._scheduler = Scheduler(prefill_tokens, _costs(lm, in_flight.share), chunk)
        self._rows = Rows(in_flight, self._ends, lm.context, self._piece)
        self._recall = Recall(self._rows, prefix_bytes)
        self._prompting = Prompting(lm, adapters, self._scheduler, self._recall)
        self._withdrawing, self._clock = Withdrawing(clock), clock
        self._open: set[int] = set()
        self.clear()

    @classmethod
    def configured(
        cls, lm: LanguageModel, adapters: Adapters, tokenizer: Tokenizer, config: ModelConfig
    ) -> Batcher:
        """As `[model]` of a run's configuration says."""
        return cls(
            lm,
            adapters,
            rows=config.rows,
            prefill_tokens=config.prefill_tokens,
            prefix_bytes=config.prefix_mb << 20,
            tokenizer=tokenizer,
        )

    def __len__(self) -> int:
        """Requests that haven't been reported as finished."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Requests not yet admitted."""
        return len(self._scheduler)

    @property
    def stats(self) -> Stats:
        """What was asked, what had to be computed for it, and what is kept."""
        return self._recall.stats

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            KeyError: if there is no such player. ValueError: if the prompt is empty or holds a token the
                model doesn't know, or the sampling isn't possible.
        """
        self.adapters.version(request.player)
        if not request.prompt:
            raise ValueError(f"request {request.id}: the prompt is empty; it needs at least one token")
        if not 0 <= min(request.prompt) <= max(request.prompt) < self.lm.vocab_size:
            raise ValueError(f"request {request.id}: a prompt token isn't below {self.lm.vocab_size}")
        request.sampling.check()
        self._open.add(request.id)
        self._scheduler.add(request)
        if request.deadline is not None:
            self._withdrawing.at(request.deadline, request.id)
        if len(request.prompt) >= self.lm.context:
            self._withdrawing.add(request.id, StopReason.CONTEXT)

    def cancel(self, id: int) -> None:
        """Withdraw a request: the next tick reports it as cancelled, with the tokens it has.

        What isn't known, or no longer, is ignored.
        """
        if id in self._open:
            self._withdrawing.add(id, StopReason.CANCELLED)

    def hold(self, player: str) -> None:
        """Let none of a player's requests begin until `release`; those in flight and all others go on."""
        self._scheduler.hold(player)

    def release(self, player: str) -> None:
        self._scheduler.release(player)

    def speaks(self, player: str) -> bool:
        """Whether a player has a completion in flight, or a prompt being computed."""
        return self._prompting.speaks_for(player) or any(row.request.player == player for row in self._rows)

    def report(self) -> None:
        """Have one of the next ticks tell what streaming requests said so far; unasked they tell once a second."""
        self._rows.is_asked = True

    def forget(self) -> None:
        """Forget what isn't in flight: what follows doesn't depend on what was before, to the last bit."""
        self._scheduler.forget_credit()
        self._recall.forget()
        self._prompting.forget()

    def clear(self) -> list[int]:
        """Forget every request, and return their ids: makes the batcher usable again after a tick that raised."""
        ids = sorted(self._open)
        self._open.clear()
        self._scheduler.clear()
        self._withdrawing.clear()
        self._rows.clear()
        self._recall.clear(self._serials())
        self._prompting.long = None
        self._speaking: set[str] = set()
        self._moved = True
        """Whether rows came or went since the adapters were told who speaks."""
        self._changes = -1
        return ids

    def tick(self) -> Tick:
        """Give every row a token: those in flight, and the first one of those admitted now."""
        tick = Tick()
        self._withdraw(tick)
        self._follow_weights(tick)
        arrivals, hits = self._admit()
        self._seat(arrivals)
        logits = [self._decode()] if self._rows else []
        if arrivals:
            logits += [self._join(prompted) for prompted in self._prompting.short(arrivals, hits)]
        long = self._prompting.advance(decoding=bool(self._rows))
        if long is not None:
            self._moved = True
            logits.append(self._join(long))
        if logits:
            done = self._rows.draw(logits[0] if len(logits) == 1 else mx.concatenate(logits))
            self.sampled += len(done)
            self._leave(done, tick)
            self._rows.report(tick, self._clock())
        self._open.difference_update(finished.id for finished in tick.finished)
        return tick

    # Before the forward pass: who leaves, who comes, and whose weights speak

    def _withdraw(self, tick: Tick) -> None:
        """Who was cancelled, is late or never fitted leaves, wherever it is."""
        reasons = self._withdrawing.due(self._open)
        if reasons:
            self._dismiss(lambda request: reasons.get(request.id), tick)

    def _follow_weights(self, tick: Tick) -> None:
        """Nothing computed with weights that were replaced is used for others; who lost its player fails."""
        if self._changes == self.adapters.changes:
            return
        serials = self._serials()
        if any(self._prompting.speaks_for(player) for player in self._recall.renew(serials)):
            self._prompting.forget()
        self._dismiss(lambda request: None if request.player in serials else _dropped(request.player), tick)

    def _dismiss(self, why: Callable[[Request], StopReason | Exception | None], tick: Tick) -> None:
        """Report and drop those for whom there is a reason: who waits, is being computed, or in flight."""
        leaving = self._scheduler.remove(lambda request: why(request) is not None)
        long = self._prompting.long
        if long is not None and why(long.request) is not None:
            leaving.append(long.request)
            self._prompting.end()
            self._moved = True
        for request in leaving:
            tick.finished.append(_over(Finished(request.id), why(request)))
        reasons = [why(row.request) for row in self._rows]
        for row, reason in zip(self._rows, reasons, strict=True):
            _over(row.finished, reason)
        self._leave(np.array([reason is not None for reason in reasons], dtype=bool), tick)

    def _admit(self) -> tuple[list[Request], dict[int, Hit]]:
        """Who joins now, and what is known of their prompts, by request. May begin a long prompt."""
        hits: dict[int, Hit] = {}

        def known(request: Request) -> int:
            hit = self._recall.find(request)
            if hit is None:
                return 0
            hits[request.id] = hit
            return hit.length

        busy = self._prompting.long is not None
        arrivals = self._scheduler.admit(self._limit - len(self._rows) - busy, busy, known)
        if arrivals.long is not None:
            self._prompting.begin(arrivals.long, hits.get(arrivals.long.id))
        self._moved |= bool(arrivals.short) or arrivals.long is not None
        return arrivals.short, hits

    def _seat(self, arrivals: Sequence[Request]) -> None:
        """Have the adapters of all who speak in memory, and note in which slots and versions."""
        if self._moved:
            self._moved = False
            speaking = {row.request.player for row in self._rows} | {request.player for request in arrivals}
            if self._prompting.long is not None:
                speaking.add(self._prompting.long.request.player)
            if speaking != self._speaking:
                self.adapters.use(speaking, by=self)
                self._speaking = speaking
        if self._changes != self.adapters.changes:
            self._changes = self.adapters.changes
            players = [row.request.player for row in self._rows]
            self._rows.state["slot"] = [self.adapters.slot(player) for player in players]
            self._rows.state["version"] = [self.adapters.version(player) for player in players]

    # The forward pass

    def _decode(self) -> mx.array:
        """Logits [B, V] of the rows in flight."""
        state, decoder = self._rows.state, self._rows.decoder
        self._scheduler.earn(len(self._rows), decoder.columns, self._prompting.long is not None)
        return decoder.step(state["last"], state["slot"])

    # Joining and leaving

    def _join(self, prompted: Prompted) -> mx.array:
        """Rows of one player, whose prompts are computed, decode from now on; their first logits [rows, V]."""
        player, rows = prompted.requests[0].player, []
        for request, hit in zip(prompted.requests, prompted.hits, strict=True):
            entry = self._recall.begin(request, hit) if prompted.pure else None
            rows.append(Row.of(request, entry))
            self._recall.stats.asked += len(request.prompt)
        self._rows.join(rows, self.adapters.slot(player), self.adapters.version(player), prompted.layers)
        return prompted.logits

    def _leave(self, leaving: np.ndarray, tick: Tick) -> None:
        """Report and drop the rows where `leaving` [B] is true."""
        if not leaving.any():
            return
        self._moved = True
        gone = self._rows.over(leaving)
        self._recall.keep(gone, leaving)
        self._rows.leave(leaving)
        tick.finished += [row.finished for row in gone]

    def _serials(self) -> dict[str, int]:
        return {player: self.adapters.serial(player) for player in self.adapters.players}

    def _piece(self, token: int) -> bytes:
        if self._tokenizer is None:
            raise ValueError("stop strings need a batcher with a tokenizer")
        pieces = self._tokenizer.pieces
        return pieces[token] if token < len(pieces) else b""  # models pad their vocabularies


def _costs(lm: LanguageModel, step: float) -> Costs:
    """On a GPU a pass over few tokens takes as long as one over a thousand."""
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    # A token's attention to c columns takes 4·d·c operations a layer, everything else about 24·d² (width d).
    return Costs(forward=64 if on_cpu else 1024, step=step, reach=6 * lm.config.get("hidden_size", 1024))


def _over(finished: Finished, why: StopReason | Exception | None) -> Finished:
    if isinstance(why, StopReason):
        finished.stop_reason = why
    else:
        finished.error = why
    return finished


def _dropped(player: str) -> KeyError:
    return KeyError(f"player {player!r} was dropped before it had spoken to the end")
