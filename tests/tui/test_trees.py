"""Trees of episodes on the wall: children under their parent, folded and unfolded, and what a filter leaves."""

from __future__ import annotations

import pytest

from engine.events import EpisodeFinished, EpisodeStarted
from engine.types import GenerateResult, Rollout
from tests.tui.clock import Clock
from tui.state import Store
from tui.views import EpisodeView
from tui.wall.rows import SETTLE, Rows
from tui.wall.trees import forest, parent_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(lambda _: "", clock)


def begin(store: Store, *ids: str) -> None:
    store.fold([EpisodeStarted(name, "t", name.rpartition(".")[0] or None, True, {}) for name in ids])


def end(store: Store, *ids: str, **rewards: float) -> None:
    store.fold([EpisodeFinished(GenerateResult(Rollout(name, "t", rewards=rewards))) for name in ids])


def test_children_stand_under_their_parent_in_the_order_of_their_numbers(store: Store) -> None:
    begin(store, "1", "2", "1.10", "2.0", "1.2", "1.2.0")
    rows = Rows()
    rows.update(store)
    assert rows.ids == ["1", "1.2", "1.2.0", "1.10", "2", "2.0"]
    assert rows.row("1.10") == 3


def test_a_parent_whose_beginning_was_missed_is_told_by_the_id() -> None:
    assert parent_of(EpisodeView("1.2.0")) == "1.2"
    assert parent_of(EpisodeView("eval-3/random/4.0")) == "eval-3/random/4"
    assert [parent_of(EpisodeView(name)) for name in ("17", "eval-3/gpt-3.5/2", "x.")] == [None] * 3


def test_a_child_whose_parent_is_not_known_and_one_that_is_its_own_are_roots() -> None:
    views = {name: EpisodeView(name, parent=parent) for name, parent in (("1.0", "1"), ("c", "c"))}
    assert {view.id for view in forest(views).roots} == {"1.0", "c"}


def test_folding_hides_what_is_below_counts_it_and_stays_while_others_come(store: Store) -> None:
    begin(store, "1", "1.0", "1.1", "1.1.0", "2")
    rows = Rows()
    rows.update(store)
    assert rows.fold("1") == "1"
    begin(store, "1.2")
    rows.update(store)
    assert rows.ids == ["1", "2"]
    assert rows.away == 4
    rows.unfold("1")
    rows.update(store)
    assert rows.ids == ["1", "1.0", "1.1", "1.1.0", "1.2", "2"]
    assert rows.away == 0


def test_folding_at_a_leaf_folds_its_parent(store: Store) -> None:
    begin(store, "1", "1.0", "1.1")
    rows = Rows()
    rows.update(store)
    assert rows.fold("1.1") == "1"
    rows.update(store)
    assert rows.ids == ["1"]


def test_folding_all_folds_trees_that_come_later_too(store: Store) -> None:
    begin(store, "1", "1.0")
    rows = Rows()
    rows.update(store)
    rows.fold_all()
    begin(store, "2", "2.0")
    rows.update(store)
    assert rows.ids == ["1", "2"]
    rows.unfold("2")
    rows.update(store)
    assert rows.ids == ["1", "2", "2.0"]
    rows.fold_all()
    rows.update(store)
    assert rows.ids == ["1", "1.0", "2", "2.0"]


def test_a_tree_keeps_its_seat_until_all_of_it_has_ended(store: Store, clock: Clock) -> None:
    begin(store, "1", "1.0", "2")
    rows = Rows()
    rows.update(store)
    end(store, "1")
    clock.now = SETTLE + 1
    begin(store, "3")
    rows.update(store)
    assert rows.ids == ["1", "1.0", "2", "3"]
    end(store, "1.0")
    clock.now = 2 * SETTLE + 2
    begin(store, "4")
    rows.update(store)
    assert rows.ids == ["4", "2", "3"]


def test_a_filter_shows_all_that_meets_it_the_newest_first(store: Store, clock: Clock) -> None:
    for number in range(20):
        clock.now = number
        begin(store, f"{number}")
        end(store, f"{number}", A=-1.0 if number % 5 == 0 else 1.0)
    rows = Rows()
    rows.update(store, (), lambda episode: episode.rewards.get("A", 0) < 0)
    assert rows.ids == ["15", "10", "5", "0"]


def test_under_a_filter_a_tree_keeps_the_way_to_what_was_found(store: Store) -> None:
    begin(store, "1", "1.0", "1.1", "1.1.0", "2", "2.0")
    rows = Rows()
    rows.update(store, (), lambda episode: episode.id == "1.1.0")
    assert rows.ids == ["1", "1.1", "1.1.0"]
    assert rows.context == {"1", "1.1"}
    rows.fold("1")
    rows.update(store, (), lambda episode: episode.id == "1.1.0")
    assert (rows.ids, rows.found) == (["1"], 1)


def test_of_what_plays_the_rows_keep_still_under_a_filter(store: Store, clock: Clock) -> None:
    begin(store, "a", "b", "c")
    rows = Rows()
    rows.update(store, (), lambda episode: episode.live)
    before = list(rows.ids)
    end(store, "b")
    clock.now = SETTLE / 2
    begin(store, "d")
    rows.update(store, (), lambda episode: episode.live)
    assert rows.ids == ["d" if name == "b" else name for name in before]
