"""Thousands of hostile strings led past a person: how each screen is given them, page after page.

A parade puts the strings wherever the screen shows what others wrote: names, prompts, replies, errors, edits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

from textual.events import Key
from textual.pilot import Pilot

from engine import config as configuration
from engine.config import Config, TaskConfig
from engine.events import EditApplied, EvaluationFinished, Notice, RunState, StepFinished
from engine.store import Store
from engine.types import Completion, Credit, GenerateResult, Question, Role, Rollout, Turn
from tests.tui.fake import FakeRun
from tests.tui.look import play, until
from tests.tui.openers import OPENERS
from tui.actions import Scope
from tui.app import SelfPlayApp
from tui.interface import PresetInfo, RunInfo
from tui.screens.form import FormScreen
from tui.screens.league import LeagueScreen
from tui.screens.play import PlayScreen
from tui.screens.replay import ReplayScreen
from tui.screens.run import RunScreen
from tui.screens.search import SearchScreen
from tui.text import one_line

T = TypeVar("T")
Parade = Callable[[Pilot[Any], FakeRun, Sequence[str]], Awaitable[None]]

ROLES = ("First", "Second")

FRAME = 0.02
"""Seconds in which what a key changed is drawn."""

TOGETHER = 8
"""Strings said in one turn."""


def portions(all_: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(all_), size):
        yield all_[start : start + size]


def app_of(pilot: Pilot[Any]) -> SelfPlayApp:
    assert isinstance(pilot.app, SelfPlayApp)
    return pilot.app


async def tell(pilot: Pilot[Any], run: FakeRun, *events: Any) -> None:
    for event in events:
        run.emit(event)
    session = app_of(pilot).session
    assert session is not None
    session.drain()
    await pilot.pause()


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """As the pilot does, but waiting only for a frame after each."""
    for key in keys:
        pilot.app.post_message(Key(key, None))
        await pilot.pause(FRAME)


async def turn_pages(pilot: Pilot[Any], lines: int, high: int = 30, key: str = "pagedown") -> None:
    for _ in range(lines // high + 1):
        await press(pilot, key)


# What Home lists


def presets(strings: Sequence[str]) -> list[PresetInfo]:
    """Half of the strings, four a preset."""
    found = [PresetInfo("nim-pocket", model="pocket")]
    for name, *told in portions(strings[: len(strings) // 2], 4):
        title, teaches, model = (*told, "", "", "")[:3]
        found.append(PresetInfo(name, title, teaches, "pocket", "yours", model, model if len(found) % 3 else None))
    return found


def runs(strings: Sequence[str]) -> list[RunInfo]:
    """The other half, five a run."""
    found = []
    for name, *told in portions(strings[len(strings) // 2 :], 5):
        title, metric, when, reason = (*told, "", "", "", "")[:4]
        problem = reason if len(found) % 3 == 2 else None
        found.append(
            RunInfo(name, Path("runs") / f"{len(found)}", "failed", title, 1, 2, metric, 0.5, when, problem, reason)
        )
    return found


async def home(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    await OPENERS["home"](pilot, run)
    for listed in (app_of(pilot).home.preset_list, app_of(pilot).home.run_list):
        listed.focus()
        await pilot.press("home")
        for _ in range(len(strings) // 100):
            await press(pilot, "pagedown", "down")


# Screens over a run at work


async def watched(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Every episode is read."""
    await OPENERS["run"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, RunScreen)
    screen.follow = False
    read: set[str] = set()
    while TOGETHER * 4 * len(read) < len(strings):
        await play(pilot, run, 4)
        for episode in list(screen.store.episodes.values()):
            if episode.id not in read and not episode.live:
                read.add(episode.id)
                screen._focus_on(episode.id)
                screen.transcript.update()
                screen.wall.update()
                await pilot.pause()


