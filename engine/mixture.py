"""Several tasks in one run, and tasks that are only measured.

SPIRAL (arXiv 2506.24119) trained one policy on several games at once, and what it learnt transferred better than
from any one of them. Each task keeps to a scope of the arena (`Arena.within`) and needn't know of the others;
credit, baselines, metrics and evaluations stay apart by their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.arena import Arena
from engine.config import Config
from engine.task import Task, TaskError, load_task
from engine.types import EpisodeRequest


@dataclass(frozen=True, slots=True)
class Part:
    """One task of several."""

    task: Task
    weight: float
    """Its share of the episodes, beside those of the others; 0 is a held-out set."""
    every: int = 0
    """It is part of evaluations after multiples of so many steps, of the first and of the last; 0: of all."""


@dataclass(frozen=True, slots=True)
class Span:
    """Weights that hold since so many episodes were begun, until others do."""

    since: int
    counts: list[int]
    """Each task's episodes begun before."""
    weights: list[float]

    def begun(self, played: int) -> list[int]:
        """Each task's episodes among the first `played`."""
        more = shares(self.weights, played - self.since)
        return [count + share for count, share in zip(self.counts, more, strict=True)]


class Mixture(Task):
    """Tasks, by what all their names begin with in the run.

    Those of a task without a name stay as they are: a run of one task is a mixture too.
    """

    def __init__(self, parts: dict[str, Part]) -> None:
        self.parts = parts
        self._spans = [Span(0, [0] * len(parts), [part.weight for part in parts.values()])]

    def setup(self, arena: Arena) -> None:
        for name, part in self.parts.items():
            part.task.setup(arena.within(name))

    def prepare(self) -> None:
        for part in self.parts.values():
            part.task.prepare()

    def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
        """Each task's next episodes, in the order it gives them: those that are compared stay together."""
        span = next(span for span in reversed(self._spans) if span.since <= arena.played)
        before, after = span.begun(arena.played), span.begun(arena.played + n)
        return [
            replace(request, task=name)
            for (name, part), begun, wanted in zip(self.parts.items(), before, after, strict=True)
            if wanted > begun
            for request in part.task.requests(arena.within(name, played=begun), wanted - begun)
        ]

    async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
        metrics: dict[str, float] = {}
        for name, part in self.parts.items():
            prefix, where = (f"{name}/", f"{label}:{name}") if name else ("", label)
            measured = await part.task.evaluate(arena.within(name), n, where)
            metrics |= {prefix + metric: value for metric, value in measured.items()}
        return metrics

    def reweigh(self, weights: Mapping[str, float], played: int) -> None:
        """Other weights for what is begun after `played` episodes; each task goes on where it was."""
        wanted = [weights.get(name, part.weight) for name, part in self.parts.items()]
        if wanted != self._spans[-1].weights:
            begun = next(span for span in reversed(self._spans) if span.since <= played).begun(played)
            self._spans = [*(span for span in self._spans if span.since < played), Span(played, begun, wanted)]

    def state(self) -> list[list[Any]]:
        """What a checkpoint keeps: which weights held since when."""
        return [[span.since, span.counts, span.weights] for span in self._spans]

    def load_state(self, state: list[list[Any]]) -> None:
        """Raises `ValueError` where there are other tasks now."""
        if any(len(counts) != len(self.parts) for _, counts, _ in state):
            raise ValueError(f"it was of {len(state[0][1])} tasks, and there are {len(self.parts)}")
        self._spans = [Span(*span) for span in state]

    def at(self, step: int, steps: int) -> Mixture:
        """Those that are measured after that step of so many."""
        due = {name: p for name, p in self.parts.items() if not p.every or step % p.every == 0 or step >= steps}
        return Mixture(due)


def shares(weights: Sequence[float], n: int) -> list[int]:
    """How many of `n` episodes are each task's, by weight: exactly where that comes out even.

    Webster's method, as for seats in a parliament: with a larger `n` no share is smaller. So what a step adds
    depends on nothing but how many were played before, and a resumed run goes on as it would have.
    """
    total = sum(weights)
    counts = [max(0, int(n * weight / total) - len(weights)) for weight in weights]
    for _ in range(n - sum(counts)):
        most = max(range(len(weights)), key=lambda i: weights[i] / (2 * counts[i] + 1))
        counts[most] += 1
    return counts


def task_of(config: Config) -> Mixture:
    """What a configuration has played, be it one task alone. Raises `TaskError`."""
    parts: dict[str, Part] = {}
    for name, part in config.parts.items():
        try:
            parts[name] = Part(load_task(part.name, part.options), part.weight, part.every)
        except TaskError as error:
            raise TaskError(f"[tasks.{name}]: {error}" if name else f"{error}") from error
    return Mixture(parts)
