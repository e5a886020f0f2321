"""How often the run screen is drawn."""

from __future__ import annotations

from tests.tui.clock import Clock
from tui.cadence import AWAKE, SHARE, SLOWEST, Cadence


class Computed:
    """Seconds that a thread has computed."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def frames(seconds: float, cost: float, *, stirred: bool = True, tick: float = 0.05) -> int:
    """How many are drawn while each takes so much of the thread, at 20 ticks a second."""
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
    return drawn


def test_cheap_frames_come_with_every_tick():
    assert frames(5.0, cost=0.001) == 100


def test_dear_frames_take_no_more_than_their_share_of_the_thread():
    for cost in (0.005, 0.01, 0.02):
        drawn = frames(20.0, cost)
        assert drawn * cost <= 1.05 * 20.0 * SHARE + 3 * cost
        assert drawn >= 0.6 * 20.0 * SHARE / cost


def test_however_dear_a_frame_is_the_screen_goes_on():
    assert frames(20.0, cost=3.0) >= 0.9 * 20.0 / SLOWEST


def test_where_nothing_happens_only_the_clocks_are_drawn():
    assert frames(20.0, cost=0.001, stirred=False) <= 20.0 / SLOWEST + 20 * AWAKE


def test_what_happens_wakes_it_at_once():
    clock, computed = Clock(), Computed()
    cadence = Cadence(clock, computed)
    clock.now += 10 * AWAKE
    assert cadence.due()
    clock.now += 0.05
    assert not cadence.due()
    cadence.stir()
    assert cadence.due()
