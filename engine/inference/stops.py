"""Texts that end a reply, found in the bytes of its tokens as these come. No MLX here."""

from __future__ import annotations

from collections.abc import Sequence


class StopWatch:
    """Whether a reply has come to one of its stop strings, which may begin and end inside tokens."""

    def __init__(self, stops: Sequence[bytes]) -> None:
        """`stops`: UTF-8, none of them empty."""
        self._stops = stops
        self._reach = max(len(stop) for stop in stops) - 1
        self._tail = b""

    def completes(self, piece: bytes) -> bool:
        """The reply goes on by these bytes: is a stop string complete now?"""
        text = self._tail + piece
        self._tail = text[len(text) - self._reach :] if self._reach < len(text) else text
        return any(stop in text for stop in self._stops)


def before_stop(text: str, stops: Sequence[str]) -> str:
    """The text up to the first stop string in it."""
    found = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(found)] if found else text
