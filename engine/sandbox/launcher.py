"""Runs a Python program with as little as the machine can be made to leave it. A script, run without site packages.

    launcher.py PARENT FOLDER STATUS CPU MEMORY FILE_SIZE PROGRAM [ARGUMENT…]

Limits first, then confinement, then "confined" into the pipe STATUS, which is closed before the program begins:
what is in it can't have been written by the program. The program runs in this very process, so none has to be
started and none may be. Where confinement fails the reason is in the pipe instead, and the program never runs.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
from types import ModuleType

NOT_FOR_IT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "turtledemo"}
"""What of Python's library it may not read: installed packages could be those that know the answers."""
STDLIB = os.path.dirname(os.path.abspath(os.__file__))
OPEN_FILES = 64
NICE = 10


def main(
    parent: int, folder: str, status: int, cpu: int, memory: int, file_size: int, arguments: list[str]
) -> None:
    os.nice(NICE)
    try:
        if sys.platform == "linux":
            sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
            linux = importlib.import_module("linux")  # a neighbour of this script, which belongs to no package here
            sys.path.pop(0)
            linux.die_with(parent)
        limit(cpu, memory, file_size)
        if sys.platform == "linux":
            linux.confine(folder, STDLIB, ["/dev/urandom", *library()])
    except Exception as error:
        os.write(status, f"{type(error).__name__}: {error}".encode())
        sys.exit(1)
    os.write(status, b"confined")
    os.close(status)
    run(folder, arguments)


def limit(cpu: int, memory: int, file_size: int) -> None:
    """Resource limits. The kernel may refuse one of them (memory, on macOS): doctor tells what holds."""
    limits = [
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_AS, memory),
    ]
    for what, most in limits:
        try:
            resource.setrlimit(what, (most, most + (what == resource.RLIMIT_CPU)))
        except (OSError, ValueError):
            if sys.platform == "linux":
                raise


def library() -> list[str]:
    """What of Python's own library may be read."""
    with os.scandir(STDLIB) as entries:
        return [entry.path for entry in entries if entry.name not in NOT_FOR_IT and os.path.exists(entry.path)]


def run(folder: str, arguments: list[str]) -> None:
    """The program as `__main__`, as if it had been started."""
    os.environ.clear()
    os.chdir(folder)
    path = os.path.join(folder, arguments[0])
    sys.argv = arguments
    sys.path.insert(0, folder)
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = path
    with open(path, encoding="utf-8") as file:
        source = file.read()
    exec(compile(source, path, "exec"), main.__dict__)


if __name__ == "__main__":
    given = sys.argv
    main(int(given[1]), given[2], int(given[3]), int(given[4]), int(given[5]), int(given[6]), given[7:])
