"""The steps of a run whose model is loaded: what is played is credited, learnt from, and kept in the record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from engine import past
from engine.course import Course
from engine.credit import keep_learnt
from engine.evaluation import measure
from engine.events import CreditAssigned, EvaluationFinished, Event
from engine.guards import FailureGuard
from engine.pace import Pace
from engine.patience import insist
from engine.progress import step_metrics, why_skipped
from engine.rollouts import RolloutSource, split_stale
from engine.rows import Prepared
from engine.store import Store
from engine.training.trainer import LocalTrainer
from engine.types import GenerateResult, TrainingRecord

SLICE = 0.003
"""Seconds for which the event loop is held at most while a step's rows are made; all of them may take 30 ms."""


@dataclass(slots=True)
class Step:
    """A step under way, from what was played for it on."""

    taken: list[GenerateResult]
    began: float
    played: float
    """When playing began and ended, by `Pace.seconds`, which stand still in a pause."""
    lessons: list[GenerateResult] = field(default_factory=list)
    """What a person played, and the policy is to learn from."""
    credited: list[TrainingRecord] = field(default_factory=list)
    """Every turn with an advantage."""
    metrics: dict[str, float] = field(default_factory=dict)
    skipped: str = ""
    """Why nothing was learnt; empty where something was."""
    learnt: float = 0.0
    """When learning ended."""

    @property
    def results(self) -> list[GenerateResult]:
        return [*self.taken, *self.lessons]


async def prepared(results: Iterable[GenerateResult], step: int, *, evaluation: bool) -> Prepared:
    """What the record is to hold of them, made a few milliseconds at a time: keys and frames come in between."""
    made, began = Prepared(step, evaluation), time.perf_counter()
    for result in results:
        made.add(result)
        if time.perf_counter() - began > SLICE:
            await asyncio.sleep(0)
            began = time.perf_counter()
    return made


class Stepper:
    """Takes a run's steps, each by `play`, `credit`, `learn_and_publish` and `record`; evaluates between them."""

    def __init__(
        self,
        course: Course,
        trainer: LocalTrainer,
        pace: Pace,
        store: Store,
        tell: Callable[[Event], None],
        waiting: Iterable[list[GenerateResult]],
    ) -> None:
        """`waiting` are rollouts that were played before, and not learnt from."""
        self.trainer = trainer
        self.is_torn = False
        """Whether weights and record are those of no finished step, and so can't be kept."""
        self.rates = (0.0, 0.0)
        """Tokens a second while playing and while learning, in the last step."""
        self._course, self._pace, self._store, self._tell = course, pace, store, tell
        self._failures = FailureGuard()
        ahead = course.config.run.max_staleness
        self.source = RolloutSource(course.arena, self._play, ahead=ahead, waiting=waiting)

    async def play(self, guests: Callable[[], Collection[str]]) -> Step:
        """The next batch of episodes: played now, or ahead of the learner. Of earlier selves `guests` stay."""
        course = self._course

        async def keep_up() -> None:
            await course.past.keep_up(self.trainer, course.step, course.config.past, guests)

        await insist(keep_up, self._pace)
        began = self._pace.seconds
        taken = await self.source.take()
        return Step(taken, began, self._pace.seconds)

    def credit(self, step: Step, lessons: list[GenerateResult]) -> None:
        """Rewards become advantages, turn by turn; from here on the step has to be recorded."""
        self.is_torn = True
        step.lessons = lessons
        step.credited = self._course.arena.records(step.results)
        self._tell(CreditAssigned(self._course.step + 1, step.results))

    async def learn_and_publish(self, step: Step) -> None:
        """One optimiser step on what isn't stale; then the new policy is published."""
        course, version = self._course, self.trainer.learner.version
        records, stale = split_stale(step.credited, version, course.config.run.max_staleness, step.lessons)
        metrics = await self.trainer.train(records)
        keep_learnt(step.results, step.credited, version)
        step.learnt = self._pace.seconds
        metrics |= past.metrics(step.results)
        metrics |= step_metrics(step.results, records, stale, step.played - step.began, step.learnt - step.played)
        course.step += 1
        course.totals.add_step(metrics)
        self.rates = (metrics["generation_rate"], metrics["training_rate"])
        step.metrics, step.skipped = metrics, why_skipped(step.results, metrics)

    async def record(self, step: Step) -> None:
        """The step is in the record, whole, before anybody is told of it."""
        version, seconds = self.trainer.learner.version, step.learnt - step.began
        taken = await prepared(step.taken, self._course.step, evaluation=False)
        row = (self._course.step, version, seconds, step.metrics, taken, step.skipped, step.lessons)
        await self._written(self._store.record_step, *row)
        self.source.done()
        self.is_torn = False

    async def evaluate(self) -> bool:
        """Measure the policy, and the average of its weights; returns whether it is the best so far."""
        course = self._course
        await self._pace.going()
        metrics, played = await measure(course.mixture, course.arena, self.trainer, course.config, course.step)
        self._failures.add(played)
        is_best = course.evaluations.add(course.step, metrics)
        course.totals.add_evaluation(played)
        measured = EvaluationFinished(course.step, metrics, is_best)
        rows = await prepared(played, course.step, evaluation=True)
        await self._written(self._store.record_evaluation, measured, rows)
        self._tell(measured)
        return is_best

    async def _written(self, record: Callable[..., None], *row: Any) -> None:
        async def write() -> None:
            record(*row)

        await insist(write, self._pace)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint keeps beside weights and rollouts."""
        return self._course.state(self.source.position, self._pace.seconds)

    async def _play(self) -> list[GenerateResult]:
        arena, config = self._course.arena, self._course.config
        requests = self._course.mixture.requests(arena, config.run.episodes_per_step)
        results = await arena.generate_rollouts(self._course.past.seated(requests, arena, config))
        self._failures.add(results)
        return results
