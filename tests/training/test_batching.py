"""Batching: every active token arrives once, in its place, whatever the budget."""

from __future__ import annotations

import numpy as np
import pytest

from engine.training import batching
from engine.training.preferences import Pair
from engine.types import TrainingRecord


def record(
    turn: int, prompt: list[int], tokens: list[int], rollout: str = "r", role: str = "First"
) -> TrainingRecord:
    return TrainingRecord(
        rollout_id=rollout,
        turn=turn,
        role=role,
        episode_type="game",
        prompt_tokens=prompt,
        tokens=tokens,
        logprobs=[-0.01 * token for token in tokens],
        versions=[turn] * len(tokens),
        advantage=float(turn) - 1.5,
        temperature=0.5 + turn / 10,
    )


def random_records(count: int, seed: int = 0) -> list[TrainingRecord]:
    rng = np.random.default_rng(seed)

    def ids(most: int) -> list[int]:
        return rng.integers(1, 1000, rng.integers(1, most)).tolist()

    return [record(turn, ids(30), ids(9), rollout=f"r{turn}") for turn in range(count)]


def flat(records: list[TrainingRecord], budget: int, count: int = 1, seed: int = 0) -> list[batching.Minibatch]:
    return batching.minibatches(batching.rows(records), count, budget, np.random.default_rng(seed))


def seen(microbatch: batching.Microbatch) -> list[tuple[int, int, float, float, float, int]]:
    """(token before, token, behaviour, advantage, temperature, version) of each active token."""
    return list(
        zip(
            microbatch.tokens.reshape(-1)[microbatch.positions].tolist(),
            microbatch.targets.tolist(),
            microbatch.behaviour.tolist(),
            microbatch.advantages.tolist(),
            microbatch.temperatures.tolist(),
            microbatch.versions.tolist(),
            strict=True,
        )
    )


def expected(records: list[TrainingRecord]) -> list[tuple[int, int, float, float, float, int]]:
    return [
        (
            before,
            token,
            float(np.float32(logprob)),
            float(np.float32(r.advantage)),
            float(np.float32(r.temperature)),
            version,
        )
        for r in records
        for before, token, logprob, version in zip(
            [r.prompt_tokens[-1], *r.tokens[:-1]], r.tokens, r.logprobs, r.versions, strict=True
        )
    ]


@pytest.mark.parametrize("budget", [1, 64, 200, 100_000])
@pytest.mark.parametrize("count", [1, 3])
def test_every_active_token_comes_once_with_the_token_before_it(budget: int, count: int):
    records = random_records(50)
    found = [
        token for minibatch in flat(records, budget, count) for m in minibatch.microbatches for token in seen(m)
    ]
    assert sorted(found) == sorted(expected(records))


def test_the_stop_token_is_active_and_padding_never_is():
    short, long = record(0, [5, 6], [7, 2], rollout="a"), record(1, [5, 6, 7, 8], [9, 10, 2], rollout="b")
    [minibatch] = flat([short, long], 1000)
    [microbatch] = minibatch.microbatches
    assert microbatch.tokens.tolist() == [[5, 6, 7, 0, 0, 0], [5, 6, 7, 8, 9, 10]]
    assert microbatch.targets.tolist() == [7, 2, 9, 10, 2]
    assert microbatch.positions.tolist() == [1, 2, 6 + 3, 6 + 4, 6 + 5]
    assert microbatch.segments.tolist() == [0, 0, 1, 1, 1]
    assert minibatch.lengths.tolist() == [2, 3]


@pytest.mark.parametrize("budget", [64, 200])
def test_microbatches_keep_the_budget_but_for_a_single_long_row(budget: int):
    long = record(60, list(range(1, 301)), [2], rollout="long")
    [minibatch] = flat([*random_records(50), long], budget)
    assert len(minibatch.microbatches) > 1
    assert all(m.size <= budget or len(m.tokens) == 1 for m in minibatch.microbatches)


def test_segments_count_through_all_microbatches_of_a_minibatch():
    records = random_records(50)
    [minibatch] = flat(records, 100)
    counts = np.bincount(np.concatenate([m.segments for m in minibatch.microbatches]))
    assert counts.tolist() == minibatch.lengths.tolist()
    assert minibatch.tokens == sum(len(r.prompt_tokens) + len(r.tokens) for r in records)


def test_rows_of_like_length_are_batched_together():
    records = [record(t, [t] * (10 if t % 2 else 100), [2], rollout=str(t)) for t in range(40)]
    [minibatch] = flat(records, 2000)
    assert sum(m.size for m in minibatch.microbatches) == 20 * 10 + 20 * 100


def test_a_turn_that_extends_an_earlier_one_goes_on_in_its_row():
    first = record(0, [1, 2], [3, 4])
    second = record(2, [1, 2, 3, 4, 5], [6, 4])
    alone = record(3, [1, 2, 3, 4, 5], [6, 4], rollout="another")
    rows = batching.rows([first, second, alone])
    assert [row.tokens for row in rows] == [[1, 2, 3, 4, 5, 6, 4]] * 2
    assert [[start for start, _ in row.spans] for row in rows] == [[2, 5], [5]]
    [minibatch] = flat([first, second], 1000)
    [microbatch] = minibatch.microbatches
    assert sorted(seen(microbatch)) == sorted(expected([first, second]))
    assert microbatch.segments.tolist() == [0, 0, 1, 1]


