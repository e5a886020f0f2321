"""Disks that are really full, or really read-only, under the app and a run of the embedded model."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static, TextArea

import presets
from engine.events import RunState
from engine.run import Run
from engine.store import StoreError
from engine.types import RunError
from tests.test_run import facts, small
from tests.tui.demo import app as demo_app
from tests.tui.disk import Disk, disk
from tests.tui.look import seen, until
from tui.app import SelfPlayApp
from tui.memory import Memory
from tui.screens.home import HomeScreen
from tui.screens.metrics import MetricsScreen
from tui.screens.prompt import EditPrompt
from tui.screens.run import RunScreen
from tui.screens.texts import AskName

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STEPS = 4
FULL = r"No space left on ?device|disk is full"
SEALED = "Read-only file system"


def config(**changes: Any) -> Any:
    return small(**{"run__steps": STEPS, **changes})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run.create(config(), tmp_path_factory.mktemp("runs"), "undisturbed")
    asyncio.run(run.start())
    assert run.state is RunState.FINISHED, run.reason
    return run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Disk]:
    with disk(tmp_path / "disk") as made:
        yield made


def told(run: Run) -> tuple[Any, ...]:
    """All that the record tells but times: steps, evaluations, episodes, their turns."""
    with sqlite3.connect(f"file:{run.folder / 'run.sqlite'}?mode=ro", uri=True) as db:
        queries = (
            "SELECT step, version, skipped FROM steps ORDER BY step",
            "SELECT step, metrics, is_best FROM evaluations ORDER BY step",
            "SELECT id, step, evaluation, parent, rewards, breakdown, players FROM episodes ORDER BY id",
        )
        return tuple(db.execute(query).fetchall() for query in queries)


async def held_up(pilot: Pilot[Any], run: Run, why: str = FULL) -> None:
    """The run waits, and the screen says so and why."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await until(pilot, lambda: run.state is RunState.PAUSED and bool(run.reason), 60)
    await until(pilot, lambda: "The run waits:" in seen(app) and "Nothing is lost" in seen(app))
    assert re.search(why, " ".join(seen(app).split())), seen(app)


def toasts(app: SelfPlayApp) -> str:
    return "\n".join(f"{notification.message}" for notification in app._notifications)


def asked(app: SelfPlayApp) -> str:
    """The words of a question, unwrapped."""
    return "".join(f"{words.content}" for words in app.screen.query(".words").results(Static))


@pytest.mark.parametrize("size", [300, 500, 700, 900])
async def test_a_run_on_a_disk_that_fills_up_waits_again_and_again_and_loses_nothing(
    undisturbed: Run, tmp_path: Path, size: int
) -> None:
    with disk(tmp_path / "disk", size) as full:
        run = Run.create(config(), full.folder, "held")
        app = demo_app(start=run)  # type: ignore[arg-type]
        reasons: list[str] = []
        async with app.run_test(size=(120, 40)) as pilot:
            while True:
                await until(pilot, lambda: run.state in (RunState.PAUSED, RunState.FINISHED, RunState.FAILED), 60)
                if run.state is not RunState.PAUSED:
                    break
                await held_up(pilot, run)
                reasons.append(run.reason)
                await pilot.press("space")  # nothing has changed: it waits as before
                await held_up(pilot, run)
                full.grow(150)
                await pilot.press("space")
            assert run.state is RunState.FINISHED, run.reason
            await until(pilot, lambda: "finished" in seen(app) and "The run waits" not in seen(app))
        assert reasons
        assert told(run) == told(undisturbed)
        assert facts(run) == facts(undisturbed)
        assert not list(run.folder.rglob("*.tmp-*"))


async def test_a_checkpoint_for_which_there_is_no_room_is_written_when_there_is(
    undisturbed: Run, tmp_path: Path
) -> None:
    run = Run.create(config(), tmp_path, "held")
    with disk(run.folder / "checkpoints") as there:
        there.fill()
        app = demo_app(start=run)  # type: ignore[arg-type]
        async with app.run_test(size=(80, 24)) as pilot:
            await held_up(pilot, run)
            there.clear()
            await pilot.press("space")
            await until(pilot, lambda: run.state is RunState.FINISHED, 60)
        assert facts(run) == facts(undisturbed)


async def test_a_disk_that_becomes_read_only_and_writable_again(undisturbed: Run, tmp_path: Path) -> None:
    run = Run.create(config(), tmp_path, "held")
    with disk(run.folder / "checkpoints") as there:
        there.seal()
        app = demo_app(start=run)  # type: ignore[arg-type]
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await held_up(pilot, run, SEALED)
            await pilot.press("ctrl+s")  # nor can one be kept by hand, and the app says so and lives
            await until(pilot, lambda: SEALED in toasts(app))
            there.seal(False)
            await pilot.press("space")
            await until(pilot, lambda: run.state is RunState.FINISHED, 60)
        assert facts(run) == facts(undisturbed)


