"""Runs of a task in which conversations grow, so that their beginnings are taken from memory."""

from __future__ import annotations

import asyncio

import pytest

from engine.events import EvaluationFinished, RunState
from engine.run import Run
from tests.test_run import facts, small, until

CHAT = """
from engine import ChatEpisode, EpisodeRequest, Role, Rubric, Task

def vowels(rollout, arena):
    return {role: sum(t.completion.text.count("1") for t in rollout.turns if t.role == role) for role in "AB"}

class Talk(ChatEpisode):
    roles, max_turns = ("A", "B"), 6
    rubric = Rubric([vowels])
    def opening(self, artifact, state):
        return "Count on from one to twenty and then back again, each of you one number at a time: " + str(artifact)

class Talks(Task):
    def setup(self, arena):
        for name in "AB":
            arena.add_role(Role(name, "You count.", max_tokens=6))
        arena.add_episode("talk", Talk())
    def requests(self, arena, n):
        return [EpisodeRequest("talk", i % 3) for i in range(n)]
    async def evaluate(self, arena, n, label):
        await arena.generate_rollouts([EpisodeRequest("talk", 7)] * n, label=label)
        return {"nothing": 0.0}
"""


def configured(folder, **changes):
    (folder / "talk.py").write_text(CHAT)
    return small(
        task__name=str(folder / "talk.py"),
        task__options={},
        model__context=512,
        eval__metric="",
        eval__every=2,
        run__steps=4,
        **changes,
    )


async def test_a_resumed_run_of_chats_is_the_uninterrupted_one_though_its_memory_is_empty(tmp_path):
    config = configured(tmp_path)
    whole = Run.create(config, tmp_path, "whole")
    playing = asyncio.create_task(whole.start())
    await until(lambda: whole.step == 1)
    assert whole.trainer is not None
    assert whole.trainer.client.stats.hits > 20
    await playing
    assert whole.state is RunState.FINISHED, whole.reason
    first = Run.create(config, tmp_path, "halves")
    stream = first.watch(live=False)
    playing = asyncio.create_task(first.start())
    await until(lambda: any(isinstance(e, EvaluationFinished) and e.step == 2 for e in stream.drain()))
    await first.stop()  # the next step would begin like what was just evaluated, with the same weights
    await playing
    assert first.state is RunState.STOPPED
    second = Run.open(tmp_path / "halves")
    await second.start()
    assert second.state is RunState.FINISHED, second.reason
    assert facts(second) == facts(whole)


@pytest.mark.parametrize("on_publish", ["continue", "drain"])
async def test_rollouts_played_ahead_go_on_or_are_waited_for_when_the_policy_changes(tmp_path, on_publish):
    config = configured(tmp_path, run__max_staleness=2, run__on_publish=on_publish)
    run = Run.create(config, tmp_path, "ahead")
    stream = run.watch()
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    mixed = 0
    for event in stream.drain():
        if type(event).__name__ == "EpisodeFinished":
            for turn in event.result.rollout.turns:
                mixed += len(set(turn.completion.versions)) > 1
    if on_publish == "drain":
        assert mixed == 0
    else:
        assert mixed > 0
