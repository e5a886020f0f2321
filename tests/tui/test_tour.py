"""The tour of the app, taken in tmux on a real run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.tui.tour import take


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux isn't installed")
def test_the_tour_shows_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    stops: list[str] = []
    take(tmp_path, f"selfplay-test-{os.getpid()}", stops.append)
    assert stops[-1].endswith("Quit  (C-q)")
