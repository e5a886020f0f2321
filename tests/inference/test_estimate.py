"""What is told before a run against what MLX counts when it is done."""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.config import Config, LoRAConfig, ModelConfig, TaskConfig, TrainConfig
from engine.inference import estimate, facts, models
from engine.inference.adapters import Adapters
from engine.inference.estimate import Estimate
from engine.inference.facts import Machine
from engine.training import batching
from engine.training.learner import Learner
from engine.training.objective import Weights, backward
from engine.types import TrainingRecord
from tests.tiny import tiny_model

RANK = 8
SIZES = {
    "narrow and deep": {"dim": 64, "layers": 12, "heads": 4},
    "wide": {"dim": 256, "layers": 3, "heads": 4},
    "with a vocabulary": {"dim": 64, "layers": 4, "heads": 2, "vocab": 16384},
}


def run_of(folder: Path, **train) -> Config:
    return Config(
        task=TaskConfig(name="nim"),
        model=ModelConfig(source=str(folder), context=128, rows=1),
        lora=LoRAConfig(rank=RANK),
        train=TrainConfig(**train),
    )


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_backward_pass_takes_about_what_was_told(size: str, checkpointed: bool, tmp_path: Path):
    folder = tiny_model(tmp_path, **SIZES[size])
    config = run_of(folder, microbatch_tokens=1024, checkpoint_layers=checkpointed)
    told = estimate.of_run(config)(facts.read(folder), True)
    lm, _ = models.load(str(folder), 128)
    adapters = Adapters(lm, config.lora)
    packed = adapters.families.pack(adapters.initial(0))
    tokens = np.random.default_rng(0).integers(3, 260, (8, 129)).tolist()
    records = [
        TrainingRecord(str(n), 0, "A", "game", row[:1], row[1:], [-5.0] * 128, [0] * 128, 1.0)
        for n, row in enumerate(tokens)
    ]
    [minibatch] = batching.minibatches(batching.rows(records), 1, 1024, np.random.default_rng(0))
    mx.eval(packed)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    [microbatch] = minibatch.microbatches
    mx.eval(backward(lm, adapters, packed, microbatch, Weights.of(minibatch, None, config.train), config.train))
    measured = mx.get_peak_memory() - before
    assert 0.6 < told.microbatch / measured < 2.0


def weighed(folder: str, config: Config) -> tuple[int, int]:
    """Bytes that MLX has in use for the weights, and for adapters and learner beside them."""
    lm, _ = models.load(folder, 128)
    weights = mx.get_active_memory()
    adapters = Adapters(lm, config.lora)
    learner = Learner(lm, adapters, config.train, seed=0)
    learner.publish()
    mx.eval(adapters.stacks)
    gc.collect()
    mx.synchronize()
    return weights, mx.get_active_memory() - weights


def test_weights_adapters_and_learner_take_what_was_told(tmp_path: Path):
    config = run_of(tiny_model(tmp_path, dim=128, layers=3))
    told = estimate.of_run(config)(facts.read(tmp_path), True)
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:  # what other tests leave behind isn't counted
        weights, beside = alone.submit(weighed, str(tmp_path), config).result()
    assert told.weights == pytest.approx(weights, rel=0.02)
    gradient = told.learner / 4
    assert told.adapters + told.learner - gradient == pytest.approx(beside, rel=0.05)


def test_more_of_anything_takes_more(tmp_path: Path):
    found = facts.read(tiny_model(tmp_path))
    base = {"model": ModelConfig(rows=4), "lora": LoRAConfig(), "train": TrainConfig()}

    def most(**changed) -> int:
        return estimate.estimate(found, True, **{**base, **changed}).most

    assert most(model=ModelConfig(rows=8)) > most()
    assert most(lora=LoRAConfig(rank=64)) > most()
    assert most(train=TrainConfig(microbatch_tokens=16384)) > most()
    assert most(train=TrainConfig(checkpoint_layers=True)) < most()
    assert most(train=TrainConfig(optimiser="adafactor")) < most()
    assert most(train=TrainConfig(average=0.9)) > most()
    assert estimate.estimate(found, False, **base).most < most()


@pytest.mark.parametrize(
    ("memory", "word"), [(200, "fits"), (142, "tight"), (60, "tight"), (53, "tight"), (52, "too big")]
)
def test_a_run_is_tight_where_only_a_smaller_one_is_sure_to_fit(memory: float, word: str):
    need = Estimate(weights=40, kv=20, adapters=5, learner=5, microbatch=30, least=50)
    assert need.most == 100
    assert need.fit(Machine(memory, on_cpu=True)) == word


def test_a_run_that_cannot_fit_is_refused_with_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tiny_model(tmp_path)
    need = estimate.of_run(run_of(folder))
    least = need(facts.read(folder), True).least
    monkeypatch.setattr(models, "machine", lambda: Machine(least, on_cpu=True))
    with pytest.raises(models.ModelError, match=r"one conversation.*weights 0\.0.*keys and values.*model\.context"):
        models.load(str(folder), 128, need)
    monkeypatch.setattr(models, "machine", lambda: Machine(2 * least, on_cpu=True))
    models.load(str(folder), 128, need)
