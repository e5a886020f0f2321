"""Tasks played without a model of their own: by a function that speaks for every role, or by `pocket`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import BASE, Arena, EpisodeRequest, GenerateResult, Message, Task
from engine.config import load, override
from engine.events import RunState
from engine.inference.scripted import ScriptedClient
from engine.run import Run
from engine.store import Store
from engine.task import load_task

Speak = Callable[[str, list[Message]], str]
"""(role, or "base" for the oracle; messages) → reply."""


def arena_of(task: Task | str, speak: Speak, *, seed: int = 0, **options: Any) -> Arena:
    """A task with a scripted voice for each role. A role's player is named like it, so nothing trains."""
    task = load_task(task, options) if isinstance(task, str) else task
    arena = Arena(ScriptedClient(lambda messages, player, rng: speak(player, messages)), seed=seed)
    task.setup(arena)
    for role in list(arena.roles.values()):
        assert role.id != BASE
        arena.add_role(replace(role, player=role.id))
    return arena


async def play(
    task: Task | str, speak: Speak, requests: Sequence[EpisodeRequest] | int = 1, *, seed: int = 0, **options: Any
) -> list[GenerateResult]:
    """Play a task's own next episodes, or those given. Fails if one of them did."""
    task = load_task(task, options) if isinstance(task, str) else task
    arena = arena_of(task, speak, seed=seed)
    asked = task.requests(arena, requests) if isinstance(requests, int) else requests
    results = await arena.generate_rollouts(asked)
    for result in results:
        for node in result.walk():
            assert node.rollout.error is None, node.rollout.error
    return results


async def three_steps(
    preset: Path | str, folder: Path, *assignments: str, steps: int = 3
) -> list[dict[str, float]]:
    """A preset run for three steps with the embedded model in its model's place; the metrics of every step.

    Few and short episodes: `assignments` are `--set` texts that come last. Fails unless the run finished and no
    episode failed. Nonsense is what `pocket` says of most tasks: this shows that a run goes through.
    """
    from presets import find

    small = [
        "model.source=pocket", "model.context=4096", "model.rows=32", f"run.steps={steps}",
        "run.episodes_per_step=4", "eval.every=0", "eval.episodes=4", "lora.rank=4",
        "train.microbatch_tokens=4096", *assignments,
    ]  # fmt: skip
    run = Run.create(override(load(find(str(preset))), small), folder)
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    assert run.totals.failed == 0
    assert run.config.eval.metric in run.evaluations.latest
    with Store.open(run.folder, read_only=True) as store:
        return [step.metrics for step in store.steps()]


def last(messages: list[Message]) -> str:
    """What was said last to who is asked."""
    return messages[-1]["content"]


def rng_of(messages: list[Message]) -> random.Random:
    """Chance that depends on nothing but what was asked."""
    return random.Random(repr(messages))


# Two texts, A and B, and who judges them


def texts(prompt):
    return [re.search(rf"^Text {letter}:\n((?:> .*\n)+)", prompt, re.MULTILINE)[1] for letter in "AB"]


def judge(prompt):
    """Prefers who says more often that something is good."""
    a, b = (text.count("good") for text in texts(prompt))
    return f"Verdict: {'A' if a > b else 'B' if b > a else 'tie'}"


def writers(*replies, judge=judge):
    """The candidates say these in turn."""
    left = list(replies)
    return lambda player, messages: judge(last(messages)) if player == BASE else left.pop(0)
