"""What needn't be computed isn't, and nobody can tell from what is said: against mlx-lm, one row at a time."""

from __future__ import annotations

import gc

import mlx.core as mx
import numpy as np
import pytest

from engine.inference.batcher import Batcher
from engine.inference.prefix_cache import WORTH
from engine.types import Sampling
from tests.inference.conftest import Oracle, moved, save_adapter
from tests.inference.test_batcher import prompts, request, run

MEGABYTE = 1 << 20


@pytest.fixture
def endless(lm):
    """A model for which no token ends a turn."""
    lm.eos_tokens = frozenset()
    return lm


def text(size: int, seed: int) -> list[int]:
    return prompts(1, seed, size, size + 1)[0]


def exact(oracle: Oracle, prompt, end) -> None:
    np.testing.assert_allclose(end.logprobs, oracle.logprobs(prompt, end.tokens), atol=1e-4)


def test_a_conversations_next_turn_computes_only_what_is_new(endless, adapters, oracle):
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    prompt = text(80, seed=1)
    for turn in range(4):
        before = batcher.stats.computed
        end = run(batcher, [request(turn, prompt, Sampling(max_tokens=6))])[turn]
        exact(oracle, prompt, end)
        # the last token sampled was never fed, so it is computed with what follows it
        assert batcher.stats.computed - before == (len(prompt) if turn == 0 else 1 + 10)
        prompt = prompt + end.tokens + text(10, seed=turn + 2)
    assert batcher.stats.hits == 3
    assert batcher.stats.asked == sum(80 + 16 * turn for turn in range(4))


def test_conversations_of_every_length_that_go_on_in_one_tick_come_out_as_if_alone(endless, adapters, oracle):
    rng = np.random.default_rng(0)
    batcher = Batcher(endless, adapters, rows=7, prefix_bytes=4 * MEGABYTE)
    talks = [text(int(rng.integers(60, 120)), seed) for seed in range(12)]
    for turn in range(3):
        asked = [
            request(100 * turn + id, prompt, Sampling(max_tokens=int(rng.integers(1, 9))))
            for id, prompt in enumerate(talks)
        ]
        finished = run(batcher, asked)
        for id, prompt in enumerate(talks):
            end = finished[100 * turn + id]
            exact(oracle, prompt, end)
            talks[id] = prompt + end.tokens + text(int(rng.integers(1, 30)), seed=1000 + id)
    assert batcher.stats.hits >= 20
    assert batcher.stats.computed < 0.6 * batcher.stats.asked


def test_a_group_that_comes_one_by_one_shares_one_prefill(endless, adapters, oracle):
    batcher = Batcher(endless, adapters, rows=3)
    prompt = text(100, seed=3)
    finished = {}
    for id in range(8):
        batcher.add(request(id, prompt, Sampling(max_tokens=20)))
        finished |= {end.id: end for end in batcher.tick().finished}
    finished |= run(batcher)
    assert len({tuple(end.tokens) for end in finished.values()}) == 8
    for end in finished.values():
        exact(oracle, prompt, end)
    assert batcher.stats.computed < 100 + 8 * 2  # from a row in flight; without memory for others


def test_a_long_prompt_known_in_part_is_computed_from_there(endless, adapters, oracle):
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE, chunk=20)
    prompt = text(90, seed=4)
    first = run(batcher, [request(0, prompt, Sampling(max_tokens=3))])[0]
    longer = [*prompt, *first.tokens, *text(60, seed=5)]
    before = batcher.stats.computed
    end = run(batcher, [request(1, longer, Sampling(max_tokens=8))])[1]
    exact(oracle, longer, end)
    assert batcher.stats.computed - before == 61


def test_nothing_of_other_weights_is_used(endless, adapters, folder, tmp_path):
    newer = moved(adapters, 50)
    oracles = {
        name: Oracle(folder, save_adapter(tmp_path / name, adapters, parameters))
        for name, parameters in (("old", moved(adapters, 1)), ("new", newer), ("blue", moved(adapters, 2)))
    }
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    prompt = text(100, seed=6)
    exact(oracles["old"], prompt, run(batcher, [request(0, prompt, Sampling(max_tokens=5), "red")])[0])
    exact(oracles["blue"], prompt, run(batcher, [request(1, prompt, Sampling(max_tokens=5), "blue")])[1])
    adapters.publish("red", newer, 1)  # the same version number even
    exact(oracles["new"], prompt, run(batcher, [request(2, prompt, Sampling(max_tokens=5), "red")])[2])
    assert batcher.stats.hits == 0
    exact(oracles["blue"], prompt, run(batcher, [request(3, prompt, Sampling(max_tokens=5), "blue")])[3])
    assert batcher.stats.hits == 1  # the others' keys and values live on


