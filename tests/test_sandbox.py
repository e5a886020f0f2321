"""The sandbox holds, also for root: attacks that are bounded by themselves, on decoys made for them.

On Linux nothing here is skipped: where the kernel can't confine, these tests fail.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from engine.sandbox import Finished, Limits, run_python, running

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="what Linux confines")
ORDINARY = Limits(cpu=5)
DENIED = {errno.EPERM, errno.EACCES}


async def run(code: str, *arguments: object, limits: Limits = ORDINARY) -> Finished:
    return await run_python({"main.py": code}, ["main.py", *map(str, arguments)], limits)


@pytest.fixture
def decoy(tmp_path: Path) -> Path:
    """A home with a secret in it."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "secret").write_text("hunter2")
    return home


def left_alone(home: Path) -> bool:
    return {path.name: path.read_text() for path in home.iterdir()} == {"secret": "hunter2"}


async def test_a_program_runs_with_its_arguments_files_and_input():
    files = {"main.py": "import sys, parts.one\nprint(sys.argv, parts.one.x, input())", "parts/one.py": "x = 'é'"}
    finished = await run_python(files, ["main.py", "a b"], stdin="in\n")
    assert (finished.exit, finished.why) == (0, "exited")
    assert finished.stdout == "['main.py', 'a b'] é in\n"
    failed = await run("import sys; sys.exit(3)")
    assert (failed.exit, failed.why, failed.stdout) == (3, "exited", "")
    assert "ZeroDivisionError" in (await run("1 / 0")).stderr


async def test_the_library_of_python_is_there_and_what_is_installed_or_ours_is_not():
    there = "bisect collections dataclasses datetime decimal fractions functools hashlib heapq itertools json math"
    there += " random re statistics string tempfile typing"
    assert (await run("\n".join(f"import {name}" for name in there.split()))).stderr == ""
    for name in ("numpy", "engine", "tasks.coding", "pytest"):
        assert "ModuleNotFoundError" in (await run(f"import {name}")).stderr
    for path in (running.LAUNCHER, Path(pytest.__file__)):
        assert "PermissionError" in (await run(f"open({str(path)!r}).read()")).stderr


# fmt: off
READING = [
    "open(p).read()", "os.listdir(h)", "os.open(p, os.O_RDONLY)", "open(h + '/../home/secret')", "os.scandir(h)",
    "shutil.copy(p, 'mine')", "mmap.mmap(os.open(p, os.O_RDONLY), 0)", "os.chroot(h)", "os.getxattr(p, 'user.x')",
    "open('/proc/self/environ').read()", "open('/proc/self/mem', 'rb').read(1)", "open('/etc/passwd').read()",
    "open(f'/proc/{os.getppid()}/environ').read()", "open(f'/proc/{os.getppid()}/cmdline').read()",
]
WRITING = [
    "open(p, 'w')", "open(p, 'a')", "open(h + '/new', 'x')", "os.open(p, os.O_RDONLY | os.O_TRUNC)",
    "os.truncate(p, 0)", "os.remove(p)", "os.rename(p, 'mine')", "os.rename('mine', h + '/mine')",
    "os.replace('mine', p)", "os.rmdir(h)", "os.mkdir(h + '/d')", "os.link(p, 'link')", "os.symlink(p, h + '/s')",
    "os.symlink(p, 's')", "os.chmod(p, 0)", "os.chown(p, 1, 1)", "os.utime(p)",
    "os.open(h, os.O_TMPFILE | os.O_RDWR)", "os.mkfifo(h + '/f')", "os.setxattr(p, 'user.x', b'1')",
    "os.mknod(h + '/n')", "os.link('mine', h + '/l')",
]
# fmt: on
TRY = """
import errno, mmap, os, shutil, sys
h, p = sys.argv[1], sys.argv[1] + '/secret'
open('mine', 'w').write('mine')
for attempt in sys.argv[2:]:
    try:
        print('did', attempt, eval(attempt))
    except OSError as error:
        print(error.errno)
"""


@on_linux
async def test_nothing_outside_is_read(decoy):
    lines = (await run(TRY, decoy, *READING)).stdout.splitlines()
    assert len(lines) == len(READING)
    assert [(a, line) for a, line in zip(READING, lines, strict=True) if line not in map(str, DENIED)] == []


@on_linux
async def test_nothing_outside_is_written_deleted_or_marked(decoy):
    before = (decoy / "secret").stat()
    lines = (await run(TRY, decoy, *WRITING)).stdout.splitlines()
    crossing = {str(errno.EXDEV)}  # Landlock's answer to a rename that would take something out of its place
    assert len(lines) == len(WRITING)
    odd = [(a, line) for a, line in zip(WRITING, lines, strict=True) if line not in {*map(str, DENIED), *crossing}]
    assert odd == []
    assert left_alone(decoy)
    after = (decoy / "secret").stat()
    assert (before.st_mode, before.st_mtime_ns, before.st_uid) == (after.st_mode, after.st_mtime_ns, after.st_uid)


