"""Skill tags: which is drawn, where it stands, what is kept of it, and what is compared."""

from __future__ import annotations

import sqlite3
from collections import Counter

import pytest

from engine import (
    Arena,
    ChatEpisode,
    Completion,
    Episode,
    EpisodeRequest,
    GenerateResult,
    GRPOCredit,
    RAECredit,
    Role,
    Rollout,
    Rubric,
    SingleTurnEpisode,
    Turn,
    batches,
)
from engine.assembly import apply_edit, arena_of
from engine.config import parse
from engine.credit import groups, training_records
from engine.events import EditApplied, RunState
from engine.inference.scripted import ScriptedClient
from engine.mixture import task_of
from engine.run import Run
from engine.store import Store
from engine.training.preferences import pairs
from engine.types import Credit
from tests.test_run import small

TAGS = ("<novice>", "<expert>")


def taken(sticks: int) -> str:
    return f"I take [{sticks}]"


class Talk(ChatEpisode):
    roles = ("A", "B")
    max_turns = 6
    rubric = Rubric([lambda rollout, arena: {"A": 1.0, "B": float(len(rollout.tags))}])

    def opening(self, artifact, state):
        return "Talk."


class Ask(SingleTurnEpisode):
    role = "A"
    rubric = Rubric([lambda rollout, arena: {"A": float(rollout.id[-1])}])

    def prompt(self, artifact):
        return "Say."


def arena(**of_a) -> Arena:
    made = Arena(ScriptedClient(lambda messages, player, rng: "yes"), credit=of_a.pop("credit", None), seed=1)
    made.add_role(Role("A", tags=TAGS, **of_a))
    made.add_role(Role("B", system_prompt="Be B."))
    made.add_episode("talk", Talk())
    made.add_episode("ask", Ask())
    return made


async def test_a_role_has_one_tag_in_all_its_turns_before_the_first_thing_it_is_told():
    for result in await arena().generate_rollouts([EpisodeRequest("talk")] * 20):
        tag = result.rollout.tags["A"]
        assert tag in TAGS
        for turn in result.rollout.turns:
            told = [message["content"] for message in turn.messages if message["role"] == "user"]
            if turn.role == "A":
                assert told[0] == f"{tag} Talk."
                assert not any(other in text for text in told[1:] for other in TAGS)
            else:
                assert told[0].startswith("Talk.")
                assert turn.messages[0] == {"role": "system", "content": "Be B."}


async def test_tags_are_drawn_alike_when_the_same_is_played_again():
    drawn = []
    for _ in range(2):
        results = await arena().generate_rollouts([EpisodeRequest("talk")] * 200)
        drawn.append([result.rollout.tags["A"] for result in results])
    assert drawn[0] == drawn[1]
    assert all(70 < count < 130 for count in Counter(drawn[0]).values())


async def test_what_nothing_is_learnt_from_is_asked_of_the_most_skilled():
    made = arena()
    results = await made.generate_rollouts([EpisodeRequest("talk")] * 20, label="eval-0")
    results += await made.generate_rollouts([EpisodeRequest("talk", is_trainable=False)] * 20)
    assert {result.rollout.tags["A"] for result in results} == {"<expert>"}


async def test_probabilities_are_those_of_the_most_skilled():
    asked = []
    made = arena(system_prompt="Be A.")

    async def score(messages, replies, sampling, player):
        asked.append(messages)
        return [0.0] * len(replies)

    made.client.score = score  # type: ignore[method-assign]
    await made.score("Say.", ["yes"], "A")
    assert asked == [[{"role": "system", "content": "Be A."}, {"role": "user", "content": "<expert> Say."}]]


