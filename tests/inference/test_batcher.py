"""The batcher against mlx-lm alone, one row at a time: greedy tokens, log-probabilities, stops, versions."""

from __future__ import annotations

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import softmax

from engine.inference.batcher import Batcher
from engine.inference.requests import Finished, Request
from engine.inference.rows import Rows
from engine.inference.sampling import uniforms
from engine.types import Sampling, StopReason
from tests.inference.conftest import Oracle, moved, save_adapter
from tests.tiny import END

GREEDY = Sampling(temperature=0.0, max_tokens=12)


def prompts(count: int, seed: int = 0, shortest: int = 1, longest: int = 40) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 260, rng.integers(shortest, longest)).tolist() for _ in range(count)]


def request(id: int, prompt, sampling=GREEDY, player="base", key=None, stream=False) -> Request:
    return Request(id, list(prompt), sampling, player, 1000 + id if key is None else key, stream)


def run(batcher: Batcher, requests=(), limit: int = 1000) -> dict[int, Finished]:
    """Add requests and tick until everything is finished."""
    for each in requests:
        batcher.add(each)
    finished = {}
    for _ in range(limit):
        if not len(batcher):
            return finished
        for end in batcher.tick().finished:
            assert end.id not in finished
            finished[end.id] = end
    raise AssertionError(f"{len(batcher)} requests never finished")


@pytest.fixture
def endless(lm):
    """A model for which no token ends a turn."""
    lm.eos_tokens = frozenset()
    return lm


def test_greedy_rows_that_join_and_leave_are_mlx_lms_own_generation(endless, adapters, oracle):
    batcher = Batcher(endless, adapters, rows=5, prefill_tokens=60)
    asked = prompts(14)
    finished = {}
    for id, prompt in enumerate(asked):  # a new one every tick: rows of every age side by side
        batcher.add(request(id, prompt, Sampling(temperature=0.0, max_tokens=3 + id % 7)))
        finished |= {end.id: end for end in batcher.tick().finished}
    finished |= run(batcher)
    for id, prompt in enumerate(asked):
        assert finished[id].tokens == oracle.greedy(prompt, 3 + id % 7), id
        assert finished[id].stop_reason is StopReason.LENGTH


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_padded_short_or_late_row_has_the_logprobs_it_has_alone(endless, adapters, oracle, temperature):
    batcher = Batcher(endless, adapters, rows=6, prefill_tokens=100)
    sampling = [Sampling(temperature, max_tokens=4 + id % 9) for id in range(20)]
    asked = prompts(20, seed=3)
    finished = {}
    for id, prompt in enumerate(asked):
        batcher.add(request(id, prompt, sampling[id]))
        if id % 3 == 0:
            finished |= {end.id: end for end in batcher.tick().finished}
    finished |= run(batcher)
    for id, prompt in enumerate(asked):
        end = finished[id]
        assert len(end.tokens) == len(end.logprobs) == len(end.versions) == sampling[id].max_tokens
        expected = oracle.logprobs(prompt, end.tokens, temperature)
        np.testing.assert_allclose(end.logprobs, expected, atol=1e-4)


def test_each_row_of_a_mixed_batch_speaks_with_its_own_adapter(endless, adapters, folder, tmp_path):
    oracles = {"base": Oracle(folder)}
    for seed, player in enumerate(("red", "blue"), start=1):
        oracles[player] = Oracle(folder, save_adapter(tmp_path / player, adapters, moved(adapters, seed)))
    asked = prompts(9, seed=5)
    players = ["base", "red", "blue"] * 3
    finished = run(
        Batcher(endless, adapters),
        [
            request(id, prompt, Sampling(max_tokens=6), player)
            for id, (prompt, player) in enumerate(zip(asked, players, strict=True))
        ],
    )
    for id, (prompt, player) in enumerate(zip(asked, players, strict=True)):
        expected = oracles[player].logprobs(prompt, finished[id].tokens)
        np.testing.assert_allclose(finished[id].logprobs, expected, atol=1e-4)
        assert set(finished[id].versions) == {{"base": 0, "red": 1, "blue": 2}[player]}


