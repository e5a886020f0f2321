"""Keys that come all at once do what they do one by one: none is lost, overtakes another, or goes elsewhere."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

import presets
from engine.config import load
from tests.tui.demo import PRESETS
from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tests.tui.look import burst, play, seen, still, until, watching
from tests.tui.played import record as played
from tests.tui.recorded import record, rising
from tests.tui.test_form_screen import Made, go_to
from tests.tui.test_form_screen import opened as form_of
from tests.tui.test_home import home_of, record_of
from tests.tui.test_play import opened as choosing
from tests.tui.test_replay import opened as record_of_run
from tests.tui.test_replay import settled
from tests.tui.test_steer import Elsewhere, steering_of
from tests.tui.test_wall import trees
from tui import typeahead
from tui.app import SelfPlayApp
from tui.screens.dialog import Confirm, Waiting
from tui.screens.help import Help
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen
from tui.screens.search import SearchScreen

SIZE = (80, 24)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of presets."""
    monkeypatch.setattr(presets, "user_folder", lambda: tmp_path / "presets")
    return tmp_path / "presets"


# What is written into a field is there when the next key does something with it


async def test_a_prompt_is_opened_written_and_applied() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=SIZE) as pilot:
        await play(pilot, run, 3)
        burst(app, "p", *"  Be brief.", "ctrl+s")
        await until(pilot, lambda: any(role.system_prompt.endswith("  Be brief.") for role in run.roles.values()))
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_a_form_is_opened_a_field_found_and_written_and_its_run_started() -> None:
    made = Made()
    async with made.app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "nim-pocket" in seen(made.app))
        burst(made.app, "e", "ctrl+f", *"run.steps", "enter", "ctrl+u", *"73", "ctrl+r")
        await until(pilot, lambda: isinstance(made.app.screen, RunScreen))
        assert made.configs[0].run.steps == 73


async def test_a_value_stays_in_its_field_when_the_cursor_goes_on_at_once() -> None:
    made = Made()
    async with made.app.run_test(size=SIZE) as pilot:
        screen = await form_of(pilot)
        await pilot.press("ctrl+f", *"run.", "enter")
        rows = [row.id for row in screen.list.rows]
        after = rows[rows.index("run.steps") + 1]
        kept = screen.form.field(after).text
        await pilot.press(*["down"] * (rows.index("run.steps") - screen.list.cursor))
        assert screen.list.row is not None
        assert screen.list.row.id == "run.steps"
        burst(made.app, "ctrl+u", *"73", "down")
        await until(pilot, lambda: screen.list.row is not None and screen.list.row.id == after)
        await pilot.pause()
        assert screen.form.field("run.steps").text == "73"
        assert screen.form.field(after).text == kept


async def test_what_is_being_typed_outlives_what_the_tasks_tell_meanwhile() -> None:
    made = Made()
    async with made.app.run_test(size=SIZE) as pilot:
        screen = await form_of(pilot)
        await go_to(pilot, "run.steps")
        screen.value.value = "73"
        screen.fill()  # before the form has heard of it
        await until(pilot, lambda: screen.form.field("run.steps").text == "73")


async def test_a_preset_is_saved_under_a_name(folder: Path) -> None:
    made = Made()
    async with made.app.run_test(size=SIZE, notifications=True) as pilot:
        await form_of(pilot)
        burst(made.app, "ctrl+f", *"run.steps", "enter", "ctrl+u", *"73")
        burst(made.app, "ctrl+s", "end", "ctrl+u", *"mine", "enter")
        await until(pilot, lambda: (folder / "mine.toml").exists())
        assert load(folder / "mine.toml").run.steps == 73


# What a key opens has the keys after it


