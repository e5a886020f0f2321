"""Text made to do harm, through every place that shows a model's text."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest

from engine.events import EpisodeStarted, Notice, RunState, StateChanged
from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tests.tui.hostile import STRINGS
from tests.tui.look import cells, play, still, until, watching
from tui.app import SelfPlayApp
from tui.interface import PresetInfo, RunInfo
from tui.screens.run import RunScreen

FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def spoken(strings: list[str]) -> object:
    """Replies that go through the strings, one after the other."""
    state = {"next": 0}

    def reply(rng: random.Random, sticks: int, skill: float) -> tuple[str, int]:
        state["next"] += 1
        return strings[state["next"] % len(strings)], rng.randint(1, 3)

    return reply


def assert_harmless(app: SelfPlayApp, size: tuple[int, int]) -> None:
    """No cell holds a control or an unseen character, and every line has the width of the screen."""
    lines = cells(app)
    assert len(lines) == size[1]
    for line in lines:
        text = "".join(segment.text for segment in line)
        bad = {c for c in text if unicodedata.category(c) in FORBIDDEN}
        assert not bad, f"{bad!r} in {text!r}"
        assert sum(segment.cell_length for segment in line) == size[0], repr(text)
        assert not any(segment.style and segment.style.link for segment in line)


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_replies_reach_wall_and_transcript_as_plain_text(size: tuple[int, int]) -> None:
    short = [text for text in STRINGS if len(text) < 400]
    run = still(episodes=24, reply=spoken(short), tokens_per_tick=40)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        seen_episodes = set()
        for _ in range(14):
            await play(pilot, run, 3)
            assert isinstance(app.screen, RunScreen)
            app.screen.follow = False
            for episode in list(app.screen.store.episodes.values())[-8:]:
                seen_episodes.add(episode.id)
            newest = list(app.screen.store.episodes)[-1]
            app.screen.transcript.focus_on(newest)
            await pilot.press("2" if size == (80, 24) and len(seen_episodes) % 2 else "1")
            await pilot.pause()
            assert_harmless(app, size)
        assert len(seen_episodes) > 80


async def test_very_long_replies_are_bounded() -> None:
    long = ["y" * 200_000, "\n" * 100_000, "word " * 40_000, "\x1b[2J" * 20_000, "好" * 50_000]
    run = still(episodes=5, reply=spoken(long), tokens_per_tick=100_000)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(6):
            await play(pilot, run, 1)
            assert isinstance(app.screen, RunScreen)
            assert_harmless(app, (120, 40))
            assert len(app.screen.transcript.lines) < 60_000


async def test_names_from_outside_are_plain_text_too() -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 2)
        assert app.session is not None
        for index, text in enumerate(STRINGS[:40]):
            roles = {text or "x": text, f"{text}2": "policy"}
            app.session.store.fold([EpisodeStarted(f"e{index}{text[:50]}", text, None, True, roles)])
            assert isinstance(app.screen, RunScreen)
            app.screen.transcript.focus_on(f"e{index}{text[:50]}")
            await app.screen.draw(True)
            await pilot.pause()
            assert_harmless(app, (120, 40))


async def test_toasts_banners_and_reasons_are_plain_text() -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play(pilot, run, 2)
        for text in STRINGS[:30]:
            run.emit(Notice(text, "warning"))
            run.emit(StateChanged(RunState.FAILED, text))
            run.reason = text
            await pilot.pause(0.06)
            assert isinstance(app.screen, RunScreen)
            await app.screen.draw(True)
            await pilot.pause()
            assert_harmless(app, (120, 40))
            app.clear_notifications()


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_lists_of_presets_and_runs_are_plain_text(size: tuple[int, int]) -> None:
    texts = [text for text in STRINGS if text.strip()][:50]
    presets = [PresetInfo(f"{i}{t}", t, t, t, t, t, t if i % 3 == 0 else None) for i, t in enumerate(texts)]
    runs = [
        RunInfo(f"{i}{t}", Path(f"runs/{i}"), t, t, 1, 2, t, 0.5, t, t if i % 3 == 0 else None)
        for i, t in enumerate(texts)
    ]
    app = SelfPlayApp(
        presets=lambda: presets, runs=lambda: runs, create=lambda _: still(), resume=lambda _: still()
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        for _ in range(8):
            await pilot.press("down", "down", "enter")
            if isinstance(app.screen, RunScreen):
                await pilot.press("escape")
            await pilot.pause()
            assert_harmless(app, size)
            if app.session is not None and app.session.live:
                await app.session.stop()


async def test_an_exception_with_markup_is_told() -> None:
    def create(_: str) -> FakeRun:
        raise ValueError("[/oops] \x1b[2J")

    app = demo_app()
    app.sources = type(app.sources)(app.sources.presets, app.sources.runs, create, app.sources.resume)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "[/oops] ␛[2J" in "".join(s.text for line in cells(app) for s in line))
        assert_harmless(app, (80, 24))