def test_prompts_that_share_their_beginning_or_are_equal_come_out_as_if_alone(
    endless, adapters, oracle, monkeypatch
):
    forwards = []
    hidden = endless.hidden
    monkeypatch.setattr(
        endless, "hidden", lambda tokens, cache=None: forwards.append(tokens.shape) or hidden(tokens, cache)
    )
    beginning = prompts(1, seed=9, shortest=100, longest=101)[0]
    asked = [beginning + prompt for prompt in prompts(6, seed=10, longest=9)]
    asked += [asked[0], asked[3], asked[0]]
    finished = run(
        Batcher(endless, adapters),
        [request(id, prompt, Sampling(max_tokens=5)) for id, prompt in enumerate(asked)],
    )
    assert forwards[0] == (1, 100)  # the beginning, once
    assert forwards[1][0] == 6  # what differs, each once
    for id, prompt in enumerate(asked):
        expected = oracle.logprobs(prompt, finished[id].tokens)
        np.testing.assert_allclose(finished[id].logprobs, expected, atol=1e-4)
    assert finished[0].tokens != finished[6].tokens  # equal prompts, yet other random keys


def test_a_long_prompt_computed_in_chunks_comes_out_as_if_whole(endless, adapters, oracle):
    asked = [prompts(1, seed=1, shortest=n, longest=n + 1)[0] for n in (7, 14, 15, 50, 3)]
    finished = run(Batcher(endless, adapters, chunk=7), [request(id, prompt) for id, prompt in enumerate(asked)])
    for id, prompt in enumerate(asked):
        assert finished[id].tokens == oracle.greedy(prompt, GREEDY.max_tokens)


def test_a_published_version_speaks_from_the_very_next_token(endless, adapters, folder, tmp_path):
    newer = moved(adapters, 77)
    after = Oracle(folder, save_adapter(tmp_path / "new", adapters, newer))
    batcher = Batcher(endless, adapters)
    prompt = prompts(1)[0]
    batcher.add(request(0, prompt, Sampling(max_tokens=4), "red"))
    batcher.tick()
    adapters.publish("red", newer, 5)
    batcher.add(request(1, prompt, Sampling(max_tokens=3), "red"))
    finished = run(batcher)
    assert finished[0].versions == [1, 5, 5, 5]
    assert finished[1].versions == [5, 5, 5]
    np.testing.assert_allclose(finished[1].logprobs, after.logprobs(prompt, finished[1].tokens), atol=1e-4)


def test_the_same_key_gives_the_same_tokens_whoever_the_neighbours_are(endless, adapters):
    prompt = prompts(1)[0]
    sampling = Sampling(temperature=0.9, max_tokens=10)
    alone = run(Batcher(endless, adapters), [request(0, prompt, sampling, key=42)])[0]
    others = [
        request(id, other, Sampling(top_k=id % 4, temperature=id % 3, max_tokens=id), "red" if id % 2 else "base")
        for id, other in enumerate(prompts(12, seed=8), start=1)
    ]
    crowded = run(
        Batcher(endless, adapters, rows=7), [*others[:6], request(0, prompt, sampling, key=42), *others[6:]]
    )
    assert crowded[0].tokens == alone.tokens
    np.testing.assert_allclose(crowded[0].logprobs, alone.logprobs, atol=1e-4)
    other_key = run(Batcher(endless, adapters), [request(0, prompt, sampling, key=43)])[0]
    assert other_key.tokens != alone.tokens


