"""Presets: a task, a model, roles and hyperparameters that are known to work together, as TOML files.

Ours lie in this package. A file of the same name in the user's own folder takes the place of ours.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_config_path

PACKAGE = Path(__file__).parent

FIRST = ("nim-pocket", "kuhn-pocket", "tictactoe-pocket")
"""Those to begin with."""

MODELS = ("pocket", "smollm2", "qwen")
"""What a preset's name ends with: the model it is for, the smallest first."""


def _place(name: str) -> tuple[int, int, str]:
    first = FIRST.index(name) if name in FIRST else len(FIRST)
    return first, MODELS.index(name.rpartition("-")[2]), name


BUILT_IN = tuple(sorted((path.stem for path in PACKAGE.glob("*.toml")), key=_place))
"""Ours, in the order they are best tried."""


class PresetError(LookupError):
    """There is no such preset. The message names the nearest ones."""


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
        found[path.stem] = Preset(path.stem, path, "yours")
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
