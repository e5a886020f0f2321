"""What a run keeps, however and whenever it ends: steps, rollouts, evaluations, the best, and what is asked for."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sqlite3

import pytest

from engine.events import CheckpointSaved, EpisodeFinished, RunState
from engine.run import Run, RunError
from engine.store import Store, StoreError
from engine.training import checkpoint, checkpoints
from engine.training.trainer import LocalTrainer
from tests.test_run import FAILING, facts, small, until


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("config.toml", 'kind = "rae"', 'kind = "grpo"', "GRPOCredit keeps no state, but was given"),
        ("task.py", '"sticks"', '"matches"', "the task has no artifact store 'sticks'"),
    ],
)
async def test_a_checkpoint_that_does_not_fit_is_not_gone_on_with_and_the_record_is_left_alone(
    tmp_path, file, before, after, said
):
    (tmp_path / "task.py").write_text(CURRICULUM)
    own = {"task__name": str(tmp_path / "task.py"), "task__options": {}, "checkpoint__keep": 9}
    run = Run.create(small(**own, run__steps=2), tmp_path / "runs", "run")
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    shutil.rmtree(run.folder / "checkpoints/step-000002")
    changed = (tmp_path if file == "task.py" else run.folder) / file
    assert before in changed.read_text()
    changed.write_text(changed.read_text().replace(before, after))
    with pytest.raises(RunError, match=rf"step-000001 was made with another task or \[credit\]: {said}"):
        Run.open(run.folder)
    with Store.open(run.folder) as store:
        assert [step.step for step in store.steps()] == [1, 2]


def slow_saving(monkeypatch) -> list[str]:
    """Writing a checkpoint takes a while from now on; the reasons of those that were begun."""
    begun, save = [], LocalTrainer.save

    async def slowly(self, *arguments):
        begun.append(arguments[-1])
        await asyncio.sleep(0.2)
        return await save(self, *arguments)

    monkeypatch.setattr(LocalTrainer, "save", slowly)
    return begun


async def test_to_stop_twice_is_to_stop_once(tmp_path, monkeypatch):
    run = Run.create(small(checkpoint__every=5), tmp_path, "twice")
    playing = asyncio.create_task(run.start())
    await until(lambda: run.step == 1)
    begun = slow_saving(monkeypatch)
    first = asyncio.create_task(run.stop())
    await until(lambda: begun == ["auto"])
    await run.stop()
    await first
    await playing
    assert run.state is RunState.STOPPED
    found, _ = checkpoints.latest(run.folder / "checkpoints")
    assert found is not None
    assert found.step == run.step >= 1
    with Store.open(run.folder) as store:
        assert (store.state() or run).state is RunState.STOPPED


async def test_a_stop_while_the_best_is_being_kept_keeps_it_as_the_best(tmp_path, monkeypatch):
    measured = "[0.1, 0.9][min(1, int(label.removeprefix('eval-')))]"
    text = FAILING.replace("FAIL_EVERY", "99").replace('"win_vs_random": 0.0', f'"win_vs_random": {measured}')
    (tmp_path / "task.py").write_text(text)
    own = {"task__name": str(tmp_path / "task.py"), "task__options": {}, "eval__every": 1}
    run = Run.create(small(**own), tmp_path / "runs")
    begun = slow_saving(monkeypatch)
    playing = asyncio.create_task(run.start())
    await until(lambda: "best" in begun)
    await run.stop()
    await playing
    assert (run.state, run.step) == (RunState.STOPPED, 1)
    assert "best" in checkpoint.load(run.folder / "checkpoints/step-000001").reasons


async def test_a_checkpoint_asked_for_in_a_step_that_fails_is_refused(tmp_path, monkeypatch):
    """Weights were learnt that the record knows nothing of. To end what is played ahead takes a moment."""
    run = Run.create(small(checkpoint__every=5, run__max_staleness=1), tmp_path)
    asked: list[asyncio.Task] = []
    train, record = LocalTrainer.train, Store.record_step

    async def asking(self, records):
        if run.step == 1:
            asked.append(asyncio.create_task(run.checkpoint()))
            await asyncio.sleep(0)
        return await train(self, records)

    def failing(self, step, *arguments, **more):
        if step == 2:
            raise StoreError("disk is full")
        record(self, step, *arguments, **more)

    monkeypatch.setattr(LocalTrainer, "train", asking)
    monkeypatch.setattr(Store, "record_step", failing)
    await run.start()
    assert (run.state, run.reason) == (RunState.FAILED, "disk is full")
    with pytest.raises(RunError, match="nothing new to save"):
        await asked[0]
    again = Run.open(run.folder)
    assert again.step == 0
    await again.stop()


async def test_a_checkpoint_can_be_kept_while_everything_is_held(tmp_path):
    run = Run.create(small(), tmp_path)
    playing = asyncio.create_task(run.start())
    await until(lambda: run.checkpoint_path is not None and run.checkpoint_path.name == "step-000001")
    run.pause()
    path = await asyncio.wait_for(run.checkpoint(), 5)
    assert "manual" in checkpoint.load(path).reasons
    await run.stop()
    await playing


async def test_a_checkpoint_by_hand_is_kept_for_good(tmp_path):
    run = Run.create(small(checkpoint__keep=1, run__steps=6), tmp_path)
    stream = run.watch(live=False)
    playing = asyncio.create_task(run.start())
    await until(lambda: run.step == 1)
    path = await run.checkpoint()
    await playing
    saved = [(event.step, event.reason) for event in stream.drain() if isinstance(event, CheckpointSaved)]
    assert (int(path.name.removeprefix("step-")), "manual") in saved
    assert "manual" in checkpoint.load(path).reasons


@pytest.mark.parametrize(("goal", "best"), [("max", 3), ("min", 2)])
async def test_the_best_by_the_named_metric_is_kept_beside_the_newest(tmp_path, goal, best):
    measured = "[0.5, 0.4, 0.1, 0.9, 0.2, 0.9][int(label.removeprefix('eval-'))]"
    text = FAILING.replace("FAIL_EVERY", "99").replace('"win_vs_random": 0.0', f'"score": {measured}')
    (tmp_path / "task.py").write_text(text)
    run = Run.create(
        small(
            task__name=str(tmp_path / "task.py"),
            task__options={},
            run__steps=5,
            eval__every=1,
            eval__metric="score",
            eval__goal=goal,
            checkpoint__keep=1,
        ),
        tmp_path / "runs",
    )
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    reasons = {path.name: checkpoint.load(path).reasons for path in (run.folder / "checkpoints").iterdir()}
    assert [name for name, why in reasons.items() if "best" in why] == [f"step-00000{best}"]
    assert reasons["step-000005"] == ("auto", "final")
    assert len(reasons) <= 3


async def test_a_task_that_fails_in_an_evaluation_costs_no_finished_step_and_it_is_made_up_for(tmp_path):
    evaluation = """
        if label == "eval-3" and Path(__file__).with_name("broken").exists():
            raise KeyError("a fault of the task")
        return {"win_vs_random": 0.5}
