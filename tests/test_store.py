"""The store: what is recorded comes back exactly, whole steps or nothing, and damage is told in a sentence."""

import asyncio
import math
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from engine import batches, steps
from engine.config import parse, save
from engine.events import CheckpointSaved, EditApplied, EvaluationFinished, Notice, RunState, StepFinished
from engine.store import FILE, Store, StoreError, in_use
from engine.summaries import summaries, summary
from engine.types import Completion, Credit, GenerateResult, Rollout, Sampling, StopReason, Turn

CREDIT = Credit(advantage=0.75, reward=1.0, baseline=0.25, spread=0.0, group="nim/First", group_size=64)


def a_turn(index: int = 0, **completion) -> Turn:
    given = {
        "text": "[2]",
        "prompt_tokens": [5, 6, 7],
        "tokens": [1, 2],
        "logprobs": [-0.5, -0.25],
        "versions": [3, 3],
    }
    messages = [{"role": "system", "content": "Nim."}, {"role": "user", "content": "12"}]
    return Turn("First", index, messages, Completion(**{**given, **completion}), credit=CREDIT)


def a_result(rollout_id: str = "0", turns: int = 1, children: list[GenerateResult] | None = None, **rollout):
    given = {
        "episode_type": "nim",
        "rewards": {"First": 1.0, "Second": -1.0},
        "breakdown": {"outcome": {"First": 1.0, "Second": -1.0}},
        "extras": {"illegal": None},
        "players": {"First": "policy"},
        "edits": {"First": 2},
    }
    made = Rollout(rollout_id, turns=[a_turn(i) for i in range(turns)], **{**given, **rollout})
    return GenerateResult(made, children or [])


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "run") as made:
        yield made


def test_a_turn_comes_back_as_it_was(store):
    turn = a_turn(
        text="\x1b[2J [bold] \ud800 🂡\0",
        tokens=[0, 2**31 - 1, 7],
        logprobs=[-1e-9, float("-inf"), float(np.float32(-0.1))],
        versions=[3, 3, 4],
        stop_reason=StopReason.LENGTH,
        player="rival",
        sampling=Sampling(
            0.7, 12, 0.9, 40, 0.05, 1.2, (("yes", 2.0), ("\udfff", -1e-9)), ("\n", "END"), ("[1]", "[2]"), 2.5
        ),
        allowed=[[0], [5, 2**31 - 1], []],
    )
    turn.completion.logprobs[0] = float(np.float32(-1e-9))
    turn.trainable, turn.illegal = False, True
    turn.messages = [{"role": "user", "content": "lone \udfff surrogate"}]
    result = a_result()
    result.rollout.turns = [turn, a_turn(1, tokens=[], logprobs=[], versions=[], text="")]
    store.record_step(1, 1, 0.5, {}, [result])
    assert store.turns("0") == result.rollout.turns


def test_a_turn_without_constraints_stores_nothing_of_them(store):
    store.record_step(1, 1, 0.5, {}, [a_result()])
    with sqlite3.connect(store.folder / FILE) as plain:
        assert plain.execute("SELECT allowed FROM turns").fetchall() == [(None,)]
    assert store.turns("0") == a_result().rollout.turns


@pytest.mark.parametrize("read_only", [True, False])
def test_a_run_of_before_replies_could_be_constrained_is_read_and_goes_on(tmp_path: Path, read_only: bool):
    with Store.create(tmp_path / "run") as old:
        old.record_step(1, 1, 0.5, {}, [a_result("0")])
    with sqlite3.connect(tmp_path / "run" / FILE) as plain:
        plain.execute("ALTER TABLE turns DROP COLUMN allowed")
        plain.execute("UPDATE turns SET sampling = '[0.7, 12, 0.9, 40, 0.05]'")
    with Store.open(tmp_path / "run", read_only=read_only) as store:
        [turn] = store.turns("0")
        assert turn.completion.sampling == Sampling(0.7, 12, top_p=0.9, top_k=40, min_p=0.05)
        assert turn.completion.allowed == []
        if not read_only:
            later = a_result("1")
            later.rollout.turns = [a_turn(allowed=[[1, 4], [2]])]
            store.record_step(2, 2, 0.5, {}, [later])
            assert store.turns("1") == later.rollout.turns


