"""A parent that outlives the app: if the process with the model is aborted, somebody gives the terminal back.

MLX ends the process (`SIGABRT`) where an operation fails on the device, and the system does (`SIGKILL`) where
memory runs out. No handler in that process can be relied on then. So the app runs in a child; the parent, which
holds some modules and nothing else, waits for it, and after an end by a signal resets what the terminal was set to,
tells what the child's last words were and how to go on.

What libraries write to descriptor 2 would otherwise stand in the middle of the screen: in the child it goes to a
file, and Textual draws on a descriptor of its own.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import tempfile
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)

RESET = "".join(
    (
        "\x1b[<u",  # the keyboard protocol of kitty
        *(f"\x1b[?{mode}l" for mode in (1000, 1002, 1003, 1015, 1006, 1016, 1004, 2004, 2026, 2048)),
        "\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m\x1b]22;\x1b\\",
    )
)
"""Undoes what Textual sets: mouse, focus, paste and resize reports, held-back output, alternate screen, cursor."""

LAST_WORDS = 4000
"""Bytes of what the child wrote at its end that are looked at."""

LINES = 20
"""Of these, told: what the library said comes before the stack, and the stack begins where it ended."""

_parent: int | None = None
"""In a child, the process that watches over it."""

INHERITED = "SELFPLAY_TUI_WORDS"
"""Tells a child that was started anew the descriptor of the file for its last words."""


def supervised(work: Callable[[], int], runs: Callable[[], Sequence[Path]], *, anew: bool | None = None) -> int:
    """Runs `work` in a child and returns its exit code; 128 + the signal where one ended it.

    `runs` lists folders of runs that the child may have been at. With `anew` the child starts this program from the
    beginning instead of going on as a copy: Apple's frameworks don't work in a copy.
    """
    if (inherited := os.environ.pop(INHERITED, "")).isdecimal():
        return _as_child(work, int(inherited))
    terminal = _modes()
    with tempfile.TemporaryFile(buffering=0) as words:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            if sys.platform == "darwin" if anew is None else anew:
                os.set_inheritable(words.fileno(), True)
                os.environ[INHERITED] = str(words.fileno())
                os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
            return _as_child(work, words.fileno())
        status = _wait(child)
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        number = os.WTERMSIG(status)
        _give_back(terminal)
        _say(told(number, _end_of(words), _run_of(child, runs())))
        return 128 + number


def told(number: int, words: str, folder: Path | None) -> str:
    """What happened and what to do, for the person whose app is gone."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    cause = {
        signal.SIGKILL: "the system killed it, most likely because memory ran out",
        signal.SIGABRT: "the model library aborted",
    }.get(number, "the process crashed")  # type: ignore[call-overload]
    lines = [f"selfplay-tui: {cause} ({name})."]
    said = words.partition("\nExtension modules:")[0].strip().splitlines()  # faulthandler names dozens
    if said:
        lines += ["Its last words:", *(f"    {line}" for line in said[:LINES])]
    if len(said) > LINES:
        lines += [f"    … {len(said) - LINES} lines more"]
    if folder is not None:
        lines += [
            "The run is kept up to its last checkpoint. Go on with:",
            f"    selfplay-tui resume {shlex.quote(str(folder))}",
        ]
    return "\n".join(lines)


def orphaned() -> bool:
    """Whether this is a child whose parent was killed: the terminal is the shell's again."""
    return _parent is not None and os.getppid() != _parent


def _as_child(work: Callable[[], int], words: int) -> int:
    """Runs `work`, descriptor 2 turned into `words`; Python's own standard error stays the terminal."""
    import faulthandler

    global _parent
    _parent = os.getppid()
    screen = os.dup(2)
    sys.stderr.flush()
    sys.stderr = sys.__stderr__ = open(screen, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors)  # noqa: SIM115
    os.dup2(words, 2)
    faulthandler.enable(2)
    return work()


def _wait(child: int) -> int:
    """Waits for the child, which is passed the signals that mean it."""

    def forward(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        return os.waitpid(child, 0)[1]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _modes() -> list[object] | None:
    try:
        return termios.tcgetattr(0)
    except (termios.error, OSError):
        return None


def _give_back(modes: list[object] | None) -> None:
    with contextlib.suppress(termios.error, OSError):
        os.write(2, RESET.encode())
        if modes is not None:
            termios.tcflush(0, termios.TCIFLUSH)  # reports of the mouse that were on their way
            termios.tcsetattr(0, termios.TCSADRAIN, modes)  # type: ignore[arg-type]


def _say(text: str) -> None:
    from tui.text import clean

    with contextlib.suppress(OSError):
        os.write(2, (clean(text) + "\n").encode(errors="replace"))


def _end_of(words: IO[bytes]) -> str:
    size = words.seek(0, os.SEEK_END)
    words.seek(max(size - LAST_WORDS, 0))
    return words.read().decode(errors="replace")


def _run_of(process: int, folders: Sequence[Path]) -> Path | None:
    """The run whose lock names the process."""
    from engine.store import LOCK

    for folder in folders:
        with contextlib.suppress(OSError):
            if (folder / LOCK).read_text().strip() == str(process):
                return folder
    return None