"""
    text = "from pathlib import Path\n" + FAILING.replace("FAIL_EVERY", "99")
    (tmp_path / "task.py").write_text(text.replace('        return {"win_vs_random": 0.0}\n', evaluation[1:]))
    (tmp_path / "broken").touch()
    own = {"task__name": str(tmp_path / "task.py"), "task__options": {}, "checkpoint__every": 9}
    run = Run.create(small(**own), tmp_path / "runs")
    await run.start()
    line = 1 + (tmp_path / "task.py").read_text().split("raise KeyError")[0].count("\n")
    assert run.state is RunState.FAILED
    assert run.reason == f"KeyError: 'a fault of the task' ({tmp_path / 'task.py'}, line {line})"
    (tmp_path / "broken").unlink()
    again = Run.open(run.folder)
    assert again.step == 3
    await again.start()
    assert again.state is RunState.FINISHED, again.reason
    with Store.open(run.folder) as store:
        assert [evaluation.step for evaluation in store.evaluations()] == [0, 3]


async def test_evaluation_games_that_all_fail_are_no_evaluation(tmp_path):
    played = "(await arena.generate_rollouts([EpisodeRequest('sometimes')] * 12, label=label)) and"
    text = FAILING.replace("FAIL_EVERY", "1").replace("return {", f"return {played} {{")
    (tmp_path / "task.py").write_text(text)
    run = Run.create(small(task__name=str(tmp_path / "task.py"), task__options={}), tmp_path / "runs")
    await run.start()
    assert run.state is RunState.FAILED
    assert "10 episodes in a row failed; the last, eval-0/9, with ValueError" in run.reason
    assert run.evaluations.step == -1
    again = Run.open(run.folder)
    assert again.evaluations.step == -1
    await again.stop()


async def test_another_metric_and_goal_name_the_best_from_when_they_are_set(tmp_path):
    measured = "[0.5, 0.4, 0.1, 0.9][int(label.removeprefix('eval-'))]"
    text = FAILING.replace("FAIL_EVERY", "99").replace('"win_vs_random": 0.0', f'"score": {measured}')
    (tmp_path / "task.py").write_text(text)
    own = {"task__name": str(tmp_path / "task.py"), "task__options": {}, "eval__every": 1, "eval__metric": ""}
    run = Run.create(small(**own), tmp_path / "runs", "edited")
    await run.set("eval.metric", "score")
    await run.set("eval.goal", "min")
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    assert (run.evaluations.best_step, run.evaluations.best) == (2, {"score": 0.1})
    assert "best" in checkpoint.load(run.folder / "checkpoints/step-000002").reasons
    again = Run.open(run.folder)
    assert (again.evaluations.metric, again.evaluations.goal) == ("score", "min")
    await again.stop()


CURRICULUM = """
import asyncio
from pathlib import Path

from engine import ArtifactStore, Episode, EpisodeRequest, Role, Rubric, Task

