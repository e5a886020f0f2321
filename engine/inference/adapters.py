"""Players as LoRA slots: many adapters over one frozen model, a different one in each row of a batch.

LoRA (arXiv 2106.09685) adds scale · (x A) B to a linear layer. Slot 0 is the bare base. Which adapter
a forward pass uses is said around it, by `rows` or `speaking` (the sampler) or `learning` (the learner);
outside these it is the base.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from engine.config import LoRAConfig
from engine.inference import experts
from engine.inference.experts import SlotExperts
from engine.inference.families import Families, Packed
from engine.inference.linears import Active, Parameters, SlotLinear, dimensions
from engine.inference.models import LanguageModel
from engine.inference.slots import Slots
from engine.types import BASE


class Adapters:
    """The players of one language model. Making one replaces the linear layers of `lm.model.layers`.

    Of players whose adapters together take more than `memory` bytes some are on disk; whoever lets players speak
    says so by `use`. Adapters are sampled with in `dtype`, and learnt in float32.

    Raises:
        ValueError: if `lora.layers` names a layer the model hasn't, or the model has adapters already.
    """

    def __init__(
        self, lm: LanguageModel, lora: LoRAConfig, *, memory: int | None = None, dtype: mx.Dtype = mx.float32
    ) -> None:
        self.lora = lora
        self._active = Active()
        self._depth = len(lm.model.layers)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._keys: set[str] = set()
        self._install(lm)
        self.families = Families(self._shapes)
        self._slots = Slots(self.families, dtype, memory)
        self._versions = {BASE: 0}
        self._serials = {BASE: 0}
        self._published = 0

    @property
    def changes(self) -> int:
        """Goes up whenever a slot or a version changes, so that others can tell that what they remember is old."""
        return self._slots.changes

    @property
    def bytes(self) -> int:
        """What one player's adapter takes in memory."""
        return self._slots.bytes

    def initial(self, seed: int) -> Parameters:
        """A fresh adapter that changes nothing yet: A uniform within ±1/√in, B zero."""
        key = mx.random.key(seed)
        parameters = {}
        for name, shape in self._shapes.items():
            if name.endswith("lora_a"):
                key, own = mx.random.split(key)
                bound = 1 / math.sqrt(shape[0] if len(shape) == 2 else shape[-1])
                parameters[name] = mx.random.uniform(-bound, bound, shape, key=own)
            else:
                parameters[name] = mx.zeros(shape)
        mx.eval(parameters)
        return parameters

    def publish(self, player: str, parameters: Parameters, version: int) -> None:
        """Copy an adapter into the player's slot. Rows sampled from now on use it and carry `version`.

        A new player for whom there is no memory, as all others there are in use, goes to disk until it is used.

        Raises:
            ValueError: if the player is the base, a name or shape isn't this model's, or a number isn't finite:
                nothing is changed then. OSError: if an adapter can't be moved to disk.
        """
        self._check(parameters)
        self.publish_packed(player, self.families.pack(parameters), version)

    def publish_packed(self, player: str, packed: Packed, version: int) -> None:
        """The same of an adapter packed by `families`, of which nothing is copied but into the slot."""
        if player == BASE:
            raise ValueError(f"player {BASE!r} is the model without an adapter and can't be published to")
        packed = self._slots.prepared(packed, self.lora.scale)
        broken = self._slots.broken(packed)
        if broken:
            more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            raise ValueError(f"player {player!r} can't get weights that aren't finite: those of {broken[0]}{more}")
        self._slots.put(player, packed)
        self._published += 1
        self._versions[player], self._serials[player] = version, self._published

    def drop(self, player: str) -> None:
        """Forget a player. Its rows in flight fail at their next token.

        Raises:
            KeyError: if there is no such player. ValueError: if it is the base.
        """
        if player == BASE:
            raise ValueError(f"player {BASE!r} is the model itself and can't be dropped")
        self._check_player(player)
        self._slots.drop(player)
        del self._versions[player], self._serials[player]

    def use(self, players: Collection[str]) -> None:
        """These speak from now on: bring them into memory, and keep them there until the next call.

        If they don't fit, the bound is exceeded until fewer speak. The slots of all may change.

        Raises:
            KeyError: if there is no such player. OSError: if another's adapter can't be moved to disk.
        """
        for player in players:
            self._check_player(player)
        self._slots.use(players)

    def slot(self, player: str) -> int:
        """The player's slot; 0 for the base.

        Raises:
            KeyError: if there is no such player, naming those there are. LookupError: if it is on disk.
        """
        self._check_player(player)
        return self._slots.slot(player)

    def version(self, player: str) -> int:
        """The version last published for a player, on disk or not; 0 for the base. KeyError as `slot`."""
        self._check_player(player)
        return self._versions[player]

    def serial(self, player: str) -> int:
        """The number of the `publish` that brought the player's weights; 0 for the base. KeyError as `slot`.

        Slots and versions come again with other weights, this never: a key for what was computed with them.
        """
        self._check_player(player)
        return self._serials[player]

    @property
    def players(self) -> list[str]:
        """Who can be played, on disk or not, the base first."""
        return list(self._versions)

    @contextmanager
    def rows(self, slots: Sequence[int]) -> Iterator[None]:
        """Forward passes within use these slots, one a row of the batch."""
        different = set(slots)
        if len(different) > 1:
            with self._using(self._slots.stacked(), mx.array(list(slots), dtype=mx.uint32)):
                yield
        else:
            slot = different.pop() if different else 0
            with self._using(self._slots.of_slot(slot) if slot else None, None):
                yield

    @contextmanager
    def speaking(self, player: str) -> Iterator[None]:
        """Forward passes within use this player for every row, from disk if it lies there. No slot changes.

        Raises:
            KeyError: if there is no such player.
        """
        self._check_player(player)
        with self._using(None if player == BASE else self._slots.of_player(player), None):
            yield

    @property
    def stacks(self) -> list[mx.array]:
        """All slots of all parameters: those of equal shape are one array, [parameters, slots, *shape].

        Not to be kept: publishing changes them in place only where nobody else holds them.
        """
        return self._slots.stacks

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """In which of `stacks` a parameter is, and as which one of it."""
        return self._slots.places

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

    def load(self, folder: Path) -> Parameters:
        """Read an adapter in mlx-lm's format: adapters.safetensors and adapter_config.json. It is ready to publish.

        Raises:
            ValueError: if there is none, or it isn't one of this model with this rank, scale and layers.
        """
        try:
            config = json.loads((folder / "adapter_config.json").read_bytes())
            lora, kind = config.get("lora_parameters", {}), config.get("fine_tune_type", "lora")
            found = {"fine_tune_type": kind, "rank": lora.get("rank"), "scale": lora.get("scale")}
            parameters = mx.load(str(folder / "adapters.safetensors"))
        except (OSError, RuntimeError, ValueError, AttributeError) as error:  # MLX can't read: RuntimeError
            raise ValueError(f"{folder}: no adapter in mlx-lm's format can be read there: {error}") from error
        assert isinstance(parameters, dict)
        wanted = {"fine_tune_type": "lora", "rank": self.lora.rank, "scale": self.lora.scale}
        for key, value in wanted.items():
            if found[key] != value:
                raise ValueError(f"{folder / 'adapter_config.json'}: {key} is {found[key]!r}; here it is {value!r}")
        try:
            self._check(parameters)
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error
        mx.eval(parameters)
        return parameters

    def close(self) -> None:
        """Delete what is on disk; the players there are lost. On any thread, once no other uses this."""
        self._slots.close()

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
        if any(isinstance(module, (SlotLinear, SlotExperts)) for _, module in modules):
            raise ValueError(f"{lm.source} has adapters already; use those, or load the model again")
        self._check_layers(lm)
        prefix = next(name for name, _ in modules if name.endswith("layers.0")).removesuffix("0")
        for index, layer in enumerate(lm.model.layers):
            self._wrap(layer, f"{prefix}{index}")

    def _wrap(self, layer: nn.Module, name: str) -> None:
        """Put slot-aware modules in the place of those to adapt."""
        rank, routers = self.lora.rank, experts.routers(layer)
        wrapped: list[tuple[str, nn.Module]] = []
        for path, module in layer.named_modules():
            if isinstance(module, (nn.Linear, nn.QuantizedLinear)):
                if self._named(path) or not (self.lora.layers or path in routers):
                    outputs, inputs = dimensions(module)
                    self._add(name, path, (inputs, rank), (rank, outputs))
                    wrapped.append((path, SlotLinear(module, f"{name}.{path}", self._active)))
            elif isinstance(module, experts.EXPERTS):
                adapted = False
                for key, linear in experts.linears(module).items():
                    if self._named(f"{path}.{key}") or not self.lora.layers:
                        count, outputs, inputs = linear.num_experts, linear.output_dims, linear.input_dims
                        self._add(name, f"{path}.{key}", (count, rank, inputs), (count, outputs, rank))
                        adapted = True
                if adapted:
                    wrapped.append((path, SlotExperts(module, f"{name}.{path}", self._active)))
        layer.update_modules(tree_unflatten(wrapped))

    def _add(self, layer: str, path: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        self._shapes[f"{layer}.{path}.lora_a"], self._shapes[f"{layer}.{path}.lora_b"] = a, b
        self._keys.add(path)

    def _named(self, path: str) -> bool:
        return path in self.lora.layers or path.rpartition(".")[2] in self.lora.layers

    def _check_layers(self, lm: LanguageModel) -> None:
        there = {path for layer in lm.model.layers for path in _linear_paths(layer)}
        names = there | {path.rpartition(".")[2] for path in there}
        unknown = [name for name in self.lora.layers if name not in names]
        if unknown or not there:
            raise ValueError(f"lora.layers: {lm.source} has no linear layer {unknown}; it has {sorted(there)}")

    def _check_player(self, player: str) -> None:
        if player not in self._versions:
            raise KeyError(f"no player {player!r}: there are {', '.join(self.players)}")

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


def _linear_paths(layer: nn.Module) -> list[str]:
    """Of what can be adapted in a layer of the model."""
    paths = []
    for path, module in layer.named_modules():
        if isinstance(module, (nn.Linear, nn.QuantizedLinear)):
            paths.append(path)
        elif isinstance(module, experts.EXPERTS):
            paths += [f"{path}.{key}" for key in experts.linears(module)]
    return paths
