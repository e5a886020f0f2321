"""How often the run screen is drawn."""

from __future__ import annotations

import pytest

from tests.tui.clock import Clock
from tui.cadence import AWAKE, MOST, ROOM, SLOWEST, STILL, Cadence


class Computed:
    """Seconds that a thread has computed."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def frames(seconds: float, cost: float, *, load: float = 0.0, stirred: bool = True, tick: float = 0.05) -> int:
    """How many are drawn while each takes so much of the thread, and all else that share, at 20 ticks a second."""
    clock, computed = Clock(), Computed()
    cadence, drawn = Cadence(clock, computed), 0
    for _ in range(round(seconds / tick)):
        if stirred:
            cadence.stir()
        if not cadence.is_early and cadence.due():
            cadence.begin()
            computed.seconds += cost
            cadence.painted()
            drawn += 1
        clock.now += tick
        computed.seconds += load * tick
    return drawn


def test_cheap_frames_come_with_every_tick():
    assert frames(5.0, cost=0.001) == 100


@pytest.mark.parametrize("load", [0.0, 0.05, 0.1, 0.25])
@pytest.mark.parametrize("cost", [0.005, 0.01, 0.02])
def test_dear_frames_take_no_more_than_a_share_of_the_thread_that_falls_with_its_load(cost, load):
    drawn = frames(40.0, cost, load=load)
    share = min(MOST, ROOM / load) if load else MOST
    fewest, most = 40.0 / SLOWEST, min(40.0 / 0.05, 40.0 * share / cost)
    assert drawn <= max(1.05 * most, fewest) + 5  # of what they cost it knows nothing at first
    assert drawn >= max(0.6 * most, 0.9 * fewest)


def test_however_dear_a_frame_is_the_screen_goes_on():
    assert frames(20.0, cost=3.0) >= 0.9 * 20.0 / SLOWEST


def test_where_nothing_happens_only_the_clocks_are_drawn():
    assert frames(20.0, cost=0.001, stirred=False) <= 20.0 / STILL + 20 * AWAKE


def test_what_happens_wakes_it_at_once():
    clock, computed = Clock(), Computed()
    cadence = Cadence(clock, computed)
    clock.now += 10 * AWAKE
    assert cadence.due()
    clock.now += 0.05
    assert not cadence.due()
    cadence.stir()
    assert cadence.due()
