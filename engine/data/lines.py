"""Tables of one's own: a text file with an entry a line, and which entries are kept for evaluation."""

from __future__ import annotations

import random
from pathlib import Path

HELD_OUT = 0.25
"""The share of a table that is never trained on."""


def read_lines(file: str, entry: str = "entry") -> list[str]:
    """The lines of a UTF-8 file, each once; empty ones, and those that begin with #, are passed over.

    Raises `ValueError` that names the file, the line where there is one, and what was expected: an `entry` a line.
    """
    path = Path(file).expanduser()
    expected = f"expected is a UTF-8 text file with one {entry} a line"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}; {expected}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8; {expected}") from error
    lines = [line.strip() for line in text.split("\n")]
    found = list(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if len(found) < 2:
        held = "one to train on and one to be held out"
        raise ValueError(f"{path}: {len(found)} lines that say something; {expected}, at least {held}")
    return found


def hold_out(entries: list[str]) -> tuple[list[str], list[str]]:
    """Those to train on, and those held out: a quarter, at least one, the same whatever the seed or the order."""
    shuffled = sorted(entries)
    random.Random("held out").shuffle(shuffled)
    held_out = max(1, round(HELD_OUT * len(shuffled)))
    return shuffled[held_out:], shuffled[:held_out]
