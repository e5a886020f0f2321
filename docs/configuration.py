"""Writes configuration.md from the schema: `uv run python docs/configuration.py`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import tomli_w

from engine.config import KEYS
from engine.keys import Key

PAGE = Path(__file__).with_suffix(".md")

HEAD = """# Configuration

What a preset's TOML file may say, made from the schema in `engine/config.py` by `docs/configuration.py`. The same
keys work on the command line (`--set train.kl=0.1`). Only `task.name`, or a table `[tasks.NAME]`, is required. A
run keeps its resolved configuration in `config.toml` in its folder.

Unknown keys, wrong types and values out of bounds are refused with the nearest right key and what would be right.
Paths in a file that start with `.` or `~` are meant from the file's folder.
"""

SECTIONS = {
    "": "At the top",
    "task": "`[task]`: what is played",
    "tasks": "`[tasks.NAME]`: several tasks in one run, or sets that are only measured: see [tasks.md](tasks.md)",
    "model": "`[model]`: who plays",
    "roles": "`[roles.NAME]`: who speaks, one table a role; what is left out is the task's choice",
    "rewards": "`[rewards.NAME]`: what is paid beside what the task pays: see [recipes.md](recipes.md)",
    "run": "`[run]`: how much",
    "lora": "`[lora]`: the adapter that learns",
    "train": "`[train]`: how it learns (formulas: [learning.md](learning.md))",
    "credit": "`[credit]`: what a turn was worth",
    "past": "`[past]`: earlier selves as opponents, in tasks whose roles meet in one episode",
    "eval": "`[eval]`: how it is measured",
    "checkpoint": "`[checkpoint]`: what is kept",
}


def page() -> str:
    parts = [HEAD]
    for section, keys in groupby(KEYS, key=lambda key: key.name.partition(".")[0] if "." in key.name else ""):
        parts.append(f"## {SECTIONS[section]}\n")
        parts.append("| key | wants | default | |\n|---|---|---|---|")
        parts.append("\n".join(_row(key) for key in keys) + "\n")
    return "\n".join(parts)


def _row(key: Key) -> str:
    name = key.name.replace("*", "NAME")
    if key.required:
        default = "required"
    elif key.default is None:
        default = ""
    else:
        default = f"`{tomli_w.dumps({'value': key.default}).removeprefix('value = ').strip()}`"
        default = " ".join(default.split()).replace("[ ", "[").replace(", ]", "]")
    return f"| `{name}` | {key.wants} | {default} | {key.description} |".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