async def test_what_one_writes_and_exports_meanwhile_is_not_lost(small_disk: Disk) -> None:
    run = Run.create(config(run__steps=100), small_disk.folder, "held")
    app = demo_app(start=run)  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: run.step == 1, 60)
        small_disk.fill()
        await held_up(pilot, run)
        small_disk.fill()

        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, EditPrompt))
        app.screen.query_one(TextArea).load_text("Play with care.")
        await pilot.pause()
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, EditPrompt) and "disk is full" in toasts(app))
        assert app.screen.query_one(TextArea).text == "Play with care."
        small_disk.clear()
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Play with care." in {role.system_prompt for role in run.roles.values()})
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

        small_disk.fill()
        await pilot.press("g")
        await until(pilot, lambda: isinstance(app.screen, MetricsScreen))
        for key in "vgc":
            await pilot.press(key)
            await until(pilot, lambda: "No space left on device; nothing was written" in toasts(app))
            app.clear_notifications()  # the next one says the same, and equal toasts come once
        assert not list(run.folder.glob("exports/*"))
        small_disk.clear()
        await pilot.press("v")
        await until(pilot, lambda: len(list(run.folder.glob("exports/*.svg"))) == 1)
        assert app.session is not None
        await app.session.stop()


async def test_a_run_that_is_stopped_while_it_waits_says_where_it_goes_on(small_disk: Disk) -> None:
    run = Run.create(config(), small_disk.folder, "held")
    app = demo_app(start=run)  # type: ignore[arg-type]
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: run.step == 1, 60)
        small_disk.fill()
        await held_up(pilot, run)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.return_code is not None, 30)
    small_disk.clear()
    again = Run.open(run.folder)
    assert again.origin == ""
    await again.start()
    assert again.state is RunState.FINISHED, again.reason


@pytest.mark.parametrize("sealed", [False, True])
async def test_a_form_that_cannot_be_saved_stays_as_it_is(
    small_disk: Disk, monkeypatch: pytest.MonkeyPatch, sealed: bool
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{small_disk.folder}")
    small_disk.seal() if sealed else small_disk.fill()
    app = demo_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, HomeScreen) and "nim-pocket" in seen(app))
        await pilot.press("e")
        await until(pilot, lambda: "Editing" in seen(app) or "title" in seen(app))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, AskName))
        app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        reason = SEALED if sealed else "No space left on device"
        await until(pilot, lambda: isinstance(app.screen, AskName) and reason in asked(app))
        small_disk.seal(False) if sealed else small_disk.clear()
        assert "mine" not in presets.available()
        assert not [path for path in small_disk.folder.rglob("*") if path.is_file()]
        assert app.screen.query_one(Input).value == "mine"
        await pilot.press("enter")
        await until(pilot, lambda: "mine" in presets.available())


def test_what_the_app_remembers_stays_whole_where_no_more_can_be_written(small_disk: Disk) -> None:
    file = small_disk.folder / "app.json"
    Memory(file).keep("theme", "paper")
    for hinder, mend in (
        (small_disk.fill, small_disk.clear),
        (small_disk.seal, lambda: small_disk.seal(False)),
    ):
        hinder()
        memory = Memory(file)
        memory.keep("theme", "dusk")
        assert memory.text("theme", "") == "dusk"
        mend()
        assert json.loads(file.read_text()) == {"theme": "paper"}
        assert [path.name for path in small_disk.folder.iterdir()] == ["app.json"]


def test_a_run_is_not_begun_or_resumed_where_nothing_can_be_written_and_it_says_why(small_disk: Disk) -> None:
    run = Run.create(config(run__steps=1), small_disk.folder, "there")
    asyncio.run(run.start())
    for hinder, mend, reason in (
        (small_disk.fill, small_disk.clear, FULL),
        (small_disk.seal, lambda: small_disk.seal(False), f"{SEALED}|readonly"),
    ):
        hinder()
        with pytest.raises(RunError, match=reason):
            Run.create(config(), small_disk.folder, "new")
        mend()
        assert sorted(path.name for path in small_disk.folder.iterdir()) == ["there"]
    small_disk.seal()
    finished = Run.open(run.folder)  # reading it writes nothing
    for going_on in (finished.start(), finished.set("run.steps", "2")):
        with pytest.raises(StoreError, match=SEALED):
            asyncio.run(going_on)
