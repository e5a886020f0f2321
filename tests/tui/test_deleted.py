"""A run that is deleted elsewhere while it is read here."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tui.played import record
from tui.replay.pins import PinError, Pins


def test_a_pin_leaves_no_folder_again_where_the_run_was(tmp_path: Path) -> None:
    folder = record(tmp_path / "nim-7", steps=1)
    pins = Pins(folder, tmp_path / "home")
    shutil.rmtree(folder)
    with pytest.raises(PinError, match="the pin is not kept: No such file"):
        pins.toggle("3", 1)
    assert not folder.exists()
    assert pins.marked == {}
