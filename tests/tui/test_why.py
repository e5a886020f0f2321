"""Why, in the app: opened on a turn, it tells the path and goes to the group's members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.reading.tracing import Member
from engine.store import StoreError
from engine.types import Turn
from tests.tui.clock import Clock
from tests.tui.fake import FakeRun
from tests.tui.look import SIZES, play, play_to, seen, until, watching
from tests.tui.test_transcript import drawn, reading, talking
from tui.actions import actions
from tui.app import SelfPlayApp
from tui.screens.run import RunScreen
from tui.screens.why import Others, WhyScreen
from tui.views import EpisodeView

PICTURES = [(80, 24), (160, 45)]


async def asked(pilot: Pilot[Any], run: FakeRun) -> tuple[RunScreen, WhyScreen, EpisodeView]:
    """Why, of the turn before the last one of an episode of step 2."""
    screen, episode = await reading(pilot, run)
    await pilot.press("left_square_bracket", "w")
    await until(pilot, lambda: isinstance(pilot.app.screen, WhyScreen) and pilot.app.screen.why is not None)
    why = pilot.app.screen
    assert isinstance(why, WhyScreen)
    await pilot.pause()
    return screen, why, episode


def test_every_action_has_a_method() -> None:
    for action in actions("why"):
        assert hasattr(WhyScreen, f"action_{action.action.partition('(')[0]}"), action.name


@pytest.mark.parametrize("size", SIZES)
async def test_w_tells_the_path_of_the_turn_under_the_cursor(size: tuple[int, int]) -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=size) as pilot:
        _, why, episode = await asked(pilot, run)
        turn = episode.turns[-2]
        assert turn.credit is not None
        assert f"episode {episode.id} · turn {turn.index + 1} of {turn.role} · policy · v{turn.version}" in seen(
            app
        )
        shown = "\n".join("".join(text for text, _ in line) for line in why.path.lines)
        for told in (
            f"Reward of {turn.role}",
            "outcome",
            "Baseline (RAE)",
            "0.95 × ",
            "discount × (reward",
            "clipped",
        ):
            assert told in shown
        assert "Reward of" in seen(app)
        members = [other for other in why.others.entries if other.relation == "group"]
        here = [other for other in members if other.is_here]
        assert [other.rollout_id for other in here] == [episode.id]
        assert len(members) > 3
        assert f"nim/{turn.role} · {len(members)}" in seen(app)


@pytest.mark.parametrize("size", SIZES)
async def test_enter_goes_to_a_members_transcript(size: tuple[int, int]) -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=size) as pilot:
        screen, why, episode = await asked(pilot, run)
        await pilot.press("home", "down")
        chosen = why.others.chosen
        assert chosen is not None
        if chosen.is_here:
            await pilot.press("down")
            chosen = why.others.chosen
            assert chosen is not None
        del screen.store.episodes[chosen.rollout_id]  # memory may have forgotten it
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        await drawn(pilot)
        assert (screen.transcript.rollout_id, screen.follow) == (chosen.rollout_id, False)
        assert app.focused is screen.transcript
        assert f"{chosen.rollout_id} · ended" in seen(app)
        assert chosen.rollout_id != episode.id


async def test_two_clicks_on_a_member_go_there_too() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(120, 40)) as pilot:
        screen, why, _ = await asked(pilot, run)
        await pilot.click("#why-others", offset=(6, 1))
        assert why.others.at == 1
        chosen = why.others.entries[1].rollout_id
        await pilot.click("#why-others", offset=(6, 1), times=2)
        await until(pilot, lambda: app.screen is screen)
        assert screen.transcript.rollout_id == chosen


@pytest.mark.parametrize("size", SIZES)
async def test_other_turns_are_explained_without_leaving(size: tuple[int, int]) -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=size) as pilot:
        screen, why, episode = await asked(pilot, run)
        index = episode.turns[-2].index
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: f"· turn {index + 2} of" in seen(app))
        await pilot.press("left_square_bracket", "left_square_bracket")
        await until(pilot, lambda: f"· turn {index} of" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        assert screen.transcript.rollout_id == episode.id
        assert why.place.turn == index - 1


@pytest.mark.parametrize("size", SIZES)
async def test_the_path_is_copied_as_text(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    monkeypatch.setattr("tui.clipboard.tool", lambda *_: None)
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=size, notifications=True) as pilot:
        _, why, _ = await asked(pilot, run)
        await pilot.press("y")
        await until(pilot, lambda: "path is copied" in seen(app))
        assert why.why is not None
        assert app.clipboard == why.why.text()


async def test_an_episode_in_play_is_explained_as_far_as_it_goes_and_further_once_it_has_ended() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        live = screen.transcript.rollout_id
        await pilot.press("w")
        await until(pilot, lambda: "still in play: its reward comes at its end" in seen(app))
        why = app.screen
        assert isinstance(why, WhyScreen)
        while screen.store.episodes[live].live:
            run.advance()
            app.session.drain()  # type: ignore[union-attr]
        why._read_again()
        await until(pilot, lambda: "Its batch is still in play" in seen(app))
        while screen.store.step < 1:
            run.advance()
            app.session.drain()  # type: ignore[union-attr]
        why._read_again()
        await until(pilot, lambda: "Baseline (RAE)" in seen(app))
        assert why.why is not None
        assert why.why.is_settled


async def test_an_evaluations_episode_says_that_nothing_is_learnt_from_it() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await play_to(pilot, run, 10)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        await play(pilot, run, 90)
        over = next(e for e in screen.store.episodes.values() if e.is_evaluation and not e.live)
        screen.read(over.id)
        await pilot.press("w")
        await until(
            pilot, lambda: "played in an evaluation: nothing is learnt from it" in " ".join(seen(app).split())
        )


async def test_a_record_that_cannot_be_read_is_told_and_the_app_lives_on() -> None:
    run = talking()
    app = watching(run, clock=Clock())

    async def refuse(_: str) -> None:
        raise StoreError("runs/nim-3: disk I/O error [bold]x")

    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        screen, _ = await reading(pilot, run)
        run.trace = refuse  # type: ignore[method-assign,assignment]
        await pilot.press("w")
        await until(pilot, lambda: "disk I/O error [bold]x" in seen(app))
        why = app.screen
        assert isinstance(why, WhyScreen)
        for _ in range(2):
            why._read_again()
            await app.workers.wait_for_complete()
        assert "disk I/O error [bold]x" in "".join(text for line in why.path.lines for text, _ in line)
        assert "Looking it up" not in seen(app)
        assert len(app._notifications) == 1, "it is asked every second, and said once"
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


async def test_w_without_a_turn_says_so() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("w")
        await until(pilot, lambda: "There is no turn to explain yet" in seen(app))


async def test_hostile_names_come_plain() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        _, why, _ = await asked(pilot, run)
        assert why.trace is not None
        bad = "\x1b[2J[/think]\u202e\ud800"
        rollout = why.trace.episode.rollout
        turn: Turn = rollout.turns[-1]
        assert turn.credit is not None
        named = replace(turn, role=bad, credit=replace(turn.credit, group=bad))
        rewards, breakdown = {bad: 1.0}, {bad: {bad: 1.0}}
        worse = replace(
            rollout, turns=[named], rewards=rewards, breakdown=breakdown, weights=breakdown, tags={bad: bad}
        )
        members = [Member(bad, turn.credit)]
        episode = replace(why.trace.episode, rollout=worse)
        why.trace = replace(why.trace, episode=episode, compared={bad: members})
        why.place = why.place._replace(turn=turn.index)
        why._explain()
        await pilot.pause()
        assert "[/think]" in seen(app)
        assert not set("\x1b\u202e\ud800") & set(seen(app))


async def test_the_list_keeps_its_place_when_it_is_filled_again() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        _, why, _ = await asked(pilot, run)
        await pilot.press("end")
        chosen = why.others.chosen
        why.others.show_others(list(why.others.entries))
        assert why.others.chosen == chosen
        assert isinstance(app.focused, Others)
        await pilot.press("pagedown")
        assert why.path.scroll_offset.y > 0


async def pictured(pilot: Pilot[Any], run: FakeRun) -> None:
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    _, why, _ = await asked(pilot, run)
    await until(pilot, lambda: "Compared with" in seen(app) and bool(why.others.entries))
    await pilot.pause()


@pytest.mark.parametrize("size", PICTURES)
def test_picture_of_why(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    run = talking()

    async def before(pilot: Pilot[Any]) -> None:
        await pictured(pilot, run)

    assert snap_compare(watching(run, clock=Clock()), terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", PICTURES)
def test_picture_of_a_transcript_with_heat(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    run = talking()

    async def before(pilot: Pilot[Any]) -> None:
        await reading(pilot, run)
        await pilot.press("left_square_bracket", "h", *(["m"] if size[0] > 100 else []))
        for _ in range(3):
            await drawn(pilot)

    assert snap_compare(watching(run, clock=Clock()), terminal_size=size, run_before=before)