def test_each_token_is_where_its_own_random_number_falls_in_the_exact_distribution(endless, adapters, oracle):
    asked = prompts(6, seed=12)
    finished = run(
        Batcher(endless, adapters),
        [request(id, prompt, Sampling(max_tokens=8), key=id) for id, prompt in enumerate(asked)],
    )
    for id, prompt in enumerate(asked):
        tokens = finished[id].tokens
        u = uniforms(np.full(8, id, np.uint64), np.arange(8))
        below = np.cumsum(softmax(oracle.logits([*prompt, *tokens])[len(prompt) - 1 : -1], axis=-1), axis=-1)
        for place, token in enumerate(tokens):
            least = below[place, token - 1] if token else 0.0
            assert least - 1e-4 <= u[place] <= below[place, token] + 1e-4


def test_any_end_of_turn_token_stops_and_stays_in_the_record(lm, adapters, oracle):
    prompt = prompts(1)[0]
    natural = oracle.greedy(prompt, 12)
    second = natural[4]
    lm.eos_tokens = frozenset({END, second})
    end = run(Batcher(lm, adapters), [request(0, prompt)])[0]
    assert end.stop_reason is StopReason.STOP
    assert end.tokens == natural[: natural.index(second) + 1]
    assert len(end.logprobs) == len(end.versions) == len(end.tokens)


def test_an_end_of_turn_on_the_last_token_allowed_counts_as_a_stop(lm, adapters, oracle):
    greedy = [(prompt, oracle.greedy(prompt, 3)) for prompt in prompts(20)]
    prompt, tokens = next((prompt, tokens) for prompt, tokens in greedy if tokens[2] not in tokens[:2])
    lm.eos_tokens = frozenset({tokens[2]})
    end = run(Batcher(lm, adapters), [request(0, prompt, Sampling(temperature=0.0, max_tokens=3))])[0]
    assert end.stop_reason is StopReason.STOP


def test_a_full_context_ends_a_row_and_a_prompt_too_long_ends_at_once(endless, adapters):
    [long] = prompts(1, shortest=endless.context - 3, longest=endless.context - 2)
    finished = run(
        Batcher(endless, adapters),
        [request(0, long), request(1, [*long, 5, 5, 5]), request(2, long * 2), request(3, long[:4])],
    )
    assert [finished[id].stop_reason for id in range(4)] == [*[StopReason.CONTEXT] * 3, StopReason.LENGTH]
    assert [len(finished[id].tokens) for id in range(4)] == [3, 0, 0, 12]


def test_a_cancelled_request_ends_with_what_it_has(endless, adapters):
    batcher = Batcher(endless, adapters, rows=2)
    for id, prompt in enumerate(prompts(3)):
        batcher.add(request(id, prompt))
    batcher.tick()
    for id in (0, 2, 99):
        batcher.cancel(id)
    ended = {end.id: end for end in batcher.tick().finished}
    assert {id: (end.stop_reason, len(end.tokens)) for id, end in ended.items()} == {
        0: (StopReason.CANCELLED, 1),
        2: (StopReason.CANCELLED, 0),
    }
    assert run(batcher)[1].stop_reason is StopReason.LENGTH


def test_prefill_stays_within_the_budget_so_that_rows_in_flight_go_on(endless, adapters, monkeypatch):
    batcher = Batcher(endless, adapters, rows=50, prefill_tokens=64)
    batcher.add(request(0, prompts(1)[0], Sampling(max_tokens=50)))
    batcher.tick()
    computed = []
    hidden = endless.hidden

    def counted(tokens, cache=None):
        computed.append(tokens.shape[0] * tokens.shape[1] if tokens.shape[1] > 1 else 0)
        return hidden(tokens, cache)

    monkeypatch.setattr(endless, "hidden", counted)
    for id, prompt in enumerate(prompts(20, seed=4, shortest=5, longest=40), start=1):
        batcher.add(request(id, prompt, stream=False))
    ticks = 0
    while batcher.waiting:
        computed.clear()
        sampled = batcher.sampled
        batcher.tick()
        ticks += 1
        assert sum(computed) <= 64
        assert batcher.sampled > sampled
    assert ticks > 5


