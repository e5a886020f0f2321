"""Replay: a recorded run, read step by step; every key, where there is room for all panes and for one."""

from __future__ import annotations

import shutil
import sqlite3
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import MouseScrollDown
from textual.pilot import Pilot

from engine.inference.hub import POCKET
from engine.store import Store
from tests.tui.clock import Clock
from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, at_rest, cells, play, seen, still, until, watching
from tests.tui.played import ILLEGAL, NEEDLE, UPSET, add_step, record
from tui.actions import actions
from tui.app import SelfPlayApp
from tui.interface import RunInfo
from tui.replay.feed import PIN
from tui.replay.pins import Pin
from tui.screens import replay
from tui.screens.home import HomeScreen
from tui.screens.recordpanes import FEED, PAGE, PLOTS, READ, STEP
from tui.screens.replay import ReplayScreen
from tui.screens.search import SearchScreen
from tui.screens.why import WhyScreen
from tui.widgets.chart import Chart

Compare = Callable[..., bool]
PICTURED = [(80, 24), (160, 45)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("runs") / "nim-7")


@pytest.fixture
def folder(recorded: Path) -> Path:
    (recorded / "pins.json").unlink(missing_ok=True)
    return recorded


@pytest.fixture
def recorded_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """By a path that is the same on every machine."""
    monkeypatch.chdir(folder.parent)
    return Path(folder.name)


def screen_of(pilot: Pilot[Any]) -> ReplayScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ReplayScreen)
    return screen


async def opened(pilot: Pilot[Any], folder: Path, step: int = 12) -> ReplayScreen:
    """The record of the folder, read and looked through."""
    app = pilot.app
    assert isinstance(app, SelfPlayApp)
    await until(pilot, lambda: app.home.is_mounted)
    await app.push_screen(ReplayScreen(folder, folder / "cache", folder / "home"))
    screen = screen_of(pilot)
    await settled(pilot, screen, step)
    await until(pilot, lambda: screen.left == 0 and screen.entries)
    return screen


async def settled(pilot: Pilot[Any], screen: ReplayScreen, step: int) -> None:
    """Until the step's episodes are there and one of them is read."""
    await until(
        pilot,
        lambda: (
            screen.step == step
            and screen.outlines
            and screen.outlines[0].episode.step == step
            and screen.transcript.episode is not None
            and screen.transcript.episode.id == screen.outlines[screen.page.place].id
        ),
    )
    await pilot.pause()


def reads(screen: ReplayScreen) -> str:
    shown = screen.transcript.episode
    return shown.id if shown is not None else ""


