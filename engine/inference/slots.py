"""Where adapters lie: a slot each in arrays over all of them, and on disk those that don't fit.

Parameters of equal shape are one array, [parameters, slots, *shape]. So a whole adapter is replaced by a handful of
updates in place, whatever the depth of the model, and a layer's stack of all slots is a view, contiguous.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
import numpy as np

from engine.inference.families import Families, Packed
from engine.inference.linears import Parameters
from engine.types import BASE


class Slots:
    """Adapters by player, as many in memory as fit in `memory` bytes; slot 0 is the base's, all zeros.

    The least recently used move to files in a temporary folder, and come back bit for bit when they are used again.
    Players that are in use all at once are in memory even if the bound is too low for them, until fewer are.
    The number of slots grows in powers of two, for a graph compiled for one number has to be made anew for another.
    """

    def __init__(self, families: Families, dtype: mx.Dtype, memory: int | None) -> None:
        self.changes = 0
        """Goes up whenever the content of a slot changes."""
        self._dtype = dtype
        self._families = families
        counts = {family: len(names) for family, names in families.members.items()}
        self.bytes = dtype.size * sum(
            count * math.prod(families.shapes[family]) for family, count in counts.items()
        )
        """What one adapter takes."""
        self._limit = sys.maxsize if memory is None else max(2, memory // self.bytes)
        self.stacks = [mx.zeros((counts[family], 1, *shape), dtype) for family, shape in families.shapes.items()]
        self.places = {
            name: (number, index)
            for number, names in enumerate(families.members.values())
            for index, name in enumerate(names)
        }
        """In which stack a parameter is, and as which one of it."""
        self._owners: list[str | None] = [BASE]
        self._recent: dict[str, None] = {}
        """Who is in memory, the least recently used first."""
        self._held: frozenset[str] = frozenset()
        self._files: dict[str, Path] = {}
        """Who is on disk; a file stays beside the slot until it is out of date."""
        self._folder: TemporaryDirectory | None = None
        self._written = 0
        self._views: dict[int | None, Parameters] = {}

    def __contains__(self, player: str) -> bool:
        return player in self._recent or player in self._files or player == BASE

    def __len__(self) -> int:
        """Slots there are, free ones included."""
        return len(self._owners)

    def prepared(self, packed: Packed) -> Packed:
        """An adapter, as it is used, in the precision of the slots. Not evaluated yet."""
        return {family: array.astype(self._dtype) for family, array in packed.items()}

    def broken(self, packed: Packed) -> list[str]:
        """The names of the parameters that aren't finite."""
        finite = {family: mx.isfinite(array).flatten(1).all(axis=1) for family, array in packed.items()}
        mx.eval(packed, finite)
        return [
            name
            for family, names in self._families.members.items()
            for name, whole in zip(names, np.array(finite[family]), strict=True)
            if not whole
        ]

    def put(self, player: str, packed: Packed) -> None:
        """Replace a player's adapter, or add a player: in memory if it is in use or there is room, else on disk."""
        bound = max(self._limit, 1 + len(self._held)) if player in self._held else self._limit
        if player in self._recent or self._make_room(1, bound):
            self._fill(player, packed)
            self._forget_file(player)
        else:
            self._write(player, packed)
        self.changes += 1

    def drop(self, player: str) -> None:
        """Forget a player; one of that name who is put before the next `use` is in use."""
        if player in self._recent:
            self._vacate(player)
        self._forget_file(player)
        self.changes += 1

    def use(self, players: Collection[str]) -> None:
        """Bring these into memory and keep them there until the next call."""
        self._held = frozenset(players) - {BASE}
        arriving = sorted(self._held - self._recent.keys())
        bound = max(self._limit, 1 + len(self._held))
        if arriving or len(self) > bound:
            self._make_room(len(arriving), bound)
            for player in arriving:
                self._fill(player, self._read(player))
            self.changes += 1
        for player in sorted(self._held):
            self._recent[player] = self._recent.pop(player)

    def slot(self, player: str) -> int:
        """Raises LookupError if the player's adapter is on disk."""
        if player not in self._owners:
            raise LookupError(f"the adapter of player {player!r} is on disk: `use` brings it into memory")
        return self._owners.index(player)

    def of_slot(self, slot: int) -> Parameters:
        """One adapter, such as [in, r] and [r, out], by name."""
        return self._view(slot)

    def of_player(self, player: str) -> Parameters:
        """One adapter, from disk if it lies there; its place doesn't change."""
        if player in self._owners:
            return self._view(self._owners.index(player))
        return self._families.unpack(self._read(player))

    def stacked(self) -> Parameters:
        """All slots, such as [slots, in, r] and [slots, r, out], by name."""
        return self._view(None)

    def close(self) -> None:
        """Delete the files, and with them the adapters that aren't in memory."""
        self._files.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _view(self, slot: int | None) -> Parameters:
        if slot not in self._views:
            self._views[slot] = {
                name: stack[index] if slot is None else stack[index, slot]
                for names, stack in zip(self._families.members.values(), self.stacks, strict=True)
                for index, name in enumerate(names)
            }
            mx.eval(self._views[slot])
        return self._views[slot]

    def _make_room(self, arriving: int, bound: int) -> bool:
        """Have so many slots free, of at most `bound`; false if those in use leave no room."""
        resting = [player for player in self._recent if player not in self._held]
        over = max(0, 1 + len(self._recent) + arriving - bound)
        if over > len(resting):
            return False
        for player in resting[:over]:
            if player not in self._files:
                slot = self._owners.index(player)
                lying = zip(self._families.members, self.stacks, strict=True)
                self._write(player, {family: stack[:, slot] for family, stack in lying})
            self._vacate(player)
        needed = 1 + len(self._recent) + arriving
        if needed > len(self) or len(self) > bound:
            self._resize(min(1 << (needed - 1).bit_length(), bound))
        return True

    def _fill(self, player: str, packed: Packed) -> None:
        self._views.clear()  # MLX updates an array in place only where nothing else refers to it
        if player not in self._recent:
            self._owners[self._owners.index(None)] = player
        slot = self._owners.index(player)
        for stack, family in zip(self.stacks, self._families.members, strict=True):
            stack[:, slot] = packed[family]
        mx.eval(self.stacks)
        self._recent.pop(player, None)
        self._recent[player] = None

    def _vacate(self, player: str) -> None:
        del self._recent[player]
        self._owners[self._owners.index(player)] = None

    def _resize(self, count: int) -> None:
        """Grow in place, or shrink by moving those in memory together."""
        kept = [slot for slot, owner in enumerate(self._owners) if owner is not None or count >= len(self)]
        self._views.clear()
        for index, stack in enumerate(self.stacks):
            free = mx.zeros((stack.shape[0], count - len(kept), *stack.shape[2:]), self._dtype)
            self.stacks[index] = mx.concatenate([stack[:, mx.array(kept)], free], axis=1)
            del stack
            mx.eval(self.stacks[index])  # one at a time, so that not all are there twice
        self._owners = [self._owners[slot] for slot in kept] + [None] * (count - len(kept))

    def _write(self, player: str, packed: Packed) -> None:
        """Raises OSError if it can't be written: nothing is changed then."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="selfplay-adapters-")
        self._written += 1
        file = Path(self._folder.name) / f"{self._written}.safetensors"
        draft = file.with_name("draft.safetensors")
        try:
            mx.save_safetensors(str(draft), packed)
            os.replace(draft, file)
        except (OSError, RuntimeError) as error:  # MLX reports failed writes as RuntimeError
            draft.unlink(missing_ok=True)
            raise OSError(f"{file}: the adapter of player {player!r} can't be moved to disk: {error}") from error
        self._forget_file(player)
        self._files[player] = file

    def _read(self, player: str) -> Packed:
        arrays = mx.load(str(self._files[player]))
        assert isinstance(arrays, dict)
        mx.eval(arrays)
        return arrays

    def _forget_file(self, player: str) -> None:
        file = self._files.pop(player, None)
        if file is not None:
            file.unlink()
