"""How much memory a run takes, told before anything is loaded: from its model's files, or else from its name."""

from __future__ import annotations

import os
import re
import sys
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

import engine
from engine.config import Config
from engine.inference import facts
from engine.inference.estimate import of_run
from engine.inference.facts import WEIGHT_FILES, Facts, Machine
from tui import words

FITS, TIGHT = 0.4, 0.7
"""Shares of this machine's memory that weights may take before it is doubtful, or hopeless, that a run fits."""

BILLIONS = re.compile(r"(\d+(?:\.\d+)?)\s?([bm])(?![a-z])", re.IGNORECASE)
BITS = re.compile(r"(\d+)[-_ ]?bit", re.IGNORECASE)


def verdict(config: Config, machine: Machine | None = None) -> str:
    """Such as `"0.9 GB · fits"`, as `selfplay-tui models` has it; empty where nothing is known.

    Of a model that isn't here its name tells the weights alone: `"844 MB to fetch"`, and whether they are too much.
    """
    there = machine or here()
    path = _files(config.model.source)
    if path is not None:
        try:
            need = of_run(config)(_facts(path, path.stat().st_mtime), there.on_cpu)
        except Exception:  # whatever broken files hold: who starts the run is told
            return ""
        return f"{words.memory(need.most)} · {need.fit(there)}"
    size = _from_name(config.model.source)
    if size is None:
        return ""
    share = size / there.memory
    doubt = "" if share <= FITS else " · tight" if share <= TIGHT else " · too big"
    return f"{words.memory(size)} to fetch{doubt}"


def weights(source: str) -> float | None:
    """Bytes of a model's weights on disk, or None if neither its files nor its name tell."""
    path = _files(source)
    if path is None:
        return _from_name(source)
    return float(sum(file.stat().st_size for file in ([path] if path.is_file() else path.glob(WEIGHT_FILES))))


@lru_cache(64)
def _facts(path: Path, _changed: float) -> Facts:
    """Of files as they were at a time: a tokenizer alone takes tenths of a second to read."""
    return facts.read(path)


@cache
def here() -> Machine:
    """This machine, by what can be known without MLX: of a graphics card on Linux only that it is there."""
    names = {distribution.metadata["Name"] for distribution in metadata.distributions()}
    on_gpu = sys.platform == "darwin" or any(str(name).startswith("mlx-cuda") for name in names)
    return Machine(float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")), on_cpu=not on_gpu)


def _files(source: str) -> Path | None:
    """A GGUF file, or the folder of a source. Asks nobody, and loads no library to ask with."""
    file = Path(source).expanduser()
    if file.suffix == ".gguf" and file.is_file():
        return file
    return next((folder for folder in _folders(source) if any(folder.glob(WEIGHT_FILES))), None)


def _folders(source: str) -> list[Path]:
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
