"""What a screen knows of a turn, an episode, a mark on a plot, and how strength went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.types import Credit, Message

TAIL = 64
"""Tokens decoded for a row that shows only the end of a turn."""


@dataclass(slots=True)
class TurnView:
    """One turn as it is shown: streaming while `text` is None."""

    index: int
    role: str
    player: str = ""
    messages: list[Message] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    text: str | None = None
    version: int | None = None
    stop_reason: str = ""
    illegal: bool = False
    credit: Credit | None = None
    revision: int = 0
    _decoded: tuple[int, int, str] = (0, 0, "")

    def shown(self, decode: Callable[[list[int]], str], last: int = 0) -> str:
        """The text so far, or that of the last `last` tokens; as the model wrote it, not cleaned."""
        if self.text is not None:
            return self.text
        if self._decoded[:2] != (len(self.tokens), last):
            tokens = self.tokens[-last:] if last else self.tokens
            # a character may be cut in two at either end
            self._decoded = (len(self.tokens), last, decode(tokens).strip("\ufffd"))
        return self._decoded[2]


@dataclass(slots=True)
class EpisodeView:
    """One episode as it is shown."""

    id: str
    type: str = ""
    parent: str | None = None
    is_trainable: bool = True
    roles: dict[str, str] = field(default_factory=dict)
    """Role → player."""
    turns: list[TurnView] = field(default_factory=list)
    rewards: dict[str, float] = field(default_factory=dict)
    breakdown: dict[str, dict[str, float]] = field(default_factory=dict)
    edits: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    begun: float = 0.0
    ended: float | None = None
    revision: int = 0
    """Grows with every change."""

    @property
    def live(self) -> bool:
        return self.ended is None

    @property
    def is_evaluation(self) -> bool:
        return self.id.startswith("eval")

    @property
    def depth(self) -> int:
        """How many episodes it was spawned under."""
        return self.id.partition("/")[2].count(".") if "/" in self.id else self.id.count(".")

    def turn(self, index: int, role: str = "") -> TurnView:
        """The turn of that index, made if it is new."""
        for turn in reversed(self.turns):
            if turn.index == index:
                return turn
        turn = TurnView(index, role)
        self.turns.append(turn)
        return turn


@dataclass(frozen=True, slots=True)
class Mark:
    """Something done at a step that the plots point at."""

    step: int
    kind: str
    """`"edit"`, `"checkpoint"` or `"best"`."""
    label: str


@dataclass(slots=True)
class Verdict:
    """How strength, by the one metric that counts, went from the first evaluation to the latest."""

    metric: str
    first: float
    latest: float
    best: float
    step: int
    """Of the latest."""
    count: int