@pytest.mark.parametrize("size", SIZES)
async def test_it_opens_at_the_end_of_the_record(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        shown = seen(app)
        assert "replay, read only · finished" in shown
        assert "step 12/12" in shown
        assert len(screen.outlines) == 8
        assert reads(screen) == "88"


@pytest.mark.parametrize("size", SIZES)
async def test_left_and_right_go_by_steps_with_shift_by_ten_home_and_end_to_the_ends(
    folder: Path, size: tuple[int, int]
) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        for key, step in (
            ("left", 11), ("shift+left", 1), ("left", 0), ("left", 0), ("right", 1), ("shift+right", 11),
            ("home", 0), ("end", 12), ("right", 12),
        ):  # fmt: skip
            await pilot.press(key)
            await settled(pilot, screen, step)
            assert f"step {step:>2}/12" in seen(app)


async def test_the_keys_go_by_steps_whichever_pane_has_the_focus(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder)
        for number in (FEED, PAGE, READ, PLOTS, STEP):
            await pilot.press(str(number), "left")
            await settled(pilot, screen, 12 - number)


@pytest.mark.parametrize("size", SIZES)
async def test_comma_and_full_stop_go_to_evaluations_edits_and_checkpoints(
    folder: Path, size: tuple[int, int]
) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        for key, step in (("comma", 10), ("comma", 5), ("comma", 0), ("full_stop", 5), ("full_stop", 10)):
            await pilot.press(key)
            await settled(pilot, screen, step)


@pytest.mark.parametrize("size", SIZES)
async def test_space_plays_on_to_the_end_and_rests(
    folder: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "PACE", 0.1)
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("space")
        await until(pilot, lambda: 0 < screen.step < 12 and "rest" in seen(app))
        await pilot.press("space")
        rested = screen.step
        await pilot.pause(0.3)
        assert screen.step == rested < 12
        await pilot.press("space")
        await settled(pilot, screen, 12)
        await until(pilot, lambda: "rest" not in seen(app).splitlines()[-1])


async def test_the_scrubber_is_dragged_clicked_and_turned(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder)
        left, cells = screen.scrubber._left, screen.scrubber._cells
        await pilot.click("#scrubber", offset=(left + cells // 2, 0))
        await settled(pilot, screen, 6)
        await pilot.mouse_down("#scrubber", offset=(left + cells // 2, 0))
        await pilot.hover("#scrubber", offset=(left, 0))
        await settled(pilot, screen, 0)
        await pilot.mouse_up("#scrubber", offset=(left, 0))
        await pilot.hover("#scrubber", offset=(left + cells - 1, 1))
        assert screen.step == 0
        await pilot._post_mouse_events([MouseScrollDown], "#scrubber", button=0)
        await settled(pilot, screen, 1)


async def test_a_click_on_a_plot_goes_to_its_step_and_the_plots_point_at_the_step(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(160, 45)) as pilot:
        screen = await opened(pilot, folder)
        await until(pilot, lambda: [chart for chart in screen.plots.query(Chart) if chart.cursor == 12.0])
        chart = screen.plots.query(Chart).first()
        await pilot.click(chart, offset=(8, 3))
        await settled(pilot, screen, 0)
        await until(pilot, lambda: chart.cursor == 0.0)


async def test_ratings_and_figures_are_those_of_the_step(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(160, 45)) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("comma", "comma")
        await settled(pilot, screen, 5)
        told = "\n".join("".join(text for text, _ in line) for line in screen.figures.lines)
        assert "edit 1, role First" in told
        assert "the prompt of First is longer now" in told
        assert "evaluation 0" in told
        assert "0.500    0.750" in told  # win vs random, here and at last
        assert "ratings by then, 95% interval" in told
        assert "policy 0 " in told
        assert "policy 10" not in told
        assert "0.250    0.180" in told  # the loss


@pytest.mark.parametrize("size", SIZES)
async def test_the_feed_leads_to_step_and_transcript(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("1")
        names = [(entry.name, entry.rollout_id) for entry in screen.entries]
        assert names[0] == ("upset", UPSET)
        assert ("illegal", ILLEGAL) in names
        await until(pilot, lambda: "got −1.00 where +0.95 was" in " ".join(seen(app).split()))
        await pilot.press("enter")
        await settled(pilot, screen, 8)
        assert reads(screen) == UPSET
        assert app.focused is screen.transcript


@pytest.mark.parametrize("size", SIZES)
async def test_choosing_an_episode_reads_it(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("down", "down")
        await until(pilot, lambda: reads(screen) == "90")
        await pilot.press("enter")
        await until(pilot, lambda: app.focused is screen.transcript)
        assert "First" in seen(app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_pin_stands_first_is_kept_and_taken_away(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("b")
        await until(pilot, lambda: "Pinned 88" in seen(app))
        assert screen.entries[0].sign == PIN
        assert (screen.entries[0].step, screen.entries[0].rollout_id) == (12, "88")
        await pilot.press("escape")
        again = await opened(pilot, folder)
        assert again.entries[0].rollout_id == "88"
        await pilot.press("b")
        await until(pilot, lambda: again.entries[0].sign != PIN)


@pytest.mark.parametrize("size", SIZES)
async def test_a_note_pins_is_shown_in_the_feed_and_found(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("e", *"lost at once, why?", "enter")
        await until(pilot, lambda: screen.entries[0].sign == PIN)
        assert (screen.entries[0].rollout_id, screen.entries[0].words) == ("88", "lost at once, why?")
        await pilot.press("1")
        await until(pilot, lambda: "lost at once, why?" in seen(app))
        await pilot.press("escape")
        again = await opened(pilot, folder)
        await pilot.press("home")
        await settled(pilot, again, 0)
        await pilot.press("slash", *"lost")
        await until(pilot, lambda: "your note" in seen(app) and "1 note of yours" in seen(app))
        await pilot.press("enter")
        await settled(pilot, again, 12)
        assert reads(again) == "88"
        await pilot.press("e", "ctrl+u", "enter")
        await until(pilot, lambda: again.entries[0].words != "lost at once, why?")
        assert again.entries[0].sign == PIN


async def test_in_the_feed_keys_are_about_its_marked_entry(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder)
        assert reads(screen) == "88"
        marked = next(at for at, entry in enumerate(screen.entries) if entry.rollout_id == ILLEGAL)
        await pilot.press("1", *["down"] * marked, "b")
        assert (screen.entries[0].rollout_id, screen.entries[0].step) == (ILLEGAL, 9)
        assert screen.entries[screen.feed.place].rollout_id == ILLEGAL
        assert (screen.step, reads(screen)) == (12, "88")


def spell(folder: Path, model: str = "pocket") -> None:
    """Gives every turn the tokens that its model would have said it in, every second one unlikely."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(POCKET / "tokenizer.json"))
    with sqlite3.connect(folder / "run.sqlite") as connection:
        for rowid, text in connection.execute("SELECT rowid, text FROM turns").fetchall():
            tokens = tokenizer.encode(text, add_special_tokens=False).ids
            logprobs = [(-0.1, -6.0)[place % 2] for place in range(len(tokens))]
            ratios = [(1.0, 1.5)[place % 2] for place in range(len(tokens))]
            blobs = array("i", tokens).tobytes(), array("f", logprobs).tobytes(), array("f", ratios).tobytes()
            set_to = "tokens = ?, logprobs = ?, ratios = ?"
            connection.execute(f"UPDATE turns SET {set_to} WHERE rowid = ?", (*blobs, rowid))
        connection.execute("UPDATE turns SET ratios = NULL WHERE episode = '89'")
    config = folder / "config.toml"
    config.write_text(config.read_text().replace('"pocket"', f'"{model}"'))


def underlined(app: SelfPlayApp) -> list[str]:
    return [part.text for line in cells(app) for part in line if part.style and part.style.underline]


@pytest.mark.parametrize("size", SIZES)
async def test_h_shows_how_likely_tokens_were_then_their_ratios_then_neither(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    folder = record(tmp_path / "nim-9")
    spell(folder)
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("3")
        await until(pilot, lambda: "There are" in seen(app))
        before = await at_rest(pilot)
        assert not underlined(app)
        await pilot.press("h")
        await until(pilot, lambda: "p sampled" in seen(app) and underlined(app))
        said = " ".join(turn.text or "" for turn in screen.transcript.episode.turns)  # type: ignore[union-attr]
        hot = [text for text in underlined(app) if text not in ("≥ 1%", "< 1%")]  # the legend shows them as well
        assert hot
        assert all(text in said for text in hot)
        await pilot.press("h")
        await until(pilot, lambda: "ρ learnt" in seen(app) and underlined(app) == ["< 0.8"])
        await pilot.press("h")
        await until(pilot, lambda: seen(app) == before)
        await pilot.press("2", "down", "h", "h", "3")
        await until(pilot, lambda: "ρ learnt: not known" in seen(app))


async def test_heat_without_a_tokenizer_says_why_and_the_text_stays(tmp_path: Path) -> None:
    folder = record(tmp_path / "nim-9")
    spell(folder, "/nowhere/model")
    app = demo_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, folder)
        await pilot.press("3", "h")
        await until(pilot, lambda: "there is no /nowhere/model/tokenizer.json" in " ".join(seen(app).split()))
        await until(pilot, lambda: "its tokenizer isn't loaded" in seen(app))
        assert "There are" in seen(app)


@pytest.mark.parametrize("size", SIZES)
async def test_search_finds_leads_there_and_n_goes_on(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("slash", *"zugzwang")
        await until(pilot, lambda: "1 turn in step 4" in seen(app))
        assert "This is zugzwang [bold]: whatever I take" in seen(app)
        await pilot.press("enter")
        await settled(pilot, screen, 4)
        assert reads(screen) == NEEDLE
        assert screen.transcript.turn is not None
        assert screen.transcript.turn.index == 2
        await pilot.press("slash")
        await until(pilot, lambda: isinstance(app.screen, SearchScreen) and "zugzwang" in seen(app))
        await pilot.press("ctrl+u", *"take step:2-3 role:second")
        await until(pilot, lambda: "32 turns from step 2 to 3" in seen(app))
        await pilot.press("down", "down", "up", "pagedown", "pageup", "enter")
        await settled(pilot, screen, 2)
        here = screen.searched.place
        await pilot.press("n")
        await until(pilot, lambda: screen.searched.place == here + 1)
        await until(pilot, lambda: f"hit {here + 2} of 32" in seen(app))
        await pilot.press("N", "N")
        await until(pilot, lambda: screen.searched.place == max(here - 1, 0))


async def test_at_the_last_hit_n_says_so_and_another_step_is_no_hit(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("slash", *"zugzwang", "enter")
        await settled(pilot, screen, 4)
        await until(pilot, lambda: f"{NEEDLE} · hit 1 of 1" in seen(app))
        found = [part.text for line in cells(app) for part in line if part.style and part.style.reverse]
        assert "zugzwang" in found
        await pilot.press("n")
        await until(pilot, lambda: "That is the last one" in seen(app))
        await pilot.press("N")
        await until(pilot, lambda: "That is the first one" in seen(app))
        await pilot.press("2", "down")
        await until(pilot, lambda: reads(screen) == "28" and "hit 1 of 1" not in seen(app))
        await pilot.press("left")
        await settled(pilot, screen, 3)
        assert "hit 1 of 1" not in seen(app)
        assert "zugzwang" not in [p.text for line in cells(app) for p in line if p.style and p.style.reverse]


async def test_more_is_read_at_the_end_of_what_was_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.screens.search.MORE", 10)
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, folder)
        await pilot.press("slash", *"take step:2-3")
        screen = app.screen
        assert isinstance(screen, SearchScreen)
        await until(pilot, lambda: len(screen.searched.found.hits) == 10 and not screen._left)
        await pilot.press(*["down"] * 9)
        await until(pilot, lambda: len(screen.searched.found.hits) == 20)
        assert screen.hits.place == 9


async def test_the_last_turn_is_read_behind_a_note_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder)
        screen.reading.pins.marked = {"28": Pin(3, "take this")}
        await pilot.press("slash", *"take")
        search = app.screen
        assert isinstance(search, SearchScreen)
        await until(pilot, lambda: search.searched.found.hits and not search._left)
        turns = search.searched.found.total
        monkeypatch.setattr("tui.screens.search.MORE", turns - 1)
        await pilot.press("backspace")
        await pilot.press("e")
        await until(pilot, lambda: len(search.searched.found.hits) == turns)
        search.hits.action_move(turns)
        await until(pilot, lambda: len(search.searched.found.hits) == turns + 1)


@pytest.mark.parametrize("size", SIZES)
async def test_a_search_that_says_nothing_is_told_and_escape_goes_back(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("slash", *"take step:x")
        await until(pilot, lambda: "write step:12, step:10-20 or" in seen(app))
        await pilot.press("ctrl+u", *"nowhere to be found")
        await until(pilot, lambda: "Nothing was found." in seen(app))
        await pilot.press("enter")
        assert isinstance(app.screen, SearchScreen)
        await pilot.press("escape")
        assert app.screen is screen
        assert screen.step == 12


@pytest.mark.parametrize("written", ['"', "-", "(", "*", "-forfeit"])
async def test_a_search_that_names_nothing_to_find_says_so_and_how_to(folder: Path, written: str) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, folder)
        await pilot.press("slash", *written)
        await until(pilot, lambda: "names no word to find" in seen(app))
        assert "role:First" in seen(app)
        assert "Nothing was found." not in seen(app)


async def test_what_was_wrong_with_a_search_goes_with_what_was_wrong_in_it(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, folder)
        await pilot.press("slash", *"take")
        await until(pilot, lambda: "turns from step" in seen(app))
        await pilot.press(*" step:x")
        await until(pilot, lambda: "write step:12" in seen(app))
        await pilot.press(*["left"] * len(" step:x"), "ctrl+k")
        await until(pilot, lambda: "turns from step" in seen(app))
        await pilot.press("ctrl+u", *"step:x")
        await until(pilot, lambda: "write step:12" in seen(app))
        assert "Nothing was found." not in seen(app)


async def test_n_before_a_search_says_so(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, folder)
        await pilot.press("n")
        await until(pilot, lambda: "Nothing was searched for yet" in seen(app))


@pytest.mark.parametrize("size", SIZES)
async def test_brackets_go_by_turns_and_w_explains_from_the_record(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("3")
        for key, turn in (("right_square_bracket", 1), ("right_square_bracket", 2), ("left_square_bracket", 1)):
            await pilot.press(key)
            shown = screen.transcript.turn
            assert shown is not None
            assert shown.index == turn
        await pilot.press("w")
        await until(pilot, lambda: isinstance(app.screen, WhyScreen))
        await until(pilot, lambda: "0.30" in seen(app))  # the baseline
        await pilot.press("escape")
        assert app.screen is screen


async def test_copying_puts_the_transcript_on_the_clipboard(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.clipboard.tool", lambda *_: None)
    app = demo_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot, folder)
        await pilot.press("y")
        await until(pilot, lambda: "copied by the terminal" in seen(app))
        assert app.clipboard.startswith("episode 88 · nim")


@pytest.mark.parametrize("size", SIZES)
async def test_the_digits_go_to_the_panes(folder: Path, size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, folder)
        for number in (FEED, READ, PLOTS, STEP, PAGE):
            await pilot.press(str(number))
            await pilot.pause()
            shown = {pane.number for pane in screen.board.panes if pane.display and pane.size.height}
            assert shown == ({number} if size == (80, 24) else {1, 2, 3, 4, 5})
            assert app.focused in screen.board.panes[number - 1].walk_children()


async def test_m_shows_one_pane_alone_and_escape_all_again_then_leaves(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder)
        await pilot.press("3", "m")
        await pilot.pause()
        assert [pane.number for pane in screen.board.panes if pane.display] == [READ]
        await pilot.press("escape")
        await pilot.pause()
        assert all(pane.display for pane in screen.board.panes)
        await pilot.press("escape")
        assert isinstance(app.screen, HomeScreen)


async def test_m_in_a_small_terminal_says_why_not(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(pilot, folder)
        await pilot.press("m")
        await until(pilot, lambda: "One pane is shown at a time" in seen(app))


@pytest.mark.parametrize("size", SIZES)
async def test_o_on_home_opens_the_chosen_run(
    folder: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.tui.demo.RUNS", [RunInfo("nim-7", folder, "finished", "Nim", 12, 40)])
    app = demo_app()
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: "nim-7" in seen(app))
        app.home.preset_list.focus()
        await pilot.press("o")
        await until(pilot, lambda: "Only runs have a record" in seen(app))
        app.home.run_list.focus()
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        await settled(pilot, screen_of(pilot), 12)


@pytest.mark.parametrize("size", SIZES)
async def test_o_on_a_run_opens_its_record_and_it_goes_on(folder: Path, size: tuple[int, int]) -> None:
    run = still(episodes=4)
    run.folder = folder
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 3)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        await settled(pilot, screen_of(pilot), 12)
        assert run.state.value == "running"


async def test_o_on_home_opens_the_record_of_the_run_at_work(folder: Path) -> None:
    run = still(episodes=4)
    run.folder = folder
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await play(pilot, run, 3)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen) and "▸ at work" in seen(app))
        app.home.run_list.focus()
        app.home.run_list.highlighted = 0
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen))
        assert screen_of(pilot).reading.folder == folder


async def test_a_run_at_work_is_followed_at_its_end_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.screens.record.LOOK", 0.05)
    folder = record(tmp_path / "growing", steps=3)
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder, 3)
        with Store.open(folder) as store:
            add_step(store, 4)
            await settled(pilot, screen, 4)
            assert "at work, followed" in seen(app)
            await pilot.press("left")
            await settled(pilot, screen, 3)
            add_step(store, 5)
            await until(pilot, lambda: "/5" in seen(app))
            assert screen.step == 3


async def test_who_reads_a_transcript_is_left_there_by_a_run_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.screens.record.LOOK", 0.05)
    folder = record(tmp_path / "growing", steps=3)
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder, 3)
        await pilot.press("3")
        with Store.open(folder) as store:
            add_step(store, 4)
            await until(pilot, lambda: "/4" in seen(app))
            assert (screen.step, reads(screen)) == (3, "16")
            assert "followed" not in seen(app)
            await pilot.press("2", "end")
            await settled(pilot, screen, 4)
            assert "at work, followed" in seen(app)
            add_step(store, 5)
            await settled(pilot, screen, 5)


async def test_a_folder_without_a_run_says_so_and_the_app_lives_on(tmp_path: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.home.is_mounted)
        await app.push_screen(ReplayScreen(Path("gone"), tmp_path, tmp_path))
        await until(pilot, lambda: "not a run: no run.sqlite in it" in seen(app))
        await pilot.press("left", "b", "n", "w", "y", "space", "escape")
        assert isinstance(app.screen, HomeScreen)


async def test_a_damaged_episode_is_told_and_other_steps_can_be_read(tmp_path: Path) -> None:
    folder = record(tmp_path / "odd", steps=3)
    with sqlite3.connect(folder / "run.sqlite") as connection:
        connection.execute("UPDATE episodes SET breakdown = '{' WHERE step = 2")
    app = demo_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: app.home.is_mounted)
        await app.push_screen(ReplayScreen(folder, tmp_path, tmp_path))
        await settled(pilot, screen_of(pilot), 3)
        await pilot.press("left")
        await until(pilot, lambda: "the record is damaged" in " ".join(seen(app).split()))
        await pilot.press("left")
        await settled(pilot, screen_of(pilot), 1)
        await until(pilot, lambda: not screen_of(pilot).left)


async def test_another_theme_is_on_every_line_at_once(folder: Path) -> None:
    app = demo_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, folder)
        before = list(screen.figures.lines)
        await pilot.press("t")
        await until(pilot, lambda: screen.figures.lines != before and screen.header.line)
        assert [text for line in screen.figures.lines for text, _ in line] == [
            t for line in before for t, _ in line
        ]


async def test_a_run_without_a_step_is_told_and_shown_once_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.screens.record.LOOK", 0.05)
    folder = record(tmp_path / "young", steps=0)
    with Store.open(folder) as store:
        store.rewind(-1)
        app = demo_app()
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app.home.is_mounted)
            await app.push_screen(ReplayScreen(folder, tmp_path, tmp_path))
            await until(pilot, lambda: "No step is recorded yet" in seen(app))
            await pilot.press("left", "end", "full_stop", "slash")
            await until(pilot, lambda: isinstance(app.screen, SearchScreen))
            await pilot.press("escape")
            add_step(store, 1)
            await settled(pilot, screen_of(pilot), 1)


async def test_pins_that_are_damaged_are_told_and_set_aside(recorded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "nim-8"
    shutil.copytree(recorded, folder)
    (folder / "pins.json").write_text("[not pins")
    app = demo_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = await opened(pilot, folder)
        await until(pilot, lambda: "holds no pins" in " ".join(seen(app).split()))
        await pilot.press("b")
        await until(pilot, lambda: screen.entries[0].sign == PIN)
        assert (folder / "pins.damaged").read_text() == "[not pins"


def test_every_action_of_the_table_has_a_method() -> None:
    for action in actions("replay"):
        assert hasattr(ReplayScreen, f"action_{action.action.partition('(')[0]}"), action.name
    for action in actions("search"):
        assert hasattr(SearchScreen, f"action_{action.action.partition('(')[0]}"), action.name


@pytest.mark.parametrize("size", PICTURED)
@pytest.mark.parametrize("pane", [FEED, READ])
def test_a_picture_of_a_replay(
    snap_compare: Compare, recorded_here: Path, size: tuple[int, int], pane: int
) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot, recorded_here)
        await pilot.press("comma", str(pane))
        await settled(pilot, screen, 10)
        await until(
            pilot,
            lambda: (
                not screen.board.shows(PLOTS)
                or [chart for chart in screen.plots.query(Chart) if chart.cursor == 10.0]
            ),
        )
        await pilot.pause()

    assert snap_compare(demo_app(clock=Clock()), terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", PICTURED)
def test_a_picture_of_a_search(snap_compare: Compare, recorded_here: Path, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await opened(pilot, recorded_here)
        await pilot.press("slash", *"sticks reward>0 -zugzwang")
        await until(pilot, lambda: "turns from step" in seen(pilot.app))  # type: ignore[arg-type]
        assert isinstance(pilot.app.screen, SearchScreen)
        pilot.app.screen.box.cursor_blink = False
        await until(pilot, lambda: not pilot.app.screen._left)  # type: ignore[attr-defined]
        await pilot.pause()

    assert snap_compare(demo_app(clock=Clock()), terminal_size=size, run_before=before)
