"""Tokens a second: the engine's batcher against mlx-lm's, without adapters, with one and with eight players."""

from __future__ import annotations

import cProfile
import pstats
from functools import partial
from typing import Any
from unittest.mock import patch

import mlx.core as mx

from engine.types import BASE
from tests.bench.results import Result, Target, compared, in_turn
from tests.bench.sides import PLAYERS, Ours, Rate, Theirs, text_prompts

SHORTEST, LONGEST = 32, 128
"""Tokens of a prompt."""
FASTER = {32: (2.0, 2.5), 512: (2.5, 2.8)}
"""By rows on one H100: how often mlx-lm's rate, without adapters and with."""
POCKET_ROWS = 64


def decode(ours: Ours, rows: list[int], new_tokens: int, seconds: float, on_gpu: bool) -> list[Result]:
    """Of a model on both sides, for each number of rows."""
    theirs, adapted = Theirs(ours.lm.source), Theirs(ours.lm.source, ours.rank)
    results = []
    for count in rows:
        plain, lora = FASTER.get(count, (None, None)) if on_gpu else (None, None)
        results += _decode(ours, theirs, adapted, count, new_tokens, seconds, plain, lora, lora)
    return results


def pocket(ours: Ours, new_tokens: int, seconds: float) -> list[Result]:
    """The same of the embedded model on a CPU."""
    theirs, adapted = Theirs(ours.lm.source), Theirs(ours.lm.source, ours.rank)
    return _decode(ours, theirs, adapted, POCKET_ROWS, new_tokens, seconds, None, 1.3, None, least_of_plain=None)


def _decode(
    ours: Ours,
    theirs: Theirs,
    adapted: Theirs,
    rows: int,
    new_tokens: int,
    seconds: float,
    plain: float | None,
    one: float | None,
    eight: float | None,
    least_of_plain: float | None = 0.6,
) -> list[Result]:
    prompts = text_prompts(ours.tokenizer.encode, rows, SHORTEST, LONGEST)
    sides = {
        "plain": partial(ours.run, prompts, new_tokens),
        "their plain": partial(theirs.run, prompts, new_tokens),
        "one": partial(ours.run, prompts, new_tokens, PLAYERS[:1]),
        "their one": partial(adapted.run, prompts, new_tokens),
        "eight": partial(ours.run, prompts, new_tokens, PLAYERS),
    }
    rates: dict[str, list[Rate]] = in_turn(sides, seconds)
    decoding = {side: [rate.decoding for rate in measured] for side, measured in rates.items()}
    whole = {side: [rate.whole for rate in measured] for side, measured in rates.items()}

    def line(what: str, side: str, against: str, other: str, bound: float | None = None, of=decoding) -> Result:
        target = None if bound is None else Target(bound)
        return compared(f"{rows} rows: {what}", of[side], against, of[other], "tokens/s", target)

    return [
        line("no adapter", "plain", "mlx-lm", "their plain", plain),
        line("1 player", "one", "mlx-lm, one adapter", "their one", one),
        line("8 players", "eight", "mlx-lm, one adapter", "their one", eight),
        line("8 players", "eight", "no adapter", "plain", least_of_plain),
        line("8 players", "eight", "1 player", "one", 0.95),
        line("no adapter, prompts included", "plain", "mlx-lm", "their plain", of=whole),
        line("8 players, prompts included", "eight", "mlx-lm, one adapter", "their one", of=whole),
    ]


def profile(ours: Ours, rows: int, new_tokens: int) -> str:
    """Where a decode's time goes, function by function; `waiting_for_the_device` is `mx.eval`."""
    prompts = text_prompts(ours.tokenizer.encode, rows, SHORTEST, LONGEST)
    evaluate, text = mx.eval, []

    def waiting_for_the_device(*arrays: Any) -> None:
        evaluate(*arrays)

    for players in ((BASE,), PLAYERS):
        ours.run(prompts, new_tokens, players)
        profiler = cProfile.Profile()
        with patch.object(mx, "eval", waiting_for_the_device):
            rate = profiler.runcall(ours.run, prompts, new_tokens, players)
        stats = pstats.Stats(profiler)
        total: float = stats.total_tt  # type: ignore[attr-defined]
        calls = stats.stats.items()  # type: ignore[attr-defined]
        text.append(f"{rows} rows, {len(players)} player(s), profiled: {rate.decoding:,.0f} tokens/s decoding")
        for (file, line, name), (_, count, own, *_) in sorted(calls, key=lambda call: -call[1][2])[:14]:
            text.append(f"  {own / total:6.1%}  {count:9,}×  {name}  {file.rpartition('/')[2]}:{line}")
    return "\n".join(text)
