"""A person plays along: in the place of a model, beside a run at work or after it, and without a trace in it."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import Arena, ChatEpisode, Episode, EpisodeRequest, Role
from engine.config import load, parse
from engine.events import RunState, TurnFinished
from engine.inference.scripted import ScriptedClient
from engine.run import Run
from engine.sitting.game import Sitting
from engine.sitting.seats import LONGEST, Seats
from engine.steering.forking import roll_back
from engine.store import Store, StoreError
from engine.training import trainer
from engine.types import PERSON, RunError
from tests.test_run import facts, small, until


def first(sitting: Sitting) -> str:
    assert sitting.asked is not None
    return sitting.asked.legal[0]


async def played(run: Run, choose: Callable[[Sitting], str] = first, **how) -> Sitting:
    """One episode to its end, the person always choosing by `choose`."""
    sitting = await run.table.sit(**{"roles": ["First"], **how})
    async with asyncio.timeout(60):
        while not sitting.over:
            if sitting.asked is not None:
                sitting.answer(choose(sitting))
            await asyncio.sleep(0.001)
    return sitting


async def at_work(run: Run) -> asyncio.Task[None]:
    task = asyncio.create_task(run.start())
    await until(lambda: run.trainer is not None or task.done())
    assert run.trainer is not None, run.reason
    return task


def without_sittings(run: Run) -> tuple:
    transcripts, *rest = facts(run)
    return [turn for turn in transcripts if not turn[0].startswith("person-")], *rest


# Beside a run at work


@pytest.mark.slow
async def test_a_run_in_which_a_person_plays_along_is_the_run_that_it_would_have_been(tmp_path):
    plain = Run.create(small(run__steps=8, train__average=0.8), tmp_path, "plain")
    await plain.start()
    run = Run.create(small(run__steps=8, train__average=0.8), tmp_path, "played")
    main = await at_work(run)
    await until(lambda: run.step >= 2)
    newest = run.table.opponents()[2].player
    assert newest.startswith("step-")
    for opponent in ("policy", newest, "base", "average", "policy"):
        sitting = await run.table.sit(roles=["Second"], opponent=opponent)
        await until(lambda: sitting.asked is not None or sitting.over)  # noqa: B023
        if sitting.asked is not None:
            await sitting.odds()
        await sitting.leave()
        await played(run, opponent=opponent)
    run.pause()
    await played(run)
    assert run.state is RunState.PAUSED
    run.resume()
    assert not main.done(), "the run was over before anybody had played beside it"
    await main
    assert run.state is RunState.FINISHED, run.reason
    assert without_sittings(run) == without_sittings(plain)
    assert len(facts(run)[0]) > len(facts(plain)[0])


async def test_what_was_played_is_in_the_record_and_neither_training_nor_evaluation(tmp_path):
    run = Run.create(small(), tmp_path, "run")
    main = await at_work(run)
    sitting = await played(run)
    await main
    with Store.open(run.folder) as store:
        [kept] = store.sittings()
        assert kept.rollout.id == "person-1/0" == f"{sitting.id}/0"
        assert kept.rollout.players == {"First": PERSON, "Second": "policy"}
        assert set(kept.rollout.rewards.values()) == {-1.0, 1.0}
        assert not kept.evaluation
        assert not kept.trainable
        others = store.episodes(evaluation=True) + store.episodes(evaluation=False)
        assert "person-1/0" not in {episode.rollout.id for episode in others}
        assert len(others) + 1 == len(store.episodes())
        turns = store.turns("person-1/0")
    said = [turn for turn in turns if turn.role == "First"]
    assert said
    assert all(turn.completion.text.startswith("[") and turn.completion.player == PERSON for turn in said)
    assert not any(turn.trainable or turn.credit for turn in turns)


async def test_a_person_is_asked_what_the_model_would_be_and_may_only_do_what_is_legal(tmp_path):
    run = Run.create(small(run__steps=30), tmp_path, "run")
    main = await at_work(run)
    sitting = await run.table.sit(roles=["First", "Second"])
    await until(lambda: sitting.asked is not None)
    asked = sitting.asked
    assert asked is not None
    assert asked.messages[0] == {"role": "system", "content": run.roles[asked.role].system_prompt}
    assert set(asked.legal) <= {"[1]", "[2]", "[3]"}
    for wrong in ("[4]", "1", "", "I take [1]"):
        with pytest.raises(RunError, match="legal is"):
            sitting.answer(wrong)
    assert not asked.strict
    sitting.answer(" [1] ")
    assert sitting.asked is None
    with pytest.raises(RunError, match="nothing is asked"):
        sitting.answer("[1]")
    await until(lambda: sitting.asked is not None or sitting.over)
    assert sitting.over or sitting.asked.role != asked.role  # type: ignore[union-attr]
    await run.stop()
    await main


async def test_what_is_not_legal_can_be_said_anyway_unless_the_role_is_constrained(tmp_path):
    run = Run.create(small(run__steps=60, roles__Second={"constrained": True}), tmp_path, "run")
    main = await at_work(run)
    sitting = await run.table.sit(roles=["First", "Second"])
    while (await until(lambda: sitting.asked is not None)) or sitting.asked.role == "First":  # type: ignore[union-attr]
        sitting.answer("Let me think. [1]", anyway=True)
    assert sitting.asked is not None
    assert sitting.asked.strict
    with pytest.raises(RunError, match="legal is"):
        sitting.answer("[7]", anyway=True)
    await sitting.leave()
    sitting = await run.table.sit(roles=["First", "Second"])
    await until(lambda: sitting.asked is not None)
    while not sitting.over:
        if sitting.asked is not None:
            offends = sitting.asked.role == "First"
            sitting.answer("[7]" if offends else first(sitting), anyway=offends)
        await asyncio.sleep(0.001)
    assert sitting.result is not None
    assert sitting.result.rollout.rewards == {"First": -1.5, "Second": 0.5}
    await run.stop()
    await main


async def test_the_odds_are_those_by_which_the_sampler_draws(tmp_path):
    """Two ways to the same number: one pass over whole replies, and what was recorded token by token."""
    run = Run.create(small(roles__First={"constrained": True}), tmp_path, "run")
    main = await at_work(run)
    run.pause()  # the weights stay as they are; a person plays on
    sitting = await run.table.sit(roles=["First"])
    await until(lambda: sitting.asked is not None)
    odds = await sitting.odds()
    assert sum(odds.values()) == pytest.approx(1.0, abs=1e-4)
    asked, client = sitting.asked, run.table._client
    assert asked is not None
    assert client is not None
    sampling = replace(run.roles["First"].sampling, choices=asked.legal)
    drawn = await asyncio.gather(*(client.submit(asked.messages, sampling, "policy", key) for key in range(40)))
    assert len({completion.text for completion in drawn}) > 1
    for completion in drawn:
        assert odds[completion.text] == pytest.approx(math.exp(sum(completion.logprobs)), abs=1e-3)
    await run.stop()
    await main


async def test_who_leaves_leaves_nothing_behind(tmp_path):
    run = Run.create(small(run__steps=4), tmp_path, "run")
    main = await at_work(run)
    sitting = await run.table.sit(roles=["First"], opponent="base")
    await sitting.leave()
    assert sitting.over
    assert sitting.result is None
    assert sitting.error == ""
    await main
    with Store.open(run.folder) as store:
        assert store.sittings() == []


async def test_the_end_of_a_run_waits_for_who_plays_and_a_stop_does_not(tmp_path):
    run = Run.create(small(), tmp_path, "ends")
    main = await at_work(run)
    sitting = await run.table.sit(roles=["First", "Second"])
    await until(lambda: run.state is RunState.FINISHED)
    assert not main.done()
    while not sitting.over:
        if sitting.asked is not None:
            sitting.answer(first(sitting))
        await asyncio.sleep(0.001)
    await main
    with Store.open(run.folder) as store:
        assert len(store.sittings()) == 1
    run = Run.create(small(run__steps=500), tmp_path, "stopped")
    main = await at_work(run)
    sitting = await run.table.sit(roles=["First", "Second"])
    await until(lambda: sitting.asked is not None)
    await run.stop()
    await main
    assert sitting.over
    assert run.state is RunState.STOPPED, run.reason


async def test_what_cannot_be_recorded_is_told_and_the_run_goes_on(tmp_path, monkeypatch):
    run = Run.create(small(run__steps=30), tmp_path, "run")
    main = await at_work(run)

    def full(*_: object) -> None:
        raise StoreError("disk is full")

    monkeypatch.setattr(run._store, "record_sitting", full)
    sitting = await played(run, learn=True)
    assert sitting.error == "disk is full"
    assert sitting.result is not None
    assert run.table.lessons() == []
    step = run.step
    await until(lambda: run.step > step)
    await run.stop()
    await main
    assert run.state is RunState.STOPPED, run.reason


# What is learnt from


async def test_a_game_is_learnt_from_where_that_is_asked_for_and_only_what_the_policy_said(tmp_path):
    run = Run.create(small(run__steps=400), tmp_path, "run")
    main = await at_work(run)
    await until(lambda: run.step >= 2)
    sitting = await run.table.sit(roles=["First"], learn=True)
    begun = run.step
    await until(lambda: run.step > begun + 1)  # the person takes longer than the run's staleness would allow
    while not sitting.over:
        if sitting.asked is not None:
            sitting.answer(first(sitting))
        await asyncio.sleep(0.001)
    after = run.step
    await until(lambda: run.step > after + 1)
    await run.stop()
    await main
    with Store.open(run.folder) as store:
        [kept] = store.sittings()
        assert kept.trainable
        assert kept.step > begun
        assert kept.rollout.id not in {e.rollout.id for e in store.episodes(step=kept.step, evaluation=False)}
        turns = store.turns(kept.rollout.id)
        [step] = [step for step in store.steps() if step.step == kept.step]
    assert step.metrics["episodes"] == 9.0
    assert step.metrics["stale"] == 0.0
    for turn in turns:
        assert (turn.credit is not None) == (turn.role == "Second") == turn.trainable
        assert turn.credit is None or turn.credit.reward == kept.rollout.rewards["Second"]


async def test_where_nothing_can_be_learnt_the_reason_is_said(tmp_path):
    run = Run.create(small(credit__kind="grpo", run__steps=30), tmp_path, "grpo")
    main = await at_work(run)
    with pytest.raises(RunError, match="grpo"):
        await run.table.sit(roles=["First"], learn=True)
    await run.stop()
    await main
    run = Run.create(small(run__steps=30), tmp_path, "base")
    main = await at_work(run)
    with pytest.raises(RunError, match="only what policy says"):
        await run.table.sit(roles=["First"], opponent="base", learn=True)
    with pytest.raises(RunError, match="roles of nim: First, Second"):
        await run.table.sit(roles=["Third"])
    with pytest.raises(RunError, match="no player 'nobody'; it has: policy, "):
        await run.table.sit(roles=["First"], opponent="nobody")
    with pytest.raises(RunError, match="no task 'chess'"):
        await run.table.sit(roles=["First"], task="chess")
    await run.stop()
    await main
    assert "isn't at work" in run.table.no_lesson


# When the run is over


@pytest.fixture(scope="module")
def over(tmp_path_factory) -> Path:
    """The folder of a finished run, in which a person played once while it was at work."""
    folder = tmp_path_factory.mktemp("runs")

    async def play() -> Path:
        run = Run.create(small(checkpoint__keep=5), folder, "over")
        main = await at_work(run)
        await played(run)
        await main
        assert run.state is RunState.FINISHED, run.reason
        return run.folder

    return asyncio.run(play())


async def test_a_finished_run_can_be_played_with_against_any_of_its_checkpoints(over):
    run = Run.open(over)
    assert not run.table.is_ready
    assert [o.player for o in run.table.opponents()] == ["policy", "step-3", "step-2", "step-1", "step-0", "base"]
    sitting = await played(run)
    assert run.table.is_ready
    assert sitting.result is not None
    speech = [e for e in sitting.stream.drain() if isinstance(e, TurnFinished) and e.role == "Second"]
    assert {event.version for event in speech} == {3}
    against = await played(run, opponent="step-1")
    assert against.result is not None
    assert against.result.rollout.players["Second"] == "step-1"
    assert {"policy", "step-1"} <= set(run.table._own.adapters.players)  # type: ignore[union-attr]
    await played(run, opponent="base")
    assert "step-1" not in run.table._own.adapters.players  # type: ignore[union-attr]
    await run.stop()
    assert not run.table.is_ready
    with Store.open(over) as store:
        numbers = [int(kept.rollout.id.removeprefix("person-").partition("/")[0]) for kept in store.sittings()]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(store.steps()) == 3


async def test_earlier_selves_that_a_run_plays_against_can_be_sat_down_with_too(tmp_path):
    run = Run.create(small(past__share=0.5, past__every=1, run__steps=6), tmp_path, "run")
    main = await at_work(run)
    await until(lambda: run.step >= 1)
    for left in ("step-000000.tmp-1f3c09ab", "step-000000.2"):  # by a process killed while it wrote, by going back
        (run.folder / "past" / left).mkdir()
    assert [opponent.player for opponent in run.table.opponents()].count("past-000000") == 1
    beside = await played(run, opponent="past-000000")
    await main
    after = await played(run, opponent="past-000001")
    for sitting, player in ((beside, "past-000000"), (after, "past-000001")):
        assert sitting.result is not None
        assert sitting.result.rollout.players["Second"] == player
    await run.stop()
    assert not run.table.is_ready


async def test_a_load_can_be_given_up_and_taken_up_again(over):
    run = Run.open(over)
    sitting_down = asyncio.create_task(run.table.sit(roles=["First"]))
    for _ in range(3):
        await asyncio.sleep(0)
    sitting_down.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sitting_down
    assert not run.table.is_ready
    sitting = await played(run)
    assert sitting.result is not None
    await run.stop()


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For every load of a model that was begun, how many were under way then; each takes its time."""
    load, under_way, found = trainer._load, [], []

    def slowly(config):
        under_way.append(config)
        found.append(len(under_way))
        time.sleep(0.5)
        try:
            return load(config)
        finally:
            under_way.pop()

    monkeypatch.setattr(trainer, "_load", slowly)
    return found


