"""The trainer in this process: one device thread with a model, its adapters and its learner.

All that touches MLX happens on that thread; this is the asyncio side of it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.config import Config, TrainConfig
from engine.inference.device import Device
from engine.types import AVERAGE, POLICY, GenerateResult, TrainingRecord

if TYPE_CHECKING:
    from engine.inference.adapters import Adapters
    from engine.inference.batcher import Batcher
    from engine.inference.clients import LocalClient
    from engine.inference.models import LanguageModel
    from engine.inference.tokenizer import ChatTokenizer
    from engine.training.checkpoint import Checkpoint
    from engine.training.learner import Learner


@dataclass(eq=False)
class LocalTrainer:
    """Plays (through `client`), learns and publishes. Make one with `LocalTrainer.open(config)`.

    `drains`: new weights wait until the policy's completions in flight are done, which go on with them otherwise.
    """

    device: Device
    model: LanguageModel
    tokenizer: ChatTokenizer
    adapters: Adapters
    learner: Learner
    client: LocalClient
    drains: bool = False

    @classmethod
    async def open(cls, config: Config, *, on_error: Callable[[BaseException], None]) -> LocalTrainer:
        """Load the model and put a fresh adapter, version 0, into the policy's slot.

        Cancelling gives that up. Raises `ModelError` if there is no such model or it doesn't fit.
        """
        await _loaded_alone()
        device = Device(on_error=on_error, at_end=_release)
        device.start()
        try:
            parts = await device.call(_load, config)
        except BaseException:
            _GIVEN_UP.append(device)
            device.stop(timeout=0)  # what it loads now is loaded to its end, and nobody waits but who loads next
            raise
        from engine.inference.clients import LocalClient

        model, tokenizer, adapters, learner, batcher = parts
        lockstep = config.run.max_staleness == 0
        client = LocalClient(device, batcher, tokenizer, queue=config.model.queue, lockstep=lockstep)
        return cls(device, model, tokenizer, adapters, learner, client, drains=config.run.on_publish == "drain")

    async def train(self, records: list[TrainingRecord]) -> dict[str, float]:
        """One optimiser step on the records, then the new weights go to the policy's slot.

        Raises `FloatingPointError` if they are refused there, not being finite; the slot then has those of before.
        """
        metrics = await self.device.work(self.learner.step(records))
        if not metrics.get("skipped"):
            try:
                await self.client.publish(POLICY, partial(self.learner.publish, POLICY), drain=self.drains)
            except ValueError as error:
                raise FloatingPointError(str(error)) from error
        return metrics

    async def publish_average(self) -> None:
        """The mean of the weights so far goes to its player's slot."""
        await self.client.publish(AVERAGE, self.learner.publish_average)

    def reconfigure(self, train: TrainConfig, total: int) -> None:
        """Change hyperparameters, and how many steps the run has, from the next step on."""
        self.learner.reconfigure(train, total)

    async def save(
        self, root: Path, step: int, state: dict[str, Any], rollouts: list[list[GenerateResult]], reason: str
    ) -> Path:
        """Write a checkpoint of adapter, learner, `state` and the rollouts that wait; returns its folder."""
        return await self.device.call(self._save, root, step, state, rollouts, reason)

    def _save(
        self, root: Path, step: int, state: dict[str, Any], rollouts: list[list[GenerateResult]], reason: str
    ) -> Path:
        from engine.training import checkpoint, checkpoints

        average = self.learner.averaged
        fill = partial(
            checkpoint.fill,
            adapters=self.adapters.saved(self.learner.parameters),
            average=None if average is None else self.adapters.saved(average),
            adapter_config=self.adapters.config(),
            learner=self.learner.state(),
            state=state,
            rollouts=rollouts,
        )
        return checkpoints.commit(root, step, fill, reason)

    async def save_player(self, player: str, folder: Path) -> int:
        """The policy as it is now, as a player of that name and as an adapter in a folder; returns its version."""
        return await self.device.call(self._save_player, player, folder)

    def _save_player(self, player: str, folder: Path) -> int:
        from engine.training import checkpoint

        parameters, version = self.learner.parameters, self.learner.version
        checkpoint.save_player(folder, self.adapters.saved(parameters), self.adapters.config())
        self.adapters.publish(player, self.adapters.load(folder), version)
        return version

    async def load_player(self, player: str, folder: Path, version: int) -> None:
        """A player from an adapter in a folder. Raises `AdapterError`, a ValueError, if it doesn't fit."""

        def load() -> None:
            self.adapters.publish(player, self.adapters.load(folder), version)

        await self.device.call(load)

    async def begin_from(self, folder: Path) -> None:
        """Put an adapter, in mlx-lm's or peft's format, in the place of the fresh one: still version 0.

        Raises `AdapterError`, a ValueError, if there is none or it doesn't fit.
        """
        await self.device.call(self._begin_from, folder)

    def _begin_from(self, folder: Path) -> None:
        self.learner.parameters = self.adapters.load(folder)
        self.adapters.publish(POLICY, self.learner.parameters, self.learner.version)

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint: learner state and published weights, bit for bit."""
        await self.device.call(self._restore, checkpoint)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self.learner.load_state(checkpoint.learner())
        self.adapters.publish(POLICY, self.learner.parameters, self.learner.version)

    async def close(self) -> None:
        if self.device.stop():
            self.adapters.close()


_GIVEN_UP: list[Device] = []
"""Those that may still load what nobody waits for."""


async def _loaded_alone() -> None:
    """Returns once no load that was given up goes on: the memory may not be there for two models."""
    while any(not device.stop(timeout=0) for device in _GIVEN_UP):
        await asyncio.sleep(0.05)
    _GIVEN_UP.clear()


def _load(config: Config) -> tuple[LanguageModel, ChatTokenizer, Adapters, Learner, Batcher]:
    """On the device thread: everything that imports or calls MLX."""
    from engine.inference import blas

    blas.load()
    from engine.inference import models
    from engine.inference.adapters import Adapters
    from engine.inference.batcher import Batcher
    from engine.inference.estimate import of_run
    from engine.training.learner import Learner

    model, tokenizer = models.load(config.model.source, config.model.context, of_run(config))
    adapters = Adapters(model, config.lora, memory=config.model.adapters_mb << 20)
    learner = Learner(model, adapters, config.train, config.run.seed, config.run.steps)
    adapters.publish(POLICY, learner.parameters, learner.version)
    return model, tokenizer, adapters, learner, Batcher.configured(model, adapters, tokenizer, config.model)


def _release() -> None:
    """End the threads in which MLX computes for this one: on CUDA, one still there at exit aborts the process."""
    if mlx := sys.modules.get("mlx.core"):
        with suppress(RuntimeError):  # what the device could not compute has been told by then
            mlx.synchronize()
        mlx.clear_streams()
