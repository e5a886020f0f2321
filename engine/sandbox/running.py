"""Runs Python code that nobody vouches for: limits are set by a launcher in the child, time is kept here.

One process per run, in a temporary folder that is its only place to write, without environment, network, other
processes or anyone's files, and gone with all it wrote when `run_python` returns. Where the machine can't confine
it the code doesn't run (`SandboxError`).
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from weakref import WeakKeyDictionary

from engine.sandbox import macos
from engine.types import EngineError

LAUNCHER = Path(__file__).with_name("launcher.py")
FLOOD = 100
POLL = 0.05
"""Seconds between two looks at how much was written."""
CHUNK = 65_536

Why = Literal["exited", "time", "memory", "disk", "output", "killed"]


class SandboxError(EngineError):
    """Code can't be confined on this machine, and so wasn't run: says what is missing. A run that needs it ends."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use. One process without threads, whatever is said here."""

    cpu: int = 2
    """Seconds of computing: what counts, for how long they take depends on what else the machine does."""
    seconds: float = 20.0
    """Seconds from start to end, for programs that wait."""
    memory: int = 256_000_000
    """Bytes of address space."""
    file_size: int = 1_000_000
    """Bytes of one file."""
    disk: int = 8_000_000
    """Bytes of all files. Looked at twenty times a second: a quick program may exceed it before it is ended. Files
    that it removes and holds open aren't seen; as many as a process may open, each of up to `file_size`."""
    files: int = 200
    """Files and folders, those it is given among them, in the same way."""
    output: int = 65_536
    """Bytes kept of each of stdout and stderr. More is read and dropped, up to `FLOOD` times as much."""


ORDINARY = Limits()


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended. All of it is the program's own account, and proves nothing."""

    exit: int | None
    """The exit status; None if a signal ended it."""
    stdout: str
    stderr: str
    why: Why
    seconds: float


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def run_python(
    files: Mapping[str, str], argv: Sequence[str], limits: Limits = ORDINARY, *, stdin: str = ""
) -> Finished:
    """Run `argv[0]`, one of `files` (relative path → text), with the rest of `argv` as its arguments.

    As many run at once as there are cores; the others wait their turn. Raises `SandboxError` where it can't be
    confined, `ValueError` if a path leads out of the folder.
    """
    loop = asyncio.get_running_loop()
    turn = _turns.setdefault(loop, asyncio.Semaphore(os.cpu_count() or 1))
    async with turn:
        with tempfile.TemporaryDirectory(prefix="selfplay-") as name, tempfile.TemporaryFile() as standard_input:
            folder = Path(name).resolve()
            for path, text in files.items():
                _write(folder, path, text)
            standard_input.write(text_bytes(stdin))
            standard_input.seek(0)
            return await _run(folder, list(argv), limits, standard_input.fileno())


def _write(folder: Path, path: str, text: str) -> None:
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or PurePosixPath(path).is_absolute():
        raise ValueError(f"a file of the sandbox has a path within its folder, not {path!r}")
    place = folder.joinpath(*parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text_bytes(text))


def text_bytes(text: str) -> bytes:
    """UTF-8, with question marks for halves of characters, which models may write and files can't hold."""
    return text.encode("utf-8", "replace")


async def _run(folder: Path, argv: list[str], limits: Limits, stdin: int) -> Finished:
    told, tell = os.pipe()
    started = time.monotonic()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *command(folder),
                *_strings(LAUNCHER, os.getpid(), folder, tell, limits.cpu, limits.memory, limits.file_size),
                *argv,
                stdin=stdin,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env={"PYTHONHASHSEED": "0"},
                pass_fds=(tell,),
                start_new_session=True,
            )
        finally:
            os.close(tell)
        try:
            stopped, stdout, stderr = await _watch(process, folder, limits, started)
        finally:
            _kill(process)
            await process.wait()
        said = os.read(told, CHUNK).decode("utf-8", "replace")
    finally:
        os.close(told)
    code = process.returncode
    if said != "confined" and (said or stopped is None):
        raise SandboxError(f"code can't be confined here, so it isn't run: {said or stderr.strip() or code}")
    exit = code if code is not None and code >= 0 else None
    return Finished(exit, stdout, stderr, stopped or _why(code, stderr), time.monotonic() - started)


async def _watch(
    process: asyncio.subprocess.Process, folder: Path, limits: Limits, started: float
) -> tuple[Why | None, str, str]:
    """Until it ends, or has used up its time or disk: then why it was stopped."""
    assert process.stdout is not None
    assert process.stderr is not None
    flooded = asyncio.Event()
    streams = (process.stdout, process.stderr)
    reading = [asyncio.create_task(_kept(stream, limits.output, flooded)) for stream in streams]
    ending = asyncio.create_task(process.wait())
    stopped: Why | None = None
    try:
        while not ending.done() and stopped is None:
            await asyncio.wait({ending}, timeout=POLL)
            if _too_much(folder, limits):
                stopped = "disk"
            elif flooded.is_set():
                stopped = "output"
            elif not ending.done() and time.monotonic() - started > limits.seconds:
                stopped = "time"
        _kill(process)
        stdout, stderr = await asyncio.gather(*reading)
    finally:
        for task in (*reading, ending):
            task.cancel()
    return stopped, stdout, stderr


async def _kept(stream: asyncio.StreamReader, most: int, flooded: asyncio.Event) -> str:
    """The beginning of what is written, which is read to its end so that nobody waits for a reader."""
    kept, total = b"", 0
    while chunk := await stream.read(CHUNK):
        kept += chunk[: most - len(kept)]
        total += len(chunk)
        if total > FLOOD * most:
            flooded.set()
    return kept.decode("utf-8", "replace")


def _too_much(folder: Path, limits: Limits) -> bool:
    """Whether more was written than may be; counting ends as soon as that is known."""
    total = count = 0
    waiting: list[str | Path] = [folder]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                count += 1
                with suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_size
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                if total > limits.disk or count > limits.files:
                    return True
    return False


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _why(code: int | None, stderr: str) -> Why:
    if code is None or code < 0:
        return "time" if code == -signal.SIGXCPU else "killed"
    last = stderr.rstrip().rpartition("\n")[2]
    return "memory" if code and last.startswith("MemoryError") else "exited"


def command(folder: Path) -> list[str]:
    """How Python is started: no site packages, no folder on the path, nothing written beside sources."""
    executable = getattr(sys, "_base_executable", None) or sys.executable
    python = _strings(executable, "-s", "-S", "-P", "-B", "-X", "utf8")
    wrapped: dict[str, Callable[[], list[str]]] = {
        "linux": lambda: python,
        "darwin": lambda: macos.wrapped(python, folder, LAUNCHER),
    }
    if sys.platform not in wrapped:
        raise SandboxError(f"code can be confined on Linux and macOS, not on {sys.platform}")
    return wrapped[sys.platform]()


def _strings(*values: object) -> list[str]:
    return [f"{math.ceil(value)}" if isinstance(value, int | float) else f"{value}" for value in values]
