"""Slots: whatever is put, dropped and used, each player's adapter is what it was, in memory or from disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.inference.families import Families
from engine.inference.slots import Slots

SHAPES = {
    "layers.0.q.lora_a": (6, 2),
    "layers.0.q.lora_b": (2, 4),
    "layers.1.q.lora_a": (6, 2),
    "layers.1.q.lora_b": (2, 4),
    "layers.1.experts.lora_a": (3, 2, 6),
    "layers.1.experts.lora_b": (3, 4, 2),
}
BYTES = 4 * sum(int(np.prod(shape)) for shape in SHAPES.values())
FAMILIES = Families(SHAPES)

Arrays = dict[str, np.ndarray]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def adapter(seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def put(slots: Slots, player: str, arrays: Arrays) -> None:
    packed = FAMILIES.pack({name: mx.array(array) for name, array in arrays.items()})
    slots.put(player, slots.prepared(packed))


def files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def assert_same(parameters: dict[str, mx.array], expected: Arrays) -> None:
    assert parameters.keys() == expected.keys()
    for name, array in parameters.items():
        np.testing.assert_array_equal(np.array(array), expected[name], err_msg=name)


def in_memory(slots: Slots, player: str) -> bool:
    try:
        slots.slot(player)
    except LookupError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_every_adapter_is_what_was_put_last_whatever_happened_since(folder, seed):
    rng = np.random.default_rng(seed)
    limit = 3 + seed
    slots = Slots(FAMILIES, mx.float32, memory=limit * BYTES)
    everyone = [f"player {number}" for number in range(9)]
    expected: dict[str, Arrays] = {}
    held: set[str] = set()
    bound = limit
    for step in range(200):
        known = sorted(expected)
        match rng.integers(4):
            case 0 | 1:
                player = str(rng.choice(everyone))
                expected[player] = adapter(1000 * seed + step)
                put(slots, player, adapter(1000 * seed + step))
            case 2 if known:
                player = str(rng.choice(known))
                slots.drop(player)
                del expected[player]
            case _:
                held = {str(player) for player in rng.choice(everyone, rng.integers(6))} & expected.keys()
                slots.use(held | {"base"})
                bound = max(limit, 1 + len(held))
        places = {player: slots.slot(player) for player in sorted(expected) if in_memory(slots, player)}
        assert held & expected.keys() <= places.keys()
        assert len(set(places.values()) | {0}) == len(places) + 1
        assert len(slots) <= bound
        assert len(expected) - len(places) <= files(folder) <= len(expected)
        stacked = slots.stacked()
        for player, arrays in expected.items():
            assert player in slots
            assert_same(slots.of_player(player), arrays)
            if player in places:
                assert_same({name: array[places[player]] for name, array in stacked.items()}, arrays)
                assert_same(slots.of_slot(places[player]), arrays)
        assert not any(np.array(array[0]).any() for array in stacked.values())
    slots.close()
    assert list(folder.iterdir()) == []


def test_the_least_recently_used_leaves_and_those_in_use_stay():
    slots = Slots(FAMILIES, mx.float32, memory=4 * BYTES)  # of which one is the base's
    for seed, player in enumerate("abc"):
        put(slots, player, adapter(seed))
    slots.use({"a"})
    put(slots, "d", adapter(3))
    assert [in_memory(slots, player) for player in "abcd"] == [True, False, True, True]
    slots.use({"a", "b"})
    assert [in_memory(slots, player) for player in "abcd"] == [True, True, False, True]
    slots.use({"a", "b", "d"})
    put(slots, "e", adapter(4))
    assert [in_memory(slots, player) for player in "abcde"] == [True, True, False, True, False]
    slots.use({"e"})
    assert in_memory(slots, "e")


def test_having_been_used_counts_after_the_use():
    slots = Slots(FAMILIES, mx.float32, memory=4 * BYTES)
    for seed, player in enumerate("abc"):
        put(slots, player, adapter(seed))
    slots.use({"a"})
    slots.use({"b"})
    put(slots, "d", adapter(3))
    assert [in_memory(slots, player) for player in "abcd"] == [True, True, False, True]


def test_one_in_use_who_is_dropped_and_put_again_is_in_use():
    slots = Slots(FAMILIES, mx.float32, memory=2 * BYTES)
    for seed, player in enumerate("abc"):
        put(slots, player, adapter(seed))
    slots.use("abc")
    slots.drop("b")
    put(slots, "d", adapter(3))
    put(slots, "b", adapter(4))
    assert [in_memory(slots, player) for player in "abcd"] == [True, True, True, False]
    assert_same(slots.of_slot(slots.slot("b")), adapter(4))


def test_more_players_in_use_than_fit_are_in_memory_until_fewer_are():
    slots = Slots(FAMILIES, mx.float32, memory=3 * BYTES)
    for seed, player in enumerate("abcdef"):
        put(slots, player, adapter(seed))
    assert len(slots) == 3
    slots.use("abcdef")
    assert len(slots) == 7
    for seed, player in enumerate("abcdef"):
        assert_same(slots.of_slot(slots.slot(player)), adapter(seed))
    slots.use("e")
    assert len(slots) == 3
    assert_same(slots.of_slot(slots.slot("e")), adapter(4))


def test_slots_double_up_to_the_bound_and_keep_their_numbers():
    slots = Slots(FAMILIES, mx.float32, memory=6 * BYTES)
    counts, numbers = [], []
    for seed, player in enumerate("abcde"):
        put(slots, player, adapter(seed))
        counts.append(len(slots))
        numbers.append(slots.slot(player))
    assert counts == [2, 4, 4, 6, 6]
    assert numbers == [slots.slot(player) for player in "abcde"] == [1, 2, 3, 4, 5]


def test_one_who_leaves_unchanged_again_is_not_written_again(folder):
    slots = Slots(FAMILIES, mx.float32, memory=2 * BYTES)
    put(slots, "a", adapter(0))
    put(slots, "b", adapter(1))
    (written,) = folder.rglob("*.safetensors")
    slots.use("a")
    slots.use("b")
    assert written.exists()
    assert files(folder) == 2
    slots.use("a")
    put(slots, "a", adapter(2))  # makes a's file old
    assert not written.exists()
    slots.use("b")
    assert_same(slots.of_player("a"), adapter(2))


def test_putting_one_adapter_copies_one_and_not_all():
    wide = {"layers.0.lora_a": (1000, 100), "layers.1.lora_a": (1000, 100)}
    one = 4 * 2 * 1000 * 100
    families = Families(wide)
    slots = Slots(families, mx.float32, memory=None)
    new = families.pack({name: mx.ones(shape) for name, shape in wide.items()})
    for player in range(16):
        slots.put(str(player), slots.prepared(new))
    slots.stacked(), slots.of_slot(3)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    slots.put("3", slots.prepared(new))
    assert mx.get_peak_memory() - before <= 3 * one


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_comes_back_bit_for_bit_too(dtype):
    slots = Slots(FAMILIES, dtype, memory=BYTES)  # two of half the size
    put(slots, "a", adapter(0))
    before = {name: np.array(array.view(mx.uint16)) for name, array in slots.of_player("a").items()}
    put(slots, "b", adapter(1))
    assert not in_memory(slots, "a")
    slots.use("a")
    for name, array in slots.of_slot(slots.slot("a")).items():
        assert array.dtype == dtype
        np.testing.assert_array_equal(np.array(array.view(mx.uint16)), before[name])


def test_a_full_disk_is_an_error_that_names_the_player_and_loses_nothing(folder, monkeypatch):
    slots = Slots(FAMILIES, mx.float32, memory=2 * BYTES)
    put(slots, "a", adapter(0))

    def full(file: str, arrays: object) -> None:
        Path(file).write_text("half")
        raise RuntimeError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(mx, "save_safetensors", full)
        with pytest.raises(OSError, match="player 'a' can't be moved to disk: no space left"):
            put(slots, "b", adapter(1))
    assert "b" not in slots
    assert files(folder) == 0
    assert_same(slots.of_slot(slots.slot("a")), adapter(0))
    put(slots, "b", adapter(1))
    assert_same(slots.of_player("a"), adapter(0))
