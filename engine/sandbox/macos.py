"""What macOS takes from a process: a profile for `sandbox-exec`, which comes with the system.

Everything is denied but reading (outside of people's and volumes' folders), writing in the program's own folder,
and what starting Python asks for. Memory is not confined: macOS doesn't keep RLIMIT_AS. Names and sizes of files
can be asked. The command is deprecated by Apple and has no successor for programs that aren't apps; should it go,
nothing is run.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
PRIVATE = (
    "/Users",
    "/Volumes",
    "/Network",
    "/private/var/root",
    "/private/var/folders",
    "/private/tmp",
    "/Library",
)
"""Where people's files are."""


def wrapped(python: list[str], folder: Path, launcher: Path) -> list[str]:
    """The command that runs Python under the profile."""
    return [SANDBOX_EXEC, "-p", profile(python[0], folder, launcher), *python]


def profile(executable: str, folder: Path, launcher: Path, home: Path | None = None) -> str:
    """The profile, in which the last rule that fits a file decides. Symlinks are followed before, so here too.

    What this process imports from may not be read, its own Python's library apart: the answers may lie there.
    """
    python = [executable, os.path.realpath(executable)]
    prefix, stdlib = (os.path.realpath(path) for path in (sys.base_prefix, sysconfig.get_path("stdlib")))
    imported = [
        path for path in map(os.path.realpath, sys.path) if os.path.isdir(path) and not _within(path, stdlib)
    ]
    installed = [f"{stdlib}/site-packages", f"{stdlib}/test", *imported]
    lines = [
        "(version 1)",
        "(deny default)",
        f"(allow process-exec {_those('literal', python)} {_those('subpath', [prefix])})",
        "(allow sysctl-read)",
        "(allow process-info* (target self))",
        "(allow file-read*)",
        f"(deny file-read-data {_those('subpath', [*PRIVATE, os.path.realpath(home or Path.home())])})",
        f"(allow file-read* {_those('subpath', [prefix, stdlib])})",
        f"(deny file-read-data {_those('subpath', installed)})",
        f"(allow file-read* {_those('literal', [*python, str(launcher)])})",
        f"(allow file-read* file-write* {_those('subpath', [str(folder)])})",
        '(allow file-write-data (literal "/dev/null"))',
        "(deny process-fork)",
        "(deny network*)",
    ]
    return "\n".join(lines) + "\n"


def _within(path: str, stdlib: str) -> bool:
    """Whether a folder is of Python's own library, and not of what was installed into it."""
    return Path(path).is_relative_to(stdlib) and not {"site-packages", "dist-packages"} & set(Path(path).parts)


def _those(kind: str, paths: list[str]) -> str:
    quoted = [path.replace("\\", "\\\\").replace('"', '\\"') for path in dict.fromkeys(paths)]
    return " ".join(f'({kind} "{path}")' for path in quoted)
