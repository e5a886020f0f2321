"""Presets of the embedded model learn what they promise, each in minutes: `uv run pytest -m slow`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("preset", "minutes", "learnt"),
    [
        ("nim-pocket", 2, lambda end, best: end["win_vs_random"] >= 0.90 and end["illegal"] < 0.01),
        ("kuhn-pocket", 8, lambda end, best: end["average_nash_conv"] <= 0.1),
        ("tictactoe-pocket", 15, lambda end, best: best["average_win_vs_random"] >= 0.77),
        ("proposer_solver-pocket", 6, lambda end, best: end["practised"] >= 0.6 and 0.3 < end["solve_rate"] < 0.85),
        ("refine-pocket", 4, lambda end, best: end["last"] >= 0.8 and end["improvement"] >= 0.1),
    ],
)
def test_a_preset_learns_in_minutes(tmp_path: Path, preset: str, minutes: float, learnt, seed: int):
    command = [sys.executable, "-m", "tui.cli", "run", preset, "--headless", "--json", "--seed", str(seed)]
    done = subprocess.run(
        [*command, "--runs-dir", str(tmp_path)], capture_output=True, text=True, timeout=3600, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["seconds"] <= 60 * minutes
    assert learnt(said["eval_end"], said["eval_best"]), said
