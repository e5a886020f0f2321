"""The form on the screen: moving, typing, what is wrong beside the field, starting, saving, leaving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

import presets
from engine.config import Config, RewardConfig, load
from tests.tui.demo import PRESETS
from tests.tui.fake import FakeRun
from tests.tui.look import SIZES, seen, still, until
from tui.app import SelfPlayApp
from tui.form.lines import columns
from tui.screens.adding import AskWeight, Offers
from tui.screens.dialog import Confirm
from tui.screens.form import FormScreen
from tui.screens.help import Help
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen
from tui.screens.texts import AskName, LongText


class Made:
    """What the app asked for, and the app."""

    def __init__(self) -> None:
        self.configs: list[Config] = []
        self.runs: list[FakeRun] = []
        self.fails = ""
        self.app = SelfPlayApp(
            presets=lambda: PRESETS,
            runs=lambda: [],
            create=lambda _: still(),
            resume=lambda _: still(),
            configure=self.configure,
            judge=lambda config: f"{config.model.rows} MB · fits",
        )

    def configure(self, config: Config) -> FakeRun:
        if self.fails:
            raise ValueError(self.fails)
        self.configs.append(config)
        self.runs.append(still())
        return self.runs[-1]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of presets."""
    monkeypatch.setattr(presets, "user_folder", lambda: tmp_path / "presets")
    return tmp_path / "presets"


async def opened(pilot: Pilot[Any]) -> FormScreen:
    """Nim's preset in the form, the tasks asked."""
    app = pilot.app
    await pilot.press("e")
    await until(pilot, lambda: isinstance(app.screen, FormScreen) and "options.notation" in seen(app))  # type: ignore[arg-type]
    screen = app.screen
    assert isinstance(screen, FormScreen)
    return screen


async def go_to(pilot: Pilot[Any], name: str) -> None:
    """To a field, by the filter."""
    await pilot.press("ctrl+f", *name, "enter")
    screen = pilot.app.screen
    assert isinstance(screen, FormScreen)
    await until(pilot, lambda: screen.list.row is not None and screen.list.row.id == name)
    await pilot.pause()


async def write(pilot: Pilot[Any], text: str) -> None:
    """In place of what is in the field."""
    await pilot.press("end", "ctrl+u", *text)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_a_preset_is_edited_and_started(size: tuple[int, int]) -> None:
    made = Made()
    async with made.app.run_test(size=size) as pilot:
        await opened(pilot)
        await go_to(pilot, "run.steps")
        await write(pilot, "7")
        await until(pilot, lambda: "1 key changed" in seen(made.app))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: isinstance(made.app.screen, RunScreen))
        assert made.configs[0].run.steps == 7
        assert made.configs[0].model_copy(update={"run": load(presets.find("nim-pocket")).run}) == load(
            presets.find("nim-pocket")
        )
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(made.app.screen, HomeScreen))


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_wrong_stands_beside_the_field_as_one_types(size: tuple[int, int]) -> None:
    made = Made()
    async with made.app.run_test(size=size, notifications=True) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, "train.kl")
        await write(pilot, "-1")
        await until(pilot, lambda: "✗ kl" in seen(made.app) and "wants a number of" in seen(made.app))
        await pilot.press("ctrl+f", "ctrl+u", *"run.steps", "enter", "ctrl+r")
        await until(pilot, lambda: "train.kl: wants a number of at least 0" in seen(made.app))
        assert isinstance(made.app.screen, FormScreen)
        await until(pilot, lambda: screen.list.row is not None and screen.list.row.id == "train.kl")
        await write(pilot, "0.2")
        await until(pilot, lambda: not screen.form.problems)


async def test_choices_go_round_by_keys_and_bounds_are_told() -> None:
    made = Made()
    async with made.app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, "train.schedule")
        await until(pilot, lambda: "‹ constant ›" in seen(made.app))
        await pilot.press("right")
        assert screen.form.field("train.schedule").text == "linear"
        await pilot.press("space", "left")
        assert screen.form.field("train.schedule").text == "linear"
        await until(pilot, lambda: "one of constant, linear, cosine" in seen(made.app))


