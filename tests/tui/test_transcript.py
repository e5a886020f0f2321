"""Reading one episode: a cursor on its turns, two roles side by side, heat, and what memory no longer has."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.tui.clock import Clock
from tests.tui.fake import FakeRun, talk
from tests.tui.look import SIZES, cells, play, play_to, seen, still, until, watching
from tui.app import SelfPlayApp
from tui.screens.run import RunScreen
from tui.state import Store
from tui.theme import PALETTES
from tui.transcript.turns import outcome
from tui.views import EpisodeView


def talking(**more: object) -> FakeRun:
    return still(episodes=6, reply=talk, tokens_per_tick=6, **more)


async def reading(pilot: Pilot[None], run: FakeRun, step: int = 2, turns: int = 4) -> tuple[RunScreen, EpisodeView]:
    """The run screen, reading an episode of that step with so many turns at least."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await play_to(pilot, run, step)
    screen = app.screen
    assert isinstance(screen, RunScreen)
    episode = next(e for e in screen.store.episodes.values() if e.step == step and len(e.turns) >= turns)
    screen.read(episode.id)
    await pilot.pause()
    await drawn(pilot)
    return screen, episode


async def drawn(pilot: Pilot[None]) -> None:
    for _ in range(3):
        await pilot.app.screen.draw(True)  # type: ignore[attr-defined]
        await pilot.pause()


def marked(app: SelfPlayApp) -> list[str]:
    """The lines with the cursor's mark, as they are seen."""
    return [line.partition("▸")[2] for line in seen(app).splitlines() if "▸●" in line or "▸○" in line]


@pytest.mark.parametrize("size", SIZES)
async def test_the_cursor_goes_from_turn_to_turn_and_stays_in_sight(size: tuple[int, int]) -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=size) as pilot:
        screen, episode = await reading(pilot, run)
        last = episode.turns[-1].index
        assert screen.transcript.turn is episode.turns[-1]
        for expected in [*range(last - 1, -1, -1), 0]:
            await pilot.press("left_square_bracket")
            await drawn(pilot)
            assert screen.transcript.turn is not None
            assert screen.transcript.turn.index == expected
            assert [f" turn {expected + 1} " in line for line in marked(app)] == [True]
        for expected in [*range(1, last + 1), last]:
            await pilot.press("right_square_bracket")
            await drawn(pilot)
            assert [f" turn {expected + 1} " in line for line in marked(app)] == [True]


async def test_the_cursor_comes_along_with_a_reader_who_scrolls() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        screen, episode = await reading(pilot, run, turns=6)
        await pilot.press("home")
        await drawn(pilot)
        turn = screen.transcript.turn
        assert turn is not None
        assert turn.index < episode.turns[-1].index
        assert len(marked(app)) == 1
        await pilot.press("end")
        await drawn(pilot)
        assert screen.transcript.turn is not None
        assert screen.transcript.turn.index in screen.transcript._in_sight()


async def test_a_click_puts_the_cursor_on_a_turn() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        screen, episode = await reading(pilot, run)
        await pilot.press("home")
        await drawn(pilot)
        await pilot.click("#reader", offset=(10, 3))
        await drawn(pilot)
        assert screen.transcript.turn is episode.turns[0]


async def test_going_to_an_earlier_turn_ends_following_and_nothing_pulls_back() -> None:
    run = still(episodes=4)
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 2)
        await pilot.press("2")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        while screen.transcript.max_scroll_y < 8:
            await play(pilot, run, 1)
        await pilot.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        await until(pilot, lambda: not screen.follow)
        await drawn(pilot)
        assert screen.transcript.turn is not None
        held, read = screen.transcript.turn.index, [line[:60] for line in seen(app).splitlines()[3:8]]
        await play(pilot, run, 30)
        assert screen.transcript.turn.index == held
        assert [line[:60] for line in seen(app).splitlines()[3:8]] == read


async def test_what_is_read_stays_on_top_when_the_terminal_gets_narrower() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(100, 24)) as pilot:
        screen, _ = await reading(pilot, run, turns=6)
        await pilot.press("m", "home", "right_square_bracket", "right_square_bracket", "right_square_bracket")
        await drawn(pilot)
        before = screen.transcript._at_top()
        assert before is not None
        await pilot.resize_terminal(64, 24)
        await drawn(pilot)
        after = screen.transcript._at_top()
        assert after is not None
        assert after[0] == before[0]


async def test_the_header_names_version_and_prompt_of_who_spoke() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await play_to(pilot, run, 1)
        await run.edit_role("First", "Play well.")
        _, episode = await reading(pilot, run, step=4)
        assert episode.edits["First"] == 1
        await pilot.press("home")
        await drawn(pilot)
        first = episode.turns[0]
        assert f"First turn 1 · v{first.version} · prompt 1" in seen(app)
        first.since, first.revision = (first.version or 1) - 1, first.revision + 1
        episode.revision += 1
        await drawn(pilot)
        assert f"First turn 1 · v{first.since}→{first.version} · prompt 1" in seen(app)


