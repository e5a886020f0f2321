"""A run's folder, read for the screen: the whole of it in figures, a step in outlines, an episode in full."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.config import Config, ConfigError, load
from engine.events import CheckpointSaved, EditApplied, EpisodeFinished, EvaluationFinished, Notice, StateChanged
from engine.reading.drift import drifts, mean_rewards
from engine.reading.highlights import Highlight, Highlights
from engine.reading.outlines import Outline
from engine.store import StepRecord, Store, StoreError, in_use
from engine.summaries import CONFIG
from engine.types import REWARD_EDIT, GenerateResult
from tui.state import Store as State
from tui.views import EpisodeView, TurnView


@dataclass(frozen=True, slots=True)
class Facts:
    """All of a run but its episodes, as of one moment."""

    title: str
    model: str
    """Where its model comes from, as `model.source`."""
    state: State
    """Its events folded, for plots and signs."""
    steps: list[int]
    """Every step there is something of, rising; 0 where it was evaluated before it learnt."""
    records: dict[int, StepRecord]
    evaluations: dict[int, EvaluationFinished]
    edits: list[EditApplied]
    checkpoints: list[CheckpointSaved]
    notices: list[tuple[int, Notice]]
    ended: StateChanged | None
    live: bool
    """Whether some process is writing to it."""
    marks: dict[int, str] = field(repr=False)
    """As `engine.store.Store.step_marks` gives them."""

    @property
    def last(self) -> int:
        return self.steps[-1] if self.steps else 0

    def nearest(self, step: float) -> int:
        """The step of the run that is closest to `step`."""
        return min(self.steps, key=lambda known: abs(known - step), default=0)

    def moved(self, step: int, by: int) -> int:
        """So many steps on, or back, ending at either end."""
        if not self.steps:
            return 0
        here = bisect_left(self.steps, step)
        return self.steps[max(0, min(len(self.steps) - 1, here + by))]

    def stops(self) -> list[int]:
        """Steps where more happened than learning: evaluations, edits, checkpoints by hand, the best one."""
        told = {*self.evaluations, *(edit.step for edit in self.edits)}
        told |= {saved.step for saved in self.checkpoints if saved.reason in ("manual", "best")}
        return sorted(step for step in told if step in set(self.steps))

    def next_stop(self, step: int, forward: bool) -> int:
        """The stop after `step`, or before it; the run's end or beginning where there is none."""
        stops = self.stops()
        at = bisect_right(stops, step) if forward else bisect_left(stops, step) - 1
        if 0 <= at < len(stops):
            return stops[at]
        return self.moved(step, len(self.steps) if forward else -len(self.steps))

    def evaluated(self, step: int) -> EvaluationFinished | None:
        """The last evaluation up to a step."""
        known = [at for at in self.evaluations if at <= step]
        return self.evaluations[max(known)] if known else None


class Record:
    """Belongs to the thread that made it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._store = Store.open(folder, read_only=True)
        self._highlights = Highlights()
        self._looked_at: dict[int, str] = {}
        self._known: Facts | None = None

    def close(self) -> None:
        self._store.close()

    def facts(self) -> Facts:
        """Raises `StoreError`."""
        store = self._store
        config = _config(self.folder)
        state = State(_undecoded, _no_time, config.eval.metric, config.eval.goal)
        marks = store.step_marks()
        for role in [*self._roles(marks), *config.roles]:  # first of all, so that their signs are those of the run
            state.sign_of(role)
        state.fold(store.history())
        state.notices.clear()
        records = {record.step: record for record in store.steps()}
        evaluations = {event.step: event for event in store.evaluations()}
        return Facts(
            config.title or config.played or self.folder.name,
            config.model.source,
            state,
            sorted({*records, *evaluations}),
            records,
            evaluations,
            store.edits(),
            store.checkpoints(),
            store.notices(),
            store.state(),
            in_use(self.folder),
            marks,
        )

    def _roles(self, steps: Iterable[int]) -> list[str]:
        """All roles, whether or not they came to speak: every episode names the prompt edits they were under."""
        for step in steps:
            found = [role for stored in self._store.episodes(step=step) for role in stored.rollout.edits]
            return [role for role in dict.fromkeys(found) if not role.startswith(REWARD_EDIT)]
        return []

    def grown(self, facts: Facts) -> bool:
        """Whether there is more, or something else, than `facts` tell."""
        last = self._store.last_step()
        step = last.step if last is not None else 0
        here = (step, len(self._store.evaluations()), len(self._store.edits()), in_use(self.folder))
        return here != (max(facts.records, default=0), len(facts.evaluations), len(facts.edits), facts.live)

    def page(self, step: int) -> list[Outline]:
        """The episodes of a step, those that were learnt from first."""
        return sorted(self._store.outlines(step), key=lambda outline: outline.episode.evaluation)

    def episode(self, outline: Outline) -> GenerateResult:
        """An episode with all its turns as they were recorded."""
        turns = self._store.turns(outline.id)
        whole = replace(outline.episode.rollout, turns=turns)
        return GenerateResult(whole, is_trainable=outline.episode.trainable)

    def look_through(self, facts: Facts, seconds: float) -> tuple[list[Highlight], int]:
        """What is interesting in the run, and how many steps are not looked at yet; the latest come first.

        Looks for about so long, and goes on where it was.
        """
        marks, until = facts.marks, time.monotonic() + seconds
        if any(step not in marks for step in self._looked_at):
            self._highlights.forget_after(max(marks, default=0))
            self._looked_at = {step: mark for step, mark in self._looked_at.items() if step in marks}
        if facts is not self._known:
            self._known = facts
            rewards = mean_rewards(facts.records.values())
            self._highlights.drift(drifts(rewards, _measured(facts), facts.state.goal))
        left = [step for step in sorted(marks) if self._looked_at.get(step) != marks[step]]
        while left:
            step = left.pop()
            self._looked_at[step] = marks[step]  # also where it can't be read: the next look is at the next step
            self._highlights.add(step, self._store.outlines(step))
            if time.monotonic() >= until:
                break
        return self._highlights.top(), len(left)


def view(outline: Outline) -> EpisodeView:
    """An episode as a row of a list shows it."""
    rollout = outline.episode.rollout
    turns = [
        TurnView(
            turn.index, turn.role, turn.player, text=turn.text, stop_reason=turn.stop_reason, illegal=turn.illegal
        )
        for turn in outline.turns
    ]
    return EpisodeView(
        rollout.id,
        rollout.episode_type,
        outline.episode.parent,
        outline.episode.trainable,
        dict(rollout.players),
        turns,
        rewards=rollout.rewards,
        breakdown=rollout.breakdown,
        edits=rollout.edits,
        error=rollout.error,
        ended=0.0,
    )


def read_into(state: State, result: GenerateResult, parent: str | None) -> EpisodeView:
    """The one episode that `state` then holds, as the app shows one that has just ended."""
    state.episodes.clear()
    state.fold([EpisodeFinished(result)])
    shown = state.episodes[result.rollout.id]
    shown.parent = parent
    return shown


def _config(folder: Path) -> Config:
    try:
        return load(folder / CONFIG)
    except ConfigError as error:
        raise StoreError(str(error)) from error


def _measured(facts: Facts) -> list[tuple[int, float]]:
    verdict = facts.state.verdict
    if verdict is None:
        return []
    told = [(step, event.metrics.get(verdict.metric, math.nan)) for step, event in facts.evaluations.items()]
    return [(step, value) for step, value in told if math.isfinite(value)]


def _undecoded(tokens: list[int]) -> str:
    """A record has every text: nothing is left to decode."""
    return ""


def _no_time() -> float:
    return 0.0
