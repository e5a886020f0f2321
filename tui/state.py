"""What the screens show, folded from a run's events: plain Python, bounded, no terminal.

The store holds every episode in play and the last few hundred that ended. Tokens are kept while their turn is
spoken and turned into text only when somebody looks.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence

from engine.events import (
    CheckpointSaved,
    CreditAssigned,
    EditApplied,
    EpisodeFinished,
    EpisodeStarted,
    EvaluationFinished,
    Event,
    Notice,
    RunState,
    StateChanged,
    StepFinished,
    TokensSampled,
    TurnFinished,
    TurnStarted,
)
from engine.types import GenerateResult, Rollout
from tui.rewards import Rewards
from tui.series import Ledger, Series
from tui.views import EpisodeView, Mark, Verdict, judged

KEPT = 600
"""Episodes kept after they ended."""

SPOKEN = (TurnStarted, TokensSampled, TurnFinished)

LIVE = 4096
"""Episodes in play followed at most; more than a run can have."""


class Store:
    """Folds events. `decode` turns tokens into text, `clock` gives seconds; `metric` names what counts most."""

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        clock: Callable[[], float] = time.monotonic,
        metric: str = "",
        goal: str = "max",
    ) -> None:
        self.decode = decode
        self.clock = clock
        self.metric = metric
        self.goal = goal
        self.run_state = RunState.LOADING
        self.reason = ""
        self.episodes: dict[str, EpisodeView] = {}
        self.roles: list[str] = []
        """In the order they were first seen: a role's place gives its sign and colour."""
        self.step = 0
        self.metrics: dict[str, float] = {}
        """Of the latest step."""
        self.skipped: deque[tuple[int, str]] = deque(maxlen=50)
        self.series: dict[str, Series] = {}
        self.rewards = Rewards(self.sign_of)
        self.unparsed = Ledger()
        """1 for each judgement without a verdict, 0 for each other."""
        self.behind: int | None = None
        """Versions between the learner and the oldest turn of the latest step; None while that isn't known."""
        self.illegal = Ledger()
        """1 for each illegal turn, 0 for each other."""
        self.evaluations: deque[EvaluationFinished] = deque(maxlen=2000)
        self.first_evaluation: EvaluationFinished | None = None
        self.best: float = math.nan
        self.marks: deque[Mark] = deque(maxlen=200)
        self.edits: deque[EditApplied] = deque(maxlen=200)
        self.checkpoint: CheckpointSaved | None = None
        self.notices: deque[Notice] = deque(maxlen=100)
        """Not yet shown; who shows them takes them out."""
        self.errors: deque[tuple[str, str]] = deque(maxlen=20)
        """(episode, what was raised)."""
        self.facts = 0
        """Grows with every step, evaluation, edit, checkpoint and change of state."""
        self.finished = 0
        """Episodes that ended while this looked on."""
        self.opened_at = 0
        """The step from which on it looked on."""

    def fold(self, events: Sequence[Event]) -> None:
        finished = [event.result for event in events if isinstance(event, EpisodeFinished)]
        ended = {node.rollout.id for result in finished for node in result.walk() if node.rollout.error is None}
        for event in events:
            # What was said in an episode that is over by now comes with its end.
            if not (isinstance(event, SPOKEN) and event.rollout_id in ended):
                self._fold(event)
        self._forget()

    def live(self) -> list[EpisodeView]:
        """Episodes in play, oldest first."""
        return [episode for episode in self.episodes.values() if episode.live]

    def lose_sight(self) -> None:
        """Live events were left out: whatever seems in play may have ended. Those that go on come back."""
        for episode in self.live():
            del self.episodes[episode.id]

    @property
    def verdict(self) -> Verdict | None:
        """First, latest and best of the metric that counts; None before the first evaluation."""
        first = self.first_evaluation
        if first is None or not self.evaluations:
            return None
        latest = self.evaluations[-1]
        name = self.metric if self.metric in latest.metrics else next(iter(latest.metrics), "")
        if not name:
            return None
        value = latest.metrics[name]
        return Verdict(
            name, first.metrics.get(name, math.nan), value, self.best, latest.step, len(self.evaluations)
        )

    def sign_of(self, role: str) -> int:
        """The role's place, taken now if it is new."""
        if role not in self.roles:
            self.roles.append(role)
        return self.roles.index(role)

    def _fold(self, event: Event) -> None:
        match event:
            case TokensSampled():
                episode = self._episode(event.rollout_id)
                turn = episode.turn(event.turn)
                turn.tokens += event.tokens
                turn.logprobs += event.logprobs
                turn.revision += 1
                episode.revision += 1
            case TurnStarted():
                episode = self._episode(event.rollout_id)
                episode.roles.setdefault(event.role, event.player)
                self.sign_of(event.role)
                turn = episode.turn(event.turn, event.role)
                turn.role, turn.player, turn.messages = event.role, event.player, event.messages
                turn.revision += 1
                episode.revision += 1
            case TurnFinished():
                episode = self._episode(event.rollout_id)
                turn = episode.turn(event.turn, event.role)
                turn.role, turn.text, turn.version = event.role, event.text, event.version
                turn.stop_reason = event.stop_reason
                if event.tokens:
                    turn.tokens, turn.logprobs = list(event.tokens), list(event.logprobs)
                turn.revision += 1
                episode.revision += 1
            case EpisodeStarted():
                self._start(event)
            case EpisodeFinished():
                for result in event.result.walk():
                    self._finish(result)
            case CreditAssigned():
                for result in event.results:
                    for node in result.walk():
                        self._credit(node.rollout, event.step)
            case StepFinished():
                self._step(event)
            case EvaluationFinished():
                self._evaluation(event)
            case EditApplied():
                self.facts += 1
                self.edits.append(event)
                self.marks.append(Mark(event.step, "edit", f"edit {event.number}"))
            case CheckpointSaved():
                self.facts += 1
                self.checkpoint = event
                self._mark_checkpoint(event)
            case StateChanged():
                self.facts += 1
                self.run_state, self.reason = event.state, event.reason
            case Notice():
                self.notices.append(event)

    def _episode(self, rollout_id: str) -> EpisodeView:
        """The episode of that id; one whose beginning was missed is made from what is known."""
        episode = self.episodes.get(rollout_id)
        if episode is None:
            episode = EpisodeView(rollout_id, is_trainable=not rollout_id.startswith("eval"), begun=self.clock())
            self.episodes[rollout_id] = episode
        return episode

    def _start(self, event: EpisodeStarted) -> None:
        for role in event.roles:
            self.sign_of(role)
        # a resumed run may play an id again
        self.episodes.pop(event.rollout_id, None)
        self.episodes[event.rollout_id] = EpisodeView(
            event.rollout_id,
            event.episode_type,
            event.parent,
            event.is_trainable,
            dict(event.roles),
            edits=dict(event.edits),
            begun=self.clock(),
        )

    def _finish(self, result: GenerateResult) -> None:
        rollout = result.rollout
        episode = self._episode(rollout.id)
        if not episode.live:
            return
        episode.is_trainable = result.is_trainable
        episode.ended = self.clock()
        episode.take(rollout)
        episode.rollout = rollout
        self.finished += 1
        if rollout.error is not None:
            self.errors.append((rollout.id, rollout.error))
        if result.is_trainable and rollout.error is None:
            self._tally(rollout)
        # the order of ending is the order of forgetting
        self.episodes[rollout.id] = self.episodes.pop(rollout.id)

    def _tally(self, rollout: Rollout) -> None:
        self.rewards.add(rollout)
        for verdict in judged(rollout):
            self.unparsed.now.add(float(verdict is None))
        for turn in rollout.turns:
            self.illegal.now.add(float(turn.illegal))

    def _credit(self, rollout: Rollout, step: int) -> None:
        episode = self.episodes.get(rollout.id)
        if episode is None:
            return
        episode.step, episode.rollout = step, rollout
        for turn in rollout.turns:
            shown = episode.turn(turn.index, turn.role)
            if turn.credit is not None and shown.credit is not turn.credit:
                shown.credit = turn.credit
                shown.revision += 1
        episode.revision += 1

    def _step(self, event: StepFinished) -> None:
        self.facts += 1
        self.step = event.step
        self.metrics = dict(event.metrics)
        if event.skipped:
            self.skipped.append((event.step, event.skipped))
        for name, value in event.metrics.items():
            self._point(name, event.step, value)
        for name, mean in self.rewards.close(event.metrics).items():
            self._point(name, event.step, mean)
        self.illegal.close()
        self.unparsed.close()
        self.behind = None
        self._settle(lambda episode: episode.step == event.step)

    def _settle(self, is_recorded: Callable[[EpisodeView], bool]) -> None:
        """What became of these turns is known, and all that was sampled is in the record."""
        for episode in self.episodes.values():
            if episode.rollout is None or not is_recorded(episode):
                continue
            for turn in episode.rollout.turns:
                if turn.learnt is not None:
                    self.behind = max(self.behind or 0, turn.learnt.age)
                    shown = episode.turn(turn.index, turn.role)
                    shown.learnt = turn.learnt
                    shown.revision += 1
            episode.rollout = None
            episode.revision += 1

    def _evaluation(self, event: EvaluationFinished) -> None:
        self.facts += 1
        self.evaluations.append(event)
        self.first_evaluation = self.first_evaluation or event
        self._settle(lambda episode: episode.is_evaluation)
        for name, value in event.metrics.items():
            self._point(f"eval/{name}", event.step, value)
        verdict = self.verdict
        if verdict is not None:
            better = max if self.goal == "max" else min
            self.best = verdict.latest if math.isnan(self.best) else better(self.best, verdict.latest)

    def _mark_checkpoint(self, event: CheckpointSaved) -> None:
        """Those asked for are marked, and the best one; the automatic ones of every step would be noise."""
        if event.reason == "best":
            self.marks = deque((mark for mark in self.marks if mark.kind != "best"), self.marks.maxlen)
        if event.reason in ("manual", "best"):
            self.marks.append(Mark(event.step, "best" if event.reason == "best" else "checkpoint", ""))

    def _point(self, name: str, step: int, value: float) -> None:
        self.series.setdefault(name, Series()).add(step, value)

    def _forget(self) -> None:
        ended = [episode.id for episode in self.episodes.values() if not episode.live]
        for rollout_id in ended[: max(len(ended) - KEPT, 0)]:
            del self.episodes[rollout_id]
        if len(self.episodes) > LIVE:
            for rollout_id in list(self.episodes)[: len(self.episodes) - LIVE]:
                del self.episodes[rollout_id]
