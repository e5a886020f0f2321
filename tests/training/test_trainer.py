"""What the trainer does where."""

from __future__ import annotations

import threading

from engine.config import Config, TaskConfig
from engine.inference import batcher
from engine.training.trainer import LocalTrainer
from engine.types import POLICY


async def test_a_step_that_changed_nothing_is_no_new_version():
    trainer = await LocalTrainer.open(Config(task=TaskConfig(name="nim")), on_error=print)
    metrics = await trainer.train([])
    await trainer.close()
    assert metrics["skipped"] == 1.0
    assert trainer.learner.version == trainer.adapters.version(POLICY) == 0


async def test_all_that_computes_is_made_on_the_device_thread(monkeypatch):
    """MLX's arrays belong to the thread that made them until they are evaluated."""
    made_on, make = [], batcher.decoder

    def decoder(lm, adapters):
        made_on.append(threading.current_thread().name)
        return make(lm, adapters)

    monkeypatch.setattr(batcher, "decoder", decoder)
    trainer = await LocalTrainer.open(Config(task=TaskConfig(name="nim")), on_error=print)
    await trainer.close()
    assert made_on == ["device"]
