"""The two sides of a comparison: the same rows decoded by the engine's batcher and by mlx-lm's `BatchGenerator`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx_lm.generate import BatchGenerator
from mlx_lm.sample_utils import make_sampler
from mlx_lm.tuner.utils import linear_to_lora_layers

from engine.config import LoRAConfig, ModelConfig
from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.batcher import Batcher
from engine.inference.requests import Request
from engine.types import BASE, Sampling

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ("README.md", "docs/design.md", "docs/learning.md", "docs/configuration.md")
SCALE = 2.0
ALL_AT_ONCE = 1 << 20
"""More prompt tokens than any batch has: every row is there from the first tick on."""
PLAYERS = tuple(f"player-{number}" for number in range(1, 9))


@dataclass
class Rate:
    """How fast some rows were made."""

    decoding: float
    """Tokens a second while every row was being decoded, and nothing else was done."""
    whole: float
    """Tokens a second from the first prompt to the last token."""


class Ours:
    """The engine: a model, eight players, and a batcher ticked as the device thread does."""

    def __init__(self, source: str, rank: int, context: int) -> None:
        self.lm, self.tokenizer = models.load(source, context)
        self.lm.eos_tokens = frozenset()
        self.rank = rank
        self._batchers: dict[tuple[int, int], Batcher] = {}
        self.adapters = Adapters(self.lm, LoRAConfig(rank=rank, scale=SCALE))
        for seed, player in enumerate(PLAYERS):
            self.publish(player, seed)

    def publish(self, player: str, version: int) -> None:
        self.adapters.publish(player, self.moved(version), version)

    def moved(self, seed: int, spread: float = 0.01) -> dict[str, mx.array]:
        """An adapter that has learnt something: neither A nor B is zero."""
        key = mx.random.key(seed)
        return {
            name: array + spread * mx.random.normal(array.shape, key=key)
            for name, array in self.adapters.initial(seed).items()
        }

    def batcher(self, rows: int, prefill_tokens: int = ALL_AT_ONCE) -> Batcher:
        """An empty one. It is made once, as in a run, and so compiles once."""
        key = rows, prefill_tokens
        if key not in self._batchers:
            self._batchers[key] = Batcher(
                self.lm,
                self.adapters,
                rows=rows,
                prefill_tokens=prefill_tokens,
                prefix_bytes=ModelConfig().prefix_mb << 20,
            )
        self._batchers[key].clear()
        return self._batchers[key]

    def run(self, prompts: Sequence[Sequence[int]], new_tokens: int, players: Sequence[str] = (BASE,)) -> Rate:
        """Decode all prompts at once, each row by the next of `players`."""
        batcher = self.batcher(len(prompts))
        for id, prompt in enumerate(prompts):
            player = players[id % len(players)]
            batcher.add(Request(id, list(prompt), Sampling(max_tokens=new_tokens), player, key=id))

        def tick() -> int:
            before = batcher.sampled
            batcher.tick()
            return batcher.sampled - before

        return _rate(tick, len(prompts), new_tokens)


class Theirs:
    """mlx-lm as it comes, in the same precision, with one adapter for every row or with none."""

    def __init__(self, source: str, rank: int = 0) -> None:
        self._model = _load(source)
        if rank:
            config = {"rank": rank, "scale": SCALE, "dropout": 0.0}
            linear_to_lora_layers(self._model, len(self._model.layers), config)
        self._model.eval()
        mx.eval(self._model.parameters())

    def run(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> Rate:
        rows = len(prompts)
        generator = BatchGenerator(
            self._model,
            max_tokens=new_tokens,
            sampler=make_sampler(temp=1.0),
            completion_batch_size=rows,
            prefill_batch_size=rows,
        )
        generator.insert([list(prompt) for prompt in prompts])
        try:
            with plain_maths(self._model):
                return _rate(lambda: len(generator.next()[1]), rows, new_tokens)
        finally:
            generator.close()


def _rate(tick: Callable[[], int], rows: int, new_tokens: int) -> Rate:
    """Tick until every row has its tokens; `tick` returns how many it brought."""
    start = now = full_since = full_until = time.perf_counter()
    made = made_while_full = 0
    full = False
    while made < rows * new_tokens:
        brought = tick()
        now = time.perf_counter()
        made += brought
        if full and brought == rows:
            made_while_full += brought
            full_until = now
        elif brought == rows:  # the last prompts came in with this one
            full, full_since, full_until = True, now, now
    if not made_while_full:
        raise RuntimeError(f"{rows} rows were never decoded all at once: {new_tokens} new tokens are too few")
    return Rate(made_while_full / (full_until - full_since), made / (now - start))


def _load(source: str) -> Any:
    path = models.locate(source)
    if not path.is_dir():  # a GGUF file, which mlx-lm doesn't read
        return models.load(source, 4096)[0].model
    model = mlx_lm.load(str(path))[0]
    if mx.default_device() == mx.Device(mx.cpu):
        model.set_dtype(mx.float32)
    return model


@contextmanager
def plain_maths(model: Any) -> Iterator[None]:
    """mlx-lm's own functions in the module of a model, whatever `fastmath.install` put there."""
    module = sys.modules[type(model).__module__]
    replaced = {name: function for name, function in vars(module).items() if hasattr(function, "plain")}
    vars(module).update({name: function.plain for name, function in replaced.items()})
    try:
        yield
    finally:
        vars(module).update(replaced)


def documentation() -> str:
    return "\n\n".join((ROOT / name).read_text(encoding="utf-8") for name in TEXTS)


def text_prompts(encode: Callable[[str], list[int]], count: int, shortest: int, longest: int) -> list[list[int]]:
    """Pieces of this project's documentation, of `shortest` to `longest` tokens."""
    tokens = [token for line in documentation().splitlines(keepends=True) for token in encode(line)]
    rng = np.random.default_rng(0)
    lengths = rng.integers(shortest, longest + 1, count)
    starts = rng.integers(0, len(tokens) - longest, count)
    return [tokens[start : start + length] for start, length in zip(starts, lengths, strict=True)]
