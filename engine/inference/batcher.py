"""Continuous batching: requests join and leave a batch of rows, and every tick gives each row one token.

Runs on the device thread. A row's tokens and log-probabilities don't depend on its neighbours, apart from
the low bits that the shape of a batch changes. What it decides by is in `scheduling` (who is admitted when),
`prefixes` and `prefix_cache` (what needs no computing); how prompts are computed is in `prefilling`.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from engine.config import ModelConfig
from engine.inference.adapters import Adapters
from engine.inference.cache import Layers
from engine.inference.decoders import decoder
from engine.inference.models import LanguageModel
from engine.inference.prefilling import Long, Source, prefill
from engine.inference.prefix_cache import Hit, PrefixCache, Stats
from engine.inference.prefixes import Prompt, grouped
from engine.inference.requests import Finished, Request, Tick
from engine.inference.rows import Row, Rows
from engine.inference.scheduling import CHUNK, Costs, Scheduler
from engine.inference.tokenizer import Tokenizer
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
        self.lm, self.adapters, self._tokenizer, self._clock = lm, adapters, tokenizer, clock
        self._limit = rows
        self._ends = np.zeros(lm.vocab_size, dtype=bool)
        self._ends[[token for token in lm.eos_tokens if token < lm.vocab_size]] = True
        in_flight = decoder(lm, adapters)
        self._scheduler = Scheduler(prefill_tokens, _costs(lm, in_flight.share), chunk)
        self._prefixes = PrefixCache(prefix_bytes)
        self._stats = Stats()
        self._rows = Rows(in_flight, self._ends, lm.context, self._piece)
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
        self._stats.kept_bytes = self._prefixes.bytes
        return self._stats

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
            heapq.heappush(self._deadlines, (request.deadline, request.id))
        if len(request.prompt) >= self.lm.context:
            self._leaving[request.id] = StopReason.CONTEXT

    def cancel(self, id: int) -> None:
        """Withdraw a request: the next tick reports it as cancelled, with the tokens it has.

        What isn't known, or no longer, is ignored.
        """
        if id in self._open:
            self._leaving[id] = StopReason.CANCELLED

    def hold(self, player: str) -> None:
        """Let none of a player's requests begin until `release`; those in flight and all others go on."""
        self._scheduler.hold(player)

    def release(self, player: str) -> None:
        self._scheduler.release(player)

    def speaks(self, player: str) -> bool:
        """Whether a player has a completion in flight, or a prompt being computed."""
        long = self._long is not None and self._long.request.player == player
        return long or any(row.request.player == player for row in self._rows)

    def forget(self) -> None:
        """Forget what isn't in flight: what follows doesn't depend on what was before, to the last bit."""
        self._scheduler.forget_credit()
        self._prefixes.clear()
        for row in self._rows:
            row.entry = None
        if self._long is not None:
            self._long.hit, self._long.pure = None, False

    def clear(self) -> list[int]:
        """Forget every request, and return their ids: makes the batcher usable again after a tick that raised."""
        ids = sorted(self._open)
        self._open.clear()
        self._scheduler.clear()
        self._prefixes.clear()
        self._leaving: dict[int, StopReason] = {}
        self._deadlines: list[tuple[float, int]] = []
        self._rows.clear()
        self._long: Long | None = None
        self._speaking: set[str] = set()
        self._moved = True
        """Whether rows came or went since the adapters were told who speaks."""
        self._changes = -1
        self._serials = {player: self.adapters.serial(player) for player in self.adapters.players}
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
            logits += self._prefill(arrivals, hits)
        if self._long is not None:
            logits += self._advance(self._long)
        if logits:
            done = self._rows.draw(logits[0] if len(logits) == 1 else mx.concatenate(logits), tick)
            self.sampled += len(done)
            self._leave(done, tick)
        self._open.difference_update(finished.id for finished in tick.finished)
        return tick

    # Before the forward pass: who leaves, who comes, and whose weights speak

    def _withdraw(self, tick: Tick) -> None:
        """Who was cancelled, is late or never fitted leaves, wherever it is."""
        while self._deadlines and self._deadlines[0][0] <= self._clock():
            id = heapq.heappop(self._deadlines)[1]
            if id in self._open:
                self._leaving.setdefault(id, StopReason.DEADLINE)
        if not self._leaving:
            return
        reasons, self._leaving = self._leaving, {}
        self._dismiss(lambda request: reasons.get(request.id), tick)

    def _follow_weights(self, tick: Tick) -> None:
        """Nothing computed with weights that were replaced is used for others; who lost its player fails."""
        if self._changes == self.adapters.changes:
            return
        serials = {player: self.adapters.serial(player) for player in self.adapters.players}
        replaced = {player for player, serial in self._serials.items() if serials.get(player) != serial}
        self._serials = serials
        for player in replaced:
            self._prefixes.drop_player(player)
        for row in self._rows:
            if row.request.player in replaced:
                row.entry = None
        if self._long is not None and self._long.request.player in replaced:
            self._long.hit, self._long.pure = None, False
        self._dismiss(lambda request: None if request.player in serials else _dropped(request.player), tick)

    def _dismiss(self, why: Callable[[Request], StopReason | Exception | None], tick: Tick) -> None:
        """Report and drop those for whom there is a reason: who waits, is being computed, or in flight."""
        leaving = self._scheduler.remove(lambda request: why(request) is not None)
        if self._long is not None and why(self._long.request) is not None:
            leaving.append(self._long.request)
            self._end_long()
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
            hit = self._prefixes.find(request.player, self._serials[request.player], request.prompt)
            if hit is None:
                return 0
            hits[request.id] = hit
            return hit.length

        busy = self._long is not None
        arrivals = self._scheduler.admit(self._limit - len(self._rows) - busy, busy, known)
        if arrivals.long is not None:
            self._begin_long(arrivals.long, hits.get(arrivals.long.id))
        self._moved |= bool(arrivals.short) or arrivals.long is not None
        return arrivals.short, hits

    def _seat(self, arrivals: Sequence[Request]) -> None:
        """Have the adapters of all who speak in memory, and note in which slots and versions."""
        if self._moved:
            self._moved = False
            speaking = {row.request.player for row in self._rows} | {request.player for request in arrivals}
            if self._long is not None:
                speaking.add(self._long.request.player)
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
        self._scheduler.earn(len(self._rows), decoder.columns, self._long is not None)
        return decoder.step(state["last"], state["slot"])

    def _prefill(self, arrivals: Sequence[Request], hits: dict[int, Hit]) -> list[mx.array]:
        """Let requests join the rows; logits [some of them, V] after their prompts, in the order of the rows."""
        players: dict[str, dict[Prompt, list[Request]]] = {}
        for request in arrivals:
            players.setdefault(request.player, {}).setdefault(tuple(request.prompt), []).append(request)
        sources = self._sources({request.id: hits[request.id] for request in arrivals if request.id in hits})
        logits = []
        for player, asking in players.items():
            found = {prompt: sources[same[0].id] for prompt, same in asking.items() if same[0].id in sources}
            known = {prompt: source.length for prompt, source in found.items()}
            for group in grouped(list(asking), self._scheduler.costs.forward, known):
                with self.adapters.rows([self.adapters.slot(player)]):
                    done = prefill(self.lm, group, found)
                requests = [request for prompt in done.prompts for request in asking[prompt]]
                done = done.copied([len(asking[prompt]) for prompt in done.prompts])
                self._stats.computed += group.tokens
                self._stats.hits += len(requests) if group.known else 0
                self._join(requests, done.layers, [hits.get(request.id) for request in requests])
                logits.append(done.logits)
        return logits

    def _sources(self, hits: dict[int, Hit]) -> dict[int, Source]:
        """Where the beginnings found lie now, by request."""
        places = {id(row.entry): index for index, row in enumerate(self._rows)} if hits else {}
        sources = {}
        for request, hit in hits.items():
            self._prefixes.use(hit)
            snapshot = hit.entry.snapshot
            if snapshot is not None:
                sources[request] = Source(snapshot.arrays, hit.entry.row, hit.length)
            else:
                sources[request] = Source(self._rows.decoder, places[id(hit.entry)], hit.length)
        return sources

    def _begin_long(self, request: Request, hit: Hit | None) -> None:
        if hit is None:
            layers = self.lm.make_cache([0])
        else:
            [source] = self._sources({request.id: hit}).values()
            layers = source.layers.spread([source.row], [source.length])
            mx.eval(layers.arrays)
            self._stats.hits += 1
        self._long = Long(request, layers, hit.length if hit else 0, hit)

    def _advance(self, long: Long) -> list[mx.array]:
        """Compute as much of the long prompt as is due; its logits [1, V] once that is all, and it has joined."""
        prompt = long.request.prompt
        count = self._scheduler.spend(len(prompt) - long.done, long.done, decoding=bool(self._rows))
        if not count:
            return []
        with self.adapters.rows([self.adapters.slot(long.request.player)]):
            hidden = long.advance(self.lm, count)
        self._stats.computed += count
        if long.done < len(prompt):
            mx.eval(hidden)
            return []
        self._end_long()
        self._join([long.request], long.layers, [long.hit], pure=long.pure)
        return [self.lm.head(hidden[:, -1])]

    def _end_long(self) -> None:
        """The next one may begin, or need only little computing by now."""
        self._long = None
        self._moved = True
        self._scheduler.reconsider()

    # Joining and leaving

    def _join(
        self, requests: Sequence[Request], layers: Layers, hits: Sequence[Hit | None], *, pure: bool = True
    ) -> None:
        """Rows of one player, whose prompts are computed, decode from now on."""
        player, rows = requests[0].player, []
        for request, hit in zip(requests, hits, strict=True):
            entry = self._prefixes.begin(player, self._serials[player], request.prompt, hit) if pure else None
            rows.append(Row.of(request, entry))
            self._stats.asked += len(request.prompt)
        self._rows.join(rows, self.adapters.slot(player), self.adapters.version(player), layers)

    def _leave(self, leaving: np.ndarray, tick: Tick) -> None:
        """Report and drop the rows where `leaving` [B] is true."""
        if not leaving.any():
            return
        self._moved = True
        gone = self._rows.over(leaving)
        self._keep(gone, leaving)
        self._rows.leave(leaving)
        tick.finished += [row.finished for row in gone]

    def _keep(self, rows: Sequence[Row], leaving: np.ndarray) -> None:
        """Copy what rows that leave hold to where it can be continued."""
        places, entries = [], []
        for place, row in zip(np.flatnonzero(leaving), rows, strict=True):
            if row.entry is not None and self._prefixes.extend(row.entry, row.text):
                places.append(place)
                entries.append(row.entry)
        if not places:
            return
        if not self._prefixes.limit:
            for entry in entries:
                self._prefixes.drop(entry)
            return
        layers = self._rows.decoder.taken(np.array(places))
        fitting = min(len(places), self._prefixes.limit * len(places) // layers.bytes)
        for entry in entries[fitting:]:
            self._prefixes.drop(entry)
        if 0 < fitting < len(places):
            layers = layers.taken(np.arange(fitting))
        if fitting:
            mx.async_eval(layers.arrays)
            self._prefixes.keep(entries[:fitting], layers, layers.bytes)

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
