"""Presets: a task, a model, roles and hyperparameters that are known to work together, as TOML files.

Ours lie in this package. A file of the same name in the user's own folder takes the place of ours.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_config_path

PACKAGE = Path(__file__).parent

FIRST = ("nim-pocket", "kuhn-pocket", "tictactoe-pocket")
"""Those to begin with."""

MODELS = ("pocket", "smollm2", "qwen")
"""What a preset's name ends with: the model it is for, the smallest first."""

NAME = re.compile(r"[^\W_][\w-]{0,79}")
"""Of a preset that is saved."""

YOURS = "yours"


def _place(name: str) -> tuple[int, int, str]:
    first = FIRST.index(name) if name in FIRST else len(FIRST)
    return first, MODELS.index(name.rpartition("-")[2]), name


BUILT_IN = tuple(sorted((path.stem for path in PACKAGE.glob("*.toml")), key=_place))
"""Ours, in the order they are best tried."""


class PresetError(LookupError):
    """There is no such preset. The message names the nearest ones."""


class KeepError(Exception):
    """A preset that can't be saved or deleted: says why, and what would be right."""


class TakenError(KeepError):
    """There is one of that name among the user's own already."""


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    path: Path
    source: str
    """`"built-in"` or `"yours"`."""


def user_folder() -> Path:
    """Where a user's own presets are looked for and saved. It need not exist."""
    return user_config_path("selfplay-tui") / "presets"


def available() -> dict[str, Preset]:
    """Every preset by name: ours in their order, then the user's own. The files are not read."""
    found = {name: Preset(name, PACKAGE / f"{name}.toml", "built-in") for name in BUILT_IN}
    for path in sorted(user_folder().glob("*.toml")):
        found[path.stem] = Preset(path.stem, path, YOURS)
    return found


def find(name_or_path: str) -> Path:
    """The file of a preset named, or of a path given. `PresetError` with the nearest names if there is none."""
    presets = available()
    if name_or_path in presets:
        return presets[name_or_path].path
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    if path.suffix == ".toml" or len(path.parts) > 1:
        raise PresetError(f"{name_or_path}: no such file")
    nearest = difflib.get_close_matches(name_or_path, presets, n=3, cutoff=0.4)
    if nearest:
        raise PresetError(f"{name_or_path}: no such preset; did you mean {' or '.join(nearest)}?")
    raise PresetError(f"{name_or_path}: no such preset; there are {', '.join(presets)}")


def save(name: str, text: str, *, replace: bool = False) -> Path:
    """Write a preset into the user's folder; a reader never sees half a file. Returns the file.

    Raises:
        TakenError: there is one of that name there, and it isn't to be replaced.
        KeepError: it is no name for a file, or the file can't be written.
    """
    if not NAME.fullmatch(name):
        raise KeepError(
            f"{name!r}: a preset's name is of letters, digits, _ and -, and begins with none of these two"
        )
    path = user_folder() / f"{name}.toml"
    if path.exists() and not replace:
        raise TakenError(f"there is a preset {name} of yours already")
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # where there is no folder, there is no draft either
            draft.unlink()
        raise KeepError(f"{path}: can't be written: {error.strerror or error}") from error
    return path


def delete(name: str) -> None:
    """Delete one of the user's own presets. Raises `KeepError` if it isn't, or can't be deleted."""
    preset = available().get(name)
    if preset is None or preset.source != YOURS:
        raise KeepError(f"{name} is not a preset of yours, and stays")
    try:
        preset.path.unlink()
    except OSError as error:
        raise KeepError(f"{preset.path}: can't be deleted: {error.strerror or error}") from error
