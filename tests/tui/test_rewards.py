"""The reward table of a run that is opened again: what it showed before, from the record."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.events import EpisodeFinished, Event, StepFinished
from engine.progress import step_metrics
from engine.store import Store as Record
from engine.types import Completion, GenerateResult, Rollout, Turn
from tests.tui.look import SIZES, seen, still, until, watching
from tui import readouts
from tui.rewards import Rewards, latest
from tui.series import RECENT
from tui.state import Store
from tui.theme import DUSK

ROLES = ("team/Zoe", "team/Ada")
"""In the order they speak, which isn't that of their names."""


def played(rng: random.Random, name: str, trainable: bool = True) -> GenerateResult:
    rollout = Rollout(name, "talk", turns=[Turn(role, i, [], Completion("x")) for i, role in enumerate(ROLES)])
    rollout.breakdown = {
        "won": {role: rng.choice([-1.0, 1.0]) for role in ROLES},
        "short": {"team/Ada": rng.random()},
    }
    rollout.weights = {"won": dict.fromkeys(ROLES, 1.0), "short": {"team/Ada": 0.25}}
    rollout.rewards = {
        role: sum(
            given[role] * rollout.weights[name][role] for name, given in rollout.breakdown.items() if role in given
        )
        for role in ROLES
    }
    return GenerateResult(rollout, is_trainable=trainable)


def run_on_disk(folder: Path, steps: int = 12, each: int = 60) -> list[Event]:
    """All that was told of a run, which is recorded too."""
    rng, told = random.Random(3), []
    with Record.create(folder) as record:
        for step in range(1, steps + 1):
            results = [played(rng, f"{step}.{n}") for n in range(each)]
            metrics = step_metrics(results, [], 0, 1.0, 1.0) | {"loss": 0.1}
            failed = played(rng, f"{step}.failed")
            failed.rollout.error, failed.rollout.rewards, failed.rollout.breakdown = "KeyError", {}, {}
            record.record_step(step, step, 1.0, metrics, [*results, failed, played(rng, f"{step}.aside", False)])
            told += [*map(EpisodeFinished, [*results, failed]), StepFinished(step, metrics)]
    return told


def table(store: Store) -> list[str]:
    return ["".join(text for text, _ in line) for line in readouts.rewards(store, 80, DUSK)]


def store() -> Store:
    made = Store(lambda _: "", lambda: 0.0)
    for role in ROLES:
        made.sign_of(role)
    return made


def test_a_run_that_is_opened_again_has_the_table_that_it_had(tmp_path: Path) -> None:
    told = run_on_disk(tmp_path / "run")
    watched, opened = store(), store()
    watched.fold(told)
    opened.fold([event for event in told if isinstance(event, StepFinished)])
    opened.rewards.recall(latest(tmp_path / "run", 12))
    assert table(opened) == table(watched)
    assert "×0.25" in "\n".join(table(opened))


def test_what_has_come_since_is_the_latest_and_is_not_read_twice(tmp_path: Path) -> None:
    told = run_on_disk(tmp_path / "run")
    watched, opened = store(), store()
    watched.fold(told)
    at = told.index(next(event for event in told if isinstance(event, StepFinished) and event.step == 9))
    opened.fold([event for event in told[: at + 1] if isinstance(event, StepFinished)])
    opened.fold(told[at + 1 :])  # played on before the record was read
    opened.rewards.recall(latest(tmp_path / "run", 9))
    assert table(opened) == table(watched)


def test_a_step_whose_episodes_were_not_seen_counts_as_many_as_it_had() -> None:
    rewards = Rewards(lambda role: None)
    rewards.close({"reward/A": 1.0, "reward/A/won": 0.5, "episodes": 3.0, "reward_vs_past": 9.0})
    rewards.close({"reward/A": -1.0, "episodes": 1.0})
    assert set(rewards.ledgers) == {("", "A"), ("won", "A")}
    assert rewards.ledgers["", "A"].running() == 0.5


def test_no_more_is_read_than_is_shown(tmp_path: Path) -> None:
    run_on_disk(tmp_path / "run", steps=20)
    assert RECENT <= len(latest(tmp_path / "run", 20)) < RECENT + 60


@pytest.mark.parametrize("size", SIZES)
async def test_it_is_on_the_screen_of_a_run_that_has_not_played_yet(tmp_path: Path, size: tuple[int, int]) -> None:
    told = run_on_disk(tmp_path / "run")
    run = still(history=[event for event in told if isinstance(event, StepFinished)])
    run.folder = tmp_path / "run"
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "last 512" in seen(app) and "×0.25" in seen(app))
        assert "Nothing rewarded" not in seen(app)
