"""What Linux takes from a process for good: capabilities, the file system but for some places, most system calls.

Landlock names what may be read and written; a seccomp filter names the system calls that are left, some seventy
that a single-threaded Python needs, and answers every other with "not permitted". Nothing here asks for privileges,
and root undoes none of it: raising limits goes with the capabilities; new processes, sockets, signals to others,
mounts, chmod, io_uring and whatever kernels add in future aren't among the calls.

Landlock knows nothing of names and metadata: what exists outside and how large it is can still be asked (stat).

Our own two hundred lines of ctypes, because the launcher runs without installed packages, and of those there are
(pyseccomp wants libseccomp.so, `landlock` is a development release, sandlock wants Linux 6.12) none fits.
Sources: landlock(7), seccomp(2), capset(2), and the kernel's tables of system calls.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterable, Iterator, Sequence

LEAST_ABI = 1
"""Landlock of Linux 5.13. What later ones add (truncation, TCP, signals) the filter rules out anyway."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_REG, REFER, TRUNCATE, IOCTL_DEV = 1 << 8, 1 << 13, 1 << 14, 1 << 15
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule for a single file may give."""
READ = READ_FILE | READ_DIR
WORK = READ | WRITE_FILE | TRUNCATE | MAKE_REG | REMOVE_FILE
"""In its own folder: files, but no folders, links, sockets or devices. Whoever cleans up meets nothing else."""

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Landlock's system calls, numbered alike on every architecture."""
PATH_BENEATH = 1
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
FILTER_MODE = 2
CAPSET = {"x86_64": 126, "aarch64": 91}
CAPABILITIES = 0x20080522

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""How a filter is told the architecture of a call. One of another (32 bit) has other numbers, and ends it all."""

# Name: number on x86-64, on 64-bit ARM. Calls that ARM doesn't have are older forms of others.
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "stat": (4, None), "fstat": (5, 80), "lstat": (6, None),
    "poll": (7, None), "lseek": (8, 62), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215),
    "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "pread64": (17, 67), "pwrite64": (18, 68), "readv": (19, 65), "writev": (20, 66), "access": (21, None),
    "pipe": (22, None), "select": (23, None), "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233),
    "dup": (32, 23), "dup2": (33, None), "nanosleep": (35, 101), "getitimer": (36, 102), "alarm": (37, None),
    "setitimer": (38, 103), "getpid": (39, 172), "exit": (60, 93), "uname": (63, 160), "fsync": (74, 82),
    "fdatasync": (75, 83), "ftruncate": (77, 46), "getcwd": (79, 17), "chdir": (80, 49), "rename": (82, None),
    "unlink": (87, None), "readlink": (89, None), "umask": (95, 166), "gettimeofday": (96, 169),
    "getrlimit": (97, 163), "getrusage": (98, 165), "times": (100, 153), "getuid": (102, 174),
    "getgid": (104, 176), "geteuid": (107, 175), "getegid": (108, 177), "getppid": (110, 173),
    "sigaltstack": (131, 132), "gettid": (186, 178), "time": (201, None), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "getdents64": (217, 61), "restart_syscall": (219, 128),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "exit_group": (231, 94), "newfstatat": (262, 79), "unlinkat": (263, 35), "renameat": (264, 38),
    "readlinkat": (267, 78), "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73),
    "set_robust_list": (273, 99), "dup3": (292, 24), "pipe2": (293, 59), "renameat2": (316, 276),
    "getrandom": (318, 278), "statx": (332, 291), "rseq": (334, 293), "faccessat2": (439, 439),
}  # fmt: skip
OPENING = {"x86_64": ((2, 1), (257, 2)), "aarch64": ((56, 2),)}
"""open and openat, and which argument has the flags: O_TRUNC without write access empties files in Landlock 1."""
FCNTL, IOCTL = {"x86_64": 72, "aarch64": 25}, {"x86_64": 16, "aarch64": 29}
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
"""Duplicating and flags; not owners of signals, leases or the sizes of pipes."""

LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06
"""BPF: load a word of what is known of the call, mask it, compare and jump, answer."""
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NOT_PERMITTED, NO_TERMINAL = 1, 25
"""EPERM; and ENOTTY, after which Python looks no further for a terminal."""
O_TRUNC, O_ACCMODE = 0o1000, 0o3


class Refused(Exception):
    """This machine can't confine a process: says what is missing."""


class _Rules(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Step(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32))


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(_Step)))


libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def confine(folder: str, listed: str, readable: Iterable[str]) -> None:
    """From here on: working in `folder`, names of files below `listed`, reading `readable`, and nothing else.

    Raises `Refused` if that can't be had.
    """
    machine = platform.machine()
    if machine not in AUDIT:
        raise Refused(f"the filter of system calls is written for {' and '.join(AUDIT)}, not for {machine}")
    abi = landlock_abi()
    if abi < LEAST_ABI:
        raise Refused("no Landlock here: it wants Linux 5.13 with 'landlock' in /sys/kernel/security/lsm, unmasked")
    _prctl("no_new_privs", PR_SET_NO_NEW_PRIVS, 1)
    _drop_capabilities(machine)
    places = [(folder, WORK), (listed, READ_DIR), ("/dev/null", READ_FILE | WRITE_FILE)]
    _landlock(abi, [*places, *((path, READ) for path in readable)])
    _seccomp(filter_program(machine))


def die_with(parent: int) -> None:
    """End when the process that started this one does, even if it was killed."""
    _prctl("parent's death signal", PR_SET_PDEATHSIG, 9)
    if os.getppid() != parent:
        raise Refused("whoever asked for it is gone")


def landlock_abi() -> int:
    """The version of Landlock here; 0 if there is none."""
    return max(0, libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1)))


def filter_program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as (operation, steps to skip if equal, if not, value)."""
    steps = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, AUDIT[machine]), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    for number, argument in OPENING[machine]:
        steps += _only_if(number, [
            (LOAD, 0, 0, _argument(argument)), (AND, 0, 0, O_TRUNC | O_ACCMODE), (EQUAL, 0, 1, O_TRUNC),
            (RETURN, 0, 0, ERRNO | NOT_PERMITTED), (RETURN, 0, 0, ALLOW),
        ])  # fmt: skip
    commands = _any_of(FCNTL_COMMANDS)
    steps += _only_if(FCNTL[machine], [(LOAD, 0, 0, _argument(1)), *commands])
    steps += _only_if(IOCTL[machine], [(RETURN, 0, 0, ERRNO | NO_TERMINAL)])
    column = list(AUDIT).index(machine)
    return steps + _any_of([numbers[column] for numbers in ALLOWED.values() if numbers[column] is not None])


def _any_of(values: Sequence[int | None]) -> list[tuple[int, int, int, int]]:
    """Allow if the loaded word is one of these, else "not permitted"."""
    jumps = [(EQUAL, len(values) - i, 0, value or 0) for i, value in enumerate(values)]
    return [*jumps, (RETURN, 0, 0, ERRNO | NOT_PERMITTED), (RETURN, 0, 0, ALLOW)]


def _only_if(number: int, steps: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Steps for one system call, which end in an answer; passed over for others."""
    return [(EQUAL, 0, len(steps), number), *steps]


def _argument(index: int) -> int:
    """Where the lower half of a call's argument lies, on little-endian machines."""
    return 16 + 8 * index


def _landlock(abi: int, places: Iterable[tuple[str, int]]) -> None:
    handled = (1 << 13) - 1
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        handled |= right if abi >= since else 0
    rules = _Rules(handled, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = _call("landlock_create_ruleset", CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    for opened, rights in _opened(places):
        beneath = _Beneath(rights & handled, opened)
        _call("landlock_add_rule", ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(beneath), 0)
        os.close(opened)
    _call("landlock_restrict_self", RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _opened(places: Iterable[tuple[str, int]]) -> Iterator[tuple[int, int]]:
    for path, rights in places:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        yield opened, rights if os.path.isdir(path) else rights & OF_FILES


def _drop_capabilities(machine: str) -> None:
    header = (ctypes.c_uint32 * 2)(CAPABILITIES, 0)
    _call("capset", CAPSET[machine], ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def _seccomp(steps: list[tuple[int, int, int, int]]) -> None:
    array = (_Step * len(steps))(*(_Step(*step) for step in steps))
    _prctl("seccomp", PR_SET_SECCOMP, FILTER_MODE, ctypes.byref(_Program(len(steps), array)))


def _prctl(name: str, option: int, *arguments: object) -> None:
    filled = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in (*arguments, 0, 0, 0, 0)][:4]
    if libc.prctl(option, *filled) != 0:
        raise Refused(f"{name}: {os.strerror(ctypes.get_errno())}")


def _call(name: str, number: int, *arguments: object) -> int:
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise Refused(f"{name}: {os.strerror(ctypes.get_errno())}")
    return result
