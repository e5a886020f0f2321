"""Players as LoRA slots: many adapters over one frozen model, a different one in each row of a batch.

LoRA (arXiv 2106.09685) adds scale · (x A) B to a linear layer. Slot 0 is the bare base. Which adapter
a forward pass uses is said around it, by `rows` (the sampler) or `learning` (the learner); outside both
it is the base.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from engine.config import LoRAConfig
from engine.inference.linears import Active, Parameters, SlotLinear, dimensions
from engine.inference.models import LanguageModel
from engine.types import BASE


class Adapters:
    """The slots of one language model. Making one replaces the linear layers of `lm.model.layers`.

    Raises:
        ValueError: if `lora.layers` names a layer the model hasn't, or the model has adapters already.
    """

    def __init__(self, lm: LanguageModel, lora: LoRAConfig) -> None:
        self.lora = lora
        self.changes = 0
        """Goes up whenever a slot or a version changes, so that others can tell that what they remember is old."""
        self._active = Active()
        self._depth = len(lm.model.layers)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._keys: set[str] = set()
        self._install(lm)
        self._players: list[str | None] = [BASE]
        self._versions = [0]
        zeros = {name: mx.zeros(shape) for name, shape in self._shapes.items()}
        self._slots: list[Parameters] = [zeros]
        self._stacked: Parameters | None = None

    def initial(self, seed: int) -> Parameters:
        """A fresh adapter that changes nothing yet: A uniform within ±1/√in, B zero."""
        key = mx.random.key(seed)
        parameters = {}
        for name, shape in self._shapes.items():
            if name.endswith("lora_a"):
                key, own = mx.random.split(key)
                bound = 1 / math.sqrt(shape[0])
                parameters[name] = mx.random.uniform(-bound, bound, shape, key=own)
            else:
                parameters[name] = mx.zeros(shape)
        mx.eval(parameters)
        return parameters

    def publish(self, player: str, parameters: Parameters, version: int) -> None:
        """Copy an adapter into the player's slot. Rows sampled from now on use it and carry `version`.

        Raises:
            ValueError: if the player is the base, or a name or shape isn't this model's: nothing is changed then.
        """
        if player == BASE:
            raise ValueError(f"player {BASE!r} is the model without an adapter and can't be published to")
        self._check(parameters)
        copied = {
            name: array.astype(mx.float32) * (self.lora.scale if name.endswith("lora_b") else 1.0)
            for name, array in parameters.items()
        }
        mx.eval(copied)
        if player not in self._players:
            self._make_room()
            self._players[self._players.index(None)] = player
        slot = self._players.index(player)
        self._slots[slot], self._versions[slot] = copied, version
        self._changed()

    def drop(self, player: str) -> None:
        """Forget a player. Its rows in flight fail at their next token.

        Raises:
            KeyError: if there is no such player. ValueError: if it is the base.
        """
        if player == BASE:
            raise ValueError(f"player {BASE!r} is the model itself and can't be dropped")
        slot = self.slot(player)
        self._players[slot], self._versions[slot], self._slots[slot] = None, 0, self._slots[0]
        self._changed()

    def slot(self, player: str) -> int:
        """The player's slot; 0 for the base.

        Raises:
            KeyError: if there is no such player, naming those there are.
        """
        if player not in self._players:
            raise KeyError(f"no player {player!r}: there are {', '.join(self.players)}")
        return self._players.index(player)

    def version(self, player: str) -> int:
        """The version last published for a player; 0 for the base. Raises KeyError as `slot` does."""
        return self._versions[self.slot(player)]

    @property
    def players(self) -> list[str]:
        """Who can be played, the base first."""
        return [player for player in self._players if player is not None]

    @contextmanager
    def rows(self, slots: Sequence[int]) -> Iterator[None]:
        """Forward passes within use these slots, one a row of the batch."""
        different = set(slots)
        if len(different) > 1:
            with self._using(self._stack(), mx.array(list(slots), dtype=mx.uint32)):
                yield
        else:
            slot = different.pop() if different else 0
            with self._using(self._slots[slot] if slot else None, None):
                yield

    @contextmanager
    def learning(self, parameters: Parameters) -> Iterator[None]:
        """Forward passes within use these parameters for every row, and can be differentiated by them."""
        scale = self.lora.scale
        scaled = {name: array * scale if name.endswith("lora_b") else array for name, array in parameters.items()}
        with self._using(scaled, None):
            yield

    def config(self) -> dict[str, Any]:
        """The content of mlx-lm's adapter_config.json, to lie beside the parameters."""
        return {
            "fine_tune_type": "lora",
            "num_layers": self._depth,
            "lora_parameters": {
                "rank": self.lora.rank,
                "scale": self.lora.scale,
                "dropout": 0.0,
                "keys": sorted(self._keys),
            },
        }

    @contextmanager
    def _using(self, parameters: Parameters | None, slots: mx.array | None) -> Iterator[None]:
        active = self._active
        before = active.parameters, active.slots
        active.parameters, active.slots = parameters, slots
        try:
            yield
        finally:
            active.parameters, active.slots = before

    def _install(self, lm: LanguageModel) -> None:
        modules = lm.model.named_modules()
        if any(isinstance(module, SlotLinear) for _, module in modules):
            raise ValueError(f"{lm.source} has adapters already; use those, or load the model again")
        names = [name for name, _ in modules]
        prefix = next(name for name in names if name.endswith("layers.0")).removesuffix("0")
        for index, layer in enumerate(lm.model.layers):
            wrapped = []
            for key, linear in layer.named_modules():
                if not isinstance(linear, (nn.Linear, nn.QuantizedLinear)) or not self._wanted(key):
                    continue
                name = f"{prefix}{index}.{key}"
                outputs, inputs = dimensions(linear)
                self._shapes[f"{name}.lora_a"] = (inputs, self.lora.rank)
                self._shapes[f"{name}.lora_b"] = (self.lora.rank, outputs)
                self._keys.add(key)
                wrapped.append((key, SlotLinear(linear, name, self._active)))
            layer.update_modules(tree_unflatten(wrapped))
        self._check_wanted(lm)

    def _wanted(self, key: str) -> bool:
        layers = self.lora.layers
        return not layers or key in layers or key.rpartition(".")[2] in layers

    def _check_wanted(self, lm: LanguageModel) -> None:
        found = self._keys | {key.rpartition(".")[2] for key in self._keys}
        unknown = [layer for layer in self.lora.layers if layer not in found]
        if unknown or not self._keys:
            there = {key for key, module in lm.model.layers[0].named_modules() if hasattr(module, "weight")}
            raise ValueError(f"lora.layers: {lm.source} has no linear layer {unknown}; it has {sorted(there)}")

    def _check(self, parameters: Parameters) -> None:
        missing, strange = self._shapes.keys() - parameters.keys(), parameters.keys() - self._shapes.keys()
        if missing or strange:
            raise ValueError(
                f"these parameters aren't an adapter of this model: {len(missing)} missing {sorted(missing)[:1]}, "
                f"{len(strange)} unknown {sorted(strange)[:1]}. Keys are those of mlx-lm's adapters.safetensors"
            )
        for name, shape in self._shapes.items():
            if parameters[name].shape != shape:
                raise ValueError(f"{name} has shape {parameters[name].shape}; this model and rank need {shape}")

    def _make_room(self) -> None:
        if None not in self._players:
            self._players.append(None)
            self._versions.append(0)
            self._slots.append(self._slots[0])

    def _stack(self) -> Parameters:
        """All slots, [slots, in, r] and [slots, r, out], stacked when a mixed batch first asks for them."""
        if self._stacked is None:
            self._stacked = {name: mx.stack([slot[name] for slot in self._slots]) for name in self._shapes}
            mx.eval(self._stacked)
        return self._stacked

    def _changed(self) -> None:
        self._stacked = None
        self.changes += 1
