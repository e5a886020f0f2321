"""A tiny model with LoRA slots, and records sampled from it with the log-probabilities NumPy gives them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from engine.inference import blas

blas.load()

import mlx.core as mx  # noqa: E402

from engine.config import LoRAConfig, TrainConfig  # noqa: E402
from engine.inference import models  # noqa: E402
from engine.inference.adapters import Adapters, Parameters  # noqa: E402
from engine.inference.models import LanguageModel  # noqa: E402
from engine.training import checkpoint, checkpoints  # noqa: E402
from engine.training.learner import Learner  # noqa: E402
from engine.types import TrainingRecord  # noqa: E402
from tests.tiny import END, tiny_model  # noqa: E402

LORA = LoRAConfig(rank=4, scale=2.0)


@dataclass
class Tiny:
    """The model, its slots, and what a learner needs beside."""

    folder: Path
    lm: LanguageModel
    adapters: Adapters

    def learner(self, seed: int = 0, **train) -> Learner:
        train.setdefault("warmup", 0)
        return Learner(self.lm, self.adapters, TrainConfig(**train), seed)

    def moved(self, seed: int = 0) -> Parameters:
        """An adapter that has learnt something: neither A nor B is zero."""
        rng = np.random.default_rng(seed)
        return {
            name: mx.array(rng.normal(0.0, 0.1, array.shape).astype(np.float32))
            for name, array in self.adapters.initial(seed).items()
        }

    def logits(self, tokens: Sequence[int], parameters: Parameters | None = None) -> np.ndarray:
        """[L, V] in double precision: the row alone, unpadded, all of its logits."""
        row = mx.array([tokens], dtype=mx.int32)
        if parameters is None:
            logits = self.lm.head(self.lm.hidden(row))
        else:
            with self.adapters.learning(parameters):
                logits = self.lm.head(self.lm.hidden(row))
        return np.array(logits)[0].astype(np.float64)

    def logs(self, record: TrainingRecord, parameters: Parameters | None = None) -> np.ndarray:
        """[T, V]: the log-distribution each token of a record was sampled from."""
        tokens = record.prompt_tokens + record.tokens
        predicting = self.logits(tokens, parameters)[len(record.prompt_tokens) - 1 : -1]
        return log_softmax(predicting / record.temperature, axis=-1)

    def records(
        self, count: int, parameters: Parameters | None = None, *, seed: int = 0, temperature: float = 1.0
    ) -> list[TrainingRecord]:
        """Random prompts and completions of unequal length that end with the stop token, as if just sampled."""
        rng = np.random.default_rng(seed)
        made = []
        for index in range(count):
            prompt = rng.integers(3, 260, rng.integers(2, 20)).tolist()
            tokens = [*rng.integers(3, 260, rng.integers(0, 6)).tolist(), END]
            advantage = float(rng.normal())
            record = TrainingRecord(
                f"{index}", 0, "First", "game", prompt, tokens, [], [0] * len(tokens), advantage, temperature
            )
            logs = self.logs(record, parameters)
            record.logprobs = logs[np.arange(len(tokens)), tokens].tolist()
            made.append(record)
        return made


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tiny_model(tmp_path_factory.mktemp("tiny"))
    lm, _ = models.load(str(folder), context=512)
    return Tiny(folder, lm, Adapters(lm, LORA))


def flat(arrays: Parameters) -> np.ndarray:
    """All numbers, in the order of names, in double precision."""
    return np.concatenate([np.array(arrays[name]).ravel() for name in sorted(arrays)]).astype(np.float64)


def same(one: Parameters, other: Parameters) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(mx.array_equal(one[name], other[name]).item() for name in one)


def finish(learner: Learner, records: Sequence[TrainingRecord]) -> dict[str, float]:
    """The metrics of a whole step."""
    return drain(learner.step(records))[0]


def drain(steps: Generator[None, None, dict[str, float]]) -> tuple[dict[str, float], int]:
    """Run a step to its end: its metrics, and how often it yielded."""
    yields = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value, yields
        yields += 1


def kept(root: Path, step: int, reason: str = "auto", **parts: Any) -> Path:
    """A checkpoint of these parts, as `checkpoint.fill` takes them."""
    return checkpoints.commit(root, step, partial(checkpoint.fill, **parts), reason)
