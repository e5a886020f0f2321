"""Hostile strings led past a person: over Home, its form, and a run at work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import OptionList, TextArea
from textual.widgets._toast import Toast, ToastHolder

from engine.events import EditApplied, Notice, StepFinished
from engine.reading.tracing import Member, Trace
from engine.rows import StoredEpisode
from engine.steering.edits import Setting
from engine.types import Completion, Credit, Fate, Learnt, Question, Role, Rollout, Turn
from tests.tui.fake import FakeRun
from tests.tui.look import play, until
from tests.tui.openers import OPENERS
from tests.tui.paging import ROLES, app_of, drawn, packed, portions, press, tell, through
from tui.interface import PresetInfo, RunInfo
from tui.screens.form import FormScreen
from tui.screens.metrics import MetricsScreen
from tui.screens.play import PlayScreen
from tui.screens.prompt import LONGEST, EditPrompt
from tui.screens.questions import Questions
from tui.screens.run import RunScreen
from tui.screens.steer import SteerScreen
from tui.screens.why import WhyScreen
from tui.text import LIMIT
from tui.widgets.painted import Painted

TOGETHER = 40
"""Strings said in one turn."""

LEARNT = Learnt(Fate.LEARNT, 0, 1.0, 1.0, 0, 0.1)

LINGERED = 60
"""Lines of Home's lists of which all there is to say is shown, one at a time."""


def sayings(strings: Sequence[str]) -> list[str]:
    """What is said in turns: all of the strings, so many in each."""
    return ["\n".join(some) for some in portions(strings, TOGETHER)]


# What Home lists