def test_rollouts_in_a_file_of_their_own_come_back_as_they_were(tmp_path: Path):
    """Trees, order and numbers: what waits for the learner is learnt from as if it had never been written down."""
    odd = a_result("2", error="boom \ud800", unscored="judge", group="g")
    odd.is_trainable = False
    odd.rollout.turns = [
        a_turn(logprobs=[float(np.float32(-1e-30)), float("-inf")], text="\x1b \ud800", allowed=[[1, 4], [2]])
    ]
    tree = a_result("1", turns=2, children=[a_result("1.0", children=[a_result("1.0.0")]), a_result("1.1")])
    fresh = a_result("10")
    fresh.rollout.turns[0].credit = None
    written = [[tree, odd], [], [fresh]]
    batches.write(tmp_path / "rollouts.sqlite", written)
    assert batches.read(tmp_path / "rollouts.sqlite") == written


def test_rollouts_written_twice_are_the_same_rows(tmp_path: Path):
    """What JSON makes of an artifact or of extras is as it will be recorded after the next time."""
    result = a_result("1", artifact=(1, "q"), extras={"margin": np.float32(0.1), "seen": {2, 1}, "nan": math.nan})
    for name, given in (("a", [[result]]), ("b", None)):
        batches.write(tmp_path / name, given or batches.read(tmp_path / "a"))
    rows = []
    for name in ("a", "b"):
        with sqlite3.connect(tmp_path / name) as plain:
            rows.append([plain.execute(f"SELECT * FROM {table}").fetchall() for table in ("episodes", "turns")])
    assert rows[0] == rows[1]


def test_versions_of_one_policy_come_back_one_a_token(store):
    result = a_result()
    result.rollout.turns = [a_turn(tokens=[1] * 9, logprobs=[-1.0] * 9, versions=[7] * 9)]
    store.record_step(1, 1, 0.5, {}, [result])
    assert store.turns("0")[0].completion.versions == [7] * 9


def test_an_episode_comes_back_with_what_the_task_left_in_it(store):
    @dataclass
    class Board:
        cells: str

    extras = {"margin": np.float32(0.5), "seen": {2, 1}, "board": Board("X"), "nan": math.nan, "other": object}
    result = a_result("7", artifact=(1, "q"), group="g", extras=extras, error="boom \ud800", unscored="judge")
    store.record_step(1, 1, 0.5, {}, [result])
    [stored] = store.episodes()
    assert stored.rollout.artifact == [1, "q"]
    assert math.isnan(stored.rollout.extras.pop("nan"))
    assert stored.rollout.extras == {"margin": 0.5, "seen": [1, 2], "board": {"cells": "X"}, "other": repr(object)}
    assert (stored.rollout.error, stored.rollout.unscored, stored.rollout.group) == ("boom \ud800", "judge", "g")
    assert (stored.rollout.rewards, stored.rollout.edits) == ({"First": 1.0, "Second": -1.0}, {"First": 2})
    assert (stored.step, stored.evaluation, stored.parent, stored.trainable) == (1, False, None, True)


def test_children_know_their_parent_and_come_after_it(store):
    tree = a_result("1", children=[a_result("1.0", children=[a_result("1.0.0")]), a_result("1.1")])
    store.record_step(1, 1, 0.5, {}, [tree, a_result("2")])
    assert [(e.rollout.id, e.parent) for e in store.episodes()] == [
        ("1", None),
        ("1.0", "1"),
        ("1.1", "1"),
        ("1.0.0", "1.0"),
        ("2", None),
    ]
    assert [e.rollout.id for e in store.episodes(parent="1")] == ["1.0", "1.1"]


def test_evaluation_episodes_are_kept_apart_and_a_second_evaluation_replaces_the_first(store):
    store.record_step(10, 10, 0.5, {}, [a_result("0")])
    for metric in (0.5, 0.6):
        played = a_result("eval-10/0")
        played.is_trainable = False
        store.record_evaluation(EvaluationFinished(10, {"win": metric}, is_best=metric > 0.5), [played])
    assert store.evaluations() == [EvaluationFinished(10, {"win": 0.6}, is_best=True)]
    assert [e.rollout.id for e in store.episodes(evaluation=True)] == ["eval-10/0"]
    assert [e.rollout.id for e in store.episodes(step=10, evaluation=False)] == ["0"]
    assert not store.episodes(evaluation=True)[0].trainable


