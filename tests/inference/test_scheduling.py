"""Scheduling by its promises: bounded ticks, oldest first, long prompts at a fixed share of the time."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from engine.inference.requests import Request
from engine.inference.scheduling import LONG_SHARE, Costs, Scheduler
from engine.types import Sampling

CPU = Costs(forward=64, reach=1 << 40)
GPU = Costs(forward=1024, reach=1 << 40)


def asked(id: int, length: int, player: str = "p") -> Request:
    return Request(id, [id] * length, Sampling(), player, id)


def nothing(request: Request) -> int:
    return 0


def test_short_prompts_are_admitted_oldest_first_within_rows_and_budget():
    rng = np.random.default_rng(0)
    for _ in range(50):
        budget = int(rng.integers(64, 400))
        scheduler = Scheduler(budget, CPU)
        lengths = rng.integers(1, 64, 30).tolist()
        for id, length in enumerate(lengths):
            scheduler.add(asked(id, length))
        order = []
        while len(scheduler):
            free = int(rng.integers(1, 6))
            now = scheduler.admit(free, False, nothing).short
            assert 1 <= len(now) <= free
            assert len(now) * max(len(request.prompt) for request in now) <= budget
            order += [request.id for request in now]
        assert order == list(range(30))


def test_equal_prompts_of_one_player_count_once():
    scheduler = Scheduler(100, CPU)
    for id in range(10):
        scheduler.add(Request(id, [1] * 60, Sampling(), "p", id))
    assert len(scheduler.admit(10, False, nothing).short) == 10
    for id in range(4):
        scheduler.add(Request(id, [1] * 60, Sampling(), f"p{id}", id))
    assert len(scheduler.admit(10, False, nothing).short) == 1


def test_a_long_prompt_stands_in_nobodys_way_and_only_one_is_under_way():
    scheduler = Scheduler(8192, CPU, chunk=100)
    for id, length in enumerate([500, 10, 600, 20, 700]):
        scheduler.add(asked(id, length))
    first = scheduler.admit(8, False, nothing)
    assert first.long is not None
    assert (first.long.id, [request.id for request in first.short]) == (0, [1, 3])
    scheduler.add(asked(5, 10))
    assert [request.id for request in scheduler.admit(8, True, nothing).short] == [5]
    scheduler.reconsider()
    second = scheduler.admit(8, False, nothing)
    assert second.long is not None
    assert second.long.id == 2
    assert len(scheduler) == 1


def test_a_long_prompt_gets_the_next_free_row_in_the_order_of_asking():
    scheduler = Scheduler(8192, CPU, chunk=100)
    for id, length in enumerate([500, 10, 10]):
        scheduler.add(asked(id, length))
    arrivals = scheduler.admit(1, False, nothing)
    assert arrivals.long is not None
    assert arrivals.short == []


def test_a_prompt_is_as_long_as_what_is_left_of_it():
    scheduler = Scheduler(8192, CPU, chunk=100)
    scheduler.add(asked(0, 500))
    arrivals = scheduler.admit(1, False, lambda request: 450)
    assert [request.id for request in arrivals.short] == [0]


def test_nobody_waits_longer_than_those_before_need():
    """Whatever comes: after it was asked for, a request is passed by short ones only while it is long itself."""
    rng = np.random.default_rng(1)
    scheduler = Scheduler(200, CPU, chunk=100)
    long, began, queue = None, [], deque()
    for id in range(400):
        length = int(rng.choice([10, 50, 300]))
        scheduler.add(asked(id, length))
        queue.append(id)
        arrivals = scheduler.admit(3, long is not None, nothing)
        began += [request.id for request in arrivals.short]
        if arrivals.long is not None:
            long = [arrivals.long.id, 3]
            began.append(arrivals.long.id)
        if long is not None:
            long[1] -= 1
            if not long[1]:
                long = None
                scheduler.reconsider()
    while len(scheduler):
        arrivals = scheduler.admit(3, False, nothing)
        began += [request.id for request in (*arrivals.short, *([arrivals.long] if arrivals.long else []))]
        scheduler.reconsider()
    assert sorted(began) == list(range(400))
    for kind in (0, 1):
        lengths = np.random.default_rng(1).choice([10, 50, 300], 400)
        same = [id for id in began if (lengths[id] > 100) == kind]
        assert same == sorted(same)


@pytest.mark.parametrize("costs", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("rows", [1, 8, 128])
def test_beside_decoding_a_long_prompt_takes_its_share_of_the_time_and_no_more(costs, rows):
    scheduler = Scheduler(8192, costs)
    left, decoded, spent, largest = 4096, 0.0, 0.0, 0.0
    while left:
        scheduler.earn(rows, 0, True)
        decoded += costs.of(rows)
        count = scheduler.spend(left, 0, True)
        if count:
            left -= count
            spent += costs.of(count)
            largest = max(largest, costs.of(count))
            assert spent <= LONG_SHARE * decoded
    assert spent > 0.8 * LONG_SHARE * decoded
    assert largest <= max(3 * costs.of(rows), costs.of(32))  # no tick is much longer than others


def test_where_nobody_decodes_chunks_follow_each_other_and_are_owed():
    scheduler = Scheduler(8192, CPU)
    assert [scheduler.spend(2000, 512 * n, False) for n in range(3)] == [512, 512, 512]
    waited = 0
    while True:
        scheduler.earn(1, 0, True)
        if scheduler.spend(2000, 1536, True):
            break
        waited += 1
    assert waited == pytest.approx(CPU.of(512) / (LONG_SHARE * CPU.of(1)), abs=3)  # one chunk's worth, not three


def test_a_debt_is_paid_off_while_no_long_prompt_is_there_and_no_credit_is_saved_up():
    scheduler = Scheduler(8192, CPU)
    scheduler.spend(2000, 0, False)
    for _ in range(100):
        scheduler.earn(8, 0, False)
    assert scheduler.spend(2000, 0, True) == 0


def test_chunks_get_smaller_where_attention_makes_them_dearer():
    costs = Costs(forward=64, reach=500)
    sizes = []
    for columns in (0, 1000, 4000):
        scheduler = Scheduler(8192, costs)
        for _ in range(10):
            scheduler.earn(1, 0, True)
        sizes.append(scheduler.spend(4000, columns, True))
        assert costs.of(sizes[-1], columns) <= 10 * LONG_SHARE * costs.of(1)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1]


def test_a_held_players_requests_wait_without_losing_their_place():
    scheduler = Scheduler(8192, CPU)
    for id, player in enumerate(["a", "b", "a", "b"]):
        scheduler.add(asked(id, 5, player))
    scheduler.hold("a")
    assert [request.id for request in scheduler.admit(9, False, nothing).short] == [1, 3]
    scheduler.add(asked(4, 5, "b"))
    assert len(scheduler) == 3
    scheduler.release("a")
    assert [request.id for request in scheduler.admit(9, False, nothing).short] == [0, 2, 4]


def test_those_withdrawn_leave_wherever_they_wait():
    scheduler = Scheduler(8192, CPU)
    for id in range(6):
        scheduler.add(asked(id, 5, "ab"[id % 2]))
    scheduler.hold("a")
    scheduler.admit(1, False, nothing)
    assert [request.id for request in scheduler.remove(lambda request: request.id in (0, 1, 3))] == [0, 3]
    assert len(scheduler) == 3
