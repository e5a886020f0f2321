"""Replies limited to a list: a trie of token sequences, and which tokens may come next."""

from __future__ import annotations

from collections.abc import Sequence


class Choices:
    """A trie over the token sequences allowed, each with its end of turn. Nodes are numbers; 0 is the root."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self._next: list[dict[int, int]] = [{}]
        for sequence in sequences:
            node = 0
            for token in sequence:
                if token not in self._next[node]:
                    self._next[node][token] = len(self._next)
                    self._next.append({})
                node = self._next[node][token]

    def allowed(self, node: int) -> list[int]:
        """The tokens that may follow, ascending."""
        return sorted(self._next[node])

    def child(self, node: int, token: int) -> int:
        return self._next[node][token]
