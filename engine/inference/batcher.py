"""Continuous batching: requests join and leave a batch of rows, and every tick gives each row one token.

Runs on the device thread. A row's tokens and log-probabilities don't depend on its neighbours, apart from
the low bits that the shape of a batch changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from engine.inference.adapters import Adapters
from engine.inference.constraints import Choices
from engine.inference.models import LanguageModel
from engine.inference.prefixes import Group, Prompt, grouped
from engine.inference.sampling import sample, uniforms
from engine.types import Sampling, StopReason

PREFILL_CHUNK = 512
"""Columns of a prompt computed at once, which bounds the attention scores held."""


@dataclass(slots=True)
class Request:
    """One completion to make."""

    id: int
    prompt: list[int]
    sampling: Sampling
    player: str
    key: int
    """uint64: what the random numbers of this completion come from, and nothing else."""
    stream: bool = False
    """Whether a tick reports each token, and not only the end."""
    bias: tuple[tuple[int, float], ...] = ()
    """What is added to the logits of single tokens."""
    stop: tuple[bytes, ...] = ()
    """UTF-8 of the texts that end the reply."""
    choices: Choices | None = None
    """The only token sequences allowed."""
    deadline: float | None = None
    """`time.monotonic()` after which it ends with what it has."""


@dataclass(slots=True)
class Finished:
    """A request that is over."""

    id: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    stop_reason: StopReason = StopReason.CANCELLED
    error: Exception | None = None
    """Why it failed, where it did: its player was dropped."""


@dataclass(slots=True)
class Tick:
    """What one tick brought: new tokens of streaming requests as (id, token, log-probability), and ends."""

    tokens: list[tuple[int, int, float]] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)


ROW = np.dtype(
    [
        ("key", np.uint64),
        ("temperature", np.float32),
        ("top_p", np.float32),
        ("top_k", np.int32),
        ("min_p", np.float32),
        ("slot", np.int32),
        ("version", np.int32),
        ("last", np.int32),  # the token to feed next
        ("count", np.int32),  # tokens sampled so far
        ("max_tokens", np.int32),
        ("room", np.int32),  # tokens that the context leaves
    ]
)


@dataclass(slots=True)
class Row:
    """What is kept of a row for the record; what is computed with lies in arrays of dtype `ROW`."""

    request: Request
    finished: Finished


class Batcher:
    """Decodes up to `rows` completions at once, computing at most about `prefill_tokens` of prompts a tick.

    At least one waiting prompt is admitted a tick where a row is free, even if it is longer than that.
    """

    def __init__(
        self, lm: LanguageModel, adapters: Adapters, *, rows: int = 128, prefill_tokens: int = 8192
    ) -> None:
        self.sampled = 0
        """Tokens sampled since the beginning."""
        self._lm, self._adapters = lm, adapters
        self._limit, self._prefill_tokens = rows, prefill_tokens
        self._ends = np.zeros(lm.vocab_size, dtype=bool)
        self._ends[[token for token in lm.eos_tokens if token < lm.vocab_size]] = True
        self._open: set[int] = set()
        self.clear()

    def __len__(self) -> int:
        """Requests that haven't been reported as finished."""
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Requests not yet admitted."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Queue a request.

        Raises:
            KeyError: if there is no such player. ValueError: if the prompt is empty or holds a token the
                model doesn't know, or no token may be sampled.
        """
        self._adapters.slot(request.player)
        if not request.prompt:
            raise ValueError(f"request {request.id}: the prompt is empty; it needs at least one token")
        if not 0 <= min(request.prompt) <= max(request.prompt) < self._lm.vocab_size:
            raise ValueError(f"request {request.id}: a prompt token isn't below {self._lm.vocab_size}")
        if request.sampling.max_tokens < 1:
            raise ValueError(f"request {request.id}: max_tokens is {request.sampling.max_tokens}, not at least 1")
        self._open.add(request.id)
        self._waiting.append(request)

    def cancel(self, id: int) -> None:
        """Withdraw a request: the next tick reports it as cancelled, with the tokens it has.

        What isn't known, or no longer, is ignored.
        """
        if id in self._open:
            self._cancelled.add(id)

    def clear(self) -> list[int]:
        """Forget every request, and return their ids: makes the batcher usable again after a tick that raised."""
        ids = sorted(self._open)
        self._open.clear()
        self._cancelled: set[int] = set()
        self._waiting: deque[Request] = deque()
        self._rows: list[Row] = []
        self._state = np.empty(0, dtype=ROW)
        self._cache: list | None = None
        self._changes = self._adapters.changes
        return ids

    def tick(self) -> Tick:
        """Give every row a token: those in flight, and the first one of those admitted now."""
        tick = Tick()
        self._withdraw(tick)
        self._follow_adapters(tick)
        arrivals = self._admit(tick)
        logits = [self._decode()] if self._rows else []
        if arrivals:
            logits.append(self._prefill(arrivals))
        if logits:
            self._sample(logits[0] if len(logits) == 1 else mx.concatenate(logits), tick)
        self._open.difference_update(finished.id for finished in tick.finished)
        return tick

    def _withdraw(self, tick: Tick) -> None:
        if not self._cancelled:
            return
        withdrawn = [request for request in self._waiting if request.id in self._cancelled]
        if withdrawn:
            tick.finished += [Finished(request.id) for request in withdrawn]
            self._waiting = deque(request for request in self._waiting if request.id not in self._cancelled)
        leaving = np.array([row.request.id in self._cancelled for row in self._rows], dtype=bool)
        self._cancelled.clear()
        self._leave(leaving, tick)

    def _follow_adapters(self, tick: Tick) -> None:
        """Take over new versions; rows of a player that is gone fail."""
        if self._changes == self._adapters.changes:
            return
        self._changes = self._adapters.changes
        players = set(self._adapters.players)
        orphaned = np.array([row.request.player not in players for row in self._rows], dtype=bool)
        for row, gone in zip(self._rows, orphaned, strict=True):
            if gone:
                row.finished.error = KeyError(f"player {row.request.player!r} was dropped while it spoke")
        self._leave(orphaned, tick)
        for state, row in zip(self._state, self._rows, strict=True):
            state["slot"] = self._adapters.slot(row.request.player)
            state["version"] = self._adapters.version(row.request.player)
        for request in [request for request in self._waiting if request.player not in players]:
            self._waiting.remove(request)
            error = KeyError(f"player {request.player!r} was dropped before it spoke")
            tick.finished.append(Finished(request.id, error=error))

    def _admit(self, tick: Tick) -> list[Request]:
        """The oldest requests that fit: free rows, and a rectangle of prompts within the budget.

        Equal prompts of one player are computed once, and count once.
        """
        arrivals: list[Request] = []
        prompts: set[tuple[str, Prompt]] = set()
        width = 0
        while self._waiting and len(self._rows) + len(arrivals) < self._limit:
            request = self._waiting[0]
            if len(request.prompt) >= self._lm.context:
                tick.finished.append(Finished(request.id, stop_reason=StopReason.CONTEXT))
                self._waiting.popleft()
                continue
            prompts.add((request.player, tuple(request.prompt)))
            width = max(width, len(request.prompt))
            if arrivals and width * len(prompts) > self._prefill_tokens:
                break
            arrivals.append(self._waiting.popleft())
        return arrivals

    def _decode(self) -> mx.array:
        """Logits [B, V] of the rows in flight."""
        assert self._cache is not None
        with self._adapters.rows(self._state["slot"].tolist()):
            hidden = self._lm.hidden(mx.array(self._state["last"])[:, None], self._cache)
        return self._lm.head(hidden[:, -1])

    def _prefill(self, arrivals: Sequence[Request]) -> mx.array:
        """Let requests join the rows; logits [arrivals, V] after their prompts."""
        state = self._new_state(arrivals)
        members: dict[int, dict[Prompt, list[int]]] = {}
        for index, (slot, request) in enumerate(zip(state["slot"].tolist(), arrivals, strict=True)):
            members.setdefault(slot, {}).setdefault(tuple(request.prompt), []).append(index)
        logits, order = [], []
        for slot, places in members.items():
            for group in grouped(list(places)):
                copies = [copy for copy, prompt in enumerate(group.prompts) for _ in places[prompt]]
                logits.append(self._prefill_group(group, slot, np.array(copies)))
                order += [index for prompt in group.prompts for index in places[prompt]]
        self._rows += [Row(arrivals[index], Finished(arrivals[index].id)) for index in order]
        self._state = np.concatenate([self._state, state[order]])
        return logits[0] if len(logits) == 1 else mx.concatenate(logits)

    def _prefill_group(self, group: Group, slot: int, copies: np.ndarray) -> mx.array:
        """Compute a group's prompts and let `copies` of them join the cache; logits [copies, V]."""
        width = max(len(prompt) for prompt in group.prompts)
        padding = [width - len(prompt) for prompt in group.prompts]
        tokens = np.zeros((len(group.prompts), width), dtype=np.int32)
        for row, prompt in zip(tokens, group.prompts, strict=True):
            row[width - len(prompt) :] = prompt
        with self._adapters.rows([slot]):
            if group.shared:
                cache = self._lm.make_cache([0])
                self._forward(np.array([group.prompts[0][: group.shared]]), cache)
                for layer in cache:
                    layer.spread(padding)
            else:
                cache = self._lm.make_cache(padding)
            hidden = self._forward(tokens[:, group.shared :], cache)[:, -1]
        logits = self._lm.head(hidden)
        if len(copies) > len(group.prompts):
            logits = logits[mx.array(copies)]
            for layer in cache:
                layer.filter(copies)
        if self._cache is None:
            self._cache = cache
        else:
            for layer, joining in zip(self._cache, cache, strict=True):
                layer.extend(joining)
        return logits

    def _forward(self, tokens: np.ndarray, cache: list) -> mx.array:
        """Hidden states of the last columns [B, ≤ PREFILL_CHUNK, D]."""
        width = tokens.shape[1]
        for start in range(0, width - PREFILL_CHUNK, PREFILL_CHUNK):
            mx.eval(self._lm.hidden(mx.array(tokens[:, start : start + PREFILL_CHUNK]), cache))
        return self._lm.hidden(mx.array(tokens[:, (width - 1) // PREFILL_CHUNK * PREFILL_CHUNK :]), cache)

    def _new_state(self, arrivals: Sequence[Request]) -> np.ndarray:
        context, slot, version = self._lm.context, self._adapters.slot, self._adapters.version
        rows = [
            (
                request.key,
                sampling.temperature,
                sampling.top_p,
                sampling.top_k,
                sampling.min_p,
                slot(request.player),
                version(request.player),
                0,
                0,
                sampling.max_tokens,
                context - len(request.prompt),
            )
            for request in arrivals
            for sampling in (request.sampling,)
        ]
        return np.array(rows, dtype=ROW)

    def _sample(self, logits: mx.array, tick: Tick) -> None:
        """Sample every row's token, record it, and let rows go that are done.

        Raises:
            FloatingPointError: if a log-probability isn't finite, so that the weights must be broken.
        """
        state = self._state
        drawn = uniforms(state["key"], state["count"])
        chosen = sample(logits, drawn, state["temperature"], state["top_p"], state["top_k"], state["min_p"])
        mx.eval(*chosen)
        tokens, logprobs = (np.array(array) for array in chosen)
        if not np.isfinite(logprobs).all():
            broken = {self._rows[row].request.player for row in np.flatnonzero(~np.isfinite(logprobs))}
            raise FloatingPointError(f"logits of {', '.join(sorted(broken))} aren't finite: its weights diverged")
        self.sampled += len(tokens)
        state["last"] = tokens
        state["count"] += 1
        for row, token, logprob, version in zip(
            self._rows, tokens.tolist(), logprobs.tolist(), state["version"].tolist(), strict=True
        ):
            record = row.finished
            record.tokens.append(token)
            record.logprobs.append(logprob)
            record.versions.append(version)
            if row.request.stream:
                tick.tokens.append((record.id, token, logprob))
        self._finish(self._ends[tokens], tick)

    def _finish(self, ended: np.ndarray, tick: Tick) -> None:
        state = self._state
        full = state["count"] >= state["max_tokens"]
        no_room = state["count"] >= state["room"]
        done = ended | full | no_room
        for index in np.flatnonzero(done):
            reason = StopReason.STOP if ended[index] else StopReason.LENGTH if full[index] else StopReason.CONTEXT
            self._rows[index].finished.stop_reason = reason
        self._leave(done, tick)

    def _leave(self, leaving: np.ndarray, tick: Tick) -> None:
        """Report and drop the rows where `leaving` [B] is true."""
        if not leaving.any():
            return
        tick.finished += [row.finished for row, leaves in zip(self._rows, leaving, strict=True) if leaves]
        self._rows = [row for row, leaves in zip(self._rows, leaving, strict=True) if not leaves]
        self._state = self._state[~leaving]
        if not self._rows:
            self._cache = None
        elif self._cache is not None:
            kept = np.flatnonzero(~leaving)
            for layer in self._cache:
                layer.filter(kept)
