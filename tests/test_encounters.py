"""Who met whom, read from a run's record in pages."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from engine.events import EvaluationFinished
from engine.reading.encounters import Encounter, Page
from engine.store import Store
from engine.types import GenerateResult, Rollout


def result(name: str, players: dict[str, str], rewards: dict[str, float], **more: object) -> GenerateResult:
    return GenerateResult(Rollout(name, "nim", rewards=rewards, players=players, **more))  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "run") as made:
        yield made


def everything(store: Store, limit: int) -> list[Encounter]:
    page, met = store.encounters(limit=limit), []
    while page.met or page.place:
        met += page.met
        place, page = page.place, store.encounters(after=page.place, limit=limit)
        if page.place == place:
            break
    return met


AGAINST = {"First": "policy", "Second": "random"}
WON = {"First": 1.0, "Second": -1.0}


@pytest.mark.parametrize("limit", [1, 2, 512])
def test_only_scored_episodes_of_different_players_count_however_they_are_read(store: Store, limit: int) -> None:
    itself = dict.fromkeys(AGAINST, "policy")
    store.record_step(1, 1, 0.1, {}, [result("0", itself, WON), result("1", itself, WON)])
    store.record_evaluation(
        EvaluationFinished(1, {}),
        [
            result("eval-1/0", AGAINST, WON),
            result("eval-1/1", AGAINST, {}, error="KeyError"),
            result("eval-1/2", AGAINST, {}, unscored="judge"),
            result("eval-1/3", AGAINST, {"First": math.nan, "Second": 0.0}),
            result("eval-1/4", AGAINST, {"First": 0.0}),
        ],
    )
    assert everything(store, limit) == [Encounter("eval-1/0", 1, True, "nim", {"policy": 1.0, "random": -1.0})]


def test_of_a_player_in_several_roles_it_is_the_mean(store: Store) -> None:
    players = {"A": "policy", "B": "base", "C": "policy"}
    store.record_step(3, 3, 0.1, {}, [result("0", players, {"A": 1.0, "B": 0.5, "C": 0.0})])
    (met,) = everything(store, 512)
    assert (met.step, met.evaluation, met.got) == (3, False, {"policy": 0.5, "base": 0.5})


def test_who_read_all_goes_on_where_it_was(store: Store) -> None:
    store.record_step(1, 1, 0.1, {}, [result("0", AGAINST, WON)])
    place = store.encounters().place
    assert store.encounters(after=place) == Page([], place)
    store.record_step(2, 2, 0.1, {}, [result("1", AGAINST, WON)])
    assert [met.id for met in store.encounters(after=place).met] == ["1"]


def test_what_an_older_version_did_not_note_is_counted(store: Store) -> None:
    older = [result(f"eval-1/{n}", {"First": "policy"}, WON) for n in range(3)]
    store.record_evaluation(EvaluationFinished(1, {}), [*older, result("eval-1/3", AGAINST, WON)])
    store.record_step(1, 1, 0.1, {}, [result("0", {"First": "policy"}, WON)])  # it gave up before Second was asked
    assert store.encounters(limit=2).untold == 2
    assert (store.encounters().untold, [met.id for met in store.encounters().met]) == (3, ["eval-1/3"])
