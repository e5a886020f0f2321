"""The run screen: every action, where there is room for all panes and where there is room for one."""

from __future__ import annotations

import pytest

from engine.events import RunState
from tests.tui.clock import Clock
from tests.tui.look import SIZES, at_rest, play, play_to, seen, still, until, watching
from tui.actions import actions
from tui.screens.following import LINGER
from tui.screens.home import HomeScreen
from tui.screens.prompt import EditPrompt
from tui.screens.questions import Questions
from tui.screens.run import RunScreen
from tui.widgets.pane import Pane

NUMBERS = {1: "episodes", 2: "transcript", 3: "rewards", 4: "plots", 5: "health"}


def screen_of(app: object) -> RunScreen:
    screen = app.screen  # type: ignore[attr-defined]
    assert isinstance(screen, RunScreen)
    return screen


def visible(screen: RunScreen) -> set[str]:
    return {pane.id or "" for pane in screen.query(Pane) if pane.display and pane.size.height > 0}


@pytest.mark.parametrize("size", SIZES)
async def test_space_pauses_and_resumes(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 5)
        await pilot.press("space")
        assert run.state is RunState.PAUSED
        await until(pilot, lambda: "paused" in seen(app) and "resume" in seen(app))
        await pilot.press("space")
        assert run.state is RunState.RUNNING
        await until(pilot, lambda: "running" in seen(app))


@pytest.mark.parametrize("size", SIZES)
async def test_a_checkpoint_says_where_it_is(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play(pilot, run, 5)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "runs/nim-3/checkpoints/step-000000" in seen(app).replace("\n", ""))
        assert "checkpoint" in run.calls


@pytest.mark.parametrize("size", SIZES)
async def test_the_digits_go_to_the_panes(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 5)
        for number, name in NUMBERS.items():
            await pilot.press(str(number))
            await pilot.pause()
            screen = screen_of(app)
            assert name in visible(screen)
            assert app.focused is screen.bodies[number - 1]
            assert visible(screen) == ({name} if size == (80, 24) else set(NUMBERS.values()))


async def test_maximising_shows_one_pane_alone_and_escape_all_again() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 5)
        await pilot.press("4", "m")
        await pilot.pause()
        assert visible(screen_of(app)) == {"plots"}
        await pilot.press("escape")
        await pilot.pause()
        assert visible(screen_of(app)) == set(NUMBERS.values())


async def test_a_small_terminal_says_why_nothing_can_be_maximised() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await play(pilot, run, 5)
        await pilot.press("m")
        await until(pilot, lambda: "One pane is shown at a time" in seen(app))


async def test_growing_the_terminal_shows_all_panes() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 5)
        await pilot.resize_terminal(160, 45)
        await until(pilot, lambda: visible(screen_of(app)) == set(NUMBERS.values()))
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: visible(screen_of(app)) == {"episodes"})


@pytest.mark.parametrize("size", SIZES)
async def test_choosing_an_episode_reads_it_and_stops_following(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 8)
        screen = screen_of(app)
        assert screen.follow
        await pilot.press("home", "down", "down")
        await pilot.pause()
        assert screen.transcript.rollout_id == screen.wall.rows.ids[2]
        assert not screen.follow
        await pilot.press("enter")
        await until(pilot, lambda: app.focused is screen.transcript and "First" in seen(app))


async def test_a_click_on_a_row_reads_it() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 8)
        screen = screen_of(app)
        await pilot.click("#wall", offset=(5, 4))
        await pilot.pause()
        assert screen.transcript.rollout_id == screen.wall.rows.ids[4]


async def test_following_moves_on_once_the_end_has_been_read() -> None:
    run, clock = still(episodes=8), Clock()
    app = watching(run, clock=clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 4)
        screen = screen_of(app)
        followed = screen.transcript.rollout_id
        while screen.store.episodes[followed].live:
            await play(pilot, run, 1)
        assert screen.transcript.rollout_id == followed
        clock.now = LINGER + 0.1
        await screen.draw(True)
        assert screen.transcript.rollout_id != followed
        assert screen.store.episodes[screen.transcript.rollout_id].live


async def test_a_chosen_episode_stays_when_it_has_ended_until_f_follows_again() -> None:
    run, clock = still(episodes=8), Clock()
    app = watching(run, clock=clock)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 4)
        screen = screen_of(app)
        await pilot.press("home")
        chosen = screen.transcript.rollout_id
        while screen.store.episodes[chosen].live:
            await play(pilot, run, 1)
        clock.now += 100
        await play(pilot, run, 4)
        assert screen.transcript.rollout_id == chosen
        await pilot.press("f")
        await pilot.pause()
        assert screen.follow
        assert screen.store.episodes[screen.transcript.rollout_id].live


