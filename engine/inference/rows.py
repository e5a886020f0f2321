"""The rows in flight: what their next tokens are drawn with, what is recorded of them, and when they are over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import mlx.core as mx
import numpy as np

from engine.inference.cache import Layers
from engine.inference.decoders import Decoder
from engine.inference.prefix_cache import Entry
from engine.inference.requests import Finished, Request, Tick
from engine.inference.sampling import Stages, adjusted, draw, stages, uniforms
from engine.inference.stops import StopWatch
from engine.types import StopReason

STATE = np.dtype(
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
        ("adjusts", np.bool_),  # whether its logits are changed before a token is drawn
        ("watches", np.bool_),  # whether it has stop strings
        ("streams", np.bool_),  # whether tokens are reported as they come
        ("reported", np.int32),  # how many were
    ],
    align=True,  # MLX takes no column whose numbers lie across words
)

OFTENEST = 0.04
"""Seconds between two reports of what is being said, at least. Nobody reads faster, and to report each token of a
tiny model takes a twentieth of the time in which it is said."""

SELDOMEST = 1.0
"""Seconds between two reports that nobody asks for."""

SAMPLED = np.dtype([("token", np.int32), ("logprob", np.float32), ("version", np.int32)])
"""What is recorded of a token."""


@dataclass(slots=True)
class Row:
    """What is kept of a row for the record; what is computed with lies in an array of dtype `STATE`."""

    request: Request
    finished: Finished
    entry: Entry | None
    """By which others find what it begins with; None if that is of more than one version."""
    watch: StopWatch | None = None
    node: int = 0
    """In the trie of its choices."""
    seen: list[int] = field(default_factory=list)
    """Prompt and reply, for the repetition penalty."""

    @classmethod
    def of(cls, request: Request, entry: Entry | None) -> Row:
        watch = StopWatch(request.stop) if request.stop else None
        seen = list(request.prompt) if request.sampling.repetition_penalty != 1.0 else []
        return cls(request, Finished(request.id), entry, watch, seen=seen)

    @property
    def text(self) -> list[int]:
        """What its keys and values are of, once it is over: the last token sampled was not fed."""
        return self.request.prompt + self.finished.tokens[:-1]


class Rows:
    """Rows in the order of the batch. Only those that ask for more than a sampler costs are looked at singly."""

    def __init__(
        self,
        decoder: Decoder,
        ends: np.ndarray,
        context: int,
        piece: Callable[[int], bytes],
        oftenest: float = OFTENEST,
        seldomest: float = SELDOMEST,
    ) -> None:
        """`ends` [V]: whether a token ends a turn. `piece`: what a token adds to a text, for stop strings.

        `oftenest` and `seldomest` are seconds between two reports.
        """
        self.decoder = decoder
        self.is_asked = False
        """Whether somebody waits for a report."""
        self._oftenest, self._seldomest, self._reported = oftenest, seldomest, -math.inf
        self._ends, self._context, self._piece = ends, context, piece
        self.clear()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def clear(self) -> None:
        """Forget every row."""
        self._rows: list[Row] = []
        self.state = np.empty(0, dtype=STATE)
        self._sampled = np.empty((0, 32), dtype=SAMPLED)
        """[B, at least the tokens of the longest reply]; of row i the first `count[i]` count."""
        self._settings: tuple[Stages, list[mx.array]] | None = None
        """What `draw` needs of the state that stays the same while the rows do."""
        self.decoder.clear()

    def join(self, rows: Sequence[Row], slot: int, version: int, layers: Layers) -> None:
        """Let rows of one player in, their prompts computed."""
        self._rows += rows
        joining = [self._begin(row.request, slot, version) for row in rows]
        self.state = np.concatenate([self.state, np.array(joining, dtype=STATE)])
        empty = np.empty((len(rows), self._sampled.shape[1]), dtype=SAMPLED)
        self._sampled = np.concatenate([self._sampled, empty])
        self._settings = None
        self.decoder.join(layers)

    def draw(self, logits: mx.array) -> np.ndarray:
        """Sample every row's token from logits [B, V] and record it. Returns who is done [B].

        Raises:
            FloatingPointError: if a log-probability isn't finite, so that the weights must be broken.
        """
        state = self.state
        adjusts = bool(state["adjusts"].any())
        if adjusts:
            logits = self._adjusted(logits)
        if self._settings is None:
            settings = [state[name] for name in ("temperature", "top_p", "top_k", "min_p")]
            self._settings = stages(*settings, masked=adjusts), [mx.array(setting) for setting in settings]
        needed, settings = self._settings
        chosen = draw(needed, logits, mx.array(uniforms(state["key"], state["count"])), *settings)
        mx.eval(*chosen)
        tokens, logprobs = (np.array(array) for array in chosen)
        if not np.isfinite(logprobs).all():
            broken = {self._rows[row].request.player for row in np.flatnonzero(~np.isfinite(logprobs))}
            raise FloatingPointError(f"logits of {', '.join(sorted(broken))} aren't finite: its weights diverged")
        self._record(tokens, logprobs)
        return self._done(self._ends[tokens] | self._chosen() | self._stopped())

    def report(self, tick: Tick, now: float) -> None:
        """What streaming rows said since the last time, if asked for or long ago; `now` in seconds."""
        if now < self._reported + (self._oftenest if self.is_asked else self._seldomest):
            return
        streaming = np.flatnonzero(self.state["streams"])
        if not len(streaming):
            return
        self.is_asked, self._reported = False, now
        for index in streaming:
            said = self._sampled[index, self.state["reported"][index] : self.state["count"][index]]
            tick.tokens.append((self._rows[index].finished.id, said["token"].tolist(), said["logprob"].tolist()))
        self.state["reported"] = self.state["count"]

    def over(self, leaving: np.ndarray) -> list[Row]:
        """The rows where `leaving` [B] is true, their records written."""
        rows = []
        for index in np.flatnonzero(leaving):
            row, sampled = self._rows[index], self._sampled[index, : self.state["count"][index]]
            row.finished.tokens = sampled["token"].tolist()
            row.finished.logprobs = sampled["logprob"].tolist()
            row.finished.versions = sampled["version"].tolist()
            rows.append(row)
        return rows

    def leave(self, leaving: np.ndarray) -> None:
        """Drop the rows where `leaving` [B] is true."""
        self._rows = [row for row, leaves in zip(self._rows, leaving, strict=True) if not leaves]
        self.state, self._sampled = self.state[~leaving], self._sampled[~leaving]
        self._settings = None
        self.decoder.leave(np.flatnonzero(~leaving))

    def _begin(self, request: Request, slot: int, version: int) -> tuple:
        sampling = request.sampling
        return (
            *(request.key, sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p),
            *(slot, version, 0, 0, sampling.max_tokens, self._context - len(request.prompt)),
            *(request.adjusts, bool(request.stop), request.stream, 0),
        )

    def _record(self, tokens: np.ndarray, logprobs: np.ndarray) -> None:
        state, width = self.state, self._sampled.shape[1]
        if state["count"].max() >= width:
            self._sampled = np.pad(self._sampled, [(0, 0), (0, width)])
        place = np.arange(len(tokens)), state["count"]
        for name, values in (("token", tokens), ("logprob", logprobs), ("version", state["version"])):
            self._sampled[name][place] = values
        state["last"] = tokens
        state["count"] += 1

    def _adjusted(self, logits: mx.array) -> mx.array:
        """With what rows ask for: penalty, bias, and their choices only."""
        requests = [row.request for row in self._rows]
        allowed = [row.request.choices.allowed(row.node) if row.request.choices else None for row in self._rows]
        return adjusted(
            logits,
            np.array([request.sampling.repetition_penalty for request in requests], np.float32),
            [row.seen for row in self._rows],
            [request.bias for request in requests],
            allowed if any(ids is not None for ids in allowed) else None,
        )

    def _chosen(self) -> np.ndarray:
        """[B]: whose choice is made. Takes note of the token where the next one depends on it."""
        chosen = np.zeros(len(self._rows), dtype=bool)
        for index in np.flatnonzero(self.state["adjusts"]):
            row = self._rows[index]
            token, choices = int(self.state["last"][index]), row.request.choices
            if row.seen:
                row.seen.append(token)
            if choices is not None:
                row.finished.allowed.append(choices.allowed(row.node))
                row.node = choices.child(row.node, token)
                chosen[index] = not choices.allowed(row.node)
        return chosen

    def _stopped(self) -> np.ndarray:
        """[B]: whose stop string is complete."""
        stopped = np.zeros(len(self._rows), dtype=bool)
        for index in np.flatnonzero(self.state["watches"]):
            row = self._rows[index]
            assert row.watch is not None
            stopped[index] = row.watch.completes(self._piece(int(self.state["last"][index])))
        return stopped

    def _done(self, ended: np.ndarray) -> np.ndarray:
        """[B]: who is over, and notes why."""
        state = self.state
        full = state["count"] >= state["max_tokens"]
        done = ended | full | (state["count"] >= state["room"])
        for index in np.flatnonzero(done):
            reason = StopReason.STOP if ended[index] else StopReason.LENGTH if full[index] else StopReason.CONTEXT
            self._rows[index].finished.stop_reason = reason
        return done