def test_facts_come_back_in_the_order_of_steps(store):
    edit = EditApplied(1, 2, "role First", "Nim.", "Nim!\n\ud800")
    store.record_evaluation(EvaluationFinished(0, {"win": 0.5}), [])
    store.record_step(1, 1, 0.5, {"loss": math.nan}, [])
    store.record_step(2, 1, 0.9, {}, [], skipped="nothing to learn from")
    store.record_edit(edit)
    store.record_checkpoint(CheckpointSaved(2, "checkpoints/step-000002", "auto"))
    store.record_notice(0, Notice("slow maths", "warning"))
    history = store.history()
    assert [type(event).__name__ for event in history] == [
        "EvaluationFinished",
        "Notice",
        "StepFinished",
        "StepFinished",
        "CheckpointSaved",
        "EditApplied",
    ]
    assert history[-1] == edit
    assert history[3] == StepFinished(2, {}, "nothing to learn from")
    last = store.last_step()
    assert last is not None
    assert (last.step, last.version, last.seconds) == (2, 1, 0.9)


def test_rewind_forgets_what_came_after_and_the_steps_can_be_recorded_again(store):
    for step in (1, 2, 3):
        store.record_step(step, step, 0.5, {}, [a_result(str(step))])
        store.record_evaluation(EvaluationFinished(step, {}), [a_result(f"eval-{step}/0")])
        store.record_edit(EditApplied(step, step, "train.kl", "0", "1"))
        store.record_checkpoint(CheckpointSaved(step, f"{step}", "auto"))
        store.record_notice(step, Notice("n"))
    store.rewind(1)
    assert [s.step for s in store.steps()] == [1]
    assert {event.step for event in [*store.evaluations(), *store.checkpoints()]} == {1}
    assert [edit.number for edit in store.edits()] == [1, 2, 3]
    assert [e.rollout.id for e in store.episodes()] == ["1", "eval-1/0"]
    assert store.turns("2") == []
    store.record_step(2, 2, 0.5, {}, [a_result("2")])


def test_a_persons_episodes_stay_when_a_run_goes_back_and_what_was_learnt_from_them_does_not(store):
    early, late = a_result("person-1/0"), a_result("person-12/0")
    store.record_step(1, 1, 0.5, {}, [a_result("0")])
    store.record_sitting(1, early)
    store.record_sitting(1, late)
    assert store.last_sitting() == 12
    store.record_step(2, 2, 0.5, {}, [a_result("1")], sittings=[late])
    assert [(e.rollout.id, e.step, e.sitting) for e in store.sittings()] == [
        ("person-1/0", 1, True),
        ("person-12/0", 2, True),
    ]
    credited = [turn for turn in store.turns("person-12/0") if turn.credit is not None]
    assert credited == [turn for turn in store.turns("1") if turn.credit is not None] != []
    assert [e.rollout.id for e in store.episodes(evaluation=False)] == ["0", "1"]
    assert store.episodes(evaluation=True) == []
    store.rewind(1)
    assert [e.rollout.id for e in store.episodes()] == ["0", "person-1/0", "person-12/0"]
    assert {e.step for e in store.episodes()} == {1}
    assert store.turns("person-12/0")
    assert all(turn.credit is None for turn in store.turns("person-12/0"))
    assert [turn.credit for turn in store.turns("person-1/0")] == [turn.credit for turn in early.rollout.turns]


def test_a_step_is_recorded_whole_or_not_at_all(store):
    store.record_step(1, 1, 0.5, {}, [a_result("0")])
    with pytest.raises(StoreError, match="recorded twice"):
        store.record_step(2, 2, 0.5, {}, [a_result("1"), a_result("0")])
    assert [s.step for s in store.steps()] == [1]
    assert [e.rollout.id for e in store.episodes()] == ["0"]
    store.record_step(2, 2, 0.5, {}, [a_result("1")])


