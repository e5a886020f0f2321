"""Lines of Home's lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.interface import RunInfo
from tui.listing import run_entry
from tui.text import width
from tui.theme import DUSK


@pytest.mark.parametrize("cells", [50, 79, 112])
def test_runs_of_one_preset_can_be_told_apart_by_their_numbers(cells: int) -> None:
    runs = [RunInfo(f"human_feedback-{number}", Path("x"), "finished", "", 8, 8) for number in (1, 2, 13)]
    lines = [run_entry(run, cells, DUSK).plain for run in runs]
    assert len({line[:18] for line in lines}) == 3
    assert all(width(line) <= cells for line in lines)
