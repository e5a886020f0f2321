"""What of a model is adapted, and how: the layers, their parameters, and these as learnt, used and saved.

`lora.kind` says what a layer learns: a LoRA, a LoRA with magnitudes (DoRA), or its whole weight. Embeddings, norms
and biases stay frozen with each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from engine.config import LoRAConfig
from engine.inference import experts, siblings
from engine.inference.adapter_folders import AdapterError
from engine.inference.experts import SlotExperts
from engine.inference.families import Families, Packed
from engine.inference.linears import Active, DoRALinear, FullLinear, Parameters, SlotLinear
from engine.inference.models import LanguageModel
from engine.inference.siblings import Joined, Siblings

KINDS: dict[str, type[SlotLinear]] = {"lora": SlotLinear, "dora": DoRALinear, "full": FullLinear}

SETTINGS = {"fine_tune_type": "lora.kind", "rank": "lora.rank", "scale": "lora.scale"}
"""What mlx-lm's configuration of an adapter calls what has to be the same here."""


class AdaptedLayers:
    """The adapted layers of one model. Making one puts slot-aware layers in their place, which look into `active`.

    Raises:
        ValueError: if `lora` names layers the model hasn't, or of which the kind can't be; or if the model has
            adapters already.
    """

    def __init__(self, lm: LanguageModel, lora: LoRAConfig, active: Active) -> None:
        self.lora = lora
        self.scale = lora.scale * math.sqrt(lora.rank) if lora.rslora else lora.scale
        """What x A B is multiplied by: alpha / rank, with rsLoRA (arXiv 2312.03732) alpha / √rank."""
        self.shapes: dict[str, tuple[int, ...]] = {}
        """Of one adapter's parameters, by name."""
        self._keys: set[str] = set()
        self._linears: list[SlotLinear] = []
        self._active = active
        self._blocks = _blocks(lm, lora)
        self._siblings: list[Siblings] = []
        self._install(lm)
        self.families = Families(self.shapes)
        self.joined = Joined(self.families, self._siblings)
        """How `families` lie while they are learnt."""

    def initial(self, seed: int) -> Parameters:
        """A fresh adapter that changes nothing yet: A uniform within ±1/√in, m the norms, all else zero.

        Raises:
            ValueError: DoRA of an output whose weights are all zero.
        """
        key = mx.random.key(seed)
        parameters = {}
        for name, shape in self.shapes.items():
            if name.endswith("lora_a"):
                key, own = mx.random.split(key)
                bound = 1 / math.sqrt(shape[0] if len(shape) == 2 else shape[-1])
                parameters[name] = mx.random.uniform(-bound, bound, shape, key=own)
            else:
                parameters[name] = mx.zeros(shape)
        for linear in self._linears:
            if isinstance(linear, DoRALinear):
                parameters |= linear.magnitude()
        mx.eval(parameters)
        return parameters

    def used(self, packed: Packed) -> Packed:
        """What a forward pass looks up, of what is learnt; both packed. Differentiable, float32, not evaluated."""
        packed = {family: array.astype(mx.float32) for family, array in packed.items()}
        gains = self._gains(self.families.unpack(packed)) if self.lora.kind == "dora" else {}
        scaled = {family: packed[family] * self.scale for family in self.families.of("lora_b")}
        return packed | scaled | self.families.pack(gains, self.families.of("m"))

    def saved(self, parameters: Parameters) -> Parameters:
        """What mlx-lm's adapters.safetensors holds: of full fine-tuning whole weights, in float32.

        Rounded to the half precision of a model, they would lose most of what small steps have added up.
        """
        return {name: parameters[name] + weight for name, weight in self._weights().items()} or parameters

    def loaded(self, saved: Parameters) -> Parameters:
        """The reverse of `saved`."""
        return {name: saved[name] - weight for name, weight in self._weights().items()} or saved

    def config(self) -> dict[str, Any]:
        """The content of mlx-lm's adapter_config.json, to lie beside what is `saved`."""
        lora: dict[str, Any] = {"keys": sorted(self._keys)}
        if self.lora.kind != "full":
            lora = {"rank": self.lora.rank, "scale": self.scale, "dropout": 0.0} | lora
        return {"fine_tune_type": self.lora.kind, "num_layers": len(self._blocks), "lora_parameters": lora}

    def check(self, parameters: Parameters) -> None:
        """Raises ValueError if these aren't an adapter of this model."""
        missing, strange = self.shapes.keys() - parameters.keys(), parameters.keys() - self.shapes.keys()
        if missing or strange:
            raise ValueError(
                f"these parameters aren't an adapter of this model: {len(missing)} missing {sorted(missing)[:1]}, "
                f"{len(strange)} unknown {sorted(strange)[:1]}. Keys are those of mlx-lm's adapters.safetensors"
            )
        for name, shape in self.shapes.items():
            if parameters[name].shape != shape:
                raise ValueError(f"{name} has shape {parameters[name].shape}; this model and rank need {shape}")

    def check_settings(self, config: dict[str, Any], where: str) -> None:
        """Raises AdapterError if mlx-lm's configuration of an adapter isn't `config`'s own kind, rank and scale."""
        own = self.config()
        here, there = own | own["lora_parameters"], {"fine_tune_type": "lora"} | config
        there |= config.get("lora_parameters", {})
        for key, setting in SETTINGS.items():
            ours, theirs = here.get(key), there.get(key)
            rounded = isinstance(theirs, float) and isinstance(ours, float) and math.isclose(ours, theirs)
            if key in here and ours != theirs and not rounded:  # what is fine-tuned as a whole has no rank
                plain = " and lora.rslora=false" if key == "scale" and self.lora.rslora else ""
                wanted = f"to use it, set {setting}={theirs}{plain}"
                raise AdapterError(f"{where}: {key} is {theirs!r}; here it is {ours!r}; {wanted}")

    def _gains(self, parameters: Parameters) -> Parameters:
        found: Parameters = {}
        for linear in self._linears:
            if isinstance(linear, DoRALinear):
                found |= linear.gain(parameters, self.scale)
        return found

    def _weights(self) -> Parameters:
        """The frozen ones of what is fine-tuned as a whole."""
        found: Parameters = {}
        for linear in self._linears:
            if isinstance(linear, FullLinear):
                found |= linear.weight()
        return found

    def _install(self, lm: LanguageModel) -> None:
        modules = lm.model.named_modules()
        if any(isinstance(module, (SlotLinear, SlotExperts)) for _, module in modules):
            raise ValueError(f"{lm.source} has adapters already; use those, or load the model again")
        self._check_layers(lm)
        prefix = next(name for name, _ in modules if name.endswith("layers.0")).removesuffix("0")
        for index in self._blocks:
            self._wrap(lm.model.layers[index], f"{prefix}{index}")

    def _wrap(self, layer: nn.Module, name: str) -> None:
        """Put slot-aware modules in the place of those to adapt."""
        rank, routers = self.lora.rank, experts.routers(layer)
        wrapped: list[tuple[str, nn.Module]] = []
        linears: dict[str, SlotLinear] = {}
        for path, module in layer.named_modules():
            if isinstance(module, (nn.Linear, nn.QuantizedLinear)):
                if self._named(path) or not (self.lora.layers or path in routers):
                    linear = KINDS[self.lora.kind](module, f"{name}.{path}", self._active)
                    self._add(path, linear.shapes(rank))
                    linears[path] = linear
                    wrapped.append((path, linear))
            elif isinstance(module, experts.EXPERTS):
                adapted = [
                    key for key in experts.linears(module) if self._named(f"{path}.{key}") or not self.lora.layers
                ]
                if adapted:
                    whole = SlotExperts(module, f"{name}.{path}", self._active)
                    for key in adapted:
                        self._add(f"{path}.{key}", whole.shapes(key, rank))
                    wrapped.append((path, whole))
        layer.update_modules(tree_unflatten(wrapped))
        self._linears += linears.values()
        self._siblings += siblings.join(linears, self._active) if siblings.worthwhile() else []

    def _add(self, path: str, shapes: dict[str, tuple[int, ...]]) -> None:
        self.shapes |= shapes
        self._keys.add(path)

    def _named(self, path: str) -> bool:
        return path in self.lora.layers or path.rpartition(".")[2] in self.lora.layers

    def _check_layers(self, lm: LanguageModel) -> None:
        """That those named are there, and that all to adapt can be."""
        blocks = [lm.model.layers[index] for index in self._blocks]
        there = {path: module for layer in blocks for path, module in _linears(layer)}
        names = there.keys() | {path.rpartition(".")[2] for path in there}
        unknown = [name for name in self.lora.layers if name not in names]
        if unknown or not there:
            raise ValueError(f"lora.layers: {lm.source} has no linear layer {unknown}; it has {sorted(there)}")
        for path, module in there.items():
            if self.lora.layers and not self._named(path):
                continue
            if self.lora.kind != "lora" and not isinstance(module, (nn.Linear, nn.QuantizedLinear)):
                raise ValueError(
                    f"lora.kind {self.lora.kind!r} can't be had of expert layers, and {path} of {lm.source} is "
                    f"one: name others in lora.layers, or use 'lora'"
                )
            if self.lora.kind == "full" and isinstance(module, nn.QuantizedLinear):
                raise ValueError(
                    f"lora.kind 'full' can't be had of quantised weights, and {path} of {lm.source} has them: "
                    f"use 'lora' or 'dora', or a model in bfloat16 or float32"
                )


def _blocks(lm: LanguageModel, lora: LoRAConfig) -> range:
    """The numbers of the model's blocks to adapt."""
    depth = len(lm.model.layers)
    if lora.last_layers > depth:
        raise ValueError(f"lora.last_layers is {lora.last_layers}; {lm.source} has {depth} blocks")
    return range(depth - (lora.last_layers or depth), depth)


def _linears(layer: nn.Module) -> Iterable[tuple[str, Any]]:
    """What can be adapted in a block of the model, by path."""
    for path, module in layer.named_modules():
        if isinstance(module, (nn.Linear, nn.QuantizedLinear)):
            yield path, module
        elif isinstance(module, experts.EXPERTS):
            for key, linear in experts.linears(module).items():
                yield f"{path}.{key}", linear