async def test_a_run_that_begins_while_its_model_is_loaded_for_the_table_has_it_alone(over, tmp_path, loading):
    folder = shutil.copytree(over, tmp_path / "again")
    roll_back(folder, 2)
    run = Run.open(folder)
    sitting_down = asyncio.create_task(run.table.sit(roles=["First"]))
    await until(lambda: loading)
    main = asyncio.create_task(run.start())
    with pytest.raises(RunError, match="the run began, ended or failed meanwhile: sit down again"):
        await sitting_down
    with pytest.raises(RunError, match="the run is loading its model"):
        await run.table.sit(roles=["First"])
    await main
    assert run.state is RunState.FINISHED, run.reason
    assert loading == [1, 1]


async def test_a_load_that_was_given_up_is_over_before_another_begins(over, loading):
    run = Run.open(over)
    for _ in range(3):
        sitting_down = asyncio.create_task(run.table.sit(roles=["First"]))
        await asyncio.sleep(0.1)
        sitting_down.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sitting_down
    await played(run)
    await run.stop()
    assert loading == [1, 1]


async def test_what_was_played_survives_going_back_to_a_checkpoint(tmp_path):
    run = Run.create(small(run__steps=400, checkpoint__every=100), tmp_path, "run")
    main = await at_work(run)
    await until(lambda: run.step >= 2)
    await played(run, learn=True)
    learnt = run.step
    await until(lambda: run.step > learnt + 1)
    await run.stop()
    await main
    for kept in (run.folder / "checkpoints").iterdir():  # as if it had been killed: only step 0 was kept
        if kept.name != "step-000000":
            shutil.rmtree(kept)
    again = Run.open(run.folder)
    assert again.step == 0
    await again.stop()
    with Store.open(run.folder) as store:
        assert store.steps() == []
        [kept] = store.sittings()
        assert kept.sitting
        assert kept.step == 0
        turns = store.turns(kept.rollout.id)
    assert turns
    assert all(turn.credit is None for turn in turns), "what it was worth to a step that is gone"


