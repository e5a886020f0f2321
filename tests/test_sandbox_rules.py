"""What the sandbox rests on: its filter, its profile, its refusal to go without them, and calls into it."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from engine.sandbox import SandboxError, call_python, linux, macos, run_python, running, same_value
from engine.sandbox.probe import loose

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="what Linux confines")


@on_linux
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return max(0, libc.syscall", "return 0 * max(0, libc.syscall", "no Landlock here"),
        ("machine = platform.machine()", "machine = 'riscv64'", "not for riscv64"),
        ("FILTER_MODE = 2", "FILTER_MODE = 77", "seccomp: Invalid argument"),
        ("RESTRICT_SELF = 444, 445, 446", "RESTRICT_SELF = 444, 445, 9999", "landlock_restrict_self"),
        ("os.getppid() != parent", "os.getppid() == parent", "whoever asked for it is gone"),
    ],
)
async def test_where_the_kernel_lacks_something_nothing_is_run(old, new, said, tmp_path, monkeypatch):
    for name in ("launcher.py", "linux.py"):
        text = running.LAUNCHER.with_name(name).read_text()
        assert name == "launcher.py" or old in text
        (tmp_path / name).write_text(text.replace(old, new))
    monkeypatch.setattr(running, "LAUNCHER", tmp_path / "launcher.py")
    with pytest.raises(SandboxError, match=said):
        await run_python({"main.py": "print(1)"}, ["main.py"])


@on_linux
@pytest.mark.parametrize("abi", [1, 2, 4])
async def test_the_oldest_landlock_is_enough(abi, tmp_path, monkeypatch):
    """Under the first, O_TRUNC empties a file that may not be read: the filter takes care of that."""
    text = running.LAUNCHER.with_name("linux.py").read_text()
    (tmp_path / "linux.py").write_text(text.replace("abi = landlock_abi()", f"abi = {abi}"))
    shutil.copy(running.LAUNCHER, tmp_path / "launcher.py")
    monkeypatch.setattr(running, "LAUNCHER", tmp_path / "launcher.py")
    assert await loose() == []
    decoy = tmp_path / "decoy"
    decoy.write_text("hunter2")
    code = f"import os\nfor flags in (os.O_TRUNC, os.O_RDWR):\n    try: os.open({str(decoy)!r}, flags)\n"
    finished = await run_python({"main.py": f"{code}    except PermissionError: print('no')"}, ["main.py"])
    assert finished.stdout == "no\nno\n"
    assert decoy.read_text() == "hunter2"


@on_linux
async def test_the_doctors_attempts_find_nothing_loose_here_and_all_where_nothing_is_confined(
    monkeypatch, tmp_path
):
    assert await loose() == []
    shutil.copy(running.LAUNCHER, tmp_path / "launcher.py")
    (tmp_path / "linux.py").write_text("confine = die_with = lambda *_: None\n")
    text = (tmp_path / "launcher.py").read_text().replace("(resource.RLIMIT_NPROC, 0),", "")
    (tmp_path / "launcher.py").write_text(text.replace("RLIMIT_AS, memory)", "RLIMIT_CORE, 0)"))
    monkeypatch.setattr(running, "LAUNCHER", tmp_path / "launcher.py")
    assert await loose() == ["reading", "writing", "deleting", "network", "processes", "memory"]


def answer(steps, audit: int, number: int, *arguments: int) -> int:
    """What a filter says of a call: an interpreter of the four operations it uses."""
    data = {0: number, 4: audit} | {16 + 8 * i: value for i, value in enumerate(arguments)}
    accumulator = at = 0
    while True:
        code, yes, no, k = steps[at]
        at += 1
        if code == 0x20:
            accumulator = data.get(k, 0)
        elif code == 0x54:
            accumulator &= k
        elif code == 0x15:
            at += yes if accumulator == k else no
        else:
            return k


# read, write, close, mmap, munmap, brk, futex, getdents64, exit_group, getrandom
NEEDED = ((0, 63), (1, 64), (3, 57), (9, 222), (11, 215), (12, 214), (202, 98), (217, 61), (231, 94), (318, 278))
# socket, connect, socketpair, clone, fork, vfork (on ARM clone too), execve, execveat, clone3, ptrace, kill, chmod,
# mount, unshare, mkdir, mknod, open_by_handle_at, io_uring_setup
FORBIDDEN = (
    (41, 198), (42, 203), (53, 199), (56, 220), (57, 220), (58, 220), (59, 221), (322, 281), (435, 435), (101, 117),
    (62, 129), (90, 53), (165, 40), (272, 97), (83, 34), (133, 33), (304, 265), (425, 425),
)  # fmt: skip


@pytest.mark.parametrize(("machine", "audit", "column"), [("x86_64", 0xC000003E, 0), ("aarch64", 0xC00000B7, 1)])
def test_the_filter_of_both_architectures_allows_and_denies_by_name(machine, audit, column):
    """Numbers from the kernel's tables (`unistd_64.h`, and the generic `unistd.h`)."""
    steps = linux.filter_program(machine)
    allow, deny, no_terminal = 0x7FFF0000, 0x00050001, 0x00050000 | errno.ENOTTY
    assert all(step[1] < 256 and step[2] < 256 for step in steps)
    for both in NEEDED:
        assert answer(steps, audit, both[column]) == allow
    for both in FORBIDDEN:
        assert answer(steps, audit, both[column]) == deny
    assert answer(steps, 0x40000003, 0) == 0x80000000
    opening = (257, 56)[column]
    assert answer(steps, audit, opening, 0, 0, os.O_RDONLY) == allow
    assert answer(steps, audit, opening, 0, 0, os.O_WRONLY | 0o1000) == allow
    assert answer(steps, audit, opening, 0, 0, 0o1000) == deny
    fcntl, ioctl = (72, 25)[column], (16, 29)[column]
    assert [answer(steps, audit, fcntl, 0, command) for command in (3, 8, 1031)] == [allow, deny, deny]
    assert answer(steps, audit, ioctl, 0, 0x5412) == no_terminal