def presets(strings: Sequence[str]) -> list[PresetInfo]:
    """Half of the strings, two a preset: the model above it, and its name or what stands behind a short one."""
    found = [PresetInfo("nim-pocket", model="pocket", memory=strings[0])]
    for number, (text, *model) in enumerate(portions(strings[: len(strings) // 2], 2)):
        preset = PresetInfo(f"n{number}", model="".join(model))
        found.append(replace(preset, **{("name", "title", "teaches", "problem")[number % 4]: text}))
    return found


def runs(strings: Sequence[str]) -> list[RunInfo]:
    """The other half, two a run: its name, and something that stands behind it."""
    found = []
    for number, (name, *told) in enumerate(portions(strings[len(strings) // 2 :], 2)):
        run = RunInfo(name, Path("runs") / f"{number}", "failed", name, 1, 2, value=0.5, reason="".join(told))
        found.append(replace(run, **{("state", "metric", "when", "problem")[number % 4]: "".join(told)}))
    return found


async def home(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    await OPENERS["home"](pilot, run)
    screen, listed = app_of(pilot).home, runs(strings)
    screen.sources = replace(screen.sources, presets=lambda: presets(strings), runs=lambda: listed)
    await pilot.press("r")
    await until(pilot, lambda: len(screen.runs) == len(listed), 30)
    for each in (screen.preset_list, screen.run_list):
        await through(pilot, each)
        each.focus()
        await pilot.press("home")
        await press(pilot, *["down"] * LINGERED)


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
        screen.list.first()
        screen.fill()
        await drawn(pilot)  # what is typed in lies over the first one
        screen.list.move(0)
        screen.fill()
        await through(pilot, screen.list)
    screen.dismiss()


# Screens over a run at work


async def watched(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Played until everything was said; then every episode is read from its beginning."""
    await OPENERS["run"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, RunScreen)
    screen.follow = False
    unsaid = set(sayings(strings))
    to_read: dict[str, None] = {}
    while unsaid:
        await play(pilot, run, 4)
        for episode in screen.store.episodes.values():
            said = {turn.text for turn in episode.turns} & unsaid
            if said and not episode.live:
                unsaid -= said
                to_read[episode.id] = None
    await pilot.press("2", "m")
    for name in to_read:
        screen._focus_on(name)
        await through(pilot, screen.transcript)


async def toasts(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """One of twenty: a toast takes a tenth of a second to come and go, and there is room for four."""
    await OPENERS["app"](pilot, run)
    app = app_of(pilot)
    for some in portions(strings[::20], 4):
        for text in some[::2]:
            app.say(text)
        await tell(pilot, run, *(Notice(text, "warning") for text in some[1::2]))
        await until(pilot, lambda some=some: len(app.screen.query(Toast)) >= len(some))
        await drawn(pilot)
        app.clear_notifications()
        await app.screen.query(ToastHolder).remove()  # which otherwise stay, empty, and slow down the next


async def metrics(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    step = run.status().step
    for number, some in enumerate(portions(strings, 500), 1):
        await tell(pilot, run, StepFinished(step + number, {name: float(number) for name in some}))
    await OPENERS["metrics"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, MetricsScreen)
    await through(pilot, screen.list)


async def steer(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Of edits, target and value before or both values are such; and all are values of settings, too."""
    await OPENERS["steer"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, SteerScreen)
    number = 0
    for some in portions(strings, 400):  # a run's last 200 edits are known
        settings = [Setting(f"roles.First.{text.replace('.', ' ')}", text, text, text) for text in some]
        setattr(run, "settings", lambda settings=settings: settings)  # noqa: B010
        for pair in portions(some, 2):
            number += 1
            first, second = (*pair, "")[:2]
            told = (first, second, "x") if number % 2 else ("x", first, second)
            run.emit(EditApplied(number, number, *told))
        await tell(pilot, run)
        await screen.look()
        await through(pilot, screen.edit_list)
        await through(pilot, screen.setter.choice)


async def edit(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Prompts of as many roles as it takes; then what changes where the last one gets another prompt."""
    packs = list(packed([text.replace("\n", " ") for text in strings], LONGEST // 2))
    names = [*ROLES, *strings[: len(packs)]][: max(len(packs), 2)]
    for name, some in zip(names, packs, strict=False):
        run.roles[name] = Role(name, "\n".join(some))
    await OPENERS["edit"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, EditPrompt)
    area, changes = screen.query_one(TextArea), screen.query_one("#diff", Painted)
    for _ in names:
        here = screen.role
        await through(pilot, area)
        await pilot.press("f2")
        await until(pilot, lambda here=here: screen.role != here)
    for some in portions(strings[::20], 100):
        area.select_all()
        pilot.app.post_message(Paste("\n".join(text[:60] for text in some)))
        await drawn(pilot)
        await through(pilot, changes)


async def ask(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """All in the texts that are asked about; some as the question and its choices, too."""
    run.questions = [
        Question(
            id,
            some[0],
            some[1],
            about=tuple("\n".join(pack) for pack in packed(some, 1000)),
            choices=tuple(text[:200] for text in some[2:11]),
        )
        for id, some in enumerate(portions(strings, 250), 1)
    ]
    await OPENERS["run"](pilot, run)
    await pilot.press("a")
    await until(pilot, lambda: isinstance(pilot.app.screen, Questions) and pilot.app.screen.question is not None)
    screen = pilot.app.screen
    assert isinstance(screen, Questions)
    for _ in run.questions:
        await through(pilot, screen.query_one(OptionList))
        await through(pilot, screen.query_one("#about", Painted))
        await pilot.press("ctrl+n")


async def sit(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """Half of it said by the person, who pastes it, half by the other side: ten turns a sitting."""
    await OPENERS["play"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, PlayScreen)
    words = screen.reply.query_one("#words", TextArea)
    run.table.settings = {"free": True}
    for packs in portions(list(packed(strings, LIMIT - 1000)), 10):
        before, run.table.sticks = len(run.table.sat), len(packs)
        run.roles["First"] = Role("First", "\n".join(packs[0]))
        await pilot.press("enter")
        await until(pilot, lambda before=before: len(run.table.sat) > before and screen.phase == "playing")
        sitting = run.table.sat[-1]
        for number, pack in enumerate(packs):
            said = "\n".join(pack)
            if number % 2:
                sitting.reply, sitting._left = said, run.words.encode("x")
                sitting.go_on()
            else:
                await until(pilot, lambda: words.display and words.has_focus)
                pilot.app.post_message(Paste(said))
                await until(pilot, lambda: bool(words.text))
                await pilot.press("enter")
            screen.look()
        await until(pilot, lambda: screen.phase == "over")
        await drawn(pilot)
        await through(pilot, screen.paper)
    await pilot.press("escape", "escape")


async def why(pilot: Pilot[Any], run: FakeRun, strings: Sequence[str]) -> None:
    """All as reward functions and as episodes to go to; some as roles, groups and tags."""
    await OPENERS["why"](pilot, run)
    screen = app_of(pilot).screen
    assert isinstance(screen, WhyScreen)
    for some in portions(strings, 500):
        role, group, tag = (*some, "", "")[:3]
        rollout = Rollout(screen.place.rollout_id, "nim", rewards={role: 1.0}, tags={role: tag})
        rollout.breakdown = {name: {role: 1.0} for name in some}
        rollout.weights = {name: {role: 1.0} for name in some}
        credit = Credit(0.5, 1.0, 0.5, group=group, rule="rae")
        rollout.turns = [
            Turn(role, screen.place.turn or 0, [], Completion("", tokens=[1]), credit=credit, learnt=LEARNT)
        ]
        children = [StoredEpisode(Rollout(name, name), 1, False, rollout.id, True) for name in some[::2]]
        compared = {group: [Member(name, credit) for name in some[1::2]]}
        screen.trace = Trace(StoredEpisode(rollout, 1, False, None, True), None, children, compared)
        screen._explain()
        await through(pilot, screen.path)
        await through(pilot, screen.others)
    await pilot.press("escape")
