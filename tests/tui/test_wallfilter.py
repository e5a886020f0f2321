"""The wall's filter: what each term lets through, and what it says of one without a sense."""

from __future__ import annotations

import pytest

from engine.reading.query import QueryError
from engine.reading.query import parse as parse_search
from tui.state import Store
from tui.views import EpisodeView, TurnView
from tui.wall.filter import parse


@pytest.fixture
def store() -> Store:
    return Store(lambda tokens: "".join(map(chr, tokens)), lambda: 0.0)


def episode(name: str = "1", **more: object) -> EpisodeView:
    made = EpisodeView(name, "debate", roles={"Pro": "policy", "Con": "base"}, ended=1.0)
    made.turns = [
        TurnView(0, "Pro", text="Taxes are a multiple of four, naïve friend."),
        TurnView(1, "Con", text="Forfeit!", illegal=True, messages=[{"role": "user", "content": "What say you?"}]),
    ]
    made.rewards = {"Pro": 1.0, "Con": -1.0}
    made.step = 12
    for key, value in more.items():
        setattr(made, key, value)
    return made


def shows(text: str, store: Store, view: EpisodeView | None = None) -> bool:
    return parse(text).matches(view or episode(), store)


@pytest.mark.parametrize(
    "text",
    [
        "", "taxes", "TAXES", "tax*", '"multiple of four"', "naive", "illegal", "ended", "training", "role:pro",
        "role:Con reward<0", "reward>=1", "reward=-1", "reward<−0.5", "player:base", "task:debate", "type:debate",
        "step:12", "step:10-12", "step:10-", "taxes -forfeit", "role:Con illegal", "what say", "...",
    ],
)  # fmt: skip
def test_it_lets_through(text: str, store: Store) -> None:
    assert shows(text, store)


@pytest.mark.parametrize(
    "text",
    [
        "tax", "prices", '"of multiple"', "live", "failed", "eval", "role:Judge", "role:Pro reward<0", "reward>1",
        "player:random", "task:nim", "step:13-", "step:11", "forfeit -forfeit", "role:Pro illegal", "taxes forfeit",
    ],
)  # fmt: skip
def test_it_keeps_out(text: str, store: Store) -> None:
    assert not shows(text, store)


@pytest.mark.parametrize("text", ["role:", "step:x", "reward<much"])
def test_a_term_without_a_sense_is_told_as_the_search_tells_it(text: str) -> None:
    with pytest.raises(QueryError) as here:
        parse(text)
    with pytest.raises(QueryError) as there:
        parse_search(text)
    assert f"{here.value}" == f"{there.value}"


def test_a_role_of_one_of_several_tasks_is_known_by_its_own_name(store: Store) -> None:
    view = episode(type="nim/game", roles={"nim/First": "policy"}, turns=[], rewards={"nim/First": 1.0})
    assert shows("role:First reward>0 task:nim", store, view)
    assert shows("type:game", store, view)


def test_live_and_failed_and_evaluations(store: Store) -> None:
    assert shows("live", store, episode(ended=None))
    assert shows("failed", store, episode(error="KeyError"))
    assert shows("eval", store, episode("eval-3/1"))
    assert not shows("training", store, episode("eval-3/1"))


def test_what_is_being_said_is_looked_at_again_when_it_grows(store: Store) -> None:
    view = EpisodeView("1", roles={"A": "policy"}, turns=[TurnView(0, "A", tokens=list(b"I ta"))])
    wanted = parse("take")
    assert not wanted.matches(view, store)
    view.turns[0].tokens += list(b"ke two")
    view.revision += 1
    assert wanted.matches(view, store)


def test_what_it_remembers_is_bounded_by_what_is_known(store: Store) -> None:
    wanted = parse("live")
    for number in range(1000):
        wanted.matches(EpisodeView(f"{number}"), store)
        wanted.forget(store)
    assert len(wanted._known) <= 65
