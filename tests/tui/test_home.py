"""Home: what there is to choose from, and what choosing does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import presets as library
from engine.config import Config
from engine.store import Store
from tests.tui.demo import PRESETS, RUNS
from tests.tui.demo import app as demo_app
from tests.tui.fake import FakeRun
from tests.tui.look import SIZES, play, play_to, seen, still, until
from tests.tui.recorded import METRIC, record, rising
from tui.app import SelfPlayApp
from tui.interface import PresetInfo, RunInfo
from tui.listing import describe, groups, preset_entry, run_entry
from tui.screens.compare import CompareScreen
from tui.screens.dialog import Confirm
from tui.screens.form import FormScreen
from tui.screens.home import HomeScreen
from tui.screens.run import RunScreen
from tui.text import width
from tui.theme import DUSK


async def test_what_presets_take_is_judged_once_home_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    display = SelfPlayApp._display

    def watched(app: SelfPlayApp, *what: Any) -> None:
        if not app._batch_count and isinstance(app.screen, HomeScreen):
            drawn.append(seen(app))
        display(app, *what)

    monkeypatch.setattr(SelfPlayApp, "_display", watched)
    judged: list[bool] = []

    def judge(config: Config) -> str:
        judged.append(any("nim-pocket" in text for text in drawn))
        return "0.4 GB"

    app = demo_app()
    app.sources = replace(app.sources, judge=judge)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(judged) > 1)
    assert all(judged)


@pytest.mark.parametrize("size", SIZES)
async def test_presets_and_runs_are_listed_with_what_they_are(size: tuple[int, int]) -> None:
    async with demo_app().run_test(size=size) as pilot:
        await until(pilot, lambda: "nim-pocket" in seen(pilot.app))  # type: ignore[arg-type]
        shown = seen(pilot.app)  # type: ignore[arg-type]
        for text in (
            "A tiny model finds out",
            "0.4 GB · fits",
            "yours",
            "haggle.toml, line 7",
            "win vs random 0.91",
        ):
            assert text in shown
        assert "kuhn-1" in shown
        assert "record run.sqlite is damaged" in shown


@pytest.mark.parametrize("names", [12, 30])
@pytest.mark.parametrize("cells", [60, 78, 100])
def test_what_a_preset_costs_is_shown_however_long_its_name(cells: int, names: int) -> None:
    teaches = "A small language model gets surer at sums."
    preset = PresetInfo("constitutional_debate-smollm2", teaches=teaches, memory="270 MB to fetch")
    [line] = preset_entry(preset, names, cells, DUSK).plain.splitlines()
    assert "270 MB to fetch" in line
    assert "constitutional_debate-smollm2" in line
    assert ("A small language" in line) == (cells > 70)
    assert width(line) <= cells


def test_presets_stand_together_by_model_and_ones_own_apart() -> None:
    tiny, ours, mine = "pocket", "Qwen/Qwen3-0.6B", PresetInfo("mine", model="pocket", source="yours")
    presets = [PresetInfo("a", model=tiny), PresetInfo("b", model=ours), mine, PresetInfo("c", model=tiny)]
    found = {name: [preset.name for preset in members] for name, members in groups(presets).items()}
    assert found == {tiny: ["a", "c"], ours: ["b"], "yours": ["mine"]}


async def test_the_cursor_passes_over_what_names_a_group() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "Qwen/Qwen3-0.6B" in seen(app))
        names = []
        for _ in PRESETS:
            option = app.home.preset_list.highlighted_option
            assert option is not None
            names.append((option.id or "").removeprefix("preset:"))
            await pilot.press("down")
        assert names == [preset.name for preset in PRESETS]


async def test_what_a_preset_teaches_is_told_in_full_below_the_lists_of_a_narrow_terminal() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "one must leave a multiple of four." in " ".join(seen(app).split()))
        await pilot.press("end")
        await until(pilot, lambda: "run.steps must be at least 1, not 0." in " ".join(seen(app).split()))


async def test_many_presets_are_listed_within_a_frame_of_a_second() -> None:
    many = [PresetInfo(f"task{i}-qwen", "Title", "Teaches." * 9, f"maker/model-{i % 5}") for i in range(80)]
    app = SelfPlayApp(presets=lambda: many, runs=lambda: [], create=lambda _: still(), resume=lambda _: still())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "task0-qwen" in seen(app))
        began = time.process_time()
        for _ in range(10):
            app.home.fill()
        assert (time.process_time() - began) / 10 < 0.3


@pytest.mark.parametrize("reason", ["logits of policy aren't finite", ""])
def test_of_a_run_that_failed_it_is_told_why(reason: str) -> None:
    lines = describe(RunInfo("nim-1", Path("runs/nim-1"), "failed", reason=reason), 60, DUSK)
    shown = "\n".join("".join(text for text, _ in line) for line in lines)
    assert (f"why      {reason}" in shown) == bool(reason)


async def test_enter_starts_the_chosen_preset() -> None:
    made: list[str] = []
    run = still()

    def create(name: str) -> FakeRun:
        made.append(name)
        return run

    app = SelfPlayApp(presets=lambda: PRESETS, runs=lambda: RUNS, create=create, resume=lambda _: still())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await until(pilot, lambda: "start" in run.calls)
        assert made == ["kuhn-pocket"]


async def test_enter_starts_the_chosen_preset_wherever_the_focus_is() -> None:
    app = demo_app()
    async with app.run_test(size=SIZES[0]) as pilot:
        await until(pilot, lambda: "nim-pocket" in seen(app))
        app.set_focus(None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_a_finished_run_is_opened_and_not_started_and_another_is_resumed() -> None:
    opened: list[Path] = []
    runs: list[FakeRun] = []

    def resume(folder: Path) -> FakeRun:
        opened.append(folder)
        runs.append(still())
        return runs[-1]

    app = SelfPlayApp(presets=lambda: [], runs=lambda: RUNS, create=lambda _: still(), resume=resume)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "nim-2" in seen(app))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "finished" in seen(app))
        assert runs[0].calls == []
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        await pilot.press("down", "enter")
        await until(pilot, lambda: len(runs) == 2 and "start" in runs[1].calls)
        assert opened == [Path("runs/nim-2"), Path("runs/kuhn-1")]


async def test_a_finished_run_that_was_read_can_be_opened_again() -> None:
    run = still()
    app = demo_app(make=lambda: run)
    async with app.run_test() as pilot:
        await pilot.pause()
        app.home.post_message(HomeScreen.Chosen(RUNS[0]))
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("2")
        await until(pilot, lambda: "o reads its episodes" in seen(app))
        assert run.calls == []
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        assert run.calls == ["stop"]  # which frees its folder
        assert app.session is None


async def test_tab_and_enter_return_to_the_run_at_work() -> None:
    app = demo_app(make=still)
    async with app.run_test() as pilot:
        await until(pilot, lambda: "kuhn-1" in seen(app))
        await pilot.press("tab", "down", "shift+tab")  # the cursor was on another run
        app.home.post_message(HomeScreen.Chosen(PRESETS[0]))
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen) and "at work" in seen(app))
        await pilot.press("tab", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_what_has_a_problem_says_it_and_does_not_start() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("end", "enter")
        await until(pilot, lambda: seen(app).count("haggle.toml, line 7") == 3)
        assert isinstance(app.screen, HomeScreen)


async def test_a_preset_that_cannot_be_made_leaves_home_alive() -> None:
    def create(name: str) -> FakeRun:
        raise ValueError(f"{name}: [run] steps = -1 is below 1")

    app = SelfPlayApp(presets=lambda: PRESETS, runs=lambda: [], create=create, resume=lambda _: still())
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "[run] steps = -1 is below 1" in seen(app))
        assert isinstance(app.screen, HomeScreen)


@pytest.mark.parametrize("size", SIZES)
async def test_the_filter_narrows_both_lists(size: tuple[int, int]) -> None:
    app = demo_app()
    async with app.run_test(size=size) as pilot:
        await pilot.press("slash", *"qwen")
        await until(pilot, lambda: "nim-pocket" not in seen(app))
        shown = seen(app)
        assert "tictactoe-qwen" in shown
        assert "2 of 5" in shown
        assert "No run passes the filter" in shown
        await pilot.press("escape")
        await until(pilot, lambda: "nim-pocket" in seen(app))


async def test_enter_leaves_the_filter_and_once_more_starts_the_first_that_passes() -> None:
    made: list[str] = []

    def create(name: str) -> FakeRun:
        made.append(name)
        return still()

    app = SelfPlayApp(presets=lambda: PRESETS, runs=lambda: [], create=create, resume=lambda _: still())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", "slash", *"qwen", "enter")  # the key that leads there, once too often
        await pilot.pause()
        assert made == []
        assert app.focused is app.home.preset_list
        await pilot.press("enter")
        await until(pilot, lambda: made == ["tictactoe-qwen"])


async def test_escape_clears_the_filter_from_the_lists_too() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("slash", *"qwen", "enter")
        await until(pilot, lambda: "2 of 5" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: "nim-pocket" in seen(app))
        await pilot.press("slash", *"zzz")
        await until(pilot, lambda: "esc clears it" in seen(app))


async def test_a_newcomer_is_told_what_enter_does_and_how_to_get_to_the_runs() -> None:
    app = demo_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "kuhn-1" in seen(app))
        assert "pocket, a tiny model that comes along" in seen(app)
        assert "memory a run takes" in seen(app)
        assert "enter starts a new run · e edits it first" in seen(app)
        assert "⏎ start" in seen(app)
        await until(pilot, lambda: "tab leads here" in seen(app))
        await pilot.press("tab")
        await until(pilot, lambda: "enter opens it" in seen(app) and "⏎ open" in seen(app))
        assert "tab leads here" not in seen(app)
        await pilot.press("down")
        await until(pilot, lambda: "enter resumes it" in seen(app) and "⏎ resume" in seen(app))


async def test_empty_lists_say_what_to_do() -> None:
    app = demo_app(empty=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "No presets were found" in seen(app))
        assert "Choose a preset above and press enter" in seen(app)


async def test_a_run_at_work_goes_on_and_can_be_returned_to() -> None:
    run = still(episodes=4)
    app = demo_app(make=lambda: run)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await play(pilot, run, 5)
        await pilot.press("escape")
        await until(pilot, lambda: "at work" in seen(app))
        await play_to(pilot, run, 2)
        assert "stop" not in run.calls
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "step 2/100" in seen(app))


async def test_enter_starts_what_is_chosen_also_where_nothing_has_the_focus() -> None:
    run = still(episodes=4)
    app = demo_app(make=lambda: run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.home.preset_list.highlighted is not None)
        for widget in (app.home.filter, app.home.preset_list, app.home.run_list):
            widget.can_focus = False
        app.home.set_focus(None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_another_run_is_begun_only_after_the_one_at_work_was_stopped() -> None:
    runs: list[FakeRun] = []

    def create(_: str) -> FakeRun:
        runs.append(still(name=f"nim-{len(runs)}"))
        return runs[-1]

    app = SelfPlayApp(presets=lambda: PRESETS, runs=lambda: [], create=create, resume=lambda _: still())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await play(pilot, runs[0], 3)
        await pilot.press("escape", "shift+tab")
        app.home.preset_list.focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        assert len(runs) == 1
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: len(runs) == 2 and isinstance(app.screen, RunScreen))
        assert runs[0].calls == ["start", "stop"]


async def test_lists_are_read_again_on_r() -> None:
    presets = [PRESETS[0]]
    app = SelfPlayApp(presets=lambda: presets, runs=lambda: [], create=lambda _: still(), resume=lambda _: still())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "nim-pocket" in seen(app))
        presets.append(PresetInfo("brand-new"))
        await pilot.press("r")
        await until(pilot, lambda: "brand-new" in seen(app))


async def test_details_stand_beside_the_lists_where_there_is_room() -> None:
    app = demo_app()
    async with app.run_test(size=(160, 45)) as pilot:
        await until(pilot, lambda: "enter starts a new run" in seen(app))
        await pilot.press("tab")
        await until(pilot, lambda: "enter opens it" in seen(app))
        await pilot.press("down")
        await until(pilot, lambda: "enter resumes it" in seen(app))


def test_run_info_needs_only_a_name_and_a_folder() -> None:
    assert RunInfo("x", Path("x")).problem is None


# Runs' courses, memory, deleting


@pytest.mark.parametrize("cells", [50, 74, 79, 112])
def test_the_course_of_a_runs_metric_is_drawn_where_there_is_room(cells: int) -> None:
    run = RunInfo(
        "nim-2", Path("x"), "finished", "Nim", 80, 80, "win_vs_random", 0.9, "2 h ago", course=tuple(rising(9))
    )
    line = run_entry(run, cells, DUSK).plain
    assert width(line) <= cells
    assert ("▁" in line and "█" in line) == (cells > 70)
    assert ("0.90" in line) == (cells > 70)
    assert run_entry(run, cells, DUSK, is_marked=True).plain.startswith("✓nim-2")


async def test_courses_are_read_from_the_records_once_the_list_is_there(tmp_path: Path) -> None:
    runs = [record(tmp_path / "nim-7", rising(9)), record(tmp_path / "nim-8", [])]
    app = home_of(runs=runs)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "▁" in seen(app) and "█" in seen(app))


async def test_memory_is_told_once_the_list_is_there() -> None:
    asked: list[str] = []

    def judge(config: Config) -> str:
        asked.append(config.title)
        return "7 MB · fits"

    app = home_of(presets=[PresetInfo("nim-pocket"), PresetInfo("not-there")], judge=judge)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "7 MB · fits" in seen(app))
        assert asked == ["Nim"]
        await pilot.press("r")
        await pilot.pause(0.1)
        assert "7 MB · fits" in seen(app)
        assert asked == ["Nim"]  # what is known is not asked again


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_is_deleted_only_if_told_what_is_lost(size: tuple[int, int], tmp_path: Path) -> None:
    folder = record(tmp_path / "nim-7", rising(9)).folder
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "weights").write_bytes(b"x" * 3_000_000)
    app = home_of(listed=lambda: [record_of(folder)] if folder.exists() else [])
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: "nim-7" in seen(app))
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and "Delete nim-7?" in seen(app))
        assert "3 MB" in seen(app)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, HomeScreen))
        assert folder.exists()
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")
        await until(pilot, lambda: "nim-7 is deleted." in seen(app))
        assert list(tmp_path.iterdir()) == []
        await until(pilot, lambda: "Nothing yet." in seen(app))


async def test_a_run_at_work_is_not_deleted(tmp_path: Path) -> None:
    run = record(tmp_path / "nim-7", rising(3))
    app = home_of(runs=[run])
    with Store.open(run.folder):
        async with app.run_test(size=(80, 24), notifications=True) as pilot:
            await until(pilot, lambda: "nim-7" in seen(app))
            await pilot.press("d")
            await until(pilot, lambda: "nim-7 is at work: stop it first." in seen(app))
            assert isinstance(app.screen, HomeScreen)


async def test_the_run_that_works_here_is_neither_deleted_nor_edited() -> None:
    run = still(episodes=4)
    app = demo_app(make=lambda: run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await play(pilot, run, 5)
        await pilot.press("escape")
        await until(pilot, lambda: "at work" in seen(app))
        app.home.run_list.focus()
        await pilot.press("home", "d")
        await until(pilot, lambda: "It is at work: stop it first." in seen(app))
        await pilot.press("e")
        await until(pilot, lambda: "Choose a preset or a run to edit" in seen(app))
        assert isinstance(app.screen, HomeScreen)


async def test_the_run_at_work_is_marked_by_its_record(tmp_path: Path) -> None:
    runs = [record(tmp_path / "nim-3", rising(3)), record(tmp_path / "nim-7", rising(3))]
    app = SelfPlayApp(
        presets=lambda: PRESETS,
        runs=lambda: runs,
        create=lambda _: still(),
        resume=lambda _: still(),
        start=still(),
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: "at work" in seen(app) and "nim-7" in seen(app))
        app.home.run_list.focus()
        await pilot.press("home", "space")
        await until(pilot, lambda: "✓nim-3" in seen(app))
        await pilot.press("down", "c")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen) and "nim-3 · nim-7" in seen(app))


async def test_a_folder_of_runs_that_may_not_be_read_is_told() -> None:
    def runs() -> list[RunInfo]:
        raise PermissionError(13, "Permission denied", "/somewhere/runs")

    app = home_of(presets=PRESETS, listed=runs)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: "Permission denied" in seen(app) and "nim-pocket" in seen(app))


async def test_only_presets_of_ones_own_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "user_folder", lambda: tmp_path)
    file = library.save("mine", "[task]\nname = 'nim'\n")
    mine = PresetInfo("mine", model="pocket", source="yours")
    app = home_of(listed_presets=lambda: [PRESETS[0], *([mine] if file.exists() else [])])
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("d")
        await until(pilot, lambda: "nim-pocket came with" in seen(app))
        await pilot.press("end", "delete")
        await until(pilot, lambda: isinstance(app.screen, Confirm) and "Delete mine?" in seen(app))
        await pilot.press("enter")
        await until(pilot, lambda: "mine is deleted." in seen(app))
        assert not file.exists()


async def test_when_the_last_that_passes_the_filter_is_deleted_escape_leads_back_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "user_folder", lambda: tmp_path)
    file = library.save("mine", "[task]\nname = 'nim'\n")
    mine = PresetInfo("mine", model="pocket", source="yours")
    app = home_of(listed_presets=lambda: [PRESETS[0], *([mine] if file.exists() else [])])
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("slash", *"mine", "enter", "d")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: "No preset passes" in seen(app))
        await pilot.press("escape")
        await until(pilot, lambda: "nim-pocket" in seen(app) and app.home.preset_list.has_focus)


async def test_a_runs_own_configuration_is_edited_too(tmp_path: Path) -> None:
    app = home_of(runs=[record(tmp_path / "nim-7", rising(3), seed=41)])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "nim-7" in seen(app))
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        assert isinstance(app.screen, FormScreen)
        assert app.screen.form.field("run.seed").text == "41"


async def test_a_preset_that_cannot_be_read_is_not_edited() -> None:
    app = home_of(presets=[PresetInfo("no-such-preset")])
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await pilot.press("e")
        await until(pilot, lambda: "no such preset" in seen(app))
        assert isinstance(app.screen, HomeScreen)


async def test_lists_are_read_again_off_the_loop() -> None:
    threads: list[int] = []

    def listed() -> list[PresetInfo]:
        threads.append(threading.get_ident())
        return PRESETS

    app = home_of(listed_presets=listed)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: len(threads) == 1)
        await pilot.press("r")
        await until(pilot, lambda: len(threads) == 2)
        assert threads[1] != threads[0] == threading.get_ident()


def record_of(folder: Path) -> RunInfo:
    return RunInfo(folder.name, folder, "finished", "Nim", 80, 80, METRIC, 0.9, "2 h ago", updated=1.0)


def home_of(
    *,
    presets: list[PresetInfo] | None = None,
    runs: list[RunInfo] | None = None,
    listed: Callable[[], list[RunInfo]] | None = None,
    listed_presets: Callable[[], list[PresetInfo]] | None = None,
    judge: Callable[[Config], str] | None = None,
) -> SelfPlayApp:
    return SelfPlayApp(
        presets=listed_presets or (lambda: presets or []),
        runs=listed or (lambda: runs or []),
        create=lambda _: still(),
        resume=lambda _: still(),
        judge=judge,
    )