async def test_a_reader_who_scrolled_up_is_never_pulled_back() -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 2)
        await pilot.press("2")
        screen = screen_of(app)
        while screen.transcript.max_scroll_y < 6:
            await play(pilot, run, 1)
        assert screen.transcript.at_end
        await pilot.press("up", "up", "up")
        await until(pilot, lambda: not screen.follow)
        await at_rest(pilot)  # each of the keys has been answered
        held, reading = screen.transcript.scroll_offset.y, screen.transcript.rollout_id
        await play(pilot, run, 30)
        assert screen.transcript.scroll_offset.y == held
        assert screen.transcript.rollout_id == reading


async def test_new_text_keeps_the_end_in_sight_while_the_reader_is_there() -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 2)
        await pilot.press("2")
        screen = screen_of(app)
        while screen.transcript.max_scroll_y < 12:
            await play(pilot, run, 1)
            assert screen.transcript.at_end


@pytest.mark.parametrize("size", SIZES)
async def test_an_edit_reaches_the_run_and_marks_plots_and_episodes(size: tuple[int, int]) -> None:
    run = still(episodes=6)
    app = watching(run)
    async with app.run_test(size=size, notifications=True) as pilot:
        await play_to(pilot, run, 2)
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, EditPrompt))
        assert isinstance(app.screen, EditPrompt)
        role = app.screen.role
        await pilot.press(*" Hi", "ctrl+s")
        await until(pilot, lambda: f"edit {role}" in run.calls)
        assert run.roles[role].system_prompt.endswith("wins. Hi")
        await until(pilot, lambda: "Edit 1" in seen(app))
        await play_to(pilot, run, 5)
        await pilot.press("4")
        await until(pilot, lambda: "edit 1" in seen(app))
        screen = screen_of(app)
        under = [e for e in screen.store.episodes.values() if e.edits.get(role) == 1]
        assert under
        screen.follow = False
        screen.transcript.focus_on(under[-1].id)
        await pilot.press("2")
        screen.transcript.scroll_home(animate=False)
        await until(pilot, lambda: f"{role} under edit 1" in seen(app))


async def test_a_command_the_run_refuses_is_told_and_harms_nothing() -> None:
    run = still()

    async def refuse() -> object:
        raise OSError("disk full: /runs [bold]x")

    run.checkpoint = refuse  # type: ignore[method-assign,assignment]
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play(pilot, run, 2)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "disk full: /runs [bold]x" in seen(app))
        await play(pilot, run, 2)
        assert app.return_code in (None, 0)


@pytest.mark.parametrize("size", SIZES)
async def test_a_failed_run_leaves_the_app_alive_and_says_why_and_what_to_do(size: tuple[int, int]) -> None:
    run = still(episodes=4, fails_at=2)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play_to(pilot, run, 2)
        await until(pilot, lambda: "The run failed" in seen(app))
        assert "out of memory" in seen(app)
        assert "Step 2 is kept. Mend the cause, then resume it" in seen(app)
        assert "failed" in seen(app).splitlines()[-2]
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))


async def test_a_run_that_raises_is_a_failed_run() -> None:
    run = still()

    async def start() -> None:
        raise RuntimeError("no [such] device")

    run.start = start  # type: ignore[method-assign]
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "no [such] device" in seen(app))
        assert app.session is not None
        assert app.session.state is RunState.FAILED


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_and_latest_evaluation_stand_at_the_top(size: tuple[int, int]) -> None:
    run = still(episodes=6)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play_to(pilot, run, 31)
        top = seen(app).splitlines()[0]
        verdict = app.session.store.verdict  # type: ignore[union-attr]
        assert verdict is not None
        assert f"win vs random {verdict.first:.2f} → {verdict.latest:.2f}" in top
        assert f"best {verdict.best:.2f}" in top


async def test_copying_puts_the_plain_transcript_on_the_clipboard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.clipboard.tool", lambda *_: None)
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await play(pilot, run, 10)
        await pilot.press("y")
        await until(pilot, lambda: "copied by the terminal" in seen(app))
        copied = app.clipboard
        assert copied.startswith(f"episode {screen_of(app).transcript.rollout_id} · nim")
        assert "> " in copied
        assert "First (turn 1, policy" in copied


async def test_nothing_is_drawn_for_panes_that_are_hidden() -> None:
    run = still(episodes=6)
    app = watching(run)
    async with app.run_test(size=(80, 24)) as pilot:
        await play(pilot, run, 3)
        screen = screen_of(app)
        before = list(screen.health.lines), list(screen.rewards.lines)
        await play_to(pilot, run, 3)
        assert (screen.health.lines, screen.rewards.lines) == before


def test_every_action_of_the_table_has_a_method() -> None:
    for action in actions("run"):
        assert hasattr(RunScreen, f"action_{action.action.partition('(')[0]}"), action.name
    for action in actions("home"):
        assert hasattr(HomeScreen, f"action_{action.action}"), action.name
    for action in actions("edit"):
        assert hasattr(EditPrompt, f"action_{action.action}"), action.name
    for action in actions("ask"):
        assert hasattr(Questions, f"action_{action.action.partition('(')[0]}"), action.name