def test_equal_rows_are_computed_once_and_learnt_from_each():
    records = [record(turn, [1, 2], [3, 4], rollout=f"r{turn}") for turn in range(3)]
    other = record(3, [1, 2], [3, 5], rollout="r3")
    [minibatch] = flat([*records, other], 1000)
    [microbatch] = minibatch.microbatches
    assert microbatch.tokens.tolist() == [[1, 2, 3], [1, 2, 3]]
    assert sorted(seen(microbatch)) == sorted(expected([*records, other]))
    assert microbatch.segments.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert minibatch.lengths.tolist() == [2, 2, 2, 2]
    assert minibatch.tokens == 16


def test_a_rewritten_history_starts_a_new_row():
    rows = batching.rows([record(0, [1, 2], [3, 4]), record(2, [1, 2, 3, 9, 5], [6, 4])])
    assert [row.tokens for row in rows] == [[1, 2, 3, 4], [1, 2, 3, 9, 5, 6, 4]]


def test_roles_of_one_rollout_do_not_share_a_row():
    rows = batching.rows([record(0, [1, 2], [3, 4]), record(1, [1, 2, 3, 4, 5], [6, 4], role="Second")])
    assert len(rows) == 2


def test_the_order_depends_on_records_and_seed_only():
    records = random_records(30)
    same, again, other = (flat(records, 100, 3, seed) for seed in (1, 1, 2))
    order = [[m.targets.tolist() for mini in parts for m in mini.microbatches] for parts in (same, again, other)]
    assert order[0] == order[1] != order[2]


def test_there_are_no_more_minibatches_than_rows_and_none_without():
    assert len(flat(random_records(2), 100, count=5)) == 2
    assert flat([], 100) == []


def paired(count: int) -> tuple[list[TrainingRecord], list[Pair]]:
    """Conversations of one to three turns; of every five, four are in pairs."""
    records, pairs = [], []
    for index in range(count):
        history = [index % 7 + 1] * (index % 11 + 2)
        for turn in range(index % 3 + 1):
            records.append(record(turn, history, [50 + index, 2], rollout=f"r{index}"))
            # A template that rewrites what was said in every other conversation: a row a turn.
            history = [*history, 50 + index, 2, 9] if index % 2 else [*history, 9]
    for first in range(0, count - 4, 5):
        pairs += [
            Pair((f"r{one}", "First"), (f"r{other}", "First"))
            for one, other in ((first, first + 3), (first + 2, first + 1))
        ]
    return records, pairs


@pytest.mark.parametrize("budget", [1, 64, 100_000])
@pytest.mark.parametrize("count", [1, 3, 50])
def test_both_sides_of_a_pair_are_in_one_minibatch_with_all_their_turns(budget: int, count: int):
    records, pairs = paired(30)
    made = batching.minibatches(batching.rows(records), count, budget, np.random.default_rng(3), pairs)
    seen_pairs: list[frozenset[int]] = []
    for minibatch in made:
        tokens = np.concatenate([m.targets for m in minibatch.microbatches])
        segments = np.concatenate([m.segments for m in minibatch.microbatches])
        # A completion's first token is 50 and the number of its conversation.
        spoken = [int(tokens[segments == segment][0]) - 50 for segment in range(len(minibatch.lengths))]
        by_conversation: dict[int, set[int]] = {}
        for own, name in zip(minibatch.conversations.tolist(), spoken, strict=True):
            by_conversation.setdefault(own, set()).add(name)
        assert all(len(found) == 1 for found in by_conversation.values())
        name_of = {own: found.pop() for own, found in by_conversation.items()}
        for pair in minibatch.pairs:
            one, other = (name_of[own] for own in pair.tolist())
            assert Pair((f"r{one}", "First"), (f"r{other}", "First")) in pairs
            assert spoken.count(one) == one % 3 + 1
            assert spoken.count(other) == other % 3 + 1
            seen_pairs.append(frozenset((one, other)))
        np.testing.assert_array_equal(
            np.repeat(minibatch.advantages, minibatch.lengths)[np.argsort(np.argsort(segments, kind="stable"))],
            np.concatenate([m.advantages for m in minibatch.microbatches]),
        )
    assert len(made) == min(count, 30) or count == 50
    assert len(seen_pairs) == len(set(seen_pairs)) == len(pairs)


def test_without_pairs_minibatches_are_what_they_were():
    records, _ = paired(20)
    rows = batching.rows(records)
    order = np.random.default_rng(5).permutation(len(rows))
    [first, second, third] = batching.minibatches(rows, 3, 64, np.random.default_rng(5))
    expected = [sorted(part.tolist()) for part in np.array_split(order, 3)]
    for minibatch, part in zip((first, second, third), expected, strict=True):
        assert minibatch.pairs.shape == (0, 2)
        assert minibatch.tokens == sum(len(rows[index].tokens) for index in part)


