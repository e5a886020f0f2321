"""What self-play needs beside speed: publishing between two steps, and short requests that don't wait for long."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.config import ModelConfig
from engine.inference.batcher import Batcher
from engine.inference.requests import Finished, Request
from engine.types import Sampling
from tests.bench.results import LEAST_ROUNDS, Result, Target, compared
from tests.bench.sides import PLAYERS, Ours, text_prompts

LONG = 4096
"""Tokens of the prompt that stands in the way."""
SHORT = 16
"""Tokens of the short prompt, and of its reply."""
LEAST_REQUESTS = 20


def publish(ours: Ours, rows: int, new_tokens: int, seconds: float) -> list[Result]:
    """What a new version costs while rows are decoded: what it and the next step take beyond a step's usual time.

    Every request must come back, with all its tokens, and the newest version on its last one.
    """
    prompts = text_prompts(ours.tokenizer.encode, rows, 32, 128)
    costs: list[float] = []
    steps: list[float] = []
    lost, version, until = 0, len(PLAYERS), time.perf_counter() + seconds
    while len(costs) < LEAST_ROUNDS or time.perf_counter() < until:
        batcher = ours.batcher(rows)
        for id, prompt in enumerate(prompts):
            batcher.add(Request(id, prompt, Sampling(max_tokens=new_tokens), PLAYERS[id % len(PLAYERS)], key=id))
        begun = batcher.sampled
        while batcher.sampled < begun + rows:
            batcher.tick()
        usual = [_tick(batcher) for _ in range(new_tokens // 2 - 2)]
        version += 1
        fresh = ours.adapters.families.pack(ours.moved(version))  # as the learner holds it
        mx.eval(fresh)
        start = time.perf_counter()
        ours.adapters.publish_packed(PLAYERS[0], fresh, version)
        cost = time.perf_counter() - start + _tick(batcher)
        ends = _run(batcher)
        lost += rows - sum(len(end.tokens) == new_tokens for end in ends)
        lost += sum(end.versions[-1] != version for end in ends if end.id % len(PLAYERS) == 0)
        steps.append(statistics.median(usual))
        costs.append(max(cost - steps[-1], 0.0))
    milliseconds = [1e3 * cost for cost in costs], [1e3 * step for step in steps]
    note = f"{lost} requests lost in {len(costs)} publishes"
    target = Target(1.0, at_most=True)
    return [
        compared(f"{rows} rows: publish", milliseconds[0], "a decode step", milliseconds[1], "ms", target, note)
    ]


def latency(ours: Ours, seconds: float) -> list[Result]:
    """From asking to the last token of a short request: alone, and while a long prompt is computed.

    It is asked for at a random point of the tick in which the long one came.
    """
    if ours.lm.context <= LONG:
        print(f"  left out: {ours.lm.source} has a context of {ours.lm.context} tokens, and this needs {LONG}")
        return []
    rng = np.random.default_rng(0)
    batcher = ours.batcher(32, ModelConfig().prefill_tokens)
    alone: list[float] = []
    beside: list[float] = []
    until = time.perf_counter() + seconds
    for round in range(1_000_000):
        if round > LEAST_REQUESTS and time.perf_counter() > until:
            break
        measured = _latency(batcher, ours, rng, None), _latency(batcher, ours, rng, LONG)
        if round:  # the first one compiles
            alone.append(1e3 * measured[0])
            beside.append(1e3 * measured[1])
    note = f"of {len(alone)} requests"

    def line(what: str, percentile: float) -> Result:
        sides = [float(np.percentile(each, percentile)) for each in (beside, alone)]
        measure = f"short request beside {LONG} tokens of prompt: {what}"
        return Result(measure, sides[0], "ms", "alone", sides[1], Target(2.0, at_most=True), note=note)

    return [line("median", 50), line("p99", 99)]


def _latency(batcher: Batcher, ours: Ours, rng: np.random.Generator, long: int | None) -> float:
    """Seconds that a short request takes; afterwards the batcher is empty."""
    short, other = (rng.integers(3, ours.lm.vocab_size, size).tolist() for size in (SHORT, LONG))
    asked = time.perf_counter()
    if long is not None:
        batcher.add(Request(0, other, Sampling(max_tokens=1), PLAYERS[1], key=0))
        asked += rng.random() * _tick(batcher)
    batcher.add(Request(1, short, Sampling(max_tokens=SHORT), PLAYERS[0], key=1))
    while not any(end.id == 1 for end in batcher.tick().finished):
        pass
    spent = time.perf_counter() - asked
    _run(batcher)
    return spent


def staleness(ours: Ours, rows: int, new_tokens: int) -> list[Result]:
    """How far recorded log-probabilities are from what the new weights alone give, by what a publish does to rows.

    `continue`: they go on over keys and values of the old weights. `drain`: no new ones begin, and it waits until
    they have ended.
    """
    results = []
    for change in (0.001, 0.01):
        (mixed, ticks), (pure, ticks_of_drain) = (
            _published_midway(ours, rows, new_tokens, change, drain) for drain in (False, True)
        )
        note = f"largest {mixed.max():.2g} and {pure.max():.2g}; {ticks} ticks and {ticks_of_drain}"
        measure = f"a change of {change:g} a weight: mean |Δ log-probability|, continue"
        results.append(Result(measure, float(mixed.mean()), "nats", "drain", float(pure.mean()), note=note))
    return results


def _published_midway(ours: Ours, rows: int, new_tokens: int, change: float, drain: bool) -> tuple[np.ndarray, int]:
    """|recorded − exact| of every token of the newer version, and the ticks that all requests took.

    There are twice as many requests as rows, of `new_tokens` / 2 to `new_tokens`; half-way the adapter changes.
    """
    player, batcher = PLAYERS[0], ours.batcher(rows)
    rng = np.random.default_rng(0)
    prompts = text_prompts(ours.tokenizer.encode, 2 * rows, 32, 128)
    older = ours.moved(1)
    newer = {
        name: array + change * mx.random.normal(array.shape, key=mx.random.key(2)) for name, array in older.items()
    }
    ours.adapters.publish(player, older, 1)
    for id, prompt in enumerate(prompts):
        sampling = Sampling(max_tokens=int(rng.integers(new_tokens // 2, new_tokens + 1)))
        batcher.add(Request(id, prompt, sampling, player, key=id))
    ends: list[Finished] = []
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        ends.extend(batcher.tick().finished)

    for _ in range(new_tokens // 4):
        tick()
    if drain:
        batcher.hold(player)
        while batcher.speaks(player):
            tick()
    ours.adapters.publish(player, newer, 2)
    batcher.release(player)
    while len(batcher):
        tick()
    return np.concatenate([_differences(ours, prompts[end.id], end, 2) for end in ends]), ticks


def _differences(ours: Ours, prompt: Sequence[int], end: Finished, version: int) -> np.ndarray:
    """|recorded − of one whole pass with the weights now|, of the tokens of that version."""
    with ours.adapters.rows([ours.adapters.slot(PLAYERS[0])]):
        hidden = ours.lm.hidden(mx.array([[*prompt, *end.tokens[:-1]]]))
    logits = np.array(ours.lm.head(hidden[0, len(prompt) - 1 :]).astype(mx.float32)).astype(np.float64)
    logits -= logits.max(axis=-1, keepdims=True)
    exact = logits[np.arange(len(end.tokens)), end.tokens] - np.log(np.exp(logits).sum(axis=-1))
    return np.abs(exact - np.array(end.logprobs))[np.array(end.versions) == version]


def _tick(batcher: Batcher) -> float:
    start = time.perf_counter()
    batcher.tick()
    return time.perf_counter() - start


def _run(batcher: Batcher) -> list[Finished]:
    """Tick until everything is finished."""
    return [end for _ in iter(lambda: len(batcher) > 0, False) for end in batcher.tick().finished]
