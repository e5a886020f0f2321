"""In a real pseudo-terminal: however the app is ended, the run is stopped and the terminal given back."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from textual import constants
from textual.drivers.headless_driver import HeadlessDriver

from tests.tui.pseudo import Terminal
from tui import terminal as tui_terminal

RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1003l")
"""Alternate screen off, cursor shown, mouse reports off."""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.json"


def opened(log: Path, *more: str) -> Terminal:
    """The demo on a run at work, once it shows it."""
    command = [sys.executable, "-m", "tests.tui.demo", "--run", "--episodes", "8", "--log", str(log), *more]
    made = Terminal(command, 100, 30)
    assert made.until("Episodes", 30.0) is not None, bytes(made.output)
    return made


def ended(log: Path) -> dict[str, object]:
    return json.loads(log.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_stops_the_run_and_gives_the_terminal_back(log: Path, number: signal.Signals) -> None:
    made = opened(log)
    made.send(number)
    assert made.end() == 128 + number
    assert ended(log) == {"calls": [["start", "stop"]], "code": 128 + number}
    for sequence in RESTORED:
        assert sequence in made.output
    assert b"nim-3 is saved in" in made.output


def test_a_closed_terminal_stops_the_run(log: Path) -> None:
    made = opened(log)
    made.close()
    assert made.end() == 128 + signal.SIGHUP
    assert ended(log) == {"calls": [["start", "stop"]], "code": 128 + signal.SIGHUP}


def test_the_terminal_tells_how_large_it_is_and_no_variable() -> None:
    command = ["env", "COLUMNS=80", "LINES=24", sys.executable, "-m", "tests.tui.demo", "--run", "--episodes", "8"]
    made = Terminal(command, 130, 40)
    assert made.until("\x1b[40;1H", 30.0) is not None, bytes(made.output)  # its last line is drawn
    made.send(signal.SIGTERM)
    made.end()


def test_escape_and_a_key_right_after_it_are_two_keys(log: Path) -> None:
    made = opened(log)
    made.key(b"s")
    assert made.until("learning_rate", 10.0) is not None
    made.drain(0.5)
    made.key(b"\x1b")
    time.sleep(0.08)  # as fast as one types
    made.key(b"p")
    assert made.until("Edit a prompt", 10.0) is not None
    made.send(signal.SIGTERM)
    made.end()


@pytest.mark.parametrize(
    ("variable", "seconds"),
    [("LANG", 0.02), ("SSH_CONNECTION", 0.05), ("ESCDELAY", 0.1)],
    ids=["here", "through ssh", "as the person says"],
)
def test_escape_waits_for_a_sequence_as_long_as_one_may_be_on_its_way(
    variable: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SSH_CONNECTION", "ESCDELAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "100")
    monkeypatch.setattr(constants, "ESCAPE_DELAY", 0.1)  # as read from the variable, or without one
    tui_terminal.sturdy(HeadlessDriver)
    assert seconds == constants.ESCAPE_DELAY


def test_ctrl_c_is_answered_and_ctrl_q_quits(log: Path) -> None:
    made = opened(log)
    made.key(b"\x03")
    assert made.until("Quit?", 10.0) is not None
    made.key(b"\x1b")
    made.drain(0.5)
    made.key(b"\x11")
    assert made.end() == 0
    assert ended(log) == {"calls": [["start", "stop"]], "code": 0}


def test_a_failed_run_ends_with_code_1(log: Path) -> None:
    made = opened(log, "--fails-at", "1", "--tick", "0.01")
    assert made.until("out of memory", 30.0) is not None
    made.key(b"\x11")
    assert made.end() == 1


def test_a_file_is_not_a_terminal_that_hung_up(tmp_path: Path) -> None:
    with open(tmp_path / "file", "w") as file:
        assert not tui_terminal.hung_up(file.fileno())
