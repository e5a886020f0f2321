"""Rewards that only a comparison gives: added before anyone is told that an episode is over, or none at all."""

from __future__ import annotations

import math

import pytest

from engine import Arena, Episode, EpisodeRequest, Role, Rubric, SingleTurnEpisode
from engine.assembly import arena_of as configured
from engine.config import parse
from engine.events import EpisodeFinished
from engine.inference.scripted import ScriptedClient
from engine.mixture import task_of
from engine.rubric import RewardSetting


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


@pytest.mark.parametrize("name", ["head_to_head", "tournament"])
@pytest.mark.parametrize("scope", ["", "x/"])
async def test_a_comparison_is_weighed_by_the_configuration_and_only_where_it_trains(name, scope):
    played = {"name": name, "options": {"decided_by": "largest"}}
    compares = {"head_to_head": "duel", "tournament": "standing"}[name]
    table = {compares: {"weight": 3.0, "roles": [f"{scope}Writer"]}, "length": {"options": {"most": 1}}}
    tasks = {"tasks": {"x": played}} if scope else {"task": played}
    config = parse({**tasks, "rewards": table}, "test")
    task = task_of(config)
    arena = configured(config, task)
    arena.connect(ScriptedClient(lambda messages, player, rng: f"{rng.randint(1, 99)}"))
    [result] = await arena.generate_rollouts(task.requests(arena, 1))
    written = [child for child in result.children if child.rewards]
    assert any(child.rewards.values() for child in written)
    for child in written:
        of = {function: values[f"{scope}Writer"] for function, values in child.rollout.breakdown.items()}
        assert child.rewards == {f"{scope}Writer": 3.0 * of[compares] + of["length"]}
    measured: list = []
    arena.on_labelled = measured.extend
    await task.evaluate(arena, 2, "eval-0")
    candidates = [child for top in measured for child in top.children if child.rewards]
    assert all(child.rewards == child.rollout.breakdown[compares] for child in candidates)


async def test_a_comparison_of_weight_0_may_make_no_judgement():
    arena, _ = arena_of(lambda results: [None, {"Writer": 9.0}])
    arena.rewards = {"ranking": RewardSetting(0.0)}
    result = await play(arena)
    assert [child.rewards for child in result.children[:2]] == [{"Writer": -0.25}] * 2
    assert [child.rollout.unscored for child in result.children] == [None] * 3
