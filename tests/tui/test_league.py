"""The league: past selves in bands, ratings, payoffs and their games; and what it says where there are none."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from engine.events import EvaluationFinished
from engine.ratings import bradley_terry
from engine.reading.encounters import Encounter
from engine.store import Store
from engine.types import Completion, GenerateResult, Rollout, Turn
from tests.tui.clock import Clock
from tests.tui.fake import FakeRun
from tests.tui.look import SIZES, play, seen, still, until, watching
from tui.league.lines import table
from tui.league.standings import GAMES, LISTED, League, Player, Standings, why_nothing
from tui.screens.league import GAMES as GAMES_PANE
from tui.screens.league import PAYOFFS, RATINGS, LeagueScreen
from tui.screens.run import RunScreen


def met(name: str, step: int, other: str, got: float, kind: str = "nim", player: str = "policy") -> Encounter:
    return Encounter(name, step, True, kind, {player: got, other: -got})


def standings(encounters: list[Encounter], **more: Any) -> League:
    made = Standings()
    made.add(encounters)
    return made.league("nim", **more)


def player(league: League, label: str) -> Player:
    return next(player for player in league.players if player.label == label)


def test_past_selves_are_told_apart_by_steps_and_compared_by_the_opponents_they_share() -> None:
    rng = random.Random(0)
    played = [
        met(f"{step}/{n}", step, "random", 1.0 if rng.random() < chance else -1.0)
        for step, chance in ((0, 0.3), (10, 0.6), (20, 0.9))
        for n in range(200)
    ]
    league = standings(played)
    assert [one.label for one in league.players] == ["policy 0", "policy 10", "policy 20", "random"]
    values = [league.ratings[one].value for one in league.players[:3]]
    assert values == sorted(values)
    assert league.ranked()[0].label == "policy 20"


def test_ratings_are_those_of_all_games_one_by_one() -> None:
    played = [met(f"{n}", n % 2, ("random", "perfect")[n % 3 == 0], (1.0, -1.0, 0.0)[n % 5 % 3]) for n in range(60)]
    league = standings(played)
    games = []
    for one in played:
        (_, got), (other, _) = one.got.items()
        games.append((f"policy {one.step}", other, 1.0 if got > 0 else 0.5 if got == 0 else 0.0))
    expected = bradley_terry(games)
    for one in league.players:
        assert league.ratings[one].value == pytest.approx(expected[one.label].value, abs=1e-6)
        assert league.ratings[one].low == pytest.approx(expected[one.label].low, abs=1e-6)


def test_a_cell_has_the_mean_of_the_row_and_the_other_way_round() -> None:
    league = standings([met("a", 3, "base", 1.0), met("b", 3, "base", -0.5)])
    us, base = player(league, "policy 3"), player(league, "base")
    assert (league.cells[us, base].mean, league.cells[us, base].n) == (0.25, 2)
    assert league.cells[base, us].mean == -0.25
    assert [(game.id, game.first) for game in league.cells[base, us].games] == [("b", 0.5), ("a", -1.0)]


def test_many_steps_are_cut_into_a_few_stretches_of_as_many() -> None:
    league = standings([met(f"{step}", step, "random", 1.0) for step in range(0, 120, 10)], bands=3)
    assert [one.label for one in league.rows] == ["policy 0–30", "policy 40–70", "policy 80–110"]
    assert [one.label for one in league.columns] == ["random"]


def test_players_that_met_each_other_are_rows_and_columns_both() -> None:
    league = standings([met("a", 3, "base", 1.0), met("b", 3, "random", -1.0, player="base")])
    assert league.rows == league.columns == league.players


def test_a_persons_game_counts_once_though_it_is_recorded_twice() -> None:
    game = Encounter("person-1/0", 4, False, "nim", {"person": 1.0, "policy": -1.0})
    league = standings([game, game])
    assert [one.label for one in league.players] == ["policy 4", "you"]
    assert league.met(player(league, "you")) == 1


def test_a_snapshot_is_the_policy_of_its_step_so_that_past_selves_meet() -> None:
    played = [met(f"a{n}", 40, "past-0", 1.0) for n in range(3)] + [met("b", 0, "random", -1.0)]
    league = standings([*played, met("c", 40, "step-20", -1.0)])
    assert [one.label for one in league.players] == ["policy 0", "policy 20", "policy 40", "random"]
    now, then = player(league, "policy 40"), player(league, "policy 0")
    assert (league.cells[now, then].n, league.cells[now, then].mean) == (3, 1.0)
    assert league.rows == league.columns == league.players


def test_a_policy_and_itself_of_the_same_stretch_tell_nothing() -> None:
    league = standings([met("a", 41, "past-40", 1.0), met("b", 41, "random", 1.0)], bands=1)
    assert [one.label for one in league.players] == ["policy 40–41", "random"]
    assert league.met(league.players[0]) == 1
    assert standings([met("a", 41, "past-40", 1.0)], bands=1).players == []


def test_kinds_of_episodes_are_rated_apart() -> None:
    made = Standings()
    made.add([met("a", 1, "random", 1.0), met("b", 1, "perfect", -1.0, kind="kuhn")])
    assert made.kinds == ["kuhn", "nim"]
    assert [one.label for one in made.league("kuhn").players] == ["policy 1", "perfect"]


def test_memory_is_bounded_by_pairs_and_steps_not_by_games() -> None:
    made = Standings()
    made.add(met(f"{n}", 1, "random", 1.0) for n in range(10_000))
    (cell, _) = made.league("nim").cells.values()
    assert (cell.n, len(cell.games)) == (10_000, GAMES)
    made.add(met(f"{n}", n % 50, "random", 1.0) for n in range(10_000))
    assert max(len(one.games) for one in made.league("nim", bands=1).cells.values()) == LISTED


def test_a_table_for_a_spreadsheet_has_a_line_a_player_and_one_a_cell() -> None:
    lines = table(standings([met("a", 3, "base", 1.0)])).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["player", "policy 3", "base", "", "row", "base", "policy 3"]
    assert all(math.isfinite(float(number)) for number in lines[1].split("\t")[1:])


@pytest.mark.parametrize(
    ("roles", "every", "played", "said"),
    [
        (1, 10, True, "one role"),
        (2, 10, False, "No episode is recorded yet"),
        (2, 0, True, "eval.every is 0"),
        (2, 10, True, "sitting down to play"),
    ],
)
def test_where_nobody_met_it_says_why_and_what_would_help(roles: int, every: int, played: bool, said: str) -> None:
    assert said in " ".join(why_nothing(roles, every, played))


# On the screen


def evaluate(store: Store, step: int) -> None:
    """Four games against random play, of which the policy wins more and more; two against perfect play, lost."""
    results = []
    for number in range(6):
        other = "random" if number < 4 else "perfect"
        won = 1.0 if number < min(step // 10, 4) else -1.0
        said = Completion("[1]", versions=[step])
        turn = Turn("First", 0, [{"role": "user", "content": "4 sticks are left."}], said)
        rewards, players = {"First": won, "Second": -won}, {"First": "policy", "Second": other}
        rollout = Rollout(f"eval-{step}/{number}", "nim", turns=[turn], rewards=rewards, players=players)
        results.append(GenerateResult(rollout, is_trainable=False))
    store.record_evaluation(EvaluationFinished(step, {"win_vs_random": 0.5}), results)


def run_of(tmp_path: Path, steps: int = 30) -> FakeRun:
    run = still(episodes=8)
    run.folder = tmp_path / "nim-1"
    with Store.create(run.folder) as store:
        for step in range(0, steps + 1, 10):
            evaluate(store, step)
    return run


async def opened(pilot: Pilot[Any], run: FakeRun) -> LeagueScreen:
    await play(pilot, run, 4)
    await pilot.press("l")
    await until(pilot, lambda: isinstance(pilot.app.screen, LeagueScreen) and pilot.app.screen.league is not None)
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, LeagueScreen)
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_a_cell_opens_its_games_and_a_game_is_read(tmp_path: Path, size: tuple[int, int]) -> None:
    run = run_of(tmp_path)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, run)
        await pilot.press("2", "home", "right")
        assert screen.matrix.pair is not None
        assert [one.label for one in screen.matrix.pair] == ["policy 0", "random"]
        await pilot.press("down")
        assert screen.matrix.pair[0].label == "policy 10"
        await pilot.press("enter")
        assert screen.board.active == GAMES_PANE
        await until(pilot, lambda: "eval-10/3" in seen(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert app.screen.transcript.rollout_id == "eval-10/2"  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", SIZES)
async def test_its_panes_are_one_key_away(tmp_path: Path, size: tuple[int, int]) -> None:
    run = run_of(tmp_path)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, run)
        for key, number in (("1", RATINGS), ("2", PAYOFFS), ("3", GAMES_PANE)):
            await pilot.press(key)
            assert screen.board.active == number
        await pilot.press("1")
        await until(pilot, lambda: "policy 30" in seen(app) and "±" in seen(app))
        await pilot.press("escape")
        assert isinstance(app.screen, RunScreen)


async def test_one_pane_alone_and_all_again(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, run)
        await pilot.press("m")
        assert screen.board.maximised
        await pilot.press("escape")
        assert not screen.board.maximised
        assert app.screen is screen


async def test_the_mouse_picks_a_cell_and_opens_its_games(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, run)
        await pilot.click("#payoffs", offset=(22, 1))
        assert screen.matrix.pair is not None
        assert screen.matrix.pair[0].label == "policy 0"
        await pilot.click("#payoffs", offset=(22, 1), times=2)
        await pilot.pause()
        assert screen.board.active == GAMES_PANE


async def test_a_wheel_goes_aside_and_a_click_on_what_says_there_is_more(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, run)
        matrix, league = screen.matrix, screen.league
        assert league is not None

        def column() -> int:
            assert matrix.pair is not None
            return league.columns.index(matrix.pair[1])

        await pilot.press("home")
        await pilot.pause()
        assert column() == 0
        matrix.post_message(events.MouseScrollRight(matrix, 1, 1, 0, 0, 0, False, False, False))
        await until(pilot, lambda: column() == 1)
        matrix.post_message(events.MouseScrollLeft(matrix, 1, 1, 0, 0, 0, False, False, False))
        await until(pilot, lambda: column() == 0)
        if "more column" in seen(app):
            await pilot.click(matrix, offset=(3, len(league.rows) + 1))
            await until(pilot, lambda: column() == 1)


async def test_it_is_copied_as_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []

    async def copy(text: str, fallback: Callable[[str], None]) -> str:
        copied.append(text)
        return "test"

    monkeypatch.setattr("tui.clipboard.copy", copy)
    run = run_of(tmp_path)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, run)
        await pilot.press("y")
        await until(pilot, lambda: copied)
        assert copied[0].startswith("player\trating")


async def test_the_next_kind_of_episode(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    with Store.open(run.folder) as store:
        store._connection.execute("UPDATE episodes SET type = 'kuhn' WHERE id LIKE 'eval-0/%'")
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, run)
        assert screen.kind == "kuhn"
        await pilot.press("n")
        await until(pilot, lambda: screen.kind == "nim" and "2 of 2 kinds" in seen(app))


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_without_a_record_says_so_and_the_screen_lives_on(size: tuple[int, int]) -> None:
    run = still(episodes=8)
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 4)
        await pilot.press("l")
        await until(pilot, lambda: "not a run" in seen(app))
        await pilot.press("enter", "n", "y", "escape")
        assert isinstance(app.screen, RunScreen)


@pytest.mark.parametrize("size", SIZES)
async def test_a_record_from_before_the_league_says_what_it_lacks(tmp_path: Path, size: tuple[int, int]) -> None:
    run = run_of(tmp_path, steps=10)
    with Store.open(run.folder) as store:
        store._connection.execute("UPDATE episodes SET players = json_remove(players, '$.Second')")
    app = watching(run)
    async with app.run_test(size=size) as pilot:
        await play(pilot, run, 4)
        await pilot.press("l")
        await until(pilot, lambda: "12 evaluation games can't be rated" in seen(app))
        await until(pilot, lambda: "Evaluations from now on are rated" in seen(app))
        with Store.open(run.folder) as store:
            evaluate(store, 20)  # resumed, it is rated from then on, and says what is left out
        app.screen._read()  # type: ignore[attr-defined]
        await pilot.press("1")
        await until(pilot, lambda: "policy 20" in seen(app) and "12 evaluation games can't be rated" in seen(app))


async def test_what_is_recorded_meanwhile_is_added(tmp_path: Path) -> None:
    run = run_of(tmp_path, steps=10)
    app = watching(run)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, run)
        assert screen.league is not None
        assert [one.label for one in screen.league.rows] == ["policy 0", "policy 10"]
        with Store.open(run.folder) as store:
            evaluate(store, 20)
        screen._read()
        await until(pilot, lambda: len(screen.league.rows) == 3)  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
def test_how_it_looks(snap_compare: Callable[..., bool], tmp_path: Path, size: tuple[int, int]) -> None:
    run = run_of(tmp_path, steps=50)

    async def before(pilot: Pilot[Any]) -> None:
        await opened(pilot, run)
        await until(pilot, lambda: "Bradley" in seen(app))
        await pilot.pause()

    app = watching(run, clock=Clock())
    assert snap_compare(app, terminal_size=size, run_before=before)
