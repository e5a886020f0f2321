"""The batch cache: what each row sees is what it would see alone, whoever joins, leaves or grows."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from engine.inference.cache import BatchCache

HEADS, SIZE = 2, 3


class Rows:
    """A list of rows, each its own array of columns: the cache by its meaning."""

    def __init__(self, cache: BatchCache, rows: list[np.ndarray]) -> None:
        self.cache, self.rows = cache, rows

    def append(self, rng: np.random.Generator, columns: int) -> None:
        new = rng.normal(size=(len(self.rows), HEADS, columns, SIZE)).astype(np.float32)
        self.cache.update_and_fetch(mx.array(new), mx.array(-new))
        self.rows = [np.concatenate([row, more], axis=1) for row, more in zip(self.rows, new, strict=True)]

    def check(self) -> None:
        keys, values = (np.array(array[..., : self.cache.length, :]) for array in self.cache.state)
        offsets = np.broadcast_to(np.array(self.cache.offset), len(self.rows))
        for index, row in enumerate(self.rows):
            np.testing.assert_array_equal(keys[index][:, self.cache.padding[index] :], row)
            np.testing.assert_array_equal(values[index][:, self.cache.padding[index] :], -row)
            assert offsets[index] == row.shape[1]
        for N in (1, 2):
            mask = self.cache.make_mask(N, return_array=True)
            seen = np.broadcast_to(np.array(mask), (len(self.rows), 1, N, self.cache.length + N))
            for index, row in enumerate(self.rows):
                assert seen[index, 0].sum(axis=-1).tolist() == [row.shape[1] + n + 1 for n in range(N)]
                assert not seen[index, 0, :, : self.cache.padding[index]].any()


def fresh(rng: np.random.Generator) -> Rows:
    lengths = rng.integers(1, 9, rng.integers(1, 5))
    padding = (lengths.max() - lengths).tolist()
    batch = Rows(BatchCache(padding), [np.zeros((HEADS, 0, SIZE), np.float32)] * len(lengths))
    batch.append(rng, int(lengths.max()))
    batch.rows = [row[:, pad:] for row, pad in zip(batch.rows, padding, strict=True)]
    return batch


def test_random_joining_leaving_and_growing_keeps_every_row_as_it_is():
    rng = np.random.default_rng(0)
    for _ in range(30):
        batch = fresh(rng)
        batch.cache.step = 4
        for _ in range(12):
            match rng.integers(3):
                case 0:
                    batch.append(rng, int(rng.integers(1, 4)))
                case 1:
                    other = fresh(rng)
                    batch.cache.extend(other.cache)
                    batch.rows += other.rows
                case 2:
                    kept = rng.integers(0, len(batch.rows), rng.integers(1, 6))
                    batch.cache.filter(kept)
                    batch.rows = [batch.rows[index] for index in kept]
            batch.check()


def test_beginnings_of_rows_become_rows_of_their_own_and_leave_the_others_as_they_are():
    rng = np.random.default_rng(1)
    for _ in range(20):
        batch = fresh(rng)
        rows = rng.integers(0, len(batch.rows), 4)
        counts = [int(rng.integers(1, batch.rows[row].shape[1] + 1)) for row in rows]
        spread = Rows(
            batch.cache.spread(rows.tolist(), counts),
            [batch.rows[row][:, :count] for row, count in zip(rows, counts, strict=True)],
        )
        for each in (spread, batch):
            each.check()
        spread.append(rng, 3)
        batch.append(rng, 1)
        for each in (spread, batch):
            each.check()


def test_a_row_of_which_nothing_is_taken_may_begin_later_still():
    rng = np.random.default_rng(2)
    batch = Rows(BatchCache([0]), [np.zeros((HEADS, 0, SIZE), np.float32)])
    batch.append(rng, 5)
    [whole] = batch.rows
    later = Rows(batch.cache.spread([0, 0, 0], [4, 0, -2]), [whole[:, :4], whole[:, :0], whole[:, :0]])
    later.append(rng, 3)
    later.rows[2] = later.rows[2][:, 2:]  # its first two columns were padding
    later.check()


def test_rows_taken_are_a_copy_and_several_caches_become_one():
    rng = np.random.default_rng(3)
    first, second = fresh(rng), fresh(rng)
    kept = np.array([0])
    taken = Rows(first.cache.taken(kept), first.rows[:1])
    assert taken.cache.bytes == 4 * 2 * first.rows[0].size
    first.append(rng, 2)
    both = Rows(BatchCache.joined([taken.cache, second.cache]), [*taken.rows, *second.rows])
    for each in (first, second, taken, both):
        each.check()


def test_rows_of_equal_length_need_no_mask_and_one_offset():
    cache = BatchCache([0, 0])
    cache.update_and_fetch(mx.zeros((2, 1, 4, 2)), mx.zeros((2, 1, 4, 2)))
    assert cache.offset == 4
    assert cache.make_mask(1) is None
    assert cache.make_mask(3) == "causal"


def test_a_window_hides_what_is_too_long_ago():
    cache = BatchCache([0, 2], window=3)
    cache.update_and_fetch(mx.zeros((2, 1, 5, 2)), mx.zeros((2, 1, 5, 2)))
    mask = np.broadcast_to(np.array(cache.make_mask(1)), (2, 1, 1, 6))
    assert mask[:, 0, 0].tolist() == [[False, False, False, True, True, True]] * 2
