"""What single requests ask for beside their sampling: stops, choices, biases, penalties, deadlines."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax

from engine.inference.batcher import Batcher
from engine.inference.constraints import Choices
from engine.inference.requests import Request
from engine.inference.tokenizer import ByteTokenizer
from engine.types import Sampling, StopReason
from tests.inference.test_batcher import GREEDY, prompts, request, run


@pytest.fixture
def endless(lm):
    """A model for which no token ends a turn."""
    lm.eos_tokens = frozenset()
    return lm


def asking(id: int, prompt, sampling=GREEDY, **more) -> Request:
    return Request(id, list(prompt), sampling, "base", id, **more)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_stop_string_over_several_tokens_ends_the_row_with_its_last_one(endless, adapters, oracle):
    prompt = prompts(1, seed=3)[0]
    natural = oracle.greedy(prompt, 12)
    letters = [bytes([token]) if token < 256 else b"" for token in natural]
    stop = b"".join(letters[3:6])
    ends = next(n for n in range(1, 13) if stop in b"".join(letters[:n]))
    batcher = Batcher(endless, adapters, tokenizer=ByteTokenizer())
    finished = run(batcher, [asking(0, prompt, stop=(b"never there", stop)), asking(1, prompt)])
    assert finished[0].tokens == natural[:ends]
    assert finished[0].stop_reason is StopReason.STOP
    assert finished[1].tokens == natural


def test_choices_are_all_that_is_sampled_and_its_distribution_is_recorded(endless, adapters, oracle):
    sequences = [[10, 11, 12], [10, 20, 12], [30, 12]]
    prompt = prompts(1, seed=4)[0]
    batcher = Batcher(endless, adapters)
    finished = run(
        batcher,
        [asking(id, prompt, Sampling(max_tokens=9), choices=Choices(sequences)) for id in range(40)]
        + [asking(100, prompt, Sampling(max_tokens=3))],
    )
    free = finished.pop(100)
    assert free.allowed == []
    np.testing.assert_allclose(free.logprobs, oracle.logprobs(prompt, free.tokens), atol=1e-4)
    assert len({tuple(end.tokens) for end in finished.values()}) > 1
    for end in finished.values():
        assert end.tokens in sequences
        assert end.stop_reason is StopReason.STOP
        place = [next(s for s in sequences if s[: n + 1] == end.tokens[: n + 1]) for n in range(len(end.tokens))]
        assert len(place) == len(end.allowed)
        logits = oracle.logits([*prompt, *end.tokens])[len(prompt) - 1 : -1]
        for n, (token, allowed) in enumerate(zip(end.tokens, end.allowed, strict=True)):
            assert allowed == sorted({s[n] for s in sequences if s[:n] == end.tokens[:n]})
            expected = log_softmax(logits[n, allowed])[allowed.index(token)]
            assert end.logprobs[n] == pytest.approx(expected, abs=1e-4)


def test_a_bias_and_a_penalty_shape_their_own_row_only(endless, adapters, oracle):
    prompt = prompts(1, seed=5)[0]
    bias = ((50, 3.0), (60, -2.0))
    penalised = Sampling(max_tokens=6, repetition_penalty=1.5)
    finished = run(
        Batcher(endless, adapters),
        [
            asking(0, prompt, Sampling(max_tokens=6), bias=bias),
            asking(1, prompt, penalised),
            asking(2, prompt, Sampling(max_tokens=6)),
        ],
    )
    for id, end in finished.items():
        logits = oracle.logits([*prompt, *end.tokens])[len(prompt) - 1 : -1]
        for n, row in enumerate(logits):
            if id == 0:
                for token, value in bias:
                    row[token] += value
            if id == 1:
                for token in {*prompt, *end.tokens[:n]}:
                    row[token] = row[token] / 1.5 if row[token] > 0 else row[token] * 1.5
        expected = log_softmax(logits, axis=-1)[np.arange(6), end.tokens]
        np.testing.assert_allclose(end.logprobs, expected, atol=1e-4)


def test_a_deadline_ends_a_request_with_what_it_has_wherever_it_is(endless, adapters):
    clock = Clock()
    batcher = Batcher(endless, adapters, rows=2, chunk=16, clock=clock)
    forever = Sampling(max_tokens=200)
    batcher.add(asking(0, [5], forever, deadline=10.0))
    batcher.add(asking(1, range(3, 150), forever, deadline=10.0))  # longer than a chunk
    batcher.add(asking(2, [7], forever, deadline=10.0))  # waits for a row
    batcher.add(asking(3, [8], forever))
    for _ in range(2):
        assert batcher.tick().finished == []
    clock.now = 10.0
    ended = {end.id: end for end in batcher.tick().finished}
    assert {id: end.stop_reason for id, end in ended.items()} == dict.fromkeys(range(3), StopReason.DEADLINE)
    assert [len(ended[id].tokens) for id in range(3)] == [2, 0, 0]
    assert len(ended[0].logprobs) == len(ended[0].versions) == 2
    last = run(batcher)
    assert last.keys() == {3}
    assert len(last[3].tokens) == 200


def test_a_deadline_after_the_end_changes_nothing(endless, adapters):
    clock = Clock()
    batcher = Batcher(endless, adapters, clock=clock)
    run(batcher, [asking(0, [5], deadline=10.0)])
    clock.now = 20.0
    end = run(batcher, [asking(1, [5], deadline=30.0)])[1]
    assert end.stop_reason is StopReason.LENGTH


def test_cancelling_wins_over_a_deadline_that_has_passed(endless, adapters):
    batcher = Batcher(endless, adapters, clock=lambda: 99.0)
    batcher.add(asking(0, [5], deadline=1.0))
    batcher.cancel(0)
    assert batcher.tick().finished[0].stop_reason is StopReason.CANCELLED


def test_a_long_prompt_can_be_cancelled_half_way_and_the_next_one_begins(endless, adapters, oracle):
    batcher = Batcher(endless, adapters, chunk=16)
    first, second = prompts(2, seed=6, shortest=100, longest=101)
    batcher.add(request(0, first))
    batcher.add(request(1, second))
    batcher.tick()
    batcher.cancel(0)
    finished = run(batcher)
    assert (finished[0].stop_reason, finished[0].tokens) == (StopReason.CANCELLED, [])
    assert finished[1].tokens == oracle.greedy(second, 12)


def test_a_dropped_players_long_prompt_fails_by_name(endless, adapters):
    batcher = Batcher(endless, adapters, chunk=16)
    long = prompts(1, seed=7, shortest=100, longest=101)[0]
    batcher.add(request(0, long, player="red"))
    batcher.tick()
    adapters.drop("red")
    assert "'red' was dropped" in str(run(batcher)[0].error)


def test_short_requests_finish_beside_a_long_prompt_at_little_more_than_its_share(endless, adapters):
    """In ticks of equal cost: the long prompt's chunks come on top, and the bound is what they may cost."""
    batcher = Batcher(endless, adapters, chunk=32)
    long = prompts(1, seed=8, shortest=240, longest=241)[0]
    batcher.add(request(0, long, Sampling(max_tokens=1)))
    batcher.tick()
    batcher.add(request(1, [5, 6], Sampling(max_tokens=8)))
    ticks = 0
    while 1 not in {end.id for end in batcher.tick().finished}:
        ticks += 1
    assert ticks == 7  # a token every tick, from the first on
    assert batcher.stats.computed < 240
    assert run(batcher)[0].stop_reason is StopReason.LENGTH


def test_while_a_player_is_held_others_go_on_and_nothing_is_lost(endless, adapters):
    batcher = Batcher(endless, adapters)
    batcher.add(request(0, [5], Sampling(max_tokens=4), "red"))
    batcher.tick()
    batcher.hold("red")
    batcher.add(request(1, [6], Sampling(max_tokens=4), "red"))
    batcher.add(request(2, [7], Sampling(max_tokens=9), "blue"))
    seen = set()
    for _ in range(20):
        seen |= {end.id for end in batcher.tick().finished}
        assert batcher.speaks("red") == (0 not in seen)
    assert seen == {0, 2}
    batcher.release("red")
    assert run(batcher)[1].stop_reason is StopReason.LENGTH
