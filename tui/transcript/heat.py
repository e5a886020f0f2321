"""How likely each token was: a reply in pieces, a level for each, and lines that show both.

A level has a mark beside its colour: what was least likely is underlined, and bold beyond that.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

from rich.style import Style

from tui.text import clean, wrap
from tui.theme import Palette, style
from tui.widgets.painted import Line

Decode = Callable[[list[int]], str]

MODES = ("", "probability", "ratio")
"""What heat tells, in the order a key goes through: nothing, p when sampled, ρ when learnt from."""

UNLIKELY = (math.log(0.01), math.log(0.1), math.log(0.5))
"""Log-probabilities below which a token is one level hotter."""

LESS, MORE = (0.8, 0.95), (1.05, 1.25)
"""Ratios from which on a token has become less likely, and more: a little, and much."""

BROKEN = 8
"""Tokens that may have to come together before they are a character; more are bytes that never will be."""

END = "∎"
"""Stands for a last token without a text: the end of the turn."""

Pieces = list[tuple[str, int]]
"""Cleaned text and its level."""


class Spelling:
    """What each token adds to a text, found out bit by bit: decoding a token takes some 20 µs.

    A character that several tokens make is the last one's. Together the pieces are the text.
    """

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._from = self._to = 0

    def go_on(self, tokens: Sequence[int], decode: Decode, most: int, *, is_over: bool = True) -> int:
        """Spells so many more tokens, and what a character needs beyond; returns how many it did.

        Where more tokens are to come, the last ones may wait for them to be a character.
        """
        begun = len(self.pieces)
        half = 0
        while len(self.pieces) + half < len(tokens) and (half or len(self.pieces) < begun + most):
            # with the token before it, for a decoder may drop a space where a text begins
            here = len(self.pieces) + half + 1
            known = decode(list(tokens[self._from : self._to])) if self._to else ""
            text = decode(list(tokens[self._from : here]))
            is_half = text.endswith("\N{REPLACEMENT CHARACTER}") and half + 1 < BROKEN
            if is_half and (here < len(tokens) or not is_over):
                half += 1
                continue
            self.pieces += [*[""] * half, text[len(known) :]]
            half = 0
            if len(text) > len(known):
                self._from, self._to = self._to, here
        return len(self.pieces) - begun


def levels(mode: str, logprobs: Sequence[float], ratios: Sequence[float]) -> list[int]:
    """Of each token: from 0 to 3 by how unlikely it was, or from −2 to 2 by where learning moved it."""
    if mode == "ratio":
        return [bisect_left(MORE, ratio) + bisect_right(LESS, ratio) - len(LESS) for ratio in ratios]
    return [len(UNLIKELY) - bisect_right(UNLIKELY, logprob) for logprob in logprobs]


@lru_cache(64)
def look(mode: str, level: int, colours: Palette) -> Style:
    if mode == "ratio":
        # less and more have marks of their own
        colour = (colours.bad, colours.watch, colours.text, colours.accent, colours.good)[level + 2]
        return style(colour, bold=level == 2) + Style(underline=level == -2 or None)
    colour = (colours.text, colours.accent, colours.watch, colours.bad)[level]
    return style(colour, bold=level == 3) + Style(underline=level >= 2 or None)


def legend(mode: str, colours: Palette, lacking: str = "") -> Line:
    """What the levels mean, each told as it looks; or why there is nothing to see."""
    soft = style(colours.soft)
    words = (
        (("< 0.8", -2), ("< 0.95", -1), ("≈ 1", 0), ("> 1.05", 1), ("> 1.25", 2))
        if mode == "ratio"
        else (("≥ 50%", 0), ("≥ 10%", 1), ("≥ 1%", 2), ("< 1%", 3))
    )
    title = " ρ learnt: " if mode == "ratio" else " p sampled: "
    if lacking:
        return ((title, soft), (lacking, style(colours.watch)))
    told: list[tuple[str, Style | None]] = [(title, soft)]
    for word, level in words:
        told += [(word, look(mode, level, colours)), ("  ", None)]
    return tuple(told[:-1])


def joined(spelt: Sequence[str], found: Sequence[int], stopped: bool) -> Pieces:
    """Pieces with their levels; `stopped` where the last token ended the turn."""
    pieces = [(clean(text), level) for text, level in zip(spelt, found, strict=False)]
    if stopped and pieces and not pieces[-1][0]:
        pieces[-1] = (END, pieces[-1][1])
    return pieces


def lines(pieces: Pieces, mode: str, cells: int, colours: Palette) -> list[Line]:
    """The reply wrapped, as `wrap` does it, each character in the look of its token."""
    whole = "".join(text for text, _ in pieces)
    text = clean(whole)
    # cleaned together it may be another text, such as one of too many accents, each in a token of its own
    runs = _runs(pieces) if len(text) == len(whole) else _aligned(text, pieces)
    shown: list[Line] = []
    at = here = 0
    for line in wrap(text, cells):
        at = text.index(line, at)
        end, parts = at + len(line), []
        while at < end:
            while runs[here][0] <= at:
                here += 1
            stop = min(runs[here][0], end)
            parts.append((text[at:stop], look(mode, runs[here][1], colours)))
            at = stop
        shown.append(tuple(parts))
    return shown


def _runs(pieces: Pieces) -> list[tuple[int, int]]:
    """Where each stretch of one level ends, and the level."""
    found: list[tuple[int, int]] = []
    end = 0
    for text, level in pieces:
        end += len(text)
        if found and found[-1][1] == level:
            found[-1] = (end, level)
        elif text:
            found.append((end, level))
    return found


def _aligned(text: str, pieces: Pieces) -> list[tuple[int, int]]:
    """The same of a text in which some of the pieces' characters are left out."""
    given = ((c, level) for piece, level in pieces for c in piece)
    matched: Pieces = []
    level = 0
    for character in text:
        for other, level in given:  # noqa: B007 (the level is wanted after the loop)
            if other == character:
                break
        matched.append((character, level))
    return _runs(matched)