async def toasts(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """One of each dozen: a toast takes a tenth of a second to come and go."""
    await OPENERS["app"](pilot, run)
    app = app_of(pilot)
    for some in portions(strings[::12], 9):
        for text in some[::2]:
            app.say(text)
        await tell(pilot, run, *(Notice(text, "warning") for text in some[1::2]))
        await pilot.pause(0.06)
        app.clear_notifications()


async def metrics(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    step = run.status().step
    for number, some in enumerate(portions(strings, 500), 1):
        await tell(pilot, run, StepFinished(step + number, {name: float(number) for name in some}))
    await OPENERS["metrics"](pilot, run)
    await turn_pages(pilot, len(strings) + 100, 33)


async def steer(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    await OPENERS["steer"](pilot, run)
    await pilot.press("2")
    number = 0
    for some in portions(strings, 450):
        for target, *texts in portions(some, 3):
            before, after = (*texts, "", "")[:2]
            number += 1
            run.emit(EditApplied(number, number, f"role {target}", before, after))
        await tell(pilot, run)
        await pilot.press("home")
        await turn_pages(pilot, 3 * len(some) // 3, 12)


async def edit(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    short = [text for text in strings if len(text) < 200]
    names = [*ROLES, *strings[:2]]
    for name, some in zip(names, portions(short, len(short) // 4), strict=False):
        run.roles[name] = Role(name, "\n".join(text.replace("\n", " ") for text in some))
    await OPENERS["edit"](pilot, run)
    for _ in names:
        await turn_pages(pilot, len(short) // 3, 10, "pageup")  # from its end, where the cursor is
        await pilot.press("f2")


async def ask(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    run.questions = [
        Question(id, some[0], some[1], about=tuple(some[11:]), choices=tuple(text[:200] for text in some[2:11]))
        for id, some in enumerate(portions(strings, 250), 1)
    ]
    many = len(run.questions)
    await OPENERS["run"](pilot, run)
    await pilot.press("a")
    await pilot.pause()
    for _ in range(many):
        await turn_pages(pilot, 500, 20)
        await pilot.press("ctrl+n")


async def sit(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    await OPENERS["play"](pilot, run)
    app = app_of(pilot)
    for some in portions(strings, 400):
        run.roles["First"] = Role("First", "\n".join(some))
        run.table.settings = {"free": True, "reply": some[0]}
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, PlayScreen) and bool(run.table.sat))
        await pilot.press("x", "enter")
        await turn_pages(pilot, 600, 25, "pageup")
        await pilot.press("escape")
        await pilot.pause()
        if not isinstance(app.screen, PlayScreen):
            await pilot.press("enter")
        await pilot.pause()


async def why(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Reward functions are called so."""
    await OPENERS["run"](pilot, run)
    app, names = app_of(pilot), iter(portions(strings, 120))
    seen: set[str] = set()
    while True:
        await play(pilot, run, 8)
        assert app.session is not None
        for episode in list(app.session.store.episodes.values()):
            if episode.id in seen or not episode.turns or episode.turns[0].credit is None:
                continue
            some = next(names, None)
            if some is None:
                return
            seen.add(episode.id)
            trace = run.record.trace(episode.id)
            assert trace is not None
            rollout = trace.episode.rollout
            rollout.breakdown = {name: dict(rollout.rewards) for name in some}
            rollout.weights = {name: dict.fromkeys(rollout.rewards, 1.0) for name in some}
            app.screen._focus_on(episode.id)  # type: ignore[attr-defined]
            await press(pilot, "2", "w", "home")
            await turn_pages(pilot, 130, 16)
            await press(pilot, "escape", "1")


async def form(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Every field has one, which most of them refuse with it in their words."""
    await OPENERS["form"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, FormScreen)
    names = [field.name for field in screen.form.fields]
    for group in screen.form.groups:
        screen.form.fold(group, True)
    for some in portions(strings, len(names)):
        for name, text in zip(names, some, strict=False):
            screen.form._fields[name].text = text
        screen.form._check()
        screen.fill()
        await pilot.press("home")
        await turn_pages(pilot, len(names) + 20)
    screen.dismiss()


# Screens over a record


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


def whole(text: str) -> str:
    """What a task names its kinds and players: no halves of characters, which only a model's reply may have."""
    return text.encode("utf-8", "replace").decode()


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
            await press(pilot, "n")
            await pilot.pause(FRAME)
        await pilot.press("escape")


async def replay(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        run.folder = Path(place) / "run"
        episodes = [
            spoken(whole(some[0])[:40], whole(some[-1]), ["\n".join(some[:10]), "\n".join(some[10:])])
            for some in portions(strings, 20)
        ]
        results = list(portions(episodes, 20))
        recorded(run.folder, results, run.config)
        await OPENERS["replay"](pilot, run)
        screen = app_of(pilot).screen
        assert isinstance(screen, ReplayScreen)
        await pilot.press("home", "2")
        for _ in results:
            await pilot.press("right", "2")
            await pilot.pause(0.05)
            await press(pilot, *["down"] * 20)
        await pilot.press("escape")


async def search(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        run.folder = Path(place) / "run"
        episodes = [spoken(whole(some[0])[:40], "x", some) for some in portions(strings, 10)]
        recorded(run.folder, list(portions(episodes, 20)), run.config)
        await OPENERS["search"](pilot, run)
        screen = app_of(pilot).screen
        assert isinstance(screen, SearchScreen)
        for step in range(1, len(episodes) // 20 + 2):
            await pilot.press(
                *(["backspace"] * 12), *f"step:{step}".replace(":", " ").split()[0], "colon", *f"{step}"
            )
            await pilot.pause(0.2)
            await turn_pages(pilot, 200)
        await pilot.press("escape", "escape")


async def compare(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Metrics of two records are called so, and what their configurations differ in."""
    with tempfile.TemporaryDirectory() as place:
        app, listed = app_of(pilot), []
        for number in range(2):
            folder = Path(place) / f"{number}"
            task = TaskConfig(name="nim", options={"openings": number + 1})
            with Store.create(folder) as store:
                changed = {"title": whole(strings[number]), "task": task}
                configuration.save(Config(task=task).model_copy(update=changed), folder / "config.toml")
                for step in (0, 10):
                    store.record_evaluation(EvaluationFinished(step, dict.fromkeys(strings[:300], 0.5)), [])
            listed.append(RunInfo(one_line(strings[number + 2]), folder, "finished", updated=1.0))
        app.sources = replace(app.sources, runs=lambda: listed)
        await OPENERS["home"](pilot, run)
        await pilot.press("r")
        await until(
            pilot,
            lambda: app.home.run_list.option_count > 1 if hasattr(app.home.run_list, "option_count") else True,
        )
        await OPENERS["compare"](pilot, run)
        for _ in range(100):
            await pilot.press("right")
        await turn_pages(pilot, 100)
        await pilot.press("escape")


PARADES: dict[Scope, Parade] = {
    "home": home,
    "form": form,
    "compare": compare,
    "run": watched,
    "metrics": metrics,
    "steer": steer,
    "league": league,
    "edit": edit,
    "ask": ask,
    "play": sit,
    "why": why,
    "replay": replay,
    "search": search,
    "app": toasts,
}


def texts(strings: Sequence[str], many: int) -> Iterator[str]:
    """The strings over and over, so many joined."""
    said = cycle(strings)
    while True:
        yield "\n".join(next(said) for _ in range(many))
