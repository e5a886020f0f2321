"""How much memory a model's weights take, told before anything is loaded: from its files, or else from its name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import engine
from tui import words

FITS, TIGHT = 0.4, 0.7
"""Shares of this machine's memory up to which weights fit easily, or at all: playing and learning need some too."""

BILLIONS = re.compile(r"(\d+(?:\.\d+)?)\s?([bm])(?![a-z])", re.IGNORECASE)
BITS = re.compile(r"(\d+)[-_ ]?bit", re.IGNORECASE)


def verdict(source: str, memory: float | None = None) -> str:
    """Such as `"0.9 GB · fits"`; empty where nothing is known. `memory` in bytes, this machine's if None."""
    size = weights(source)
    if size is None:
        return ""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if memory is None else memory
    share = size / there
    return f"{words.memory(size)} · {'fits' if share <= FITS else 'tight' if share <= TIGHT else 'too big'}"


def weights(source: str) -> float | None:
    """Bytes of a model's weights, or None if neither its files nor its name tell."""
    file = Path(source).expanduser()
    if file.suffix == ".gguf" and file.is_file():
        return float(file.stat().st_size)
    for folder in _folders(source):
        size = sum(file.stat().st_size for file in folder.glob("model*.safetensors"))
        if size:
            return float(size)
    return _from_name(source)


def _folders(source: str) -> list[Path]:
    """Where the files of a source would be. Asks nobody, and loads no library to ask with."""
    if source == "pocket":
        return [Path(engine.__file__).parent / "pocket"]
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    snapshots = (cache / f"models--{source.replace('/', '--')}" / "snapshots").glob("*")
    return [Path(source).expanduser(), *sorted(snapshots)]


def _from_name(source: str) -> float | None:
    """`Qwen2.5-1.5B-Instruct-4bit`: 1.5 billion weights of 4 bits and half a bit of scales; 16 if not said."""
    name = source.rpartition("/")[2]
    parameters = BILLIONS.findall(name)
    if not parameters:
        return None
    number, unit = parameters[-1]
    bits = BITS.search(name)
    each = float(bits.group(1)) + 0.5 if bits else 16.0
    return float(number) * (1e9 if unit in "bB" else 1e6) * each / 8
