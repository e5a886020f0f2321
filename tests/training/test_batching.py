"""Batching: every active token arrives once, in its place, whatever the budget."""

from __future__ import annotations

import numpy as np
import pytest

from engine.training import batching
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