async def test_the_messages_a_task_gives_are_left_as_they_are():
    made = arena()
    given = [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Say."}]

    class Given(Ask):
        def prompt(self, artifact):
            return given  # type: ignore[return-value]

    made.add_episode("given", Given())
    [result] = await made.generate_rollouts([EpisodeRequest("given")])
    assert given[1]["content"] == "Say."
    assert [m["content"] for m in result.rollout.turns[0].messages] == ["Hm.", f"{result.rollout.tags['A']} Say."]


async def test_rewards_are_compared_under_the_same_tag_alone():
    made = arena(credit=GRPOCredit())
    results = await made.generate_rollouts([EpisodeRequest("ask")] * 10)
    made.records(results)
    for tag in TAGS:
        of_tag = [result.rollout for result in results if result.rollout.tags["A"] == tag]
        mean = sum(rollout.rewards["A"] for rollout in of_tag) / len(of_tag)
        assert len(of_tag) > 1
        for rollout in of_tag:
            assert rollout.turns[0].credit.baseline == pytest.approx(mean)  # type: ignore[union-attr]


class Quiz(Episode):
    """B asks four of A; what it gets hangs on what they are worth."""

    rubric = Rubric([lambda rollout, arena: {"B": float(len(rollout.extras["asked"]))}])

    async def rollout(self, arena, artifact, state):
        await self.call_model("B", "Ask.", arena)
        state.data["asked"] = await arena.generate_rollouts([EpisodeRequest("ask")] * 4)
        await arena.generate_rollouts([EpisodeRequest("ask", is_trainable=False)])
        return state

    def get_extras(self, state):
        return {"asked": [result.rollout.tags["A"] for result in state.data["asked"]]}


async def test_a_whole_tree_is_played_under_the_same_tags_so_that_they_part_no_siblings():
    made = arena(credit=GRPOCredit())
    made.add_episode("quiz", Quiz())
    results = await made.generate_rollouts([EpisodeRequest("quiz")] * 20)
    assert {tag for result in results for tag in result.rollout.extras["asked"]} == set(TAGS)
    for result in results:
        *asked, informed = [child.rollout.tags["A"] for child in result.children]
        assert asked == [result.rollout.tags["A"]] * 4
        assert informed == "<expert>"  # it never trains
    sizes = [len(rollouts) for name, rollouts in groups(results) if ">ask" in name and rollouts]
    assert sizes == [4] * 20


def test_a_preference_is_between_conversations_under_the_same_tags():
    def said(rollout: str, tag: str, reward: float) -> GenerateResult:
        turn = Turn("A", 0, [], Completion("", [1], [2], [-0.5], [0]), credit=Credit(reward, reward))
        return GenerateResult(Rollout(rollout, "talk", turns=[turn], rewards={"A": reward}, tags={"B": tag}))

    results = [said("0", TAGS[0], 1.0), said("1", TAGS[1], 0.0), said("2", TAGS[0], 0.5)]
    assert pairs(training_records(results)) == [(("0", "A"), ("2", "A"))]


async def test_each_tag_has_a_baseline_of_its_own():
    made = arena(credit=RAECredit())
    made.records(await made.generate_rollouts([EpisodeRequest("talk")] * 10))
    assert made.credit.state()["baselines"].keys() == {"talk/A|<novice>", "talk/A|<expert>", "talk/B"}


def test_tags_are_configured_and_edited_like_anything_of_a_role():
    setup = parse({"task": {"name": "nim"}, "roles": {"First": {"tags": list(TAGS)}}}, "")
    arena = arena_of(setup, task_of(setup))
    assert (arena.roles["First"].tags, arena.roles["Second"].tags) == (TAGS, ())
    setup = apply_edit(EditApplied(1, 0, "roles.First.tags", "", '["a", "b"]'), setup, arena)
    assert arena.roles["First"].tags == ("a", "b")
    apply_edit(EditApplied(2, 0, "roles.First.tags", "", ""), setup, arena)
    assert arena.roles["First"].tags == ()  # the task's own, which a key that is emptied brings back


async def test_the_record_keeps_a_rollouts_tags(tmp_path):
    run = Run.create(small(roles__First={"tags": list(TAGS)}, run__steps=1), tmp_path, "r")
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    with Store.open(run.folder, read_only=True) as store:
        trained = store.episodes(step=1, evaluation=False)
        assert {episode.rollout.tags["First"] for episode in trained} == set(TAGS)
        assert {episode.rollout.tags["First"] for episode in store.episodes(evaluation=True)} == {"<expert>"}
        for episode in trained:
            for turn in store.turns(episode.rollout.id):
                tagged = turn.messages[-1]["content"].startswith(episode.rollout.tags["First"])
                assert tagged == (turn.role == "First")


async def test_rollouts_that_wait_for_the_learner_keep_their_tags(tmp_path):
    results = await arena().generate_rollouts([EpisodeRequest("ask")] * 10)
    batches.write(tmp_path / "rollouts.sqlite", [results])
    [again] = batches.read(tmp_path / "rollouts.sqlite")
    assert [result.rollout.tags for result in again] == [result.rollout.tags for result in results]


async def test_a_run_of_before_there_were_tags_is_read_and_gone_on_with(tmp_path):
    run = Run.create(small(run__steps=1), tmp_path, "r")
    await run.start()
    with sqlite3.connect(run.folder / "run.sqlite") as db:
        db.execute("ALTER TABLE episodes DROP COLUMN tags")
    with Store.open(run.folder, read_only=True) as store:
        assert [episode.rollout.tags for episode in store.episodes(evaluation=False)] == [{}] * 8
    again = Run.open(run.folder)
    await again.set("run.steps", "2")
    await again.start()
    assert again.state is RunState.FINISHED, again.reason