def test_a_row_during_which_its_player_changed_is_no_source(endless, adapters, folder, tmp_path):
    newer = moved(adapters, 51)
    after = Oracle(folder, save_adapter(tmp_path / "new", adapters, newer))
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    prompt = text(100, seed=7)
    batcher.add(request(0, prompt, Sampling(max_tokens=6), "red"))
    batcher.tick()
    adapters.publish("red", newer, 2)
    beside = request(1, prompt, Sampling(max_tokens=4), "red")
    finished = run(batcher, [beside])
    following = run(batcher, [request(2, prompt + finished[0].tokens, Sampling(max_tokens=4), "red")])[2]
    exact(after, prompt, finished[1])
    exact(after, prompt + finished[0].tokens, following)


def test_a_row_during_which_its_player_changed_isnt_kept(endless, adapters):
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    batcher.add(request(0, text(100, seed=7), Sampling(max_tokens=6), "red"))
    batcher.tick()
    adapters.publish("red", moved(adapters, 51), 2)
    run(batcher)
    assert batcher.stats.kept_bytes == 0


def test_a_dropped_players_rows_leave_memory_at_once(endless, adapters):
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    run(batcher, [request(id, text(70, seed=id), Sampling(max_tokens=4), "red") for id in range(4)])
    assert batcher.stats.kept_bytes > 0
    adapters.drop("red")
    run(batcher, [request(9, [5])])
    assert batcher.stats.kept_bytes == 0


def test_what_is_kept_stays_within_its_memory_and_the_oldest_goes(endless, adapters, oracle):
    row = 2 * 2 * 32 * 4 * 110  # two layers' keys and values, float32, of a prompt and a reply
    batcher = Batcher(endless, adapters, prefix_bytes=5 * row)
    asked = [text(100, seed=id) for id in range(12)]
    replies = {}
    for id, prompt in enumerate(asked):
        replies[id] = run(batcher, [request(id, prompt, Sampling(max_tokens=8))])[id]
        assert 0 < batcher.stats.kept_bytes <= 5 * row
    assert batcher.stats.hits == 0
    for id in (11, 10, 0):
        longer = asked[id] + replies[id].tokens + [7]
        exact(oracle, longer, run(batcher, [request(100 + id, longer, Sampling(max_tokens=2))])[100 + id])
    assert batcher.stats.hits == 2


def test_more_rows_than_memory_are_kept_in_part(endless, adapters):
    row = 2 * 2 * 32 * 4 * 110
    batcher = Batcher(endless, adapters, prefix_bytes=3 * row)
    run(batcher, [request(id, text(100, seed=id), Sampling(max_tokens=8)) for id in range(10)])
    assert 2 * row < batcher.stats.kept_bytes <= 3 * row


def test_memory_is_what_is_counted_and_given_back_when_all_is_forgotten(endless, adapters):
    def held() -> int:
        gc.collect()  # what other tests left
        mx.synchronize()
        return mx.get_active_memory()

    batcher = Batcher(endless, adapters, prefix_bytes=64 * MEGABYTE)
    run(batcher, [request(0, text(100, seed=0), Sampling(max_tokens=3))])
    batcher.forget()
    before = held()
    run(batcher, [request(1 + id, text(200, seed=id), Sampling(max_tokens=9)) for id in range(20)])
    kept = batcher.stats.kept_bytes
    assert kept > 20 * 200 * 2 * 2 * 32 * 4  # two layers' keys and values, of 32 float32 each
    assert kept <= held() - before <= kept + 8192
    batcher.forget()
    assert held() - before <= 8192
    assert batcher.stats.kept_bytes == 0


def test_what_is_forgotten_is_computed_again_to_the_same_bits(endless, adapters):
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    asked = [text(80, seed=id) for id in range(3)]
    asked += [prompt + text(20, seed=9) for prompt in asked]

    def play(first: int):
        return [
            run(batcher, [request(first + id, prompt, Sampling(max_tokens=5), key=id)])[first + id].logprobs
            for id, prompt in enumerate(asked)
        ]

    once = play(0)
    batcher.forget()
    assert play(10) == once


def test_short_prompts_are_not_worth_remembering(endless, adapters):
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    run(batcher, [request(id, text(WORTH - 1, seed=id), Sampling(max_tokens=3)) for id in range(5)])
    assert batcher.stats.kept_bytes == 0


def test_a_neighbour_that_is_continued_from_memory_changes_nothing(endless, adapters):
    prompt = text(90, seed=20)
    sampling = Sampling(temperature=0.9, max_tokens=10)
    alone = run(Batcher(endless, adapters), [request(0, prompt, sampling, key=42)])[0]
    batcher = Batcher(endless, adapters, prefix_bytes=MEGABYTE)
    other = text(90, seed=21)
    said = run(batcher, [request(1, other, sampling)])[1].tokens
    crowded = run(
        batcher,
        [
            request(2, other + said + [9], sampling),
            request(0, prompt, sampling, key=42),
            request(3, other, sampling),
        ],
    )
    assert crowded[0].tokens == alone.tokens
    np.testing.assert_allclose(crowded[0].logprobs, alone.logprobs, atol=1e-4)