@on_linux
async def test_a_tree_outside_is_not_deleted_and_its_own_folder_may_be(decoy):
    code = "import os, shutil, sys\nshutil.rmtree(sys.argv[1], ignore_errors=True)\nopen('x', 'w')\n"
    finished = await run(code + "[os.remove(name) for name in os.listdir('.')]\nprint(os.listdir('.'))", decoy)
    assert finished.stdout == "[]\n"
    assert left_alone(decoy)


SPAWNING = """
import ctypes, os, subprocess, sys, threading, time
def leave():  # what has been started ends soon, should it have been started
    time.sleep(1); os._exit(0)
def fork():
    if os.fork() == 0: leave()
def raw(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    pid = libc.syscall(number, *arguments)
    if pid == 0: leave()
    if pid < 0: raise OSError(ctypes.get_errno(), "")
thread = lambda: threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
run = lambda: subprocess.run([sys.executable, "-c", ""])
spawn = lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {})
execute = lambda: os.execv("/bin/true", ["true"])
shell = lambda: print("started") if os.system("exit 7") == 7 * 256 else fork()
clone, clone3, vfork = (lambda n=n: raw(n, 17, 0, 0, 0, 0) for n in map(int, sys.argv[1:]))
for attempt in (fork, thread, run, spawn, execute, shell, clone, clone3, vfork):
    for _ in range(20):  # spawning that would be endless
        try:
            attempt(); print("started")
        except (OSError, RuntimeError):
            continue
print("done")
"""


@on_linux
async def test_nothing_is_started_however_often_it_is_tried():
    numbers = (56, 435, 58) if os.uname().machine == "x86_64" else (220, 435, 220)
    assert (await run(SPAWNING, *numbers)).stdout == "done\n"


@on_linux
async def test_no_socket_is_opened():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        code = """
import socket, sys
for kind in ('AF_INET', 'AF_INET6', 'AF_UNIX', 'AF_NETLINK', 'AF_PACKET'):
    for how in (1, 2, 3):
        try: print('opened', socket.socket(getattr(socket, kind), how))
        except PermissionError: pass
for attempt in (socket.socketpair, lambda: socket.create_connection(('127.0.0.1', int(sys.argv[1])), 1)):
    try: print('opened', attempt())
    except PermissionError: pass
print('done')
"""
        assert (await run(code, server.getsockname()[1])).stdout == "done\n"
        with pytest.raises(TimeoutError):
            server.accept()


@on_linux
async def test_calls_that_lead_out_are_not_permitted():
    calls = {  # numbers on x86-64 and on ARM
        "ptrace": (101, 117), "process_vm_readv": (310, 270), "mount": (165, 40), "unshare": (272, 97),
        "setns": (308, 268), "bpf": (321, 280), "io_uring_setup": (425, 425), "keyctl": (250, 219),
        "kill": (62, 129), "memfd_create": (319, 279), "prctl": (157, 167), "setrlimit": (160, 164),
        "prlimit64": (302, 261), "setuid": (105, 146), "openat2": (437, 437), "open_by_handle_at": (304, 265),
        "perf_event_open": (298, 241), "userfaultfd": (323, 282), "shmget": (29, 194),
        "read of x32": (0x40000000, 1 << 20), "a call of future kernels": (600, 600),
    }  # fmt: skip
    column = 0 if os.uname().machine == "x86_64" else 1
    numbers = [both[column] for both in calls.values()]
    code = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in sys.argv[1:]:
    print(libc.syscall(int(number), 0, 0, 0, 0, 0), ctypes.get_errno())
"""
    lines = (await run(code, *numbers)).stdout.splitlines()
    assert dict(zip(calls, lines, strict=True)) == dict.fromkeys(calls, "-1 1")


@on_linux
async def test_others_get_no_signals():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"]) as decoy:
        code = "import os, sys\nfor n in (0, 15, 9):\n    try: os.kill(int(sys.argv[1]), n)\n"
        assert (await run(f"{code}    except PermissionError: print('no')", decoy.pid)).stdout == "no\n" * 3
        assert decoy.poll() is None
        decoy.kill()


@on_linux
async def test_limits_cannot_be_raised():
    code = """
import resource
for name in ('CPU', 'AS', 'FSIZE', 'NOFILE', 'NPROC', 'CORE'):
    try: resource.setrlimit(getattr(resource, f'RLIMIT_{name}'), (10**9, 10**9)); print('raised', name)
    except (OSError, ValueError): pass
