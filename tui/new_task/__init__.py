"""`selfplay-tui new-task`: a working task with its test and its preset, to be changed into one's own.

They are copies of the files in `episode/`, or with `--game` in `game/`, under another name. These are ordinary
files of the repository, checked and tested like any others, and shown in the README.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
from pathlib import Path

HERE = Path(__file__).parent

EXAMPLES = {"episode": "signals", "game": "fifteen"}
"""Folder → what the task in it is called."""


class NewTaskError(Exception):
    """A task that can't be written: says why."""


def main(name: str, folder: Path, kind: str) -> int:
    """Writes the files and says what to do with them; returns the exit code."""
    task, test, preset = written = write(name, folder, kind)
    tested, shown = (shlex.quote(_shown(path)) for path in (test, preset))
    print(f"wrote {', '.join(_shown(path) for path in written)}\n")
    print(f"see it learn    selfplay-tui run {shown}")
    print(f"test it         python -m pytest {tested}")
    print(f"make it yours   {_shown(task)}: what is asked, and what is rewarded")
    return 0


def write(name: str, folder: Path, kind: str) -> tuple[Path, Path, Path]:
    """Task, test and preset, called `name`, in `folder`. Raises `NewTaskError`; nothing is ever written over."""
    if not name.isidentifier() or not name.isascii() or not name[0].isalpha():
        raise NewTaskError(f"{name!r} can't name a Python file: use letters, digits and _, a letter first")
    paths, sources = _files(folder, name), _files(HERE / kind, EXAMPLES[kind])
    there = [path for path in paths if path.exists()]
    if there:
        raise NewTaskError(f"{there[0]} is there already, and is left as it is: take another name or --folder")
    _check_is_free(name)
    names = {EXAMPLES[kind]: name, _class(EXAMPLES[kind]): _class(name)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, source in zip(paths, sources, strict=True):
            text = re.sub("|".join(names), lambda found: names[found[0]], source.read_text(encoding="utf-8"))
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise NewTaskError(f"{error.filename or folder} can't be written: {error.strerror}") from error
    return paths


def _files(folder: Path, name: str) -> tuple[Path, Path, Path]:
    return folder / f"{name}.py", folder / f"test_{name}.py", folder / f"{name}.toml"


def _check_is_free(name: str) -> None:
    if keyword.iskeyword(name):
        raise NewTaskError(f"{name!r} is a word of Python's own; take another name")
    from engine.task import built_in

    if name in built_in():
        raise NewTaskError(f"{name!r} is a task that comes with selfplay-tui; take another name")
    if importlib.util.find_spec(name) is not None:
        raise NewTaskError(f"{name!r} is a Python module, which yours would hide; take another name")
    import engine

    if _class(name) in engine.__all__:
        raise NewTaskError(f"{name!r} would make a class {_class(name)}, which is the engine's; take another name")


def _class(name: str) -> str:
    """`my_task` as a class: `MyTask`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _shown(path: Path) -> str:
    """As it is written from here: a path that a command line takes for one."""
    text = str(path)
    return text if path.is_absolute() or text.startswith((".", "~")) else f"./{text}"
