"""What was computed before and can be gone on from: in rows in flight, or copied out of the batch as they left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
import numpy as np

from engine.inference.prefilling import Source
from engine.inference.prefix_cache import Entry, Hit, PrefixCache, Stats
from engine.inference.requests import Request
from engine.inference.rows import Row, Rows


class Recall:
    """Beginnings of prompts for the weights there are now, and where their keys and values lie."""

    def __init__(self, rows: Rows, limit: int) -> None:
        """`limit`: bytes for what left the batch."""
        self._rows = rows
        self._prefixes = PrefixCache(limit)
        self._serials: dict[str, int] = {}
        self._stats = Stats()

    @property
    def stats(self) -> Stats:
        """What was asked, what had to be computed for it, and what is kept."""
        self._stats.kept_bytes = self._prefixes.bytes
        return self._stats

    def clear(self, serials: Mapping[str, int]) -> None:
        """Forget everything; `serials` are the weights of each player now."""
        self._prefixes.clear()
        self._serials = dict(serials)

    def forget(self) -> None:
        """Forget what isn't in flight, and don't find what is."""
        self._prefixes.clear()
        for row in self._rows:
            row.entry = None

    def renew(self, serials: Mapping[str, int]) -> set[str]:
        """These are the weights now: what others computed isn't found. Returns whose were replaced, or are gone."""
        replaced = {player for player, serial in self._serials.items() if serials.get(player) != serial}
        self._serials = dict(serials)
        for player in replaced:
            self._prefixes.drop_player(player)
        for row in self._rows:
            if row.request.player in replaced:
                row.entry = None
        return replaced

    def find(self, request: Request) -> Hit | None:
        """The longest beginning known of a request's prompt."""
        return self._prefixes.find(request.player, self._serials[request.player], request.prompt)

    def sources(self, hits: Mapping[int, Hit]) -> dict[int, Source]:
        """Where the beginnings found lie now, by request. Those are the last to be forgotten from now on."""
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

    def begin(self, request: Request, hit: Hit | None) -> Entry | None:
        """A request's prompt has been computed in a row in flight; None where that isn't worth an entry."""
        return self._prefixes.begin(request.player, self._serials[request.player], request.prompt, hit)

    def keep(self, rows: Sequence[Row], leaving: np.ndarray) -> None:
        """Copy what rows that leave, where `leaving` [B] is true, hold to where it can be continued."""
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
