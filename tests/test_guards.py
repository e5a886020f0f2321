"""Guards, through whole runs: a step from which nothing can be learnt says why, and numbers that break stop it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from engine import config as configuration
from engine.events import RunState
from engine.guards import told
from engine.run import Run
from engine.store import StepRecord, Store
from engine.training import checkpoint, checkpoints
from tests.test_run import small

TASK = """
from engine import Episode, EpisodeRequest, Role, Rubric, Task

def length(rollout, arena):
    return REWARDS

class Say(Episode):
    rubric = Rubric([length])
    async def rollout(self, arena, artifact, state):
        for role in ROLES:
            await self.call_model(role, "13", arena, max_tokens=3)
        FAILURE
        return state

class Sayings(Task):
    def setup(self, arena):
        arena.add_role(Role("A"))
        arena.add_role(Role("B", player="base"))
        arena.add_episode("say", Say())
    def requests(self, arena, n):
        return [EpisodeRequest("say", ARTIFACT) for i in range(n)]
    async def evaluate(self, arena, n, label):
        return {"win_vs_random": 0.0}
"""


def saying(
    folder: Path, *, rewards="{'A': float(rollout.id)}", roles="'A'", failure="", artifact="'q'", **settings
):
    """A configuration of a task in which the live policy (A) or the base (B) says something; parts of its text."""
    text = TASK.replace("REWARDS", rewards).replace("ROLES", roles)
    (folder / "task.py").write_text(text.replace("FAILURE", failure).replace("ARTIFACT", artifact))
    own = {"task__name": f"{folder / 'task.py'}", "task__options": {}, "run__steps": 1}
    return small(**(own | settings))


async def steps(config, folder: Path, state: RunState = RunState.FINISHED) -> list[StepRecord]:
    """The steps of a run seen through to its end, as its record has them."""
    run = Run.create(config, folder / "runs", "run")
    await run.start()
    assert run.state is state, run.reason
    with Store.open(run.folder, read_only=True) as store:
        return store.steps()


GRPO: dict[str, Any] = {"credit__kind": "grpo"}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (GRPO | {"rewards": "{'A': 1.0}"}, "the only group had equal rewards"),
        (GRPO | {"rewards": "{'A': 1.0}", "artifact": "i // 2"}, "all 4 groups had equal rewards"),
        (GRPO | {"artifact": "i"}, "all 8 groups had one rollout, and nothing to compare it with"),
        (
            GRPO | {"rewards": "{'A': 1.0}", "artifact": "min(i, 4)"},
            "1 of 5 groups had equal rewards; 4 of 5 groups had one rollout, and nothing to compare it with",
        ),
        ({"roles__A": {"temperature": 0.0}}, "all 8 turns had temperature 0, which leaves no gradient"),
        ({"rewards": "{'A': 0.0}"}, "the only group had rewards equal to their baseline"),
        ({"rewards": "None"}, "all 8 episodes could not be scored"),
        ({"rewards": "{'A': float('nan')}"}, "all 8 episodes could not be scored"),
        ({"failure": "raise ValueError('no')"}, "all 8 episodes failed"),
        (
            GRPO | {"failure": "assert int(state.id) % 2", "rewards": "None if rollout.id in '15' else {'A': 1.0}"},
            "4 of 8 episodes failed; 2 of 8 episodes could not be scored; the only group had equal rewards",
        ),
        ({"rewards": "{'B': 1.0}"}, "no role that spoke has a reward"),
        ({"roles": "'B'", "rewards": "{'B': 1.0}"}, "the policy said nothing"),
    ],
)
async def test_a_step_from_which_nothing_can_be_learnt_says_why(tmp_path: Path, parts: dict[str, Any], said: str):
    [step] = await steps(saying(tmp_path, **parts), tmp_path)
    assert step.skipped == said
    assert (step.metrics["skipped"], step.metrics["updates"], step.version) == (1.0, 0.0, 0)


async def test_turns_that_are_all_too_old_are_named(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("engine.steps.split_stale", lambda records, *_: ([], len(records)))
    [step] = await steps(saying(tmp_path), tmp_path)
    assert step.skipped == "all 8 turns exceeded run.max_staleness"
    assert step.metrics["stale"] == 8.0


async def test_how_many_groups_taught_something_is_a_metric_of_every_step(tmp_path: Path):
    parts = {"artifact": "min(i // 2, 3) if i < 7 else 'alone'", "rewards": "{'A': float(rollout.id == '0')}"}
    [step] = await steps(saying(tmp_path, **GRPO, **parts), tmp_path)
    metrics = step.metrics
    assert (metrics["groups"], metrics["flat_groups"], metrics["lone_groups"]) == (5.0, 2.0, 2.0)
    assert metrics["signal"] == 2 / 8
    assert (step.skipped, metrics["turns"], metrics["updates"]) == ("", 2.0, 1.0)


async def test_a_step_without_an_active_token_moves_neither_weights_nor_moments_nor_version(tmp_path: Path):
    """The learning rate's schedule goes by the run's steps, so it moves on."""
    rewards = "{'A': float(rollout.id) if int(rollout.id) < 8 else 1.0}"
    config = saying(tmp_path, **GRPO, rewards=rewards, run__steps=2, train__warmup=4, train__weight_decay=0.1)
    learnt, skipped = await steps(config, tmp_path)
    assert (learnt.skipped, skipped.skipped) == ("", "the only group had equal rewards")
    assert (learnt.version, skipped.version) == (1, 1)
    assert skipped.metrics["learning_rate"] > learnt.metrics["learning_rate"]
    first, second = (
        checkpoint.load(checkpoint.folder(tmp_path / "runs/run/checkpoints", step)).learner() for step in (1, 2)
    )
    changed = {name for name in first if not (first[name] == second[name]).all()}
    assert changed <= {"steps"}


def broken_from(monkeypatch, first: int, last: int = 10**9) -> None:
    """The loss of these steps is NaN, counted from 1."""
    import engine.training.learner as learner
    import engine.training.passes as passes

    backward, step, count = passes.backward, learner.Learner.step, 0

    def counting(self, records):
        nonlocal count
        count += 1
        return step(self, records)

    def breaking(*arguments):
        value, *rest = backward(*arguments)
        return value * math.nan if first <= count <= last else value, *rest

    monkeypatch.setattr(learner.Learner, "step", counting)
    monkeypatch.setattr(passes, "backward", breaking)


async def test_a_step_that_is_not_finite_is_left_out_counted_and_shown_and_the_run_goes_on(
    tmp_path: Path, monkeypatch
):
    broken_from(monkeypatch, 2, 3)
    found = await steps(saying(tmp_path, run__steps=5), tmp_path)
    assert [step.skipped for step in found] == ["", *["its loss or gradient was not finite"] * 2, "", ""]
    assert [step.metrics["nonfinite"] for step in found] == [0.0, 1.0, 1.0, 0.0, 0.0]
    assert [step.version for step in found] == [1, 1, 1, 2, 3]
    assert all(math.isfinite(value) for step in found for value in step.metrics.values())


async def test_three_such_steps_in_a_row_stop_the_run_and_it_resumes_from_the_last_good_state(
    tmp_path: Path, monkeypatch
):
    with monkeypatch.context() as patched:
        broken_from(patched, 3)
        run = Run.create(saying(tmp_path, run__steps=9, checkpoint__keep=1), tmp_path, "run")
        await run.start()
    assert run.state is RunState.FAILED
    assert run.step == 5
    assert run.reason == (
        "3 steps in a row, to step 5, had no finite loss or gradient. The last good state is kept in "
        "checkpoints/step-000001; resuming goes on from it. Try a lower train.learning_rate (now 0.001) or "
        "train.grad_clip (now 1)"
    )
    good, refused = checkpoints.latest(run.folder / "checkpoints")
    assert good is not None
    assert (good.step, "good" in good.reasons) == (1, True)
    assert all("nothing finite can be learnt from it" in problem for problem in refused)

    again = Run.open(run.folder)
    assert again.step == 1
    await again.set("run.steps", "4")
    await again.set("train.learning_rate", "0.0001")
    await again.start()
    assert again.state is RunState.FINISHED, again.reason
    with Store.open(run.folder, read_only=True) as store:
        assert [(step.step, step.skipped) for step in store.steps()] == [(1, ""), (2, ""), (3, ""), (4, "")]
        assert [saved.step for saved in store.checkpoints() if saved.reason == "good"] == [1]
    newest, refused = checkpoints.latest(run.folder / "checkpoints")  # written over one that was passed over
    assert newest is not None
    assert (newest.step, refused) == (4, [])


async def test_a_run_that_was_stopped_with_broken_weights_goes_back_before_them(tmp_path: Path, monkeypatch):
    run = Run.create(saying(tmp_path, run__steps=3), tmp_path, "run")
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    again = Run.open(run.folder)
    await again.set("run.steps", "9")
    broken_from(monkeypatch, 1)
    await again.start()
    assert (again.state, again.step) == (RunState.FAILED, 6)
    assert "kept in checkpoints/step-000002; resuming goes on from it" in again.reason
    last = Run.open(run.folder)
    assert last.step == 2
    await last.stop()


async def test_weights_that_diverged_stop_the_run_and_name_the_state_before(tmp_path: Path):
    """At a learning rate of 1 such a decay makes numbers that overflow in the next forward pass."""
    huge = {"train__learning_rate": 1.0, "train__warmup": 0, "train__weight_decay": 1e30}
    run = Run.create(saying(tmp_path, run__steps=9, **huge), tmp_path, "run")
    await run.start()
    assert (run.state, run.step) == (RunState.FAILED, 1)
    assert "logits of policy aren't finite: its weights diverged. The last good state is kept in" in run.reason
    assert "checkpoints/step-000000; resuming goes on from it" in run.reason
    again = Run.open(run.folder)
    assert again.step == 0
    for key, value in {"train.weight_decay": "0", "train.learning_rate": "0.001", "run.steps": "3"}.items():
        await again.set(key, value)
    await again.start()
    assert again.state is RunState.FINISHED, again.reason


async def test_a_publish_that_is_refused_loses_nothing(tmp_path: Path, monkeypatch):
    from engine.training.learner import Learner

    publish = Learner.publish

    def overflowing(self, player):
        if self.version == 2:
            self.parameters = {name: array + math.inf for name, array in self.parameters.items()}
        return publish(self, player)

    with monkeypatch.context() as patched:
        patched.setattr(Learner, "publish", overflowing)
        run = Run.create(saying(tmp_path, run__steps=4), tmp_path, "run")
        await run.start()
    assert run.state is RunState.FAILED
    assert run.step == 2
    assert re.match(
        r"player 'policy' can't get weights that aren't finite: those of model\..* and \d+ more\. "
        r"The last good state is kept in checkpoints/step-000001; resuming goes on from it\. Try a lower",
        run.reason,
    )
    again = Run.open(run.folder)
    await again.start()
    assert again.state is RunState.FINISHED, again.reason


METRIC = re.compile(r"`([a-z_/<>]+)`")
LEARNING = Path(__file__).parent.parent / "docs" / "learning.md"


def documented() -> tuple[set[str], set[str], set[str]]:
    """The metrics named in the page's three tables: of every step, of every update, and of some."""
    section = LEARNING.read_text(encoding="utf-8").split("## What to watch")[1].split("\n## ")[0]
    advice, every, updated, some = re.split(
        "All there are|Where there was an update|Where there was something", section
    )

    def names(part: str) -> set[str]:
        return {
            name for row in part.splitlines() for name in METRIC.findall(row.split("|")[1] if "|" in row else "")
        }

    assert names(advice) <= names(every) | names(updated) | names(some)
    return names(every), names(updated), names(some)