def test_no_more_rows_than_allowed_are_decoded(endless, adapters, monkeypatch):
    widths = []
    head = endless.head
    monkeypatch.setattr(endless, "head", lambda hidden: widths.append(hidden.shape[0]) or head(hidden))
    run(Batcher(endless, adapters, rows=4), [request(id, prompt) for id, prompt in enumerate(prompts(11))])
    assert max(widths) == 4


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "unasked"])
def test_streaming_requests_and_only_they_report_what_they_say_every_so_often(
    endless, adapters, monkeypatch, every, is_asked
):
    often, seldom = (every, 100) if is_asked else (0, every)
    monkeypatch.setattr("engine.inference.batcher.Rows", partial(Rows, oftenest=often, seldomest=seldom))
    now = 0.0
    batcher = Batcher(endless, adapters, clock=lambda: now)
    first, second = prompts(2)
    batcher.add(request(0, first, Sampling(max_tokens=8), stream=True))
    batcher.add(request(1, second))
    reports, finished = [], {}
    while len(batcher):
        if is_asked:
            batcher.report()
        tick = batcher.tick()
        reports.append(tick.tokens)
        finished |= {end.id: end for end in tick.finished}
        now += 1.0
    tokens, logprobs = finished[0].tokens, finished[0].logprobs
    assert len(tokens) == 8
    ends = range(1, 8, every)  # the last token comes with the end
    spoken = [(0, tokens[max(end - every, 0) : end], logprobs[max(end - every, 0) : end]) for end in ends]
    assert [report for tick in reports for report in tick] == spoken
    assert [len(report) for report in reports[:8]] == [int(n % every == 0) for n in range(7)] + [0]


def test_a_dropped_players_requests_fail_by_name_and_the_others_go_on(endless, adapters):
    batcher = Batcher(endless, adapters, rows=2)
    for id, (prompt, player) in enumerate(zip(prompts(4), ["red", "blue", "red", "blue"], strict=True)):
        batcher.add(request(id, prompt, player=player))
    batcher.tick()
    adapters.drop("red")
    adapters.publish("green", moved(adapters, 3), 9)  # takes over red's slot
    finished = run(batcher)
    for id in (0, 2):
        assert isinstance(finished[id].error, KeyError)
        assert "'red' was dropped" in str(finished[id].error)
    assert [finished[id].error for id in (1, 3)] == [None, None]


def test_requests_that_cant_be_run_are_refused_by_name(endless, adapters):
    batcher = Batcher(endless, adapters)
    for bad, error in (
        (request(0, [5], player="grey"), KeyError),
        (request(0, []), ValueError),
        (request(0, [5, 262]), ValueError),
        (request(0, [5], Sampling(max_tokens=0)), ValueError),
    ):
        with pytest.raises(error):
            batcher.add(bad)
    assert len(batcher) == 0


def test_weights_gone_bad_are_an_error_that_names_the_player(endless, adapters):
    broken = {name: array * 1e30 for name, array in moved(adapters, 1).items()}
    adapters.publish("red", broken, 2)
    batcher = Batcher(endless, adapters)
    batcher.add(request(0, prompts(1)[0], Sampling(max_tokens=3), "red"))
    with pytest.raises(FloatingPointError, match="red"):
        batcher.tick()
    assert batcher.clear() == [0]
    assert run(batcher, [request(1, prompts(1)[0])])[1].stop_reason is StopReason.LENGTH


