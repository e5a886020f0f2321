"""What a run's folder tells in brief: its evaluations, their courses, its settings with what was edited."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.events import EditApplied
from engine.store import Store, StoreError
from engine.summaries import PAGE, courses, settings, summary
from tests.tui.recorded import METRIC, record


def test_the_first_the_latest_and_the_best_evaluation_are_told_of_a_long_run(tmp_path: Path):
    values = [0.1, 0.9, *[0.5] * 1000]
    run = summary(record(tmp_path / "run", values, every=1).folder)
    assert (run.first[METRIC], run.last[METRIC]) == (0.1, 0.5)
    assert run.best[METRIC] == 0.5  # the latest that was marked as the best so far
    empty = summary(record(tmp_path / "empty", []).folder)
    assert (empty.first, empty.last, empty.best) == ({}, {}, {})


@pytest.mark.parametrize("many", [0, 1, PAGE, PAGE + 1, 3 * PAGE])
def test_a_course_is_whole_however_many_pages_it_takes(tmp_path: Path, many: int):
    values = [place / 7 for place in range(many)]
    folder = record(tmp_path / "run", values, every=1).folder
    assert courses(folder, METRIC).get(METRIC, []) == list(enumerate(values))
    assert set(courses(folder)) == ({METRIC, "optimal_moves"} if many else set())


def test_settings_are_those_in_force_after_all_edits(tmp_path: Path):
    folder = record(tmp_path / "run", [0.5]).folder
    with Store.open(folder) as store:
        store.record_edit(EditApplied(1, 0, "train.kl", "0.0", "0.1"))
        store.record_edit(EditApplied(2, 0, "role First", "Nim.", "Win.\nAlways."))
        store.record_edit(EditApplied(3, 0, "train.kl", "0.1", "0.2"))
    config = settings(folder)
    assert config.train.kl == 0.2
    assert config.roles["First"].prompt == "Win.\nAlways."


def test_of_no_run_there_is_neither(tmp_path: Path):
    with pytest.raises(StoreError, match="not a run"):
        courses(tmp_path)