async def test_a_field_is_taken_back_and_given_its_default() -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, "run.steps")
        await write(pilot, "7")
        await pilot.press("ctrl+z")
        assert screen.form.field("run.steps").text == "80"
        assert screen.value.value == "80"
        await pilot.press("ctrl+d")
        assert screen.form.field("run.steps").text == "100"
        assert screen.value.value == "100"


async def test_groups_fold_and_the_filter_is_cleared_by_escape() -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("up", "enter")
        await until(pilot, lambda: "▸ general" in seen(made.app))
        await pilot.press("right")
        await until(pilot, lambda: "▾ general" in seen(made.app))
        await pilot.press("ctrl+f", *"no such thing")
        await until(pilot, lambda: "No key passes the filter" in seen(made.app))
        await pilot.press("escape")
        await until(pilot, lambda: "▾ general" in seen(made.app))
        assert made.app.screen is screen


async def test_the_estimate_of_memory_follows_the_edits() -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await until(pilot, lambda: "memory 128 MB · fits" in seen(made.app))
        await go_to(pilot, "model.rows")
        await write(pilot, "64")
        await until(pilot, lambda: "memory 64 MB · fits" in seen(made.app))


async def test_a_prompt_is_written_in_lines() -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, "roles.First.prompt")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(made.app.screen, LongText))
        await pilot.press("enter", *"Win.", "ctrl+s")
        await until(pilot, lambda: "Nim. ⏎ +1" in seen(made.app))
        assert screen.form.field("roles.First.prompt").text == "Nim.\nWin."
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(made.app.screen, LongText))
        await pilot.press("x", "escape")
        await until(pilot, lambda: made.app.screen is screen)
        assert screen.form.field("roles.First.prompt").text == "Nim.\nWin."


async def test_saved_under_a_name_it_loads_again_and_another_is_replaced_only_if_told(folder: Path) -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, "run.steps")
        await write(pilot, "7")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(made.app.screen, AskName) and "my-nim-pocket" in seen(made.app))
        await pilot.press("enter")
        await until(pilot, lambda: (folder / "my-nim-pocket.toml").exists())
        saved = load(folder / "my-nim-pocket.toml")
        assert saved == screen.form.config
        assert "kl_kind" in (folder / "my-nim-pocket.toml").read_text()
        assert "weight_decay" not in (folder / "my-nim-pocket.toml").read_text()
        await until(pilot, lambda: "my-nim-pocket  nothing changed" in seen(made.app))

        await write(pilot, "9")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(made.app.screen, AskName))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(made.app.screen, Confirm))
        await pilot.press("escape")
        await until(pilot, lambda: made.app.screen is screen)
        assert load(folder / "my-nim-pocket.toml").run.steps == 7
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(made.app.screen, AskName))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(made.app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: load(folder / "my-nim-pocket.toml").run.steps == 9)


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".hidden", "a b"])
async def test_a_name_that_is_no_files_is_refused_and_stays_to_be_mended(name: str, folder: Path) -> None:
    made = Made()
    async with made.app.run_test(size=(120, 40), notifications=True) as pilot:
        await opened(pilot)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(made.app.screen, AskName))
        made.app.screen.query_one(Input).value = name
        await pilot.press("enter")
        await until(pilot, lambda: "letters, digits" in seen(made.app))
        assert not folder.exists()
        await until(pilot, lambda: isinstance(made.app.screen, AskName))
        assert made.app.screen.query_one(Input).value == name
        made.app.screen.query_one(Input).value = "mended"
        await pilot.press("enter")
        await until(pilot, lambda: (folder / "mended.toml").exists())


async def test_a_run_that_cannot_be_made_leaves_the_form_with_what_was_typed() -> None:
    made = Made()
    made.fails = "[roles.Third]: nim has no such role"
    async with made.app.run_test(size=(80, 24), notifications=True) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, "run.steps")
        await write(pilot, "7")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "no such role" in seen(made.app))
        assert made.app.screen is screen
        assert screen.form.field("run.steps").text == "7"