def test_equal_rows_that_are_merged_stay_conversations_of_their_own():
    records = [record(0, [1, 2], [3, 4], rollout=name) for name in "abc"]
    pair = Pair(("c", "First"), ("a", "First"))
    [minibatch] = batching.minibatches(batching.rows(records), 1, 100, np.random.default_rng(0), [pair])
    [microbatch] = minibatch.microbatches
    assert microbatch.tokens.shape == (1, 3)
    assert sorted(minibatch.conversations.tolist()) == [0, 1, 2]
    assert minibatch.pairs.shape == (1, 2)
    assert len(set(minibatch.pairs[0].tolist())) == 2


def chosen_among(microbatch: batching.Microbatch) -> list[tuple[int, list[int]]]:
    """(token, what was allowed) of each active token, read off in two parts as chunks do."""
    assert microbatch.allowed is not None
    count = len(microbatch.targets)
    lists: list[list[int]] = [[] for _ in range(count)]
    for start, stop in ((0, count // 2), (count // 2, count)):
        limited, rows, tokens = microbatch.allowed.places(start, stop)
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            lists[start + row].append(token)
        assert limited.tolist() == [bool(ids) for ids in lists[start:stop]]
    return list(zip(microbatch.targets.tolist(), lists, strict=True))


def test_what_was_allowed_follows_its_tokens_where_rows_are_merged_and_turns_go_on():
    first, second = record(0, [1, 2], [3, 4]), record(2, [1, 2, 3, 4, 5], [6, 4])
    equal, free = record(3, [1, 2], [3, 4], rollout="equal"), record(1, [9, 9, 9], [8, 2], rollout="free")
    first.allowed, second.allowed = [[3, 30], [4]], [[6, 7, 60], [4, 5]]
    equal.allowed = [[2, 3], [4, 400]]
    [minibatch] = flat([first, second, equal, free, record(0, [1, 2], [3, 4], rollout="too")], 1000)
    [microbatch] = minibatch.microbatches
    expected = [
        (token, ids) for r in (first, second, equal) for token, ids in zip(r.tokens, r.allowed, strict=True)
    ]
    expected += [(8, []), (2, []), (3, []), (4, [])]
    assert sorted(chosen_among(microbatch)) == sorted(expected)


def test_microbatches_without_a_constrained_token_hold_no_mask():
    long = record(1, list(range(1, 60)), [3, 2], rollout="long")
    long.allowed = [[3, 4], [2]]
    [minibatch] = flat([record(0, [1, 2], [3, 4]), long], 64)
    assert [m.allowed is None for m in minibatch.microbatches] == [True, False]


@pytest.mark.parametrize(
    ("allowed", "complaint"),
    [
        ([[3]], "turn 0 of rollout r .* has 2 tokens, and what was allowed of 1"),
        ([[3], [5, 6]], "has token 4, which was not among the 2 allowed"),
    ],
)
def test_a_token_that_was_not_allowed_is_refused_by_name(allowed, complaint):
    broken = record(0, [1, 2], [3, 4])
    broken.allowed = allowed
    with pytest.raises(ValueError, match=complaint):
        batching.rows([broken])


@pytest.mark.parametrize(
    ("prompt", "tokens", "logprobs", "complaint"),
    [
        ([], [1], [0.0], "turn 4 of rollout r .* has 0 prompt and 1 completion tokens"),
        ([1], [], [], "has 1 prompt and 0 completion tokens"),
        ([1], [1, 2], [0.0], "has 2 tokens, 1 log-probabilities and 2 versions"),
    ],
)
def test_a_malformed_record_is_refused_by_name(prompt, tokens, logprobs, complaint):
    broken = record(4, prompt, tokens)
    broken.logprobs = logprobs
    with pytest.raises(ValueError, match=complaint):
        batching.rows([broken])


@pytest.mark.parametrize(("length", "width"), [(1, 1), (64, 64), (65, 128), (128, 128), (129, 256), (512, 512)])
def test_rows_are_padded_to_a_multiple_unless_they_are_far_below_it(length: int, width: int):
    assert batching.padded(length, 128) == width
    assert batching.padded(length, 1) == length


def test_padding_to_a_multiple_keeps_every_token_and_the_budget():
    records = [record(turn, [1] * (60 + 9 * turn), [turn, 7], rollout=f"r{turn}") for turn in range(12)]
    plain, wide = (
        batching.minibatches(batching.rows(records), 1, 512, np.random.default_rng(0), (), multiple)[0]
        for multiple in (1, 128)
    )
    kept, there = (
        sorted(token for microbatch in minibatch.microbatches for token in seen(microbatch))
        for minibatch in (wide, plain)
    )
    assert kept == there
    for microbatch in wide.microbatches:
        assert microbatch.tokens.shape[1] in (61, 128, 256)
        assert microbatch.size <= 512
