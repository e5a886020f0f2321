"""The heat of one episode's replies: spelt token by token, a little in each frame, only for turns in sight."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from engine.types import Turn
from tui.text import LIMIT
from tui.theme import Palette
from tui.transcript.heat import BROKEN, Decode, Spelling, joined, levels, lines
from tui.views import EpisodeView, TurnView
from tui.widgets.painted import Line

A_FRAME = 100
"""Tokens spelt in a frame, so that it takes some 5 ms."""


class Sampled(NamedTuple):
    """The tokens of a turn and what is known of each."""

    tokens: Sequence[int]
    logprobs: Sequence[float]
    ratios: Sequence[float]


class Heated:
    """What a transcript needs to show heat. Tokens are those in memory, or else those it is given by `take`."""

    def __init__(self, decode: Decode) -> None:
        self.mode = ""
        self.revision = 0
        """Grows whenever a turn looks different."""
        self._decode = decode
        self._spelt: dict[int, Spelling] = {}
        self._sampled: dict[int, Sampled] = {}
        self._recorded: dict[int, Sampled] = {}

    def clear(self) -> None:
        """Another episode is read."""
        self._spelt.clear()
        self._sampled.clear()
        self._recorded.clear()

    def take(self, turns: Sequence[Turn]) -> None:
        """The record's turns."""
        self._recorded = {turn.index: _of(turn) for turn in turns}

    def lacks(self, episode: EpisodeView) -> bool:
        """Whether what was sampled has to be looked up in the record."""
        return not episode.live and episode.rollout is None and not self._recorded

    def go_on(self, episode: EpisodeView, in_sight: Collection[int]) -> None:
        """Spells some more of what is in sight."""
        in_memory = {} if episode.rollout is None else {turn.index: turn for turn in episode.rollout.turns}
        left = A_FRAME
        for turn in episode.turns:
            if turn.index not in in_sight:
                continue
            if turn.index in in_memory:
                sampled = _of(in_memory[turn.index])
            else:
                own = Sampled(turn.tokens, turn.logprobs, ())
                sampled = self._recorded.get(turn.index, own)
            spelling = self._spelt.setdefault(turn.index, Spelling())
            done = spelling.go_on(sampled.tokens, self._decode, left, is_over=turn.text is not None)
            left -= done
            if done or len(sampled.ratios) != len(self._sampled.get(turn.index, sampled).ratios):
                self.revision += 1
            self._sampled[turn.index] = sampled

    def key(self, turn: TurnView) -> tuple[object, ...]:
        """Changes with the heat of the turn."""
        sampled = self._sampled.get(turn.index)
        spelt = len(self._spelt[turn.index].pieces) if turn.index in self._spelt else 0
        return (self.mode, spelt, len(sampled.ratios) if sampled else 0) if self.mode else ()

    def lacking(self, turn: TurnView | None) -> str:
        """Why a turn has no heat, where it hasn't."""
        sampled = None if turn is None else self._sampled.get(turn.index)
        if turn is None or sampled is None or not sampled.tokens:
            return ""
        if turn.text and not any(self._spelt[turn.index].pieces):
            return "its tokenizer isn't loaded"
        return "not known: it wasn't learnt from, or not yet" if self.mode == "ratio" and not sampled.ratios else ""

    def reply(self, turn: TurnView, cells: int, colours: Palette) -> list[Line] | None:
        """The turn's text in its heat; None where that isn't known, or is still being found out."""
        sampled, spelling = self._sampled.get(turn.index), self._spelt.get(turn.index)
        if not self.mode or sampled is None or spelling is None or not sampled.tokens:
            return None
        found = levels(self.mode, sampled.logprobs, sampled.ratios)
        behind = BROKEN if turn.text is None else 1
        if len(found) != len(sampled.tokens) or len(sampled.tokens) - len(spelling.pieces) >= behind:
            return None
        pieces = joined(spelling.pieces, found, turn.stop_reason == "stop")
        told = sum(len(text) for text, _ in pieces)
        if told > LIMIT or (turn.text and not any(spelling.pieces)):  # too much, or nobody is there to decode it
            return None
        shown = lines(pieces, self.mode, cells, colours)
        if turn.text is None:
            shown[-1] = (*shown[-1], ("▍", None))
        return shown


def _of(turn: Turn) -> Sampled:
    return Sampled(turn.completion.tokens, turn.completion.logprobs, turn.ratios)
