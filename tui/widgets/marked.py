"""A transcript in which what was searched for stands out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.style import Style

from tui.widgets.painted import Line
from tui.widgets.transcript import Transcript

FOUND = Style(reverse=True)
"""Told without a colour, and unlike heat."""


class Marked(Transcript):
    """Words are marked wherever they are said, but for those that two lines share."""

    _pattern: re.Pattern[str] | None = None

    def mark(self, pattern: re.Pattern[str] | None) -> None:
        """From the next episode that is read."""
        self._pattern = pattern

    def show(self, lines: Sequence[Line]) -> None:
        pattern = self._pattern
        super().show([marked(line, pattern) for line in lines] if pattern is not None else lines)


def marked(line: Line, pattern: re.Pattern[str]) -> Line:
    """The line with all that the pattern finds in `FOUND`."""
    pieces: list[tuple[str, Style | None]] = []
    for text, look in line:
        at = 0
        for found in pattern.finditer(text):
            pieces += [(text[at : found.start()], look), (found[0], look + FOUND if look else FOUND)]
            at = found.end()
        pieces.append((text[at:], look))
    return tuple(piece for piece in pieces if piece[0])