"""
    assert (await run(code)).stdout == ""


async def test_an_endless_loop_ends():
    loops = [
        "while True: pass",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ]
    started = time.monotonic()
    ended = await asyncio.gather(*(run(code, limits=Limits(cpu=1, seconds=15.0)) for code in loops))
    assert [finished.exit for finished in ended] == [None] * 3
    assert {finished.why for finished in ended} <= {"time", "killed"}
    assert time.monotonic() - started < 60


async def test_a_program_that_only_waits_ends():
    finished = await run("import time; print('here', flush=True); time.sleep(30)", limits=Limits(seconds=1.0))
    assert (finished.why, finished.exit, finished.stdout) == ("time", None, "here\n")
    assert finished.seconds < 10


@on_linux
async def test_memory_is_bounded():
    """600 MB at most, should the limit not hold."""
    code = "kept = []\nfor i in range(10):\n    kept.append(bytearray(60_000_000)); print(i, flush=True)"
    finished = await run(code, limits=Limits(memory=200_000_000))
    assert (finished.why, finished.exit) == ("memory", 1)
    assert len(finished.stdout.split()) <= 3


async def test_a_file_is_bounded():
    finished = await run("open('big', 'wb').write(b'x' * 3_000_000)", limits=Limits(file_size=1_000_000))
    assert finished.exit != 0
    assert "File too large" in finished.stderr


@pytest.mark.parametrize(
    ("code", "limits"),
    [
        ("for i in range(2000): open(f'{i}', 'w')", Limits(files=50)),
        ("for i in range(20): open(f'{i}', 'wb').write(b'x' * 900_000)", Limits(disk=5_000_000)),
    ],
)
async def test_all_files_together_are_bounded(code, limits):
    finished = await run(f"{code}\nimport time; time.sleep(0.2)", limits=limits)
    assert finished.why == "disk"


async def test_what_is_printed_beyond_the_limit_is_dropped_and_nobody_waits():
    finished = await run("import sys\nfor s in (sys.stdout, sys.stderr): s.write('x' * 3_000_000)")
    assert (finished.why, finished.exit) == ("exited", 0)
    assert finished.stdout == finished.stderr == "x" * 65_536
    code = "for i in range(3000): print('x' * 99_999)"  # 300 MB at most
    assert (await run(code, limits=Limits(output=1_000))).why == "output"


async def test_the_environment_is_empty_and_the_same_program_does_the_same(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    code = "import os, ctypes\nprint(dict(os.environ), ctypes.CDLL(None).getenv(b'SECRET_TOKEN'))\n"
    code += "print({*'abcdef'}, hash('x'))"
    first, second = [await run(code) for _ in range(2)]
    assert first.stdout.startswith("{} 0\n")
    assert first.stdout == second.stdout


async def test_nothing_is_left_behind():
    finished = await run("import os\nfor i in range(9): open(f'{i}', 'w')\nprint(os.getcwd())")
    folder = Path(finished.stdout.strip())
    assert folder.name.startswith("selfplay-")
    assert not folder.exists()


async def test_no_open_file_of_ours_is_inherited():
    with tempfile.TemporaryFile() as ours:
        os.set_inheritable(ours.fileno(), True)
        code = """
import os
for fd in range(3, 64):
    try: print(fd, os.fstat(fd))
    except OSError: pass
"""
        assert (await run(code)).stdout == ""


@pytest.fixture
def started(monkeypatch) -> list[int]:
    """The ids of processes that sandboxes start."""
    pids: list[int] = []
    start = asyncio.create_subprocess_exec

    async def noted(*arguments, **options):
        process = await start(*arguments, **options)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(running.asyncio, "create_subprocess_exec", noted)
    return pids


def is_gone(pid: int, patience: float = 5.0) -> bool:
    until = time.monotonic() + patience
    while time.monotonic() < until:
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


@on_linux
async def test_a_run_that_is_called_off_at_any_moment_leaves_no_process_and_no_folder(
    started, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for seconds in (0.0, 0.002, 0.005, 0.01, 0.02, 0.3):
        running_one = asyncio.create_task(run("import time; time.sleep(30)"))
        await asyncio.sleep(seconds)
        running_one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_one
        assert not any(tmp_path.iterdir())
    assert started
    assert not any(Path(f"/proc/{pid}").exists() for pid in started)  # as a zombie it would


@on_linux
def test_whoever_asked_being_killed_ends_the_program(tmp_path):
    script = """
import asyncio, sys
from engine.sandbox import run_python, running
start = asyncio.create_subprocess_exec
async def noted(*a, **k):
    process = await start(*a, **k)
    print(process.pid, flush=True)
    return process
running.asyncio.create_subprocess_exec = noted
asyncio.run(run_python({"m.py": "import time; time.sleep(30)"}, ["m.py"]))
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # what is left behind is left there
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as asker:
        assert asker.stdout is not None
        pid = int(asker.stdout.readline())
        time.sleep(0.3)
        asker.kill()
    assert is_gone(pid)
