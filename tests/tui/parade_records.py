"""Hostile strings led past a person: over records of runs."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from engine import config as configuration
from engine.config import Config, TaskConfig
from engine.events import EvaluationFinished, RunState
from engine.store import Store
from engine.types import Completion, Credit, GenerateResult, Rollout, Turn
from tests.tui.fake import FakeRun
from tests.tui.look import until
from tests.tui.openers import OPENERS
from tests.tui.paging import ROLES, app_of, drawn, portions, press, through, whole
from tui.interface import RunInfo
from tui.screens.compare import CompareScreen
from tui.screens.league import LeagueScreen
from tui.screens.replay import ReplayScreen
from tui.screens.search import SearchScreen
from tui.text import one_line

TITLES = 100
"""Metrics that are gone through where they are compared: one a screen."""


def recorded(folder: Path, results: Sequence[Sequence[GenerateResult]], config: Config) -> None:
    with Store.create(folder) as store:
        configuration.save(config, folder / "config.toml")
        for step, some in enumerate(results, 1):
            store.record_step(step, step, 0.1, {"reward/First": 0.1, "loss": 0.2}, list(some))
        store.record_state(RunState.FINISHED)


def spoken(name: str, kind: str, texts: Sequence[str]) -> GenerateResult:
    """An episode of two roles, that say these in turn."""
    rollout = Rollout(
        name, kind, rewards={"First": 1.0, "Second": -1.0}, players={"First": "policy", "Second": "x"}
    )
    for index, text in enumerate(texts):
        role = ROLES[index % 2]
        turn = Turn(role, index, [{"role": "user", "content": "Go on."}], Completion(text, tokens=[1]))
        turn.credit = Credit(0.5, 1.0, 0.5, group="x")
        rollout.turns.append(turn)
    return GenerateResult(rollout)


async def league(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Kinds, players and games are called so: 40 strings a kind."""
    with tempfile.TemporaryDirectory() as place:
        run.folder, step = Path(place) / "run", 0
        with Store.create(run.folder) as store:
            for kind, first, second, *games in portions([whole(text) for text in strings], 40):
                players = {"First": first, "Second": second}
                rollouts = [
                    Rollout(name, kind, rewards={"First": 1.0, "Second": 0.0}, players=players) for name in games
                ]
                for step in (0, 1):
                    some = [GenerateResult(rollout) for rollout in rollouts[step::2]]
                    done = store.last_step()
                    store.record_step((done.step if done else 0) + 1, 0, 0.1, {}, some)
        await OPENERS["league"](pilot, run)
        screen = app_of(pilot).screen
        assert isinstance(screen, LeagueScreen)
        await until(pilot, lambda: len(screen.kinds) >= len(strings) // 40, 20)
        await pilot.press("3")
        for _ in screen.kinds:
            before = screen.league
            await press(pilot, "n")
            await until(pilot, lambda before=before: screen.league is not before, 20)
            await drawn(pilot)
            await through(pilot, screen.list)
        await pilot.press("escape")


async def replay(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Episodes and their types are called so, and their turns say all of it."""
    with tempfile.TemporaryDirectory() as place:
        run.folder = Path(place) / "run"
        episodes = [
            spoken(whole(some[0])[:40], whole(some[-1]), ["\n".join(some[:40]), "\n".join(some[40:])])
            for some in portions(strings, 80)
        ]
        recorded(run.folder, list(portions(episodes, 25)), run.config)
        await OPENERS["replay"](pilot, run)
        screen = app_of(pilot).screen
        assert isinstance(screen, ReplayScreen)
        await until(pilot, lambda: screen.facts is not None)
        for step, some in enumerate(portions(episodes, 25), 1):
            for episode in some:
                name = episode.rollout.id
                screen.go_to(step, name)
                await until(pilot, lambda name=name: screen.transcript.rollout_id == name)
                await through(pilot, screen.transcript)
            await through(pilot, screen.page)
        await through(pilot, screen.feed)
        await pilot.press("escape")


async def search(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Each a turn that is found."""
    with tempfile.TemporaryDirectory() as place:
        run.folder = Path(place) / "run"
        episodes = [spoken(whole(some[0])[:40], "x", some) for some in portions(strings, 10)]
        recorded(run.folder, list(portions(episodes, 50)), run.config)
        await OPENERS["search"](pilot, run)
        screen = app_of(pilot).screen
        assert isinstance(screen, SearchScreen)
        await until(pilot, lambda: not screen._left, 60)
        for step in range(1, (len(episodes) + 49) // 50 + 1):
            screen.box.value = f"step:{step}"
            await until(pilot, lambda: screen.searched.text == screen.box.value)
            await through(pilot, screen.hits)
        await pilot.press("escape", "escape")


async def compare(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """All are options in which two runs differ, or their values; some are metrics that both have."""
    with tempfile.TemporaryDirectory() as place:
        app, listed = app_of(pilot), []
        for number in range(2):
            folder = Path(place) / f"{number}"
            options = {
                name: (*values, "x", "y")[number]
                for name, *values in portions([whole(text) for text in strings], 3)
            }
            task = TaskConfig(name="nim", options=options)
            with Store.create(folder) as store:
                configuration.save(Config(title=whole(strings[number]), task=task), folder / "config.toml")
                for step in (0, 10):
                    store.record_evaluation(EvaluationFinished(step, dict.fromkeys(strings[:TITLES], 0.5)), [])
            listed.append(RunInfo(one_line(strings[number + 2]), folder, "finished", updated=1.0))
        await OPENERS["home"](pilot, run)
        app.home.sources = replace(app.home.sources, runs=lambda: listed)
        await pilot.press("r")
        await until(pilot, lambda: app.home.runs == listed)
        await OPENERS["compare"](pilot, run)
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        await until(pilot, lambda: bool(screen.metrics), 60)
        await drawn(pilot)
        await through(pilot, screen.table)
        screen.runs = [replace(run, config=None) for run in screen.runs]  # titles alone take less time
        for _ in screen.metrics:
            await press(pilot, "right")
        await pilot.press("escape")