FULL: dict[str, Any] = {"lora__kind": "full"}
MIX: dict[str, Any] = {"train__kl": 0.1, "train__sft": 0.1, "train__dpo": 0.1}
SKIPPED: dict[str, Any] = {"rewards": "{'A': 1.0}"}


async def test_a_steps_metrics_are_those_documented(tmp_path: Path):
    every, updated, some = documented()
    seen = set()
    runs: list[dict[str, Any]] = [{"run__steps": 2}, GRPO | MIX, FULL, GRPO | SKIPPED]
    for index, settings in enumerate(runs):
        folder = tmp_path / f"{index}"
        folder.mkdir()
        for step in await steps(saying(folder, **settings), folder):
            found = set(map(kind, step.metrics))
            assert every - ({"lora_b_norm"} if settings is FULL else set()) <= found
            assert found <= every | updated | some
            assert (updated <= found) == (not step.skipped)
            assert all(type(value) is float and math.isfinite(value) for value in step.metrics.values())
            seen |= found
    assert seen == every | updated | some


def kind(metric: str) -> str:
    """The name as the page has it, whatever the roles and reward functions."""
    return f"reward/<role>{'/<function>' * (metric.count('/') - 1)}" if "/" in metric else metric


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[metal::malloc] Attempting to allocate 17179869184 bytes which is greater than the maximum."),
        RuntimeError("[malloc] Unable to allocate 8589934592 bytes."),
        RuntimeError("std::bad_alloc"),
        RuntimeError("cudaMallocAsync(&data, size, stream) failed: out of memory"),
        MemoryError(),
    ],
)
def test_memory_that_ran_out_is_called_so_and_what_needs_less_is_named(error: Exception) -> None:
    said = told(error)
    assert said.startswith("out of memory: ")
    assert all(configuration.key(name) for name in ("model.rows", "model.context", "train.microbatch_tokens"))
    assert "lower model.rows, model.context or train.microbatch_tokens" in said
    assert ".. " not in said


def test_another_fault_of_the_device_says_no_more_than_it_is() -> None:
    assert told(RuntimeError("[matmul] shapes don't fit")) == "[matmul] shapes don't fit"
