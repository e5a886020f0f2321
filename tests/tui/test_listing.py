"""Lines of Home's lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.interface import RunInfo
from tui.listing import run_entry, to_do
from tui.text import width
from tui.theme import DUSK


@pytest.mark.parametrize("cells", [50, 79, 112])
def test_runs_of_one_preset_can_be_told_apart_by_their_numbers(cells: int) -> None:
    runs = [RunInfo(f"human_feedback-{number}", Path("x"), "finished", "", 8, 8) for number in (1, 2, 13)]
    lines = [run_entry(run, cells, DUSK).plain for run in runs]
    assert len({line[:18] for line in lines}) == 3
    assert all(width(line) <= cells for line in lines)


def test_of_a_run_that_another_process_runs_it_is_said_that_it_can_only_be_read() -> None:
    told = to_do(RunInfo("nim-1", Path("x"), "running", "", 8, 80))
    assert told.startswith("another process runs it · o follows its record")
    assert width(told) <= 78, "all of it fits a terminal of 80 cells"
    assert to_do(RunInfo("nim-1", Path("x"), "stopped", "", 8, 80)).startswith("enter resumes it")
