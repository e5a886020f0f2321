"""The wall's rows keep still."""

from __future__ import annotations

import pytest

from engine.events import EpisodeFinished, EpisodeStarted
from engine.types import GenerateResult, Rollout
from tests.tui.clock import Clock
from tui.state import Store
from tui.wall.rows import SETTLE, SPARE, STALE, Rows


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(lambda _: "", clock)


def begin(store: Store, *ids: str) -> None:
    store.fold([EpisodeStarted(name, "nim", None, True, {}) for name in ids])


def end(store: Store, *ids: str) -> None:
    store.fold([EpisodeFinished(GenerateResult(Rollout(name, "nim"))) for name in ids])


def test_an_episode_keeps_its_row_while_others_come_and_go(store: Store, clock: Clock) -> None:
    rows = Rows()
    begin(store, "a", "b", "c")
    rows.update(store)
    end(store, "b")
    clock.now = SETTLE + 1
    begin(store, "d")
    rows.update(store)
    assert rows.ids == ["a", "d", "c"]
    assert (rows.row("a"), rows.row("d"), rows.row("b")) == (0, 1, None)


def test_one_that_just_ended_stays_while_there_is_room(store: Store) -> None:
    rows = Rows()
    begin(store, "a", "b")
    rows.update(store)
    end(store, "a")
    begin(store, "c")
    rows.update(store)
    assert rows.ids == ["a", "b", "c"]


def test_what_plays_gathers_at_the_top(store: Store, clock: Clock) -> None:
    rows = Rows()
    begin(store, "a", "b", "c")
    rows.update(store)
    end(store, "c")
    clock.now = 1
    end(store, "a")
    clock.now = 3
    begin(store, "d")
    rows.update(store)
    assert rows.ids == ["d", "b", "c"]


def test_a_batch_that_ends_at_once_is_followed_by_the_next_in_its_rows(store: Store) -> None:
    rows = Rows()
    for batch in range(5):
        names = [f"{batch}-{number}" for number in range(50)]
        begin(store, *names)
        rows.update(store)
        assert all(rows.row(name) is not None for name in names)
        end(store, *names)
    assert len(rows) == 50 + SPARE


def test_rows_do_not_pile_up_when_episodes_end_in_a_hurry(store: Store) -> None:
    rows = Rows()
    for number in range(200):
        begin(store, f"{number}")
        rows.update(store)
        end(store, f"{number}")
    assert len(rows) <= 1 + SPARE + 1


def test_the_row_being_read_is_never_taken(store: Store, clock: Clock) -> None:
    rows = Rows()
    begin(store, "a")
    rows.update(store, ["a"])
    end(store, "a")
    for number in range(50):
        clock.now += 10
        begin(store, f"{number}")
        rows.update(store, ["a"])
        end(store, f"{number}")
    assert rows.row("a") == 0


def test_rows_at_the_end_go_once_nobody_has_used_them_for_a_while(store: Store, clock: Clock) -> None:
    rows = Rows()
    begin(store, *(f"eval-1/{number}" for number in range(100)))
    rows.update(store)
    end(store, *(f"eval-1/{number}" for number in range(100)))
    clock.now = STALE + 1
    begin(store, "a")
    rows.update(store)
    rows.update(store)
    assert rows.ids == ["a"]


def test_a_new_wall_of_a_run_that_rests_shows_what_was_played_last(store: Store) -> None:
    begin(store, "a", "b", "c")
    end(store, "b", "a", "c")
    rows = Rows()
    rows.update(store)
    assert rows.ids == ["c", "a", "b"]
    begin(store, "d")
    rows.update(store)
    assert "d" in rows.ids
