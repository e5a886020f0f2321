"""In a real pseudo-terminal: an app whose process is aborted leaves a terminal that works, and how to go on."""

from __future__ import annotations

import os
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.tui.pseudo import Terminal
from tui.supervisor import told

PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from tui.supervisor import supervised

def work():
    folder = Path(sys.argv[1])
    (folder / "run.lock").write_text(f"{{os.getpid()}}\\n")
    os.write(2, b"libc++abi: terminating due to \\x1b[31mMetal\\n")
    from tests.tui import demo, fake
    app = demo.app(start=fake.FakeRun(episodes=4))
    def end():
        {end}
    threading.Timer(2.0, end).start()
    app.run()
    return app.return_code or 0

sys.exit(supervised(work, lambda: [Path(sys.argv[1])], anew={anew}))
"""

ENDS = {
    signal.SIGABRT: "os.abort()",
    signal.SIGKILL: "os.kill(os.getpid(), signal.SIGKILL)",
    signal.SIGSEGV: "import ctypes; ctypes.string_at(0)",
}


def opened(folder: Path, end: str, anew: bool = False) -> tuple[Terminal, list[object]]:
    """The app under its supervisor, once it is drawn; and the modes its terminal had before."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(end=end, anew=anew))
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    terminal = Terminal([sys.executable, str(program), str(folder)], 100, 30)
    before = termios.tcgetattr(terminal.master)
    assert terminal.until("Episodes", 20.0) is not None, bytes(terminal.output)
    assert termios.tcgetattr(terminal.master)[3] != before[3]  # raw: what is to be undone
    return terminal, before


def modes_left_on(output: bytes) -> set[bytes]:
    """Private modes that were set and not reset at the end."""
    import re

    state = {}
    for numbers, on in re.findall(rb"\x1b\[\?([\d;]+)([hl])", output):
        for number in numbers.split(b";"):
            state[number] = on
    return {number for number, on in state.items() if on == b"h"} - {b"25", b"7"}


@pytest.mark.parametrize("anew", [False, True], ids=["forked", "anew"])
@pytest.mark.parametrize("number", ENDS)
def test_an_abnormal_end_gives_the_terminal_back_and_tells(
    tmp_path: Path, number: signal.Signals, anew: bool
) -> None:
    terminal, before = opened(tmp_path, ENDS[number], anew)
    deadline = time.perf_counter() + 15
    while b"resume" not in terminal.output and time.perf_counter() < deadline:
        terminal.read(0.1)
    assert termios.tcgetattr(terminal.master)[:4] == before[:4]
    assert terminal.end() == 128 + number
    output = bytes(terminal.output)
    assert modes_left_on(output) == set()
    assert output.rindex(b"\x1b[?25h") > output.rindex(b"\x1b[?25l")
    after = output[output.rindex(b"\x1b[?1049l") :].decode()
    assert f"({number.name})" in after
    assert "terminating due to ␛[31mMetal" in after
    assert f"selfplay-tui resume {tmp_path}" in after
    assert "terminating" not in output[: output.rindex(b"\x1b[?1049l")].decode()
    if number != signal.SIGKILL:
        assert "Fatal Python error" in after


def test_a_clean_end_says_nothing_more_and_keeps_its_code(tmp_path: Path) -> None:
    terminal, _ = opened(tmp_path, "pass")
    terminal.key(b"\x11")
    assert terminal.end() == 0
    assert b"selfplay-tui:" not in terminal.output
    assert modes_left_on(bytes(terminal.output)) == set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_parent_reaches_the_app(tmp_path: Path, number: signal.Signals) -> None:
    terminal, _ = opened(tmp_path, "pass")
    terminal.send(number)
    assert terminal.end() == 128 + number
    assert b"is saved in" in terminal.output


def test_an_app_whose_parent_was_killed_ends(tmp_path: Path) -> None:
    terminal, _ = opened(tmp_path, "pass")
    child = int((tmp_path / "run.lock").read_text())
    terminal.send(signal.SIGKILL)
    deadline = time.perf_counter() + 15
    while time.perf_counter() < deadline:
        terminal.read(0.05)
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
    else:
        raise AssertionError("it goes on without its parent")
    assert terminal.end() == -signal.SIGKILL


def test_what_is_told_names_a_cause_and_the_command() -> None:
    text = told(signal.SIGKILL, "", Path("/runs/my run"))
    assert "memory ran out (SIGKILL)" in text
    assert "selfplay-tui resume '/runs/my run'" in text
    assert "words" not in text


def test_last_words_are_told_as_far_as_somebody_reads() -> None:
    words = (
        "libc++abi: out of memory\nFatal Python error: Aborted\n" + "  File x\n" * 30 + "\nExtension modules: a, b"
    )
    text = told(signal.SIGABRT, words, None)
    assert "the model library aborted (SIGABRT)" in text
    assert "libc++abi: out of memory" in text
    assert "… 12 lines more" in text
    assert "Extension modules" not in text
    assert "resume" not in text