def test_a_full_disk_is_told_with_the_folder_and_leaves_the_record_usable(store):
    store.record_step(1, 1, 0.5, {}, [a_result("0")])
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    many = [a_result(f"b{i}", turns=6) for i in range(200)]
    with pytest.raises(StoreError, match="disk is full") as caught:
        store.record_step(2, 2, 0.5, {}, many)
    assert str(store.folder) in str(caught.value)
    assert [s.step for s in store.steps()] == [1]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.record_step(2, 2, 0.5, {}, many)
    assert len(store.episodes(step=2)) == 200


def test_a_reader_sees_what_a_writer_has_recorded(store):
    with Store.open(store.folder, read_only=True) as reader:
        store.record_step(1, 1, 0.5, {}, [a_result("0")])
        assert [s.step for s in reader.steps()] == [1]
        with pytest.raises(StoreError, match="readonly"):
            reader.record_notice(0, Notice("n"))


def test_a_second_writer_is_told_who_is_running_the_run(store):
    assert in_use(store.folder)
    with pytest.raises(StoreError, match=f"process {os.getpid()} is running this run"):
        Store.open(store.folder)
    store.close()
    assert not in_use(store.folder)
    Store.open(store.folder).close()


def test_a_killed_writer_loses_no_finished_step_and_holds_no_lock(tmp_path: Path):
    code = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from pathlib import Path
from engine.events import RunState
from engine.store import Store
store = Store.create(Path({str(tmp_path / "run")!r}))
store.record_state(RunState.RUNNING)
for step in range(1, 6):
    store.record_step(step, step, 0.5, {{}}, [])