async def test_what_only_the_task_can_refuse_is_told_before_the_start(tmp_path: Path) -> None:
    made = Made()
    async with made.app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await go_to(pilot, "task.name")
        await write(pilot, "nym")
        await until(pilot, lambda: "✗ refused by the task" in seen(made.app) and "no task 'nym'" in seen(made.app))
        await write(pilot, "kuhn_poker")
        await until(pilot, lambda: "refused" not in seen(made.app))


@pytest.mark.parametrize("size", SIZES)
async def test_a_reward_is_put_in_from_a_list_saved_and_started(size: tuple[int, int], folder: Path) -> None:
    made = Made()
    async with made.app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(made.app.screen, Offers) and "reward illegal_move" in seen(made.app))
        await pilot.press(*"wanted length")
        await until(pilot, lambda: "reward exact" not in seen(made.app))
        await pilot.press("enter")
        await until(pilot, lambda: "rewards.length" in seen(made.app) and "✗ options.most" in seen(made.app))
        await pilot.press("ctrl+r")
        assert made.app.screen is screen
        await until(pilot, lambda: screen.list.row is not None and screen.list.row.id.endswith("options.most"))
        await write(pilot, "3")
        await until(pilot, lambda: screen.form.config is not None)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(made.app.screen, AskName))
        await pilot.press("enter")
        await until(pilot, lambda: (folder / "my-nim-pocket.toml").exists())
        assert load(folder / "my-nim-pocket.toml").rewards == {"length": RewardConfig(options={"most": 3})}
        await pilot.press("ctrl+r")
        await until(pilot, lambda: isinstance(made.app.screen, RunScreen))
        assert made.configs[0].rewards == {"length": RewardConfig(options={"most": 3})}


@pytest.mark.parametrize(("answer", "weight"), [("enter", 1.0), ("right", 0.0)])
async def test_a_task_is_put_beside_the_one_there_is(answer: str, weight: float) -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(made.app.screen, Offers) and "reward illegal_move" in seen(made.app))
        await pilot.press(*"kuhn", "enter")
        await until(pilot, lambda: isinstance(made.app.screen, AskWeight) and "Only measure it" in seen(made.app))
        await pilot.press(answer, *(["enter"] if answer == "right" else []))
        await until(pilot, lambda: made.app.screen is screen and "tasks.kuhn_poker" in seen(made.app))
        config = screen.form.config
        assert config is not None
        assert config.tasks["kuhn_poker"].weight == weight
        assert (config.task is None, "nim" in config.tasks) == ((True, True) if weight else (False, False))


async def test_a_table_is_taken_out_and_put_back_by_a_key_or_a_click() -> None:
    made = Made()
    config = load(presets.find("games-pocket"))
    async with made.app.run_test(size=(80, 24), notifications=True) as pilot:
        made.app.push_screen(FormScreen("games-pocket", config))
        await until(pilot, lambda: isinstance(made.app.screen, FormScreen) and "tasks.nim" in seen(made.app))
        screen = made.app.screen
        assert isinstance(screen, FormScreen)
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "Only a reward" in seen(made.app))
        screen.list.find("[tasks.nim]")
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "✗ tasks.nim  taken out" in seen(made.app))
        assert screen.form.config is not None
        assert "nim" not in screen.form.config.tasks
        await pilot.click(screen.list, offset=(10, screen.list.cursor - round(screen.list.scroll_offset.y)))
        await until(pilot, lambda: "taken out" not in screen.list.render_line(1).text)
        assert screen.form.config.model_dump() == config.model_dump()


async def test_the_list_of_tables_takes_a_file_of_ones_own_and_can_be_left(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def short(rollout, arena, *, most: int = 3):\n    return 1.0\n")
    made = Made()
    async with made.app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(made.app.screen, Offers))
        await pilot.press("escape")
        await until(pilot, lambda: made.app.screen is screen)
        await pilot.click(screen.list, offset=(10, 3))
        screen.list.move(len(screen.list.rows))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(made.app.screen, Offers))
        made.app.screen.query_one(Input).value = f"{mine}:short"
        await until(pilot, lambda: "A function in a file of yours" in seen(made.app))
        await pilot.click("#yes")
        await until(pilot, lambda: "options.most" in seen(made.app))
        assert screen.form.config is not None
        assert screen.form.config.rewards == {"short": RewardConfig(function=f"{mine}:short")}


