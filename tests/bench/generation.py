"""How fast the engine generates, beside mlx-lm on the same machine.

`python -m tests.bench.generation [--model SOURCE] [--sections decode,pocket,…] [--rows 32,512] [--seconds 20]
[--tokens 128] [--rank 8] [--json FILE] [--profile]`, from the repository's root. Both sides of a comparison run in
turn, and their medians are compared. Prints tables, then JSON. Needs no network if the model doesn't.

Sections: `decode` (tokens a second against mlx-lm's BatchGenerator), `pocket` (the same of the embedded model),
`reuse` (prompt tokens computed against those asked for), `publish` (against a decode step), `latency` (of a short
request beside a long prompt), `staleness` (what publishing does to log-probabilities of replies under way), `moves`
(of games a second).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.inference import blas

BLAS = blas.load()

import mlx.core as mx  # noqa: E402  (a BLAS must be under it first)

from engine.config import LoRAConfig  # noqa: E402
from tests.bench import decoding, reuse, serving  # noqa: E402
from tests.bench.results import Result, table  # noqa: E402
from tests.bench.sides import Ours  # noqa: E402

SECTIONS = ("decode", "pocket", "reuse", "publish", "latency", "staleness", "moves")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    results: dict[str, list[Result]] = {}
    for section in options.sections:
        print(f"{section} …", flush=True)
        results[section] = _measure(section, options)
        print(table(results[section]), flush=True)
        gc.collect()
        mx.clear_cache()
    report = {
        "machine": machine(),
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "results": {section: [result.json() for result in measured] for section, measured in results.items()},
    }
    text = json.dumps(report, default=str)
    print(f"\n{text}")
    if options.json:
        options.json.write_text(text, encoding="utf-8")


def _measure(section: str, options: argparse.Namespace) -> list[Result]:
    source, rank, rows = options.model, options.rank, options.rows
    tokens, seconds = options.tokens, options.seconds
    context = max(512, decoding.LONGEST + tokens)
    measures: dict[str, Callable[[], list[Result]]] = {
        "decode": lambda: _decode(Ours(source, rank, context), options),
        "pocket": lambda: decoding.pocket(Ours("pocket", LoRAConfig().rank, context), tokens, seconds),
        "reuse": lambda: asyncio.run(reuse.reuse(source, rank, tokens // 4)),
        "publish": lambda: serving.publish(Ours(source, rank, context), rows[0], tokens, seconds),
        "latency": lambda: serving.latency(Ours(source, rank, serving.LONG + 512), seconds),
        "staleness": lambda: serving.staleness(Ours(source, rank, context), rows[0], tokens),
        "moves": lambda: asyncio.run(reuse.moves()),
    }
    return measures[section]()


def _decode(ours: Ours, options: argparse.Namespace) -> list[Result]:
    if options.profile:
        for rows in options.rows:
            print(decoding.profile(ours, rows, options.tokens), flush=True)
    return decoding.decode(ours, options.rows, options.tokens, options.seconds, on_gpu())


def on_gpu() -> bool:
    return mx.default_device() != mx.Device(mx.cpu)


def machine() -> dict[str, Any]:
    return {
        "device": str(mx.default_device()),
        **mx.device_info(),
        "blas": BLAS.name,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("mlx", "mlx-lm", "transformers")},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generation")
    parser.add_argument("--model", default="pocket", help="a model source, as in model.source")
    parser.add_argument("--sections", type=_sections, default=SECTIONS, help=f"of {','.join(SECTIONS)}")
    parser.add_argument("--rows", type=_numbers, default=[32, 512], help="rows of a batch, such as 32,512")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long a comparison goes on, at least")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens of each row")
    parser.add_argument("--rank", type=int, default=8, help="of the adapters")
    parser.add_argument("--json", type=Path, help="a file to write the results to")
    parser.add_argument("--profile", action="store_true", help="say first where the time of `decode` goes")
    return parser


def _sections(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(SECTIONS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: there are {', '.join(SECTIONS)}")
    return names


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
