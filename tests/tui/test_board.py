"""What the metrics screen looks at, and how: folded and moved about in without a terminal."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from engine.events import CheckpointSaved, EditApplied, EvaluationFinished, StepFinished
from engine.store import Store as Record
from engine.store import StoreError
from tui.metrics import overlay
from tui.metrics.board import MOST, STRENGTHS, Board, last, listed
from tui.metrics.overlay import Recorded
from tui.series import Series, smoothed
from tui.state import Store


def store(steps: int = 101, **metrics: float) -> Store:
    made = Store(lambda _: "", lambda: 0.0, "win")
    made.sign_of("First")
    for step in range(1, steps):
        values = {"loss": math.sin(step), "entropy": 1 / step, "reward/First": 0.1} | metrics
        made.fold([StepFinished(step, values)])
        if step % 10 == 0:
            made.fold([EvaluationFinished(step, {"win": step / 100, "own_thing": 1.0})])
    return made


@pytest.fixture
def board() -> Board:
    return Board(store(), "nim-1", ["loss"])


def other(name: str, **series: list[float]) -> Recorded:
    return Recorded(
        name, Path("elsewhere", name), {key: Series([1.0, 2.0], values) for key, values in series.items()}
    )


# The list


def test_metrics_are_listed_by_family_and_found_by_name_family_or_meaning(board: Board) -> None:
    assert [family for family, _ in listed(board, "")] == ["evaluation", "rewards", "learning"]
    assert listed(board, "") == [
        ("evaluation", ["eval/own_thing", "eval/win"]),
        ("rewards", ["reward/First"]),
        ("learning", ["entropy", "loss"]),
    ]
    assert listed(board, "own thing") == [("evaluation", ["eval/own_thing"])]
    assert listed(board, "NATS") == [("learning", ["entropy"])]
    assert listed(board, "nothing like it") == []
    assert last(board, "eval/win") == 1.0
    assert math.isnan(last(board, "kl"))


def test_a_metric_that_only_another_run_has_is_listed_too(board: Board) -> None:
    board.others = [other("nim-2", kl=[0.0, 1.0])]
    assert "kl" in board.names()


# Steps in sight


def test_zooming_keeps_the_step_under_the_pointer_where_it_is(board: Board) -> None:
    board.zoom(0.5, 75.0)
    low, high = board.sight
    assert high - low == pytest.approx(99 / 2)
    assert (75 - low) / (high - low) == pytest.approx((75 - 1) / 99)
    board.zoom(2.0, 75.0)
    assert board.window is None  # all is in sight again, and new steps come into it


def test_zooming_goes_no_further_than_two_steps_and_panning_not_beyond_the_ends(board: Board) -> None:
    for _ in range(50):
        board.zoom(0.5)
    low, high = board.sight
    assert high - low == pytest.approx(2.0)
    board.pan(1000.0)
    assert board.sight == pytest.approx((98.0, 100.0))
    board.pan(-1000.0)
    assert board.sight == pytest.approx((1.0, 3.0))


def test_a_closer_look_without_a_pointer_is_at_the_cursor(board: Board) -> None:
    board.point(20.0)
    board.zoom(0.1)
    low, high = board.sight
    assert low <= 20 <= high


def test_all_steps_are_in_sight_until_one_looks_closer_also_those_to_come(board: Board) -> None:
    assert board.sight == (1.0, 100.0)
    board.store.fold([StepFinished(140, {"loss": 1.0})])
    assert board.sight == (1.0, 140.0)


def test_what_is_in_sight_of_a_run_of_one_step_is_a_step_wide() -> None:
    board = Board(store(2), "nim-1", ["loss"])
    board.zoom(0.5)
    board.pan(1.0)
    assert board.sight == (1.0, 2.0)
    assert Board(store(1), "nim-1").sight == (0.0, 1.0)


# The cursor


def test_the_cursor_steps_from_point_to_point_from_the_newest(board: Board) -> None:
    board.chosen = ["eval/win"]
    board.move(-1)
    assert board.cursor == 100.0
    board.move(-1)
    board.move(-1)
    assert board.cursor == 80.0
    board.move(-1000)
    assert board.cursor == 10.0
    board.point(46.0)
    assert board.cursor == 50.0
    board.point(None)
    assert board.cursor is None


def test_what_was_done_at_the_cursor_is_told(board: Board) -> None:
    board.store.fold([EditApplied(3, 40, "role First", "a", "b"), CheckpointSaved(40, "p", "manual")])
    board.point(40.0)
    assert board.done_there() == ["edit 3", "checkpoint"]
    board.point(41.0)
    assert board.done_there() == []


def test_the_steps_in_sight_follow_the_cursor(board: Board) -> None:
    board.zoom(0.1, 1.0)
    board.cursor = board.sight[1] // 1
    board.move(1)
    low, high = board.sight
    assert board.cursor is not None
    assert low <= board.cursor <= high


def test_reset_shows_all_as_it_was_measured(board: Board) -> None:
    before = board.sight
    board.zoom(0.3)
    board.move(-1)
    board.next_strength()
    board.is_log = True
    board.reset()
    assert (board.sight, board.cursor, board.strength, board.is_log) == (before, None, 0.0, False)


# Charts


def test_a_chart_each_or_one_for_all(board: Board) -> None:
    board.toggle("entropy")
    assert [model.title for model in board.models()] == ["loss", "entropy"]
    board.joined = True
    (model,) = board.models()
    assert [c.metric for c in model.curves] == ["loss", "entropy"]
    board.toggle("loss")
    assert [model.title for model in board.models()] == ["entropy"]


def test_other_runs_are_drawn_beside_this_one_under_their_names(board: Board) -> None:
    board.others = [
        other("nim-2", loss=[0.5, 0.6]),
        other("nim-3", entropy=[0.5, 0.6]),
        other("nim-1", loss=[1, 2]),
    ]
    (model,) = board.models()
    assert [c.label for c in model.curves] == ["nim-1", "nim-2", "elsewhere/nim-1"]
    assert model.curves[1].ys.tolist() == [0.5, 0.6]
    board.toggle("entropy")
    board.joined = True
    assert [c.label for c in board.models()[0].curves][-2:] == ["entropy · nim-1", "entropy · nim-3"]


def test_a_run_that_has_not_measured_a_metric_is_named(board: Board) -> None:
    board.others = [other("nim-2", loss=[0.5, 0.6]), other("nim-3", entropy=[0.5, 0.6])]
    assert board.models()[0].remarks == ("not measured in nim-3",)


def test_more_curves_than_there_are_signs_are_left_out_and_said_to_be(board: Board) -> None:
    board.others = [other(f"nim-{n}", loss=[0.5, 0.6]) for n in range(2, 12)]
    (model,) = board.models()
    assert len(model.curves) == MOST
    assert f"{11 - MOST} of 11 curves left out" in model.remarks


def test_smoothing_says_its_strength_and_keeps_what_was_measured(board: Board) -> None:
    raw = board.models()[0].curves[0]
    assert raw.raw is None
    assert not board.models()[0].remarks
    board.next_strength()
    (model,) = board.models()
    assert model.remarks == (f"smoothed: EMA {STRENGTHS[1]:g}, raw faint",)
    smooth = model.curves[0]
    assert smooth.raw is not None
    assert smooth.raw.tolist() == raw.ys.tolist()
    assert np.std(smooth.ys) < np.std(raw.ys)
    for _ in STRENGTHS[1:]:
        board.next_strength()
    assert board.strength == 0.0


def test_steps_that_published_nothing_are_marked() -> None:
    made = store(5, skipped=0.0)
    made.fold([StepFinished(5, {"loss": 0.0, "skipped": 1.0}, "its loss or gradient was not finite")])
    marks = Board(made, "nim-1", ["loss"]).models()[0].marks
    assert [(mark.kind, mark.step) for mark in marks] == [("skipped", 5)]


def test_an_exponential_moving_average_against_the_weights_written_out() -> None:
    ys = np.array([4.0, math.nan, 2.0, 8.0])
    found = smoothed(ys, 0.5)
    assert found.tolist() == pytest.approx([4.0, 4.0, (0.5 * 4 + 2) / 1.5, (0.25 * 4 + 0.5 * 2 + 8) / 1.75])
    assert smoothed(np.zeros(0), 0.5).tolist() == []
    assert smoothed(np.full(9, 3.0), 0.97).tolist() == pytest.approx([3.0] * 9)
    assert np.isnan(smoothed(np.array([math.nan, 1.0]), 0.9)).tolist() == [True, False]


def test_a_long_moving_average_is_that_of_one_value_after_the_other() -> None:
    ys = np.random.default_rng(0).normal(size=1000)
    kept = weight = 0.0
    expected = []
    for y in ys.tolist():
        kept, weight = 0.97 * kept + 0.03 * y, 0.97 * weight + 0.03
        expected.append(kept / weight)
    assert smoothed(ys, 0.97) == pytest.approx(np.array(expected))


# Records of other runs


def test_a_runs_folder_has_the_series_that_its_app_would_show(tmp_path: Path) -> None:
    live = Store(lambda _: "", lambda: 0.0)
    with Record.create(tmp_path / "nim-2") as record:
        for step in (1, 2, 3):
            metrics = {"loss": step / 7, "reward/First": -0.5}
            record.record_step(step, step, 1.0, metrics, [])
            live.fold([StepFinished(step, metrics)])
        evaluated = EvaluationFinished(3, {"win": 0.75})
        record.record_evaluation(evaluated, [])
        live.fold([evaluated])
        found = overlay.read(tmp_path / "nim-2")  # while it is being written
    assert found.name == "nim-2"
    assert {name: (s.xs, s.ys) for name, s in found.series.items()} == {
        name: (s.xs, s.ys) for name, s in live.series.items()
    }


def test_a_folder_without_a_record_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a run"):
        overlay.read(tmp_path)
