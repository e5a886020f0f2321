"""tmux: a run goes on while nobody is attached, and is found again from terminals of other sizes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.events import RunState
from engine.store import Store
from tests.tui.pseudo import Terminal
from tests.tui.tour import Tour

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux isn't installed"),
]


ONE_PANE = "[1 Episodes] 2 Transcript"
ALL_PANES = (" 1 Episodes ", "─ 5 Health ─")
"""Without the weight of their lines: while nobody is attached, no pane has the focus."""


@pytest.fixture
def tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tour]:
    monkeypatch.delenv("TMUX", raising=False)
    begun = Tour(tmp_path, f"selfplay-detach-{os.getpid()}", 120, 40)
    yield begun
    begun.close()


def attached(name: str, columns: int, lines: int, words: str) -> bytes:
    """What a terminal of that size is shown, from attaching to detaching by its keys."""
    terminal = Terminal(["tmux", "attach", "-t", name], columns, lines)
    assert terminal.until(words, 20.0) is not None, terminal.output.decode(errors="replace")[-2000:]
    terminal.drain(1.5)
    output = bytes(terminal.output)
    terminal.key(b"\x02d")
    assert terminal.end() == 0
    return output


def is_there(process: int) -> bool:
    """Whether it is, and isn't only waited for."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def step(tour: Tour) -> int:
    found = re.search(r"step (\d+)/", tour.screen())
    assert found is not None
    return int(found[1])


def test_a_run_goes_on_while_nobody_looks_and_is_found_again_at_other_sizes(tour: Tour) -> None:
    tour.until(("nim-pocket",))
    tour.press("Enter")
    tour.until((*ALL_PANES, "running"))
    attached(tour.name, 80, 24, "Episodes")
    tour.until((ONE_PANE, "running"))  # the window keeps the size of who was there last
    small = tour.screen().splitlines()
    assert len(small) <= 24
    assert max(map(len, small)) <= 80

    here = step(tour)
    tour.until((f"step {here + 3}/",))  # nobody is attached

    attached(tour.name, 160, 45, "Health")
    tour.until((*ALL_PANES, "running"))
    large = tour.screen().splitlines()
    assert max(map(len, large)) > 120
    tour.press("Space")
    tour.until(("paused",))
    here = step(tour)
    for columns, lines in ((20, 5), (80, 24), (160, 45)):
        attached(tour.name, columns, lines, "" if columns == 20 else "paused")
    tour.until((*ALL_PANES, "paused"))
    assert step(tour) == here
    tour.press("Space")
    tour.until(("running", f"step {here + 2}/"))
    tour.press("C-q")
    tour.until(("nim-1 is saved in", "left with 0"))


def test_a_killed_tmux_leaves_no_process_and_a_run_to_be_resumed(tour: Tour, tmp_path: Path) -> None:
    tour.until(("nim-pocket",))
    tour.press("Enter")
    tour.until(("running", "step 1/"))
    folder = tmp_path / "runs/nim-1"
    child = int((folder / "run.lock").read_text())
    parent = int(subprocess.run(["ps", "-o", "ppid=", "-p", str(child)], capture_output=True, text=True).stdout)
    assert is_there(child)
    assert is_there(parent)
    tour.close()
    deadline = time.monotonic() + 30
    while is_there(child) or is_there(parent):
        assert time.monotonic() < deadline, "it outlived the terminal"
        time.sleep(0.1)
    with Store.open(folder) as store:  # its lock is free
        ended, last = store.state(), store.last_step()
    assert ended is not None
    assert ended.state is RunState.STOPPED
    assert last is not None
    assert f"step-{last.step:06d}" in {path.name for path in (folder / "checkpoints").iterdir()}