async def test_a_fork_is_named_changed_and_made() -> None:
    run = still(episodes=4)
    app = watching(run)
    elsewhere = Elsewhere(app)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await steering_of(pilot, run, 3)
        burst(app, "f", *"twin", "tab", *"train.kl=0.5", "enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert elsewhere.done == [("fork", Path("runs/nim-3"), 3, "twin", ("train.kl=0.5",))]


async def test_while_a_fork_is_made_keys_do_nothing_to_the_run() -> None:
    run = still(episodes=4)
    app = watching(run)
    made = threading.Event()

    def fork(folder: Path, *_: object) -> Path:
        assert made.wait(10)
        return folder.parent / "twin"

    app.sources = replace(app.sources, fork=fork)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        screen = await steering_of(pilot, run, 3)
        burst(app, "f", "enter", "space", "escape", "enter", "n")
        await until(pilot, lambda: isinstance(app.screen, Waiting))
        await pilot.pause(0.1)
        made.set()
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert app.screen_stack[-2:] == [screen, app.screen]
        assert run.calls == ["start"]


async def test_settings_are_opened_and_set_from_the_run() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await play(pilot, run, 3)
        burst(app, "s", "enter", *"7", "enter", *"0.002", "enter", "enter", *"0.001", "enter", "escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and len(run.calls) == 3)
        # what was refused is written over; what was in force when the screen opened is a change again
        assert run.calls == ["start", "set train.learning_rate=0.002", "set train.learning_rate=0.001"]


@pytest.mark.parametrize(("keys", "roles", "opponent"), [
    (("down", "enter"), ("Second",), "policy"),
    (("down", "space", "up", "space", "right", "down", "down", "enter"), ("First", "Second"), "step-10"),
])  # fmt: skip
async def test_whom_to_play_is_chosen(keys: tuple[str, ...], roles: tuple[str, ...], opponent: str) -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=SIZE) as pilot:
        await choosing(pilot, run)
        burst(app, *keys)
        await until(pilot, lambda: run.table.sat)
        assert (run.table.sat[0].roles, run.table.sat[0].opponent) == (roles, opponent)


async def test_one_sits_down_from_the_run() -> None:
    run = still(episodes=4)
    app = watching(run)
    async with app.run_test(size=SIZE) as pilot:
        await play(pilot, run, 3)
        burst(app, "x", "down", "enter")
        await until(pilot, lambda: run.table.sat)
        assert run.table.sat[0].roles == ("Second",)


async def test_the_question_before_deleting_has_the_answer(tmp_path: Path) -> None:
    run = record(tmp_path / "nim-7", rising(9)).folder
    app = home_of(listed=lambda: [record_of(run)] if run.exists() else [])
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await until(pilot, lambda: "nim-7" in seen(app))
        burst(app, "d", "n", "d", "enter")
        await until(pilot, lambda: not run.exists())
        assert isinstance(app.screen, HomeScreen)


# Filters and searches


async def test_enter_starts_what_passes_the_filter() -> None:
    begun: list[str] = []

    def create(name: str) -> FakeRun:
        begun.append(name)
        return still()

    app = SelfPlayApp(presets=lambda: PRESETS, runs=lambda: [], create=create, resume=lambda _: still())
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "kuhn-pocket" in seen(app))
        burst(app, "/", *"kuhn", "enter", "enter")  # one leaves the filter
        await until(pilot, lambda: begun)
        assert begun == ["kuhn-pocket"]


async def test_a_filter_of_the_wall_is_written_and_kept() -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=SIZE) as pilot:
        screen = await trees(pilot, run)
        burst(app, "/", *"reward<0", "enter")
        await until(pilot, lambda: screen.wall.rows.ids == ["t3", "t3.1"])
        await until(pilot, lambda: app.focused is screen.wall)


async def test_a_letter_jumps() -> None:
    app = demo_app()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "nim-2" in seen(app))
        burst(app, "?", "escape", "ctrl+o", "s")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen) and app.focused is app.home.run_list)
        assert not isinstance(app.screen, Help)


async def test_enter_goes_to_what_a_search_finds_though_it_was_not_searched_for_yet(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    record = played(tmp_path_factory.mktemp("runs") / "nim-7")
    app = demo_app()
    async with app.run_test(size=SIZE) as pilot:
        screen = await record_of_run(pilot, record)
        burst(app, "/", *"zugzwang", "enter", "/", "ctrl+u", *'"no', "enter")
        await settled(pilot, screen, 4)
        assert screen.searched.text == "zugzwang"
        await until(pilot, lambda: isinstance(app.screen, SearchScreen) and '"no' in seen(app))
        burst(app, "escape")  # what can't be searched for leads nowhere
        await until(pilot, lambda: app.screen is screen)


# The mechanism itself


async def test_who_hangs_holds_up_the_keys_behind_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typeahead, "PATIENCE", 0.2)
    run = still()
    app = watching(run)
    goes_on = asyncio.Event()

    async def hang(event: events.Key) -> None:
        await goes_on.wait()

    async with app.run_test(size=SIZE) as pilot:
        await play(pilot, run, 3)
        assert isinstance(app.screen, RunScreen)
        monkeypatch.setattr(app.screen.wall, "handle_key", hang)
        before = app.theme
        burst(app, "down", "ctrl+c")
        await asyncio.sleep(0.1)
        assert isinstance(app.screen, RunScreen)
        async with asyncio.timeout(5):
            while not isinstance(app.screen, Confirm):
                await asyncio.sleep(0.02)
        goes_on.set()
        burst(app, "escape", "t")  # and keys behind are heard as ever
        await until(pilot, lambda: app.theme != before)


async def test_a_key_that_comes_alone_is_given_out_at_once() -> None:
    app = demo_app()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "nim-2" in seen(app))
        key = events.Key("x", "x")
        assert typeahead.TypeAhead(app).may_pass(key)


async def test_what_is_pasted_keeps_its_place_among_the_keys() -> None:
    app = demo_app()
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "nim-2" in seen(app))
        burst(app, "/", "a")
        app.post_message(events.Paste("bc"))
        burst(app, "d")
        await until(pilot, lambda: app.home.filter.value == "abcd")


async def test_a_key_that_is_held_counts_each_time() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=SIZE) as pilot:
        screen = await steering_of(pilot, run)
        wanted = screen.setter.choice.ids[9]
        burst(app, *["down"] * 12, *["up"] * 3, "enter")
        await until(pilot, lambda: screen.setter.editing == wanted and screen.setter.field.has_focus)


async def test_a_thousand_letters_arrive_in_order() -> None:
    app = demo_app()
    text = "".join(chr(ord("a") + place * 7 % 26) for place in range(1000))
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "nim-2" in seen(app))
        burst(app, "/", *text)
        await until(pilot, lambda: len(app.home.filter.value) == 1000, 20)
        assert app.home.filter.value == text