store._connection.execute("BEGIN IMMEDIATE")
store._connection.execute("INSERT INTO steps VALUES (6, 6, 0.5, '{{}}', '')")
print("ready", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    with Store.open(tmp_path / "run") as store:
        assert [s.step for s in store.steps()] == [1, 2, 3, 4, 5]
        store.record_step(6, 6, 0.5, {}, [])
    assert summaries(tmp_path)[0].state == "interrupted"


def test_a_step_of_128_games_is_recorded_in_an_instant(store):
    results = [a_result(str(i), turns=6) for i in range(128)]
    started = time.perf_counter()
    store.record_step(1, 1, 0.5, {}, results)
    assert time.perf_counter() - started < 0.3  # about 0.02 on two quiet cores


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "incomplete"), (b"not a database, but longer than a header. " * 99, "damaged")],
)
def test_a_damaged_record_is_told_in_a_sentence(tmp_path: Path, content, message):
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(StoreError, match=message) as caught:
        Store.open(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_folder_that_is_no_run_and_a_run_of_another_format_are_refused(store, tmp_path: Path):
    with pytest.raises(StoreError, match=r"not a run: no run\.sqlite"):
        Store.open(tmp_path)
    store._connection.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    store.close()
    with pytest.raises(StoreError, match="in run format 99, this version reads format 1"):
        Store.open(store.folder)


def test_a_run_is_never_made_over_another(store):
    with pytest.raises(StoreError, match="already"):
        Store.create(store.folder)


def test_a_run_that_is_only_looked_at_was_not_used(tmp_path: Path):
    for place, name in enumerate(("older", "newer")):
        Store.create(tmp_path / name).close()
        os.utime(tmp_path / name / FILE, (1e9 + place, 1e9 + place))
    for _ in range(2):
        summary(tmp_path / "older")
    assert [(run.name, run.updated) for run in summaries(tmp_path)] == [("newer", 1e9 + 1), ("older", 1e9)]


def test_summaries_tell_each_run_and_never_raise(tmp_path: Path):
    runs = tmp_path / "runs"
    with Store.create(runs / "good") as store:
        save(
            parse({"title": "Nim", "task": {"name": "nim"}, "run": {"steps": 1}}, ""), runs / "good" / "config.toml"
        )
        store.record_evaluation(EvaluationFinished(0, {"win": 0.5}), [])
        store.record_step(1, 1, 2.5, {}, [])
        store.record_evaluation(EvaluationFinished(1, {"win": 0.9}, is_best=True), [])
        store.record_state(RunState.FINISHED)
    (runs / "empty").mkdir()
    (runs / "torn").mkdir()
    (runs / "torn" / FILE).write_bytes(b"x" * 5000)
    with Store.create(runs / "bare"):
        pass
    with Store.create(runs / "odd") as store:
        store._connection.execute("INSERT INTO meta VALUES ('state', 'dancing')")
    (runs / "a file").write_text("")
    found = {run.name: run for run in summaries(runs)}
    good = found.pop("good")
    assert good.problem == ""
    assert good.config is not None
    assert (good.config.title, good.state, good.step, good.seconds) == ("Nim", "finished", 1, 2.5)
    assert (good.first, good.last, good.best) == ({"win": 0.5}, {"win": 0.9}, {"win": 0.9})
    assert "no run.sqlite" in found["empty"].problem
    assert "damaged" in found["torn"].problem
    assert "config.toml" in found["bare"].problem
    assert "dancing" in found["odd"].problem
    assert len(found) == 4


def test_a_run_in_progress_is_told_from_an_interrupted_one(tmp_path: Path):
    with Store.create(tmp_path / "run"):
        assert summaries(tmp_path)[0].state == "running"
    assert summaries(tmp_path)[0].state == "interrupted"


def test_a_sitting_that_was_killed_does_not_pass_for_the_one_before_it(tmp_path: Path):
    with Store.create(tmp_path / "run") as store:
        store.record_step(1, 1, 1.0, {}, [])
        store.record_state(RunState.FINISHED)
    with Store.open(tmp_path / "run") as store:
        store.record_start()
    assert summaries(tmp_path)[0].state == "interrupted"


def test_a_run_that_was_extended_counts_to_its_new_end(tmp_path: Path):
    with Store.create(tmp_path / "run") as store:
        save(parse({"task": {"name": "nim"}}, ""), tmp_path / "run" / "config.toml")
        assert summaries(tmp_path)[0].steps == 100
        store.record_edit(EditApplied(1, 0, "run.steps", "100", "150"))
        store.record_edit(EditApplied(2, 0, "train.kl", "0", "1"))
    assert summaries(tmp_path)[0].steps == 150


def test_a_summary_tells_how_a_run_ended(tmp_path: Path):
    with Store.create(tmp_path / "run") as store:
        store.record_step(1, 1, 1.5, {}, [])
        store.record_step(2, 2, 1.0, {}, [])
        store.record_state("failed", "no \ud800 memory")
    [run] = summaries(tmp_path)
    assert (run.state, run.reason, run.step, run.version, run.seconds) == ("failed", "no \ud800 memory", 2, 2, 2.5)


def test_no_folder_is_no_runs(tmp_path: Path):
    assert summaries(tmp_path / "nowhere") == []


def test_the_record_can_be_read_with_sqlite_alone(store):
    store.record_step(1, 1, 0.5, {"loss": 0.25}, [a_result("0")])
    with sqlite3.connect(store.folder / FILE) as plain:
        found = plain.execute("SELECT text, json_extract(credit, '$.advantage') FROM turns").fetchall()
    assert found == [("[2]", 0.75)]


def test_evaluations_are_read_in_pages(tmp_path):
    with Store.create(tmp_path / "run") as store:
        for step in range(0, 50, 10):
            store.record_evaluation(EvaluationFinished(step, {"win": step / 50}), [])
        assert [event.step for event in store.evaluations(after=10, limit=2)] == [20, 30]
        assert [event.step for event in store.evaluations(after=30)] == [40]
        assert len(store.evaluations()) == 5


async def test_a_steps_rows_are_made_with_other_work_in_between_and_are_the_same(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(steps, "SLICE", 0.0)
    results = [a_result(f"{i}", children=[a_result(f"{i}.0")], turns=3) for i in range(5)]
    turns = 0

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(other_work())
    made = await steps.prepared(results, 1, evaluation=False)
    other.cancel()
    assert turns >= len(results)
    tables = []
    for name, given in (("at once", results), ("prepared", made)):
        with Store.create(tmp_path / name) as store:
            store.record_step(1, 1, 0.5, {}, given)
            read = store._connection
            tables.append([[tuple(r) for r in read.execute(f"SELECT * FROM {t}")] for t in ("episodes", "turns")])
    assert tables[0] == tables[1]
    assert [len(table) for table in tables[0]] == [10, 20]