async def test_of_several_tasks_each_is_a_place_with_its_own_roles(tmp_path):
    config = parse(
        {
            "model": {"source": "pocket", "context": 128},
            "tasks": {"nim": {"name": "nim"}, "kuhn": {"name": "kuhn_poker", "weight": 0}},
            "run": {"steps": 60, "episodes_per_step": 8},
            "eval": {"every": 0, "episodes": 4},
        },
        "test",
    )
    run = Run.create(config, tmp_path, "mixed")
    main = await at_work(run)
    nim, kuhn = run.table.places()
    assert (nim.task, nim.name, nim.roles) == ("nim", "nim", ("nim/First", "nim/Second"))
    assert kuhn.roles == ("kuhn/First", "kuhn/Second")
    sitting = await played(run, task="kuhn", roles=["kuhn/Second"])
    assert sitting.result is not None
    rollout = sitting.result.rollout
    assert rollout.error is None
    assert rollout.episode_type == "kuhn/kuhn_poker"
    assert rollout.players["kuhn/Second"] == PERSON
    assert not sitting.hears("kuhn/kuhn_poker"), "the other's card would show in what it says"
    assert sitting.hears("nim/nim")
    await run.stop()
    await main


@pytest.mark.parametrize(
    "preset", sorted((Path(__file__).parent.parent / "presets").glob("*-pocket.toml")), ids=lambda path: path.stem
)
async def test_one_can_sit_down_to_every_task_a_small_model_plays(preset, tmp_path):
    run = Run.create(load(preset), tmp_path, "new")
    for place in run.table.places():
        asked = 0
        sitting = await run.table.sit(task=place.task, roles=[place.roles[-1]])
        async with asyncio.timeout(60):
            while not sitting.over:
                if sitting.asked is not None:
                    asked += 1
                    sitting.answer(sitting.asked.legal[0] if sitting.asked.legal else "42, I should say.")
                await asyncio.sleep(0.001)
        assert sitting.error == ""
        assert sitting.result is not None
        assert [node.rollout.error for node in sitting.result.walk() if node.rollout.error] == []
        assert asked
    await run.stop()


