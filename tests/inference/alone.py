"""mlx-lm by itself, in a process that never imports the engine: what it generates can't be the engine's doing."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

Source = tuple[Path, Path | None]
"""A model's folder, and an adapter's."""


class Alone:
    """One such process. What it answers is in the order asked."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool
        self._started = pool.submit(_start)

    def greedy(self, asked: Iterable[tuple[Source, Sequence[int], int]]) -> list[tuple[list[int], list[float]]]:
        """The likeliest tokens after each (source, prompt, count), and by how much each beat the runner-up."""
        return list(self._pool.map(_greedy, *zip(*asked, strict=True)))

    def logits(self, asked: Iterable[tuple[Source, Sequence[int]]]) -> list[np.ndarray]:
        """[L, V] float64 of each (source, tokens): one forward pass over the whole row, without a cache."""
        return list(self._pool.map(_logits, *zip(*asked, strict=True)))

    def modules(self) -> list[str]:
        """What that process has imported."""
        return self._pool.submit(_modules).result()


@contextmanager
def alone() -> Iterator[Alone]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield Alone(pool)


def _start() -> None:
    import mlx_lm.generate  # noqa: F401  (seconds, while the other process gets ready too)


def _modules() -> list[str]:
    return sorted(sys.modules)


@cache
def _model(source: Source):
    import mlx.core as mx
    from mlx_lm import load

    folder, adapter = source
    model = load(str(folder), adapter_path=str(adapter) if adapter else None)[0]
    model.set_dtype(mx.float32)
    return model


def _greedy(source: Source, prompt: Sequence[int], count: int) -> tuple[list[int], list[float]]:
    import mlx.core as mx
    from mlx_lm.generate import generate_step

    tokens, margins = [], []
    for token, logprobs in generate_step(mx.array(list(prompt)), _model(source), max_tokens=count):
        second, first = np.partition(np.array(logprobs), -2)[-2:]
        tokens.append(token)
        margins.append(float(first - second))
    return tokens, margins


def _logits(source: Source, tokens: Sequence[int]) -> np.ndarray:
    import mlx.core as mx

    return np.array(_model(source)(mx.array([list(tokens)])))[0].astype(np.float64)
