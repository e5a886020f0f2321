"""Keys of one's own, jumping, panes of another size, what is remembered, and notices."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.events import RunState, StateChanged
from tests.tui.clock import Clock
from tests.tui.demo import app as demo_app
from tests.tui.look import SIZES, play, seen, still, until, watching
from tests.tui.test_snapshots import Compare, played
from tui import keymap
from tui.actions import ACTIONS, SCOPES, Scope, actions
from tui.keymap import Keymap, parse
from tui.memory import Memory
from tui.screens.home import HomeScreen
from tui.screens.jump import Jump
from tui.screens.run import RunScreen
from tui.widgets.divider import Divider
from tui.widgets.pane import Pane

# Keys


def test_the_printed_table_is_toml_that_changes_nothing() -> None:
    tables = tomllib.loads(keymap.to_toml())
    assert {f"{scope}.{name}" for scope, table in tables.items() for name in table} == {a.id for a in ACTIONS}
    made = parse(tables)
    assert made.problems == []
    assert made.keys == {action.id: action.keys for action in ACTIONS}


def test_names_in_the_table_are_unique_and_scopes_known() -> None:
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    assert {action.scope for action in ACTIONS} <= set(SCOPES)


@pytest.mark.parametrize("scope", SCOPES)
def test_no_key_has_two_meanings_on_one_screen(scope: Scope) -> None:
    keys = [key for action in actions(scope) for key in action.keys.split(",")]
    assert sorted(keys) == sorted(set(keys))


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"rum": {}}, "there is no table [rum]; did you mean run"),
        ({"run": {"pauze": "x"}}, "[run] has no action pauze; did you mean pause"),
        ({"run": {"pause": "spcae"}}, 'run.pause: there is no key "spcae"; did you mean space'),
        ({"run": {"pause": "contrl+x"}}, 'run.pause: there is no key "contrl+x"'),
        ({"run": {"pause": 3}}, 'run.pause wants keys as text, such as "space", not 3'),
        ({"run": {"pause": "p"}}, 'run.pause: "p" is the key of run.prompts already'),
        ({"run": {"pause": "ctrl+q"}}, 'run.pause: "ctrl+q" is the key of app.quit already'),
        ({"run": "space"}, "run wants to be a table"),
    ],
)
def test_what_is_wrong_in_a_keymap_is_told_and_changes_nothing(tables: dict[str, object], told: str) -> None:
    made = parse(tables)
    assert len(made.problems) == 1
    assert told in made.problems[0]
    assert made.keys == {}


def test_the_rest_of_a_file_with_an_error_counts(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text('[run]\npause = "F9"\nfolllow = "x"\n')
    made = keymap.read(file)
    assert made.keys == {"run.pause": "f9"}
    assert len(made.problems) == 1
    assert made.problems[0].startswith(f"{file}: [run] has no action folllow; did you mean follow")


def test_no_file_is_no_keymap_and_a_broken_one_is_told(tmp_path: Path) -> None:
    assert keymap.read(tmp_path / "none.toml") == Keymap()
    (tmp_path / "keys.toml").write_text("[run\n")
    assert "keys.toml" in keymap.read(tmp_path / "keys.toml").problems[0]
    (tmp_path / "keys.toml").write_bytes(b"\xff\xfe")
    assert "keys.toml" in keymap.read(tmp_path / "keys.toml").problems[0]


@pytest.mark.parametrize("size", SIZES)
async def test_a_key_of_ones_own_takes_the_place_of_ours_everywhere(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run, keymap=parse({"run": {"pause": "f9", "prompts": "space"}, "app": {"help": "f1"}}))
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 2)
        await until(pilot, lambda: " f9 pause" in seen(app))
        await pilot.press("f9")
        assert run.calls == ["start", "pause"]
        await pilot.press("f1")
        await until(pilot, lambda: "f9" in seen(app) and "Pause the run, or resume it" in seen(app))
        await pilot.press("escape", "space")
        await until(pilot, lambda: "Edit a prompt" in seen(app))
        assert run.calls == ["start", "pause"]


async def test_a_wrong_keymap_is_told_when_the_app_opens() -> None:
    app = demo_app(keymap=parse({"run": {"pauze": "x"}}))
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: "no action pauze" in seen(app))


# Jumping


@pytest.mark.parametrize("size", SIZES)
async def test_jump_shows_letters_and_a_letter_focuses_its_pane(size: tuple[int, int]) -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 5)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        shown = [pane for pane in screen.query(Pane) if pane.display and pane.region.area]
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(app.screen, Jump))
        jump = app.screen
        assert isinstance(jump, Jump)
        assert len(jump.targets) >= len(shown)
        letter = list(jump.targets)[len(shown) - 1]
        await until(pilot, lambda: f" {letter} " in seen(app))
        await pilot.press(letter)
        await until(pilot, lambda: app.screen is screen)
        assert app.focused is not None
        assert shown[-1] in app.focused.ancestors


async def test_another_key_leaves_jump_mode_where_one_was() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        before = app.focused
        for key in ("5", "escape"):
            await pilot.press("ctrl+o")
            await until(pilot, lambda: isinstance(app.screen, Jump))
            await pilot.press(key)
            await until(pilot, lambda: isinstance(app.screen, HomeScreen))
            assert app.focused is before


# Panes


def wide(app: object, name: str) -> int:
    return app.screen.query_one(f"#{name}").outer_size.width  # type: ignore[attr-defined]


async def test_keys_move_the_border_of_the_pane_and_it_is_remembered(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "app.json")
    run = still()
    app = watching(run, memory=memory)
    async with app.run_test(size=(160, 45)) as pilot:
        await play(pilot, run, 2)
        before = wide(app, "episodes")
        await pilot.press("1", "shift+right", "shift+right")
        await pilot.pause()
        widened = wide(app, "episodes")
        assert widened > before
        await pilot.press("4", "shift+right")
        await pilot.pause()
        numbers = wide(app, "numbers")
    again = still()
    app = watching(again, memory=Memory(tmp_path / "app.json"))
    async with app.run_test(size=(160, 45)) as pilot:
        await play(pilot, again, 2)
        assert abs(wide(app, "episodes") - widened) <= 1
        assert abs(wide(app, "numbers") - numbers) <= 1
        await pilot.press("m")
        await pilot.pause()
        assert wide(app, "episodes") == 160
        await pilot.press("escape")
        await pilot.pause()
        assert abs(wide(app, "episodes") - widened) <= 1
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: wide(app, "episodes") == 80)


async def test_a_border_can_be_dragged() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(160, 45)) as pilot:
        await play(pilot, run, 2)
        before = wide(app, "episodes")
        divider = app.screen.query(Divider).first()
        await pilot.mouse_down(divider, offset=(0, 5))
        await pilot.hover(divider, offset=(12, 5))
        await pilot.mouse_up(divider, offset=(0, 5))
        await pilot.pause()
        assert abs(wide(app, "episodes") - before - 12) <= 1


async def test_a_border_stops_before_a_pane_is_gone() -> None:
    run = still()
    app = watching(run)
    async with app.run_test(size=(160, 45)) as pilot:
        await play(pilot, run, 2)
        await pilot.press("1", *["shift+right"] * 40)
        await pilot.pause()
        assert wide(app, "episodes") < 160 * 0.75
        await pilot.press(*["shift+left"] * 60)
        await pilot.pause()
        assert wide(app, "episodes") >= 34


async def test_where_there_is_no_border_it_is_said() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("shift+left")
        await until(pilot, lambda: "no border to move" in seen(app))


# Memory


async def test_the_theme_is_remembered(tmp_path: Path) -> None:
    app = demo_app(memory=Memory(tmp_path / "app.json"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("t")
        await pilot.pause()
        chosen = app.theme
    assert demo_app(memory=Memory(tmp_path / "app.json")).theme == chosen != demo_app().theme


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"theme": 3, "panes RunScreen": {"episodes": "wide", "x": 9}}'])
def test_a_damaged_memory_counts_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "app.json"
    file.write_text(text)
    memory = Memory(file)
    assert memory.text("theme", "dusk") == "dusk"
    assert memory.sizes("panes RunScreen") == {}
    assert memory.flag("notices", True)
    memory.keep("theme", "paper")
    assert json.loads(file.read_text())["theme"] == "paper"


def test_a_folder_that_cannot_be_written_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = Memory(tmp_path / "file" / "app.json")
    memory.keep("theme", "paper")
    assert memory.text("theme", "") == "paper"


# Pictures


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_jump_mode_in_a_picture(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await played(pilot, 3)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: isinstance(pilot.app.screen, Jump))
        await pilot.pause()

    assert snap_compare(watching(still(episodes=24), clock=Clock()), terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_a_run_that_waits_for_a_disk_in_a_picture(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        run: Any = pilot.app.session.run  # type: ignore[attr-defined]
        await played(pilot, 3)
        run.state = RunState.PAUSED
        run.emit(StateChanged(RunState.PAUSED, "runs/nim-3: database or disk is full; make room there"))
        for _ in range(3):
            await play(pilot, run, 0)

    assert snap_compare(watching(still(episodes=24), clock=Clock()), terminal_size=size, run_before=before)