# A person in the place of a model, without one


class Talk(ChatEpisode):
    roles = ("Host", "Guest")
    max_turns = 4

    def opening(self, artifact, state):
        return "Talk about the weather."


class Both(Episode):
    """Asks two roles at once."""

    async def rollout(self, arena, artifact, state):
        both = [self.call_model(role, f"{role}?", arena) for role in ("Host", "Guest")]
        state.data["said"] = [answer.text for answer in await asyncio.gather(*both)]
        return state


def sat(episode: Episode, *roles: str) -> Sitting:
    """A sitting of one episode with a scripted model, begun."""
    client = ScriptedClient(lambda messages, player, rng: f"{player} replies", lockstep=True)
    arena = Arena()
    for role in ("Host", "Guest"):
        arena.add_role(Role(role))
    arena.add_episode("talk", episode)
    seats = Seats(client, client.tokenizer)
    request = EpisodeRequest("talk")
    sitting = Sitting(arena, request, seats, number=1, roles=roles, opponent="policy", learnt=False)
    sitting.begin(lambda *_: None)
    return sitting


async def test_in_a_chat_a_person_says_anything_and_hears_the_others():
    sitting = sat(Talk(), "Guest")
    await until(lambda: sitting.asked is not None)
    assert sitting.asked is not None
    assert sitting.asked.legal == ()
    assert sitting.asked.messages[-1]["content"] == "Talk about the weather.\n\npolicy replies"
    with pytest.raises(RunError, match="no legal replies"):
        await sitting.odds()
    with pytest.raises(RunError, match="at least one letter"):
        sitting.answer("  \n")
    with pytest.raises(RunError, match=f"the most is {LONGEST:,}"):
        sitting.answer("a" * (LONGEST + 1))
    sitting.answer("It rains.\nStill.")
    await until(lambda: sitting.asked is not None)
    assert sitting.asked is not None
    assert [m["content"] for m in sitting.asked.messages][1:] == ["It rains.\nStill.", "policy replies"]
    sitting.answer("Yes.")
    await sitting.wait()
    assert sitting.result is not None
    assert [turn.completion.text for turn in sitting.result.rollout.turns] == [
        "policy replies",
        "It rains.\nStill.",
        "policy replies",
        "Yes.",
    ]
    assert sitting.hears("talk")