def test_no_request_is_lost_whatever_comes_in_whatever_order(lm, adapters):
    lm.eos_tokens = frozenset(range(100, 130))  # an end every ten tokens or so
    rng = np.random.default_rng(11)
    for trial in range(6):
        batcher = Batcher(lm, adapters, rows=int(rng.integers(1, 9)), prefill_tokens=int(rng.integers(16, 200)))
        asked, finished, cancelled = {}, {}, set()
        while len(asked) < 40 or len(batcher):
            for _ in range(rng.integers(0, 6)):
                if len(asked) < 40:
                    length = int(rng.choice([1, 5, 30, 250, 256, 300]))
                    each = request(
                        len(asked),
                        rng.integers(3, 260, length),
                        Sampling(max_tokens=int(rng.integers(1, 20)), temperature=float(rng.integers(0, 3))),
                        str(rng.choice(["base", "red", "blue"])),
                    )
                    asked[each.id] = each
                    batcher.add(each)
            if asked and rng.random() < 0.2:
                cancelled.add(int(rng.integers(len(asked))))
                batcher.cancel(max(cancelled))
            if rng.random() < 0.1:
                adapters.publish("red", moved(adapters, trial), trial)
            for end in batcher.tick().finished:
                assert end.id not in finished
                finished[end.id] = end
        assert finished.keys() == asked.keys()
        for id, end in finished.items():
            assert len(end.tokens) == len(end.logprobs) == len(end.versions)
            assert len(end.tokens) <= asked[id].sampling.max_tokens
            stopped = bool(end.tokens) and end.tokens[-1] in lm.eos_tokens
            assert stopped == (end.stop_reason is StopReason.STOP)
            assert not set(end.tokens[:-1]) & lm.eos_tokens
            if end.stop_reason is StopReason.CANCELLED:
                assert id in cancelled


def test_the_cache_holds_nothing_once_all_rows_have_left(endless, adapters):
    batcher = Batcher(endless, adapters)
    run(batcher, [request(id, prompt) for id, prompt in enumerate(prompts(5))])
    mx.clear_cache()
    before = mx.get_active_memory()
    for wave in range(3):
        run(batcher, [request(10 * wave + id, prompt) for id, prompt in enumerate(prompts(8, seed=wave))])
    assert mx.get_active_memory() <= before + 4096


def test_a_player_published_asked_and_dropped_between_two_ticks_costs_only_its_own_requests(endless, adapters):
    batcher = Batcher(endless, adapters)
    batcher.add(request(0, [5, 6], player="red"))
    batcher.tick()
    adapters.publish("green", moved(adapters, 3), 1)
    batcher.add(request(1, [5, 6], player="green"))
    adapters.drop("green")
    finished = run(batcher)
    assert "green" in str(finished[1].error)
    assert finished[0].error is None
    assert len(finished[0].tokens) == GREEDY.max_tokens


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_arent_numbers_are_noticed_at_every_temperature(endless, adapters, temperature):
    huge = {name: array * 1e30 for name, array in moved(adapters, 1).items()}
    adapters.publish("red", huge, 2)
    batcher = Batcher(endless, adapters)
    batcher.add(request(0, [5, 6], Sampling(temperature, max_tokens=4), player="red"))
    with pytest.raises(FloatingPointError, match="red"):
        run(batcher)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("temperature", -1.0), ("temperature", float("nan")), ("top_p", 1.5), ("min_p", 2.0)),
        *(("repetition_penalty", 0.0), ("max_tokens", 0), ("top_k", -1)),
    ],
)
def test_a_setting_that_no_distribution_has_is_refused_by_name(endless, adapters, setting, value):
    batcher = Batcher(endless, adapters)
    with pytest.raises(ValueError, match=setting):
        batcher.add(request(0, [5, 6], Sampling(**{setting: value})))
    assert len(batcher) == 0


def test_tokens_beyond_the_tokenizers_add_nothing_to_a_text(endless, adapters):
    class Short:
        pieces = (b"a",) * 10

    batcher = Batcher(endless, adapters, tokenizer=Short())
    asked = request(0, [5, 6], Sampling(max_tokens=30))
    asked.stop = (b"aaa",)
    batcher.add(asked)
    assert len(run(batcher)[0].tokens) > 2
