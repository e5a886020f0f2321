"""What a run tells those who watch it.

Plain values, safe to keep. Facts (`StepFinished`, `EditApplied`, `CheckpointSaved`, `EvaluationFinished`)
are in the run's store before they are announced; episode events are live, and stored with their step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from engine.types import GenerateResult, Message, Question


class RunState(StrEnum):
    LOADING = "loading"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    """Ended by hand before its steps were done; can be resumed."""
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(slots=True)
class StateChanged:
    state: RunState
    reason: str = ""


@dataclass(slots=True)
class EpisodeStarted:
    rollout_id: str
    episode_type: str
    parent: str | None
    is_trainable: bool
    roles: dict[str, str]
    """Role → player."""
    edits: dict[str, int] = field(default_factory=dict)
    """As in `Rollout`."""


@dataclass(slots=True)
class TurnStarted:
    rollout_id: str
    turn: int
    role: str
    player: str
    messages: list[Message]


@dataclass(slots=True)
class TokensSampled:
    """New tokens of one turn since the last such event. Decode with `Run.decode`."""

    rollout_id: str
    turn: int
    tokens: list[int]
    logprobs: list[float]


@dataclass(slots=True)
class TurnFinished:
    rollout_id: str
    turn: int
    role: str
    text: str
    version: int
    stop_reason: str
    tokens: list[int] = field(default_factory=list)
    """All of them: of a short turn no `TokensSampled` may have told. So of `logprobs`. The engine's own lists."""
    logprobs: list[float] = field(default_factory=list)


@dataclass(slots=True)
class EpisodeFinished:
    result: GenerateResult


@dataclass(slots=True)
class HumanAsked:
    """A question is before the person who watches; `Run.answer` takes what they say."""

    question: Question


@dataclass(slots=True)
class HumanAnswered:
    """A question is over."""

    question: Question
    answer: str | None
    """None where it was skipped, its time was over, or the episode went away."""


@dataclass(slots=True)
class CreditAssigned:
    """The advantages of a step's rollouts are known: `Turn.credit` is filled in."""

    step: int
    results: list[GenerateResult]


@dataclass(slots=True)
class StepFinished:
    """One optimiser step (or a step skipped, with the reason in `skipped`).

    In the results that `CreditAssigned` told of, `Turn.learnt` is now filled in.
    """

    step: int
    metrics: dict[str, float]
    skipped: str = ""


@dataclass(slots=True)
class EvaluationFinished:
    step: int
    metrics: dict[str, float]
    is_best: bool = False


@dataclass(slots=True)
class EditApplied:
    """A prompt or hyperparameter was changed by hand; in force from the next episode or step."""

    number: int
    step: int
    target: str
    """`"role First"` or a configuration key such as `"train.learning_rate"`."""
    before: str
    after: str


@dataclass(slots=True)
class CheckpointSaved:
    step: int
    path: str
    reason: str
    """`"auto"`, `"manual"`, `"best"`, `"final"`, or `"good"`: the last from which something finite was learnt."""


@dataclass(slots=True)
class Notice:
    """Something a person should know, in a sentence."""

    text: str
    severity: str = "information"
    """`"information"`, `"warning"` or `"error"`."""


Event = (
    StateChanged
    | EpisodeStarted
    | TurnStarted
    | TokensSampled
    | TurnFinished
    | EpisodeFinished
    | HumanAsked
    | HumanAnswered
    | CreditAssigned
    | StepFinished
    | EvaluationFinished
    | EditApplied
    | CheckpointSaved
    | Notice
)

LIVE_EVENTS = (
    EpisodeStarted,
    TurnStarted,
    TokensSampled,
    TurnFinished,
    EpisodeFinished,
    HumanAsked,
    HumanAnswered,
    CreditAssigned,
)


@dataclass
class EventStream:
    """One watcher's view: what happened since it last looked.

    Tokens of a turn coalesce into one event. A watcher that never looks costs at most `limit` live
    events: older ones are dropped and counted, facts never are.
    """

    live: bool = True
    """Whether live events are wanted; without them only facts, notices and changes of state arrive."""
    limit: int = 20_000
    dropped: int = 0
    on_drain: Callable[[], None] | None = None
    """Called when somebody took events: what is told no oftener than it is looked at can be told anew."""
    _events: deque[Event] = field(default_factory=deque)
    _tokens: dict[tuple[str, int], TokensSampled] = field(default_factory=dict)

    def put(self, event: Event) -> None:
        if not self.live and isinstance(event, LIVE_EVENTS):
            return
        if isinstance(event, TokensSampled):
            pending = self._tokens.get((event.rollout_id, event.turn))
            if pending is not None:
                pending.tokens += event.tokens
                pending.logprobs += event.logprobs
                return
            event = TokensSampled(event.rollout_id, event.turn, list(event.tokens), list(event.logprobs))
            self._tokens[event.rollout_id, event.turn] = event
        self._events.append(event)
        if len(self._events) > self.limit:
            self._drop_live()

    def drain(self) -> list[Event]:
        events = list(self._events)
        self._events.clear()
        self._tokens.clear()
        if events and self.on_drain is not None:
            self.on_drain()
        return events

    def _drop_live(self) -> None:
        kept: deque[Event] = deque(event for event in self._events if not isinstance(event, LIVE_EVENTS))
        self.dropped += len(self._events) - len(kept)
        self._events = kept
        self._tokens.clear()
