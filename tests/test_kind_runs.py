"""Whole runs with other kinds of adapter and another optimiser than the default."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from engine.config import Config, parse
from engine.events import RunState
from engine.inference import blas
from engine.run import Run, RunError
from engine.store import Store
from engine.training import checkpoints
from engine.training.trainer import LocalTrainer
from engine.types import BASE, POLICY

blas.load()

import mlx.core as mx  # noqa: E402
from mlx.utils import tree_map  # noqa: E402

from engine.inference.models import POCKET  # noqa: E402
from tests.inference.conftest import Oracle  # noqa: E402

TOKENS = [3, 4, 5, 6, 7]


def config(kind: str, optimiser: str) -> Config:
    mapping = {
        "task": {"name": "nim", "options": {"openings": 2}},
        "model": {"source": "pocket", "context": 128},
        "run": {"steps": 1, "episodes_per_step": 8, "seed": 5},
        "lora": {"kind": kind, "rank": 4},
        "train": {"optimiser": optimiser, "schedule": "cosine", "warmup": 0},
        "eval": {"every": 0, "episodes": 4},
    }
    return parse(mapping, "test")


@pytest.mark.parametrize(
    ("kind", "optimiser", "norm"), [("dora", "adamw", "lora_b_norm"), ("full", "adafactor", "difference_norm")]
)
async def test_a_run_learns_goes_on_and_leaves_what_mlx_lm_loads(kind, optimiser, norm, tmp_path):
    run = Run.create(config(kind, optimiser), tmp_path)
    await run.start()
    assert run.state is RunState.FINISHED
    with pytest.raises(RunError, match=r"train\.optimiser cannot change .* Start a new run"):
        await run.set("train.optimiser", "adafactor" if optimiser == "adamw" else "adamw")
    run = Run.open(run.folder)
    await run.set("run.steps", "2")
    await run.start()
    assert run.state is RunState.FINISHED
    with Store.open(run.folder, read_only=True) as store:
        steps = [step.metrics for step in store.steps()]
    assert len(steps) == 2
    assert all(step[norm] > 0.0 and step["mismatch_max"] < 1e-3 for step in steps)
    # Over one step the cosine has none behind it; over two the second is in its middle.
    assert [step["learning_rate"] for step in steps] == pytest.approx([1e-3, 0.5e-3])

    kept, _ = checkpoints.latest(run.folder / "checkpoints")
    assert kept is not None
    trainer = await LocalTrainer.open(run.config, on_error=print)
    try:
        await trainer.restore(kept)
        ours, base = await trainer.device.call(lambda: (logits(trainer, POLICY), logits(trainer, BASE)))
    finally:
        await trainer.close()
    theirs = await asyncio.to_thread(of_mlx_lm, kept.path)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
    assert np.abs(ours - base).max() > 1e-2


def logits(trainer: LocalTrainer, player: str) -> np.ndarray:
    with trainer.adapters.speaking(player):
        return np.array(trainer.model.head(trainer.model.hidden(mx.array([TOKENS]))))[0]


def of_mlx_lm(adapter: Path) -> np.ndarray:
    oracle = Oracle(POCKET, adapter)
    oracle.model.update(tree_map(lambda array: array.astype(mx.float32), oracle.model.parameters()))
    return oracle.logits(TOKENS)