async def test_who_is_asked_twice_at_once_answers_one_after_the_other():
    sitting = sat(Both(), "Host", "Guest")
    await until(lambda: sitting.asked is not None)
    for role in ("Host", "Guest"):
        assert sitting.asked is not None
        assert sitting.asked.role == role
        sitting.answer(f"{role} here")
    await sitting.wait()
    assert sitting.result is not None
    assert sitting.result.rollout.extras["said"] == ["Host here", "Guest here"]


async def test_what_an_episode_no_longer_waits_for_is_no_longer_asked():
    class Impatient(Both):
        async def rollout(self, arena, artifact, state):
            try:
                await asyncio.wait_for(super().rollout(arena, artifact, state), 0.05)
            except TimeoutError:
                state.data["said"] = []
            return state

    sitting = sat(Impatient(), "Host")
    await until(lambda: sitting.asked is not None)
    await sitting.wait()
    assert sitting.asked is None
    assert sitting.result is not None
    assert sitting.result.rollout.error is None


async def test_a_task_that_fails_says_so_and_is_over():
    class Broken(Episode):
        async def rollout(self, arena, artifact, state):
            raise ValueError("no cards left")

    sitting = sat(Broken(), "Host")
    await sitting.wait()
    assert sitting.result is not None
    assert sitting.result.rollout.error == "ValueError: no cards left"
