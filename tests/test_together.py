"""Rewards that only a comparison gives: added before anyone is told that an episode is over, or none at all."""

from __future__ import annotations

import math

import pytest

from engine import Arena, Episode, EpisodeRequest, Role, Rubric, SingleTurnEpisode
from engine.events import EpisodeFinished
from engine.inference.scripted import ScriptedClient


class Say(SingleTurnEpisode):
    role = "Writer"

    def prompt(self, artifact):
        return artifact


def short(rollout, arena):
    return {"Writer": -0.25}


class Contest(Episode):
    """Two writers; `compare` says what each gets."""

    def __init__(self, compare):
        super().__init__()
        self.compare = compare

    async def rollout(self, arena, artifact, state):
        async def ranking(results):
            arena_saw = [result.rewards for result in results]
            assert arena_saw == [{"Writer": -0.25}] * 2  # by their own rubric
            await arena.call_model("an oracle may be asked")
            await arena.generate_rollouts([EpisodeRequest("battle", "and battles held")])
            return self.compare(results)

        requests = [EpisodeRequest("say", "hello")] * 2
        state.child_results = await arena.generate_rollouts(requests, together=ranking)
        return state


def arena_of(compare, *, scope="", **options):
    told = []
    whole = Arena(ScriptedClient(lambda messages, *_: "hi", **options), on_event=told.append)
    arena = whole.within(scope)
    arena.add_role(Role("Writer"))
    arena.add_episode("say", Say(Rubric([short])))
    arena.add_episode("battle", Say())
    arena.add_episode("contest", Contest(compare))
    return whole, told


async def play(arena, scope=""):
    [result] = await arena.generate_rollouts([EpisodeRequest("contest", task=scope)])
    return result


@pytest.mark.parametrize("lockstep", [False, True])
@pytest.mark.parametrize("scope", ["", "one"])
async def test_what_is_compared_is_told_once_with_all_its_rewards(scope, lockstep):
    arena, told = arena_of(lambda results: [{"Writer": 1.0}, {"Writer": -1.0}], scope=scope, lockstep=lockstep)
    result = await play(arena, scope)
    role = f"{scope}/Writer" if scope else "Writer"
    assert [child.rewards for child in result.children] == [{role: 0.75}, {role: -1.25}, {}]
    assert result.children[0].rollout.breakdown == {"short": {role: -0.25}, "ranking": {role: 1.0}}
    over = [event.result for event in told if isinstance(event, EpisodeFinished)]
    assert [(r.rollout.id, r.rewards.get(role)) for r in over] == [
        ("0.2", None), ("0.0", 0.75), ("0.1", -1.25), ("0", None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "unscored"), [(None, "ranking"), ({"Writer": math.nan}, "ranking: nan for Writer")]
)
async def test_no_judgement_takes_the_other_rewards_too(given, unscored):
    arena, _ = arena_of(lambda results: [given, {"Writer": 1.0}])
    result = await play(arena)
    first, second = (child.rollout for child in result.children[:2])
    assert (first.unscored, first.rewards) == (unscored, {})
    assert (second.unscored, second.rewards) == (None, {"Writer": 0.75})


@pytest.mark.parametrize("compare", [lambda results: 1 / 0, lambda results: [{"Writer": 1.0}]])
async def test_a_comparison_that_fails_is_the_parents_error_and_leaves_nothing_scored(compare):
    arena, told = arena_of(compare)
    result = await play(arena)
    assert result.rollout.error
    assert len([event for event in told if isinstance(event, EpisodeFinished)]) == 4
    assert [child.rollout.unscored for child in result.children] == ["ranking", "ranking", None]
    assert arena.records([result]) == []


async def test_who_failed_is_left_out():
    class Fails(Say):
        async def rollout(self, arena, artifact, state):
            raise RuntimeError("no")

    async def ranking(results):
        return [{"Writer": 1.0}] * len(results)

    arena, _ = arena_of(None)
    arena.add_episode("fails", Fails())
    good, bad = await arena.generate_rollouts(
        [EpisodeRequest("battle", "hi"), EpisodeRequest("fails", "hi")], together=ranking
    )
    assert good.rewards == {"Writer": 1.0}
    assert (bad.rollout.error, bad.rewards) == ("RuntimeError: no", {})