async def test_two_roles_speak_side_by_side_where_there_is_room() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(160, 45)) as pilot:
        screen, episode = await reading(pilot, run)
        both = [line for line in seen(app).splitlines() if " turn 1 " in line and " turn 2 " in line]
        assert not both
        await pilot.press("m", "home")
        await pilot.pause()
        await drawn(pilot)
        both = [line for line in seen(app).splitlines() if " turn 1 " in line and " turn 2 " in line]
        assert len(both) == 1
        assert both[0].index("● First") < 80 < both[0].index("○ Second")
        spots = {spot.turn: spot for spot in screen.transcript._spots}
        await pilot.click("#reader", offset=(120, spots[1].top - int(screen.transcript.scroll_offset.y)))
        await drawn(pilot)
        assert screen.transcript.turn is episode.turns[1]


@pytest.mark.parametrize("size", SIZES)
async def test_heat_goes_through_its_modes_and_marks_unlikely_tokens(size: tuple[int, int]) -> None:
    run = talking()
    app = watching(run, clock=Clock())

    def underlined() -> int:
        return sum(bool(s.style and s.style.underline and s.text.strip()) for line in cells(app) for s in line)

    async with app.run_test(size=size) as pilot:
        await reading(pilot, run)
        before = underlined()
        await pilot.press("h")
        await until(pilot, lambda: underlined() > before + 3)
        assert "p sampled: ≥ 50%" in seen(app)
        await pilot.press("h")
        await until(pilot, lambda: "ρ learnt: < 0.8" in seen(app))
        await drawn(pilot)
        assert underlined() > before + 1
        await pilot.press("h")
        await drawn(pilot)
        assert underlined() == before
        assert "ρ learnt" not in seen(app)


async def test_heat_streams_along_with_a_turn_and_changes_no_letter_of_it() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        await pilot.press("2", "h")
        screen = app.screen
        assert isinstance(screen, RunScreen)
        for _ in range(12):
            await play(pilot, run, 1)
            await drawn(pilot)
            turn = screen.transcript.turn
            assert turn is not None
            if turn.text is None:
                said = " ".join(turn.shown(screen.store.decode).split())
                on_screen = " ".join(" ".join(line[3:] for line in seen(app).splitlines() if "▌" in line).split())
                assert said[-20:] in on_screen


async def test_ratios_that_are_not_there_yet_are_said_to_be() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 4)
        await pilot.press("2", "h", "h")
        await until(pilot, lambda: "not known: it wasn't learnt from, or not yet" in seen(app))


async def test_memory_keeps_no_tokens_of_what_is_in_the_record() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        screen, _ = await reading(pilot, run, step=3)
        over = [e for e in screen.store.episodes.values() if not e.live and (e.step or 99) <= 3]
        assert len(over) >= 12
        for episode in over:
            assert episode.rollout is None
            assert not any(turn.tokens or turn.logprobs for turn in episode.turns)
        await pilot.press("h")  # the one that is read is looked up
        await until(pilot, lambda: bool(screen.transcript.heated._recorded))


@pytest.mark.parametrize("size", SIZES)
async def test_a_turn_is_copied_alone(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    monkeypatch.setattr("tui.clipboard.tool", lambda *_: None)
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=size, notifications=True) as pilot:
        _, episode = await reading(pilot, run)
        await pilot.press("left_square_bracket", "Y")
        await until(pilot, lambda: "copied by the terminal" in seen(app))
        turn = episode.turns[-2]
        assert app.clipboard.startswith(f"{turn.role} (turn {turn.index + 1}, policy, v{turn.version}")
        assert app.clipboard.rstrip().endswith((turn.text or "").rstrip())
        assert f"turn {turn.index + 2}," not in app.clipboard


async def test_an_episode_that_memory_forgot_is_read_from_the_record() -> None:
    run = talking()
    app = watching(run, clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        screen, episode = await reading(pilot, run)
        other = next(e for e in screen.store.episodes.values() if e.step == 2 and e is not episode)
        said = (other.turns[-1].text or "")[:20]
        del screen.store.episodes[other.id]
        screen.read(other.id)
        await until(pilot, lambda: f"{other.id} · ended" in seen(app))
        await drawn(pilot)
        assert said in " ".join(seen(app).split())


def test_a_reward_is_told_with_the_weights_it_was_summed_by() -> None:
    store = Store(lambda _: "")
    episode = EpisodeView("1", rewards={"A": 0.75}, ended=1.0)
    episode.breakdown = {"won": {"A": 1.0}, "long": {"A": -0.5}}
    episode.weights = {"won": {"A": 1.0}, "long": {"A": 0.5}}
    told = ["".join(text for text, _ in line).strip() for line in outcome(episode, store, 60, PALETTES["dusk"])]
    assert told[2] == "won +1.00 · long 0.50 × −0.50"
