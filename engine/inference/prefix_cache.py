"""What is known of prompts' beginnings: whose keys and values lie where, and what may be forgotten. No MLX here.

A beginning is known for one player at one version. It lies in a row in flight, or in a snapshot: the rows that
left in one tick, copied out of the batch together. Memory is that of the snapshots, and the one not used for
longest goes first.

Texts are found by chained hashes of blocks of tokens, and believed only after a comparison token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BLOCK = 16
"""Tokens a hash covers: a beginning of fewer isn't found."""
WORTH = 64
"""A prompt of fewer tokens is cheaper to compute again than to look for."""

Chain = list[int]


@dataclass(eq=False, slots=True)
class Snapshot:
    """Rows copied out of the batch."""

    arrays: Any
    bytes: int
    entries: set[Entry] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Entry:
    """Tokens whose keys and values lie in a row, as its first ones."""

    player: str
    version: int
    tokens: np.ndarray
    chain: Chain
    begun: Entry | None = None
    """What the prompt was found to continue."""
    snapshot: Snapshot | None = None
    """None while the row is in flight."""
    row: int = -1
    """Its place in the snapshot."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The first `length` tokens of a prompt are those of an entry."""

    entry: Entry
    length: int


@dataclass(slots=True)
class Stats:
    """Prompt tokens since the beginning, and what is kept now."""

    asked: int = 0
    """Of the prompts admitted."""
    computed: int = 0
    """In forward passes, padding included."""
    hits: int = 0
    """Prompts of which a beginning was taken from elsewhere."""
    kept_bytes: int = 0
    """In snapshots."""


class PrefixCache:
    """Entries by what they begin with. `limit` is in bytes of snapshots; with 0 only rows in flight are found."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._blocks: dict[tuple[str, int], dict[int, dict[Entry, None]]] = {}
        """By player and version: the hash of a beginning of whole blocks → who begins so, the latest last."""
        self._snapshots: dict[Snapshot, None] = {}
        """Those not used for longest first."""

    def __len__(self) -> int:
        """Entries that can be found."""
        return len({entry for blocks in self._blocks.values() for found in blocks.values() for entry in found})

    def find(self, player: str, version: int, prompt: Sequence[int]) -> Hit | None:
        """The longest beginning known of a prompt, its last token left out."""
        blocks = self._blocks.get((player, version))
        if not blocks or len(prompt) < WORTH:
            return None
        deepest: dict[Entry, None] | None = None
        link = 0
        for start in range(0, len(prompt) - BLOCK + 1, BLOCK):
            link = hash((link, *prompt[start : start + BLOCK]))
            found = blocks.get(link)
            if found is None:
                break
            deepest = found
        if deepest is None:
            return None
        entry = next(reversed(deepest))
        length = min(_alike(entry.tokens, np.asarray(prompt, np.int32)), len(prompt) - 1)
        return Hit(entry, length) if length >= BLOCK else None

    def use(self, hit: Hit) -> None:
        """Its snapshot is the last to go from now on."""
        snapshot = hit.entry.snapshot
        if snapshot is not None:
            del self._snapshots[snapshot]
            self._snapshots[snapshot] = None

    def begin(self, player: str, version: int, prompt: Sequence[int], hit: Hit | None = None) -> Entry | None:
        """A prompt has been computed in a row in flight; None where that isn't worth an entry."""
        if len(prompt) < WORTH:
            return None
        entry = Entry(player, version, np.array(prompt, np.int32), chained(prompt), hit.entry if hit else None)
        self._insert(entry)
        return entry

    def extend(self, entry: Entry, text: Sequence[int]) -> bool:
        """The row of an entry holds this much by now. False where that is known from another one: drops it then."""
        self._remove(entry)
        entry.tokens, entry.chain = np.array(text, np.int32), chained(text, entry.chain)
        if entry.chain[-1] in self._blocks.get((entry.player, entry.version), {}):
            return False
        self._insert(entry)
        return True

    def keep(self, entries: Sequence[Entry], arrays: Any, size: int) -> None:
        """Rows in flight left and were copied: entry i is row i of `arrays`, which take `size` bytes together."""
        snapshot = Snapshot(arrays, size, set(entries))
        self._snapshots[snapshot] = None
        self.bytes += size
        for row, entry in enumerate(entries):
            entry.snapshot, entry.row = snapshot, row
            begun, entry.begun = entry.begun, None
            if begun is not None and _alike(begun.tokens, entry.tokens) == len(begun.tokens):
                self._forget(begun)  # whatever continues it continues this one as well
        while self.bytes > self.limit:
            self._evict(next(iter(self._snapshots)))

    def drop(self, entry: Entry) -> None:
        """A row in flight leaves without being copied."""
        self._remove(entry)

    def drop_player(self, player: str) -> None:
        """All that was computed with a player's weights."""
        for key in [key for key in self._blocks if key[0] == player]:
            for entry in {entry: None for found in self._blocks[key].values() for entry in found}:
                self._forget(entry)

    def clear(self) -> None:
        """Forget everything."""
        for snapshot in list(self._snapshots):
            self._evict(snapshot)
        self._blocks.clear()

    def _forget(self, entry: Entry) -> None:
        """An entry can't be found any more; a snapshot without entries is gone."""
        self._remove(entry)
        snapshot = entry.snapshot
        if snapshot is not None and entry in snapshot.entries:
            snapshot.entries.discard(entry)
            if not snapshot.entries:
                self._evict(snapshot)

    def _insert(self, entry: Entry) -> None:
        blocks = self._blocks.setdefault((entry.player, entry.version), {})
        for link in entry.chain:
            blocks.setdefault(link, {})[entry] = None

    def _remove(self, entry: Entry) -> None:
        key = entry.player, entry.version
        blocks = self._blocks.get(key, {})
        for link in entry.chain:
            found = blocks.get(link, {})
            found.pop(entry, None)
            if not found:
                blocks.pop(link, None)
        if not blocks:
            self._blocks.pop(key, None)

    def _evict(self, snapshot: Snapshot) -> None:
        del self._snapshots[snapshot]
        self.bytes -= snapshot.bytes
        snapshot.arrays = None  # memory must not wait for the collector of cycles
        entries, snapshot.entries = snapshot.entries, set()
        for entry in entries:
            self._remove(entry)


def chained(tokens: Sequence[int], known: Sequence[int] = ()) -> Chain:
    """A hash for each beginning of whole blocks; `known` are the first ones."""
    chain = list(known)
    link = chain[-1] if chain else 0
    for start in range(len(chain) * BLOCK, len(tokens) - BLOCK + 1, BLOCK):
        link = hash((link, *tokens[start : start + BLOCK]))
        chain.append(link)
    return chain


def _alike(first: np.ndarray, second: np.ndarray) -> int:
    """How many first tokens are the same."""
    size = min(len(first), len(second))
    different = np.flatnonzero(first[:size] != second[:size])
    return int(different[0]) if len(different) else size
