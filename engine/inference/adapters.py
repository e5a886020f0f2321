"""Players as slots: many adapters over one frozen model, a different one in each row of a batch.

What an adapter does to a linear layer is in `linears.py`, by its kind. Slot 0 is the bare base. Which adapter
a forward pass uses is said around it, by `rows` or `speaking` (the sampler) or `learning` (the learner);
outside these it is the base.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx

from engine.config import LoRAConfig
from engine.inference import adapter_folders
from engine.inference.adapted import AdaptedLayers
from engine.inference.adapter_folders import AdapterError
from engine.inference.families import Packed
from engine.inference.linears import Active, Parameters
from engine.inference.models import LanguageModel
from engine.inference.slots import Slots
from engine.types import BASE

Measured = TypeVar("Measured")


class Adapters:
    """The players of one language model. Making one replaces the linear layers of `lm.model.layers`.

    Of players whose adapters together take more than `memory` bytes some are on disk; whoever lets players speak
    says so by `use`. Adapters are sampled with in `dtype`, and learnt in float32.

    Raises:
        ValueError: if `lora` names layers the model hasn't, or of which its kind can't be; or if the model has
            adapters already.
    """

    def __init__(
        self, lm: LanguageModel, lora: LoRAConfig, *, memory: int | None = None, dtype: mx.Dtype = mx.float32
    ) -> None:
        self.lora = lora
        self._computed_in = lm.dtype
        self._active = Active()
        self._layers = AdaptedLayers(lm, lora, self._active)
        self.families = self._layers.families
        self._slots = Slots(self.families, dtype, memory)
        self._versions = {BASE: 0}
        self._serials = {BASE: 0}
        self._published = 0
        self._speakers: dict[object, frozenset[str]] = {}
        """Who is in use, by who uses them."""

    @property
    def changes(self) -> int:
        """Goes up whenever a slot or a version changes, so that others can tell that what they remember is old."""
        return self._slots.changes

    @property
    def bytes(self) -> int:
        """What one player's adapter takes in memory."""
        return self._slots.bytes

    def initial(self, seed: int) -> Parameters:
        """A fresh adapter that changes nothing yet."""
        return self._layers.initial(seed)

    def publish(self, player: str, parameters: Parameters, version: int) -> None:
        """Copy an adapter into the player's slot. Rows sampled from now on use it and carry `version`.

        A new player for whom there is no memory, as all others there are in use, goes to disk until it is used.

        Raises:
            ValueError: if the player is the base, a name or shape isn't this model's, or a number isn't finite:
                nothing is changed then. OSError: if an adapter can't be moved to disk.
        """
        self._layers.check(parameters)
        self.publish_packed(player, self.families.pack(parameters), version)

    def publish_packed(self, player: str, packed: Packed, version: int) -> None:
        """The same of an adapter packed by `families`, of which nothing is copied but into the slot."""
        if player == BASE:
            raise ValueError(f"player {BASE!r} is the model without an adapter and can't be published to")
        packed = self._slots.prepared(self._layers.used(packed))
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

    def use(self, players: Collection[str], by: object = None) -> None:
        """These speak from now on: bring them into memory, and keep them there until the next call.

        If they don't fit, the bound is exceeded until fewer speak. The slots of all may change. Whoever lets
        players speak beside others says who it is (`by`): its calls don't send the others' away.

        Raises:
            KeyError: if there is no such player. OSError: if another's adapter can't be moved to disk.
        """
        for player in players:
            self._check_player(player)
        self._speakers[by] = frozenset(players)
        spoken = frozenset().union(*self._speakers.values())
        self._slots.use([player for player in spoken if player in self._versions])

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
        with self.learning_packed(self.families.pack(parameters)):
            yield

    @contextmanager
    def learning_packed(self, packed: Packed) -> Iterator[None]:
        """The same of an adapter packed by `families`, used in the precision that the model computes in.

        A float32 adapter would have every layer keep its input in float32 too, twice what it takes in bfloat16.
        """
        with self._using(self.families.unpack(self._as_computed(packed)), None):
            yield

    def value_and_grad(
        self, function: Callable[[], tuple[mx.array, Measured]], packed: Packed
    ) -> tuple[mx.array, Measured, Packed]:
        """A scalar that `function` computes with this adapter, what else it returns, and the scalar's gradient.

        The gradient is rounded once, where it comes back to float32. It is taken by each layer's parameters and
        packed then: MLX's gradient of one part of an array is of the size of the array.
        """

        joined, names = self._layers.joined, list(packed)

        def stacks(*arrays: mx.array) -> list[mx.array]:
            return joined.stacks(self._as_computed(dict(zip(names, arrays, strict=True))))

        def of_parts(parts: Parameters) -> tuple[mx.array, Measured]:
            with self._using(parts, None):
                return function()

        arrays = [packed[name] for name in names]
        (value, measured), by_parts = mx.value_and_grad(of_parts)(joined.unpack(stacks(*arrays)))
        _, gradients = mx.vjp(stacks, arrays, joined.pack(by_parts))
        return value, measured, dict(zip(names, gradients, strict=True))

    @property
    def used(self) -> Parameters | None:
        """What forward passes use now, if it is one adapter for every row or none."""
        return self._active.parameters if self._active.slots is None else None

    @contextmanager
    def using(self, used: Parameters) -> Iterator[None]:
        """Forward passes within use these parameters of some layers, as `used` had them, and no others'."""
        with self._using(used or None, None):
            yield

    def saved(self, parameters: Parameters) -> Parameters:
        """What mlx-lm's adapters.safetensors holds for these: the same, or whole weights where those are learnt."""
        return self._layers.saved(parameters)

    def config(self) -> dict[str, Any]:
        """The content of mlx-lm's adapter_config.json, to lie beside what is `saved`."""
        return self._layers.config()

    def load(self, folder: Path) -> Parameters:
        """Read an adapter in mlx-lm's or peft's format, see `adapter_folders`. It is ready to publish, in float32.

        Raises:
            AdapterError: if there is none, or it isn't one of this model with this kind, rank, scale and layers:
                what would have to be set for it.
        """
        saved, config = adapter_folders.read(folder)
        self._layers.check_settings(config, f"{folder / adapter_folders.CONFIG}")
        try:
            self._layers.check(saved)
        except ValueError as error:
            raise AdapterError(f"{folder}: {error}. {adapter_folders.described(saved)}") from error
        parameters = self._layers.loaded({name: array.astype(mx.float32) for name, array in saved.items()})
        mx.eval(parameters)
        return parameters

    def close(self) -> None:
        """Delete what is on disk; the players there are lost. On any thread, once no other uses this."""
        self._slots.close()

    def _as_computed(self, packed: Packed) -> Packed:
        """What layers look up, of what is learnt."""
        return {family: array.astype(self._computed_in) for family, array in self._layers.used(packed).items()}

    @contextmanager
    def _using(self, parameters: Parameters | None, slots: mx.array | None) -> Iterator[None]:
        active = self._active
        before = active.parameters, active.slots, active.rows
        rows = None if slots is None else mx.arange(slots.size, dtype=mx.uint32)
        active.parameters, active.slots, active.rows = parameters, slots, rows
        try:
            yield
        finally:
            active.parameters, active.slots, active.rows = before

    def _check_player(self, player: str) -> None:
        if player not in self._versions:
            raise KeyError(f"no player {player!r}: there are {', '.join(self.players)}")
