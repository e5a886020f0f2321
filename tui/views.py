"""What a screen knows of a turn, an episode, a mark on a plot, and how strength went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.types import Credit, Learnt, Message, Rollout, Turn

if TYPE_CHECKING:
    from engine.rows import StoredEpisode

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
    """While it is spoken, and so are `logprobs`; then they are in the record."""
    logprobs: list[float] = field(default_factory=list)
    text: str | None = None
    version: int | None = None
    since: int | None = None
    """The policy version of its first token, where that is known."""
    stop_reason: str = ""
    illegal: bool = False
    credit: Credit | None = None
    learnt: Learnt | None = None
    revision: int = 0
    _decoded: tuple[int, int, str] = (0, 0, "")

    @classmethod
    def of(cls, turn: Turn, revision: int) -> TurnView:
        """A turn that is over. What it was sampled from is in the record."""
        said = turn.completion
        since, version = (said.versions[0], said.versions[-1]) if said.versions else (None, None)
        told = said.player, turn.messages, [], [], said.text, version, since, said.stop_reason
        return cls(turn.index, turn.role, *told, turn.illegal, turn.credit, turn.learnt, revision)

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
    weights: dict[str, dict[str, float]] = field(default_factory=dict)
    edits: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    begun: float = 0.0
    ended: float | None = None
    step: int | None = None
    """The one that learns from it, once credit was given."""
    rollout: Rollout | None = None
    """The engine's own, from its end until it is in the record: until then it is in memory anyway."""
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
        turns = self.turns
        if index < len(turns) and turns[index].index == index:  # nearly always
            return turns[index]
        for turn in reversed(turns):
            if turn.index == index:
                return turn
        turn = TurnView(index, role)
        self.turns.append(turn)
        return turn

    def take(self, rollout: Rollout) -> None:
        """What is known of it at its end. Of one that failed, turns that were cut off stay as far as they came."""
        self.type = rollout.episode_type
        self.rewards, self.breakdown, self.weights = rollout.rewards, rollout.breakdown, rollout.weights
        self.edits, self.error = rollout.edits, rollout.error
        self.roles = self.roles | rollout.players
        seen = {turn.index: turn.revision for turn in self.turns}
        before, self.turns = self.turns, [TurnView.of(turn, seen.get(turn.index, 0) + 1) for turn in rollout.turns]
        if rollout.error is not None:
            over = {turn.index for turn in rollout.turns}
            self.turns += [turn for turn in before if turn.index not in over]
            self.turns.sort(key=lambda turn: turn.index)
        self.revision += 1


def recorded(stored: StoredEpisode) -> EpisodeView:
    """An episode of the record, its turns with it."""
    episode = EpisodeView(stored.rollout.id, parent=stored.parent, is_trainable=stored.trainable, ended=0.0)
    episode.take(stored.rollout)
    episode.step = None if stored.evaluation else stored.step
    return episode


def judged(rollout: Rollout) -> list[object]:
    """What judges said of an episode, as `engine.rewards.judge.Judgement.keep_in` keeps it; None for no verdict."""
    kept = rollout.extras.get("judge")
    found = kept if isinstance(kept, list) else []
    return [one["value"] for one in found if isinstance(one, dict) and "value" in one]


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
