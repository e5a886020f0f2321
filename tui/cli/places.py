"""Where runs are kept, and how one is found and named."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from tui.cli.refusal import UsageError

RUNS_DIR_VARIABLE = "SELFPLAY_RUNS_DIR"


def default_runs_dir() -> Path:
    from platformdirs import user_data_path

    named = os.environ.get(RUNS_DIR_VARIABLE)
    return Path(named).expanduser() if named else user_data_path("selfplay-tui") / "runs"


def find_run(name: str, runs_dir: Path) -> Path:
    for folder in (runs_dir / name, Path(name).expanduser()):
        if folder.is_dir():
            return folder
    names = [item.name for item in runs_dir.iterdir() if item.is_dir()] if runs_dir.is_dir() else []
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
    raise UsageError(f"{name}: no such run in {runs_dir}{hint}")


def short_name(folder: Path) -> str:
    """What `find_run` finds a run by without being told where runs are kept."""
    return folder.name if folder.parent == default_runs_dir() else str(folder)