async def test_leaving_asks_only_where_something_would_be_lost() -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(made.app.screen, HomeScreen))
        screen = await opened(pilot)
        await go_to(pilot, "run.steps")
        await write(pilot, "7")
        await pilot.press("escape")
        await until(
            pilot, lambda: isinstance(made.app.screen, Confirm) and "1 change of nim-pocket" in seen(made.app)
        )
        await pilot.press("escape")
        await until(pilot, lambda: made.app.screen is screen)
        await pilot.press("escape", "enter")
        await until(pilot, lambda: isinstance(made.app.screen, HomeScreen))


async def test_help_is_at_hand_where_a_question_mark_is_a_letter() -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await pilot.press("f1")
        await until(
            pilot, lambda: isinstance(made.app.screen, Help) and "Start a run as the form says" in seen(made.app)
        )


async def test_a_click_goes_to_a_field_and_a_wheel_takes_the_editor_along() -> None:
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.click(screen.list, offset=(10, 5))
        await until(pilot, lambda: screen.list.cursor == 5)
        await pilot.pause()
        before = screen.value.region.y
        screen.list.scroll_to(y=2, animate=False)
        await until(pilot, lambda: screen.value.region.y == before - 2)
        wheel = events.MouseScrollUp(screen.value, 1, 0, 0, 0, 0, False, False, False)
        screen.value.post_message(wheel)  # over the field, too, it is the list that scrolls
        await until(pilot, lambda: screen.value.region.y == before)


async def test_a_second_click_goes_on_to_the_next_choice_and_on_its_first_sign_back() -> None:
    made = Made()
    async with made.app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await go_to(pilot, "train.schedule")
        y = screen.list.cursor - round(screen.list.scroll_offset.y)
        start = columns(screen.list.cells)[0]
        await pilot.click(screen.list, offset=(start + 6, y))
        await until(pilot, lambda: screen.form.field("train.schedule").text == "linear")
        await pilot.click(screen.list, offset=(start, y))
        await until(pilot, lambda: screen.form.field("train.schedule").text == "constant")


async def test_hostile_text_of_a_preset_reaches_no_widget_as_it_is(folder: Path) -> None:
    hostile = "\x1b]52;c;AAAA\x07[/b] \u202egnp\u202c" + "x" * 400
    config = load(presets.find("nim-pocket")).model_copy(update={"title": hostile, "teaches": hostile[:40]})
    made = Made()
    async with made.app.run_test(size=(80, 24)) as pilot:
        made.app.push_screen(FormScreen("[red]\x1b[2J", config))
        await until(pilot, lambda: isinstance(made.app.screen, FormScreen) and "options.notation" in seen(made.app))
        await pilot.press("down", "up")
        await pilot.pause()
        assert "\x1b" not in seen(made.app)
        assert "\u202e" not in seen(made.app)
        screen = made.app.screen
        assert isinstance(screen, FormScreen)
        assert screen.form.changed == 0  # looking at it is no edit


Compare = Callable[..., bool]


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_the_form(snap_compare: Compare, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        screen.value.cursor_blink = screen.filter.cursor_blink = False
        await go_to(pilot, "run.seed")
        await write(pilot, "7")
        await pilot.press("escape")
        await pilot.pause()
        if isinstance(pilot.app.screen, Confirm):
            await pilot.press("escape")
        screen.filter.value = ""
        await pilot.pause()
        screen.list.find("run.steps")
        screen._move(0)
        await write(pilot, "0")
        await until(pilot, lambda: "✗ 1 wrong" in seen(made.app) and "memory" in seen(made.app))
        await pilot.pause(0.5)

    made = Made()
    assert snap_compare(made.app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_the_list_of_what_can_be_put_in(snap_compare: Compare, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await opened(pilot)
        await pilot.press("ctrl+n")
        await until(pilot, lambda: isinstance(pilot.app.screen, Offers) and "reward illegal_move" in seen(made.app))
        pilot.app.screen.query_one(Input).cursor_blink = False
        await pilot.press(*"judge", "down")
        await pilot.pause(0.5)

    made = Made()
    assert snap_compare(made.app, terminal_size=size, run_before=before)