class Growing(Episode):
    rubric = Rubric([lambda rollout, arena: {"A": float(len(rollout.turns[0].completion.text) % 3)}])
    async def rollout(self, arena, artifact, state):
        for _ in range(3):
            await self.call_model("A", f"{artifact:02d}", arena, max_tokens=3)
        arena.stores["sticks"].add(artifact % 20 + 1, weight=0.5)
        while state.id == "12" and Path(__file__).with_name("hold").exists():
            await asyncio.sleep(0.01)
        return state

class Curriculum(Task):
    def setup(self, arena):
        arena.add_role(Role("A", system_prompt="Nim."))
        arena.add_episode("growing", Growing())
        arena.add_store("sticks", ArtifactStore(range(1, 5)))
    def requests(self, arena, n):
        return [EpisodeRequest("growing", each.data) for each in arena.stores["sticks"].sample(n)]
    async def evaluate(self, arena, n, label):
        return {"win_vs_random": 0.0}
"""


async def test_a_run_stopped_in_play_draws_the_same_again_from_its_stores(tmp_path):
    """What the batch in play had drawn, and what its first episodes had added, is as if it had not been."""
    (tmp_path / "task.py").write_text(CURRICULUM)
    config = small(task__name=str(tmp_path / "task.py"), task__options={}, checkpoint__every=5)
    whole = Run.create(config, tmp_path / "runs", "whole")
    await whole.start()
    assert whole.state is RunState.FINISHED, whole.reason
    (tmp_path / "hold").touch()
    first = Run.create(config, tmp_path / "runs", "halves")
    stream, ended = first.watch(), set()
    playing = asyncio.create_task(first.start())

    def others_are_played() -> bool:
        ended.update(e.result.rollout.id for e in stream.drain() if isinstance(e, EpisodeFinished))
        return len(ended) == 8 + 7

    await until(others_are_played)
    await first.stop()
    await playing
    assert (first.state, first.step) == (RunState.STOPPED, 1)
    (tmp_path / "hold").unlink()
    second = Run.open(tmp_path / "runs/halves")
    await second.start()
    assert facts(second) == facts(whole)
    kept = [checkpoint.load(run.folder / "checkpoints/step-000003").state["stores"] for run in (second, whole)]
    assert kept[0] == kept[1]
    assert len(kept[0]["sticks"]["artifacts"]) == 4 + 3 * 8


async def test_rollouts_that_wait_for_the_learner_outlive_a_stop_and_none_is_learnt_from_twice(tmp_path):
    # While it is measured the learner waits, and playing goes on.
    config = small(run__max_staleness=2, run__steps=6, eval__every=1, eval__episodes=24, checkpoint__every=3)
    first = Run.create(config, tmp_path, "ahead")
    playing = asyncio.create_task(first.start())
    await until(lambda: first.step >= 1 and first.status().queued >= 8)
    await first.stop()
    await playing
    found, _ = checkpoints.latest(tmp_path / "ahead/checkpoints")
    assert found is not None
    assert found.step == first.step
    kept = [result for batch in found.rollouts() for result in batch]
    assert kept
    second = Run.open(tmp_path / "ahead")
    stream = second.watch()
    await second.start()
    assert second.state is RunState.FINISHED, second.reason
    played = {e.result.rollout.id for e in stream.drain() if isinstance(e, EpisodeFinished)}
    assert not played & {result.rollout.id for result in kept}
    with Store.open(tmp_path / "ahead") as store:
        learnt = [[e.rollout.id for e in store.episodes(step=n, evaluation=False)] for n in range(1, 7)]
        assert learnt == [[str(8 * n + i) for i in range(8)] for n in range(6)]
        for result in kept:
            turns = store.turns(result.rollout.id)
            assert all(turn.credit for turn in turns)
            for turn in turns:
                turn.credit, turn.learnt, turn.ratios = None, None, []
            assert turns == result.rollout.turns


async def test_the_record_is_on_disk_before_the_checkpoint_that_goes_with_it(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    run = Run.create(small(run__steps=2, eval__metric=""), tmp_path, "synced")
    await run.start()
    log = synced[0]  # of the record: before the first checkpoint
    kept = [path / "state.json" for path in sorted((run.folder / "checkpoints").iterdir())]
    places = [synced.index(file.stat().st_ino) for file in kept]
    logs = [place for place, node in enumerate(synced) if node == log]
    assert len(kept) == 2
    assert all(any(before < log < place for log in logs) for before, place in itertools.pairwise([-1, *places]))


async def test_a_record_older_than_its_checkpoint_is_not_gone_on_with(tmp_path):
    run = Run.create(small(run__steps=1), tmp_path, "mixed")
    await run.set("train.kl", "0.1")
    shutil.copytree(tmp_path / "mixed", tmp_path / "copy")
    with sqlite3.connect(tmp_path / "copy/run.sqlite") as plain:
        plain.execute("DELETE FROM edits")
    await run.start()
    shutil.copytree(tmp_path / "mixed/checkpoints", tmp_path / "copy/checkpoints")
    with pytest.raises(
        RunError, match=r"was made under edit 1, but the record knows only 0: put back the run\.sqlite"
    ):
        Run.open(tmp_path / "copy")