def test_the_profile_for_macos_denies_what_it_should(tmp_path, monkeypatch):
    """The last rule that fits decides. It hasn't been run: this reads it as its manual says."""
    home, folder = tmp_path / "home", tmp_path / "work"
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "installed")])
    (tmp_path / "installed").mkdir()
    rules = macos.profile(sys.executable, folder, running.LAUNCHER, home).splitlines()

    def decides(operation: str, path: Path | str = "/") -> str:
        verdict = "deny" if "(deny default)" in rules else "allow"
        for rule in rules[2:]:
            action, *operations = re.findall(r"[a-z][a-z*-]+", rule.partition(" (")[0])
            places = re.findall(r'\((subpath|literal) "([^"]*)"\)', rule)
            fits = any(re.fullmatch(name.replace("*", ".*"), operation) for name in operations)
            under = any(str(path) == p or (k == "subpath" and Path(path).is_relative_to(p)) for k, p in places)
            if fits and (under or not places):
                verdict = action
        return verdict

    assert decides("file-read-data", folder / "main.py") == decides("file-write-data", folder / "x") == "allow"
    assert (
        decides("file-read-data", os.__file__) == decides("file-read-data", "/usr/lib/libSystem.dylib") == "allow"
    )
    assert decides("file-read-data", running.LAUNCHER) == "allow"
    for private in (home / "secret", "/Users/me/.ssh/id", "/Volumes/x", tmp_path / "installed" / "answers.py"):
        assert decides("file-read-data", private) == "deny"
    for outside in (home / "secret", "/tmp/x", os.__file__, "/usr/lib/x"):
        assert decides("file-write-data", outside) == "deny"
    assert decides("network-outbound") == decides("process-fork") == decides("mach-lookup") == "deny"


async def test_paths_lead_nowhere_else():
    for path in ("../x.py", "/tmp/x.py", "", "a/../../x"):
        with pytest.raises(ValueError, match="within its folder"):
            await run_python({path: ""}, ["x.py"])


async def test_what_code_says_of_its_errors_is_kept_short():
    code = """
import json, os
def fail(x):
    line = json.dumps({'error': 'E' * 50_000, 'says': 's' * 50_000})
    [os.write(fd, line.encode() + b'\\n') for fd in range(3, 9) if is_open(fd)]
def is_open(fd):
    try: return os.fstat(fd)
    except OSError: return False
"""
    [outcome] = await call_python({"m.py": code}, [("m", "fail", [1])])
    assert (outcome.error, outcome.says) == ("E" * 200, "s" * 200)


async def test_functions_are_called_and_what_is_no_answer_is_none():
    code = """
import os
def double(x): print('noise'); return 2 * x
def odd(x): return {1, 2}
def fail(x): raise KeyError('k')
def leave(x): os._exit(0)
def late(x): return 1
"""
    calls = [("m", name, [3]) for name in ("double", "odd", "fail", "gone", "leave", "late")]
    value, *others = await call_python({"m.py": code}, calls)
    assert value.value == 6
    assert [outcome.error for outcome in others] == [
        "NoAnswer",
        "KeyError",
        "AttributeError",
        "NoAnswer",
        "NoAnswer",
    ]


@pytest.mark.parametrize(
    ("expected", "value", "equal"),
    [
        (1, 1, True), (1, 1.0, True), (1, 1.5, False), (1, True, False), (True, True, True), (False, 0, False),
        (1.0, 1, True), (0.3, 0.1 + 0.2, True), (0.5, 0.6, False), (1.0, float("nan"), False),
        (float("inf"), 1.0, False), (1.0, 10**400, False),
        ("a", "a", True), ("a", ["a"], False), (None, None, True), (None, 0, False),
        ((1, 2), [1, 2], True), ([1, 2], [1, 2, 3], False), ([1, [2]], [1, [2]], True), ({"a": 1}, {"a": 1}, True),
        ({1: 2}, {"1": 2}, True), ({"a": 1}, {"a": 1, "b": 2}, False), ({}, [], False),
    ],
)  # fmt: skip
def test_values_are_the_same_if_a_person_would_say_so(expected, value, equal):
    assert same_value(expected, value) is equal
