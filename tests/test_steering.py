"""Steering a run: single steps, what can be set, undoing, going back, forks. The oracle is the run left alone."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest

from engine import Arena, EpisodeRequest, Task
from engine import config as configuration
from engine.config import Config, ConfigError
from engine.events import EditApplied, RunState, StepFinished
from engine.mixture import Mixture, Part
from engine.run import Run, RunError
from engine.steering.edits import before
from engine.steering.forking import UNDONE, fork, roll_back
from engine.store import Store, StoreError
from engine.training import checkpoint, checkpoints
from tests.test_run import facts, small, until
from tui import cli
from tui.cli import beginning


def kept(**changes) -> Config:
    """`small`, with every checkpoint kept."""
    return small(checkpoint__keep=20, **changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Run:
    """A run left alone to its end."""
    run = Run.create(kept(), tmp_path_factory.mktemp("runs"), "whole")
    asyncio.run(run.start())
    assert run.state is RunState.FINISHED, run.reason
    return run


def resumed(folder) -> Run:
    run = Run.open(folder)
    asyncio.run(run.start())
    assert run.state is RunState.FINISHED, run.reason
    return run


def copy(run: Run, folder):
    return shutil.copytree(run.folder, folder)


# Single steps


async def test_a_single_step_is_one_step_and_changes_nothing_of_the_run(whole, tmp_path):
    run = Run.create(kept(), tmp_path)
    stream = run.watch(live=False)
    with pytest.raises(RunError, match="is loading, not paused"):
        run.step_once()
    playing = asyncio.create_task(run.start())
    await until(lambda: run.state is RunState.RUNNING)
    run.pause()
    for step in (1, 2):
        run.step_once()
        await until(lambda: run.state is RunState.PAUSED)
        await asyncio.sleep(0.2)
        done = [event.step for event in stream.drain() if isinstance(event, StepFinished)]
        assert (done, run.step) == ([step], step)
    run.resume()
    await playing
    assert run.state is RunState.FINISHED
    assert facts(run) == facts(whole)


async def test_a_step_held_half_way_is_the_single_step(tmp_path):
    run = Run.create(kept(), tmp_path)
    stream = run.watch()
    playing = asyncio.create_task(run.start())
    await until(lambda: any(type(event).__name__ == "TokensSampled" for event in stream.drain()))
    run.pause()
    run.step_once()
    await until(lambda: run.state is RunState.PAUSED)
    assert run.step == 1
    await run.stop()
    await playing


async def test_the_last_single_step_ends_the_run(tmp_path):
    run = Run.create(small(run__steps=1), tmp_path)
    playing = asyncio.create_task(run.start())
    await until(lambda: run.state is RunState.RUNNING)
    run.pause()
    run.step_once()
    await playing
    assert run.state is RunState.FINISHED


# What can be set


async def test_whatever_is_listed_can_be_set_to_what_it_is(tmp_path):
    run = Run.create(small(rewards__illegal_move={"weight": 0.5}), tmp_path)
    settings = {setting.key: setting for setting in run.settings()}
    for setting in settings.values():
        if setting.value:
            await run.set(setting.key, setting.value)
    assert {setting.key: setting.value for setting in run.settings()} == {k: s.value for k, s in settings.items()}
    await run.stop()


def test_the_list_tells_values_in_force_bounds_and_help(tmp_path):
    run = Run.create(small(roles__First={"temperature": 0.5}, train__loss="gspo"), tmp_path)
    settings = {setting.key: setting for setting in run.settings()}
    rate = settings["train.learning_rate"]
    assert (rate.value, rate.wants) == ("0.001", "a number above 0 and at most 1")
    assert rate.help == "The optimiser's step size."
    assert settings["roles.First.temperature"].value == "0.5"
    assert settings["roles.Second.temperature"].value == f"{run.roles['Second'].temperature}"
    assert settings["train.clip_high"].value == "0.0004"  # as the paper of GSPO has it
    assert settings["rewards.outcome.weight"].value == "1.0"
    refused = {"model.source", "train.optimiser", "roles.First.prompt", "run.seed", "rewards.outcome.roles"}
    assert not refused & settings.keys()


async def test_an_edit_is_undone_by_another_edit(tmp_path):
    run = Run.create(small(), tmp_path, "undo")
    own = run.roles["First"].temperature
    changes = [
        ("train.learning_rate", "0.01"),
        ("roles.First.temperature", "0.25"),
        ("rewards.outcome.weight", "2"),
    ]
    for key, value in changes:
        await run.set(key, value)
    await run.edit_role("Second", "Nim. Be bold.")
    with pytest.raises(RunError, match=r"has no edit 9; it has 4"):
        await run.undo(9)
    assert [await run.undo(number) for number in (1, 2, 3, 4)] == [5, 6, 7, 8]
    assert run.config.train.learning_rate == 0.001
    assert run.roles["First"].temperature == own
    assert run.config.rewards["outcome"].weight == 1.0
    assert run.roles["Second"].system_prompt == "Nim."
    await run.stop()
    with Store.open(tmp_path / "undo", read_only=True) as store:
        assert [(edit.number, edit.target) for edit in store.edits()][4:6] == [
            (5, "train.learning_rate"),
            (6, "roles.First.temperature"),
        ]
    with pytest.raises(RunError, match="is over: resume it"):
        await run.undo(1)


def test_a_weight_recorded_without_a_value_before_is_undone_to_the_schemas():
    assert before(EditApplied(1, 0, "rewards.outcome.weight", "", "2.0")) == "1.0"
    assert before(EditApplied(1, 0, "eval.metric", "", "draws")) == ""
    assert before(EditApplied(1, 0, "role First", "", "Hi")) == ""


# Shares of a mixture


def test_other_weights_go_on_from_where_each_task_was():
    class Counted(Task):
        """Gives the numbers of its own episodes as artifacts."""

        def setup(self, arena: Arena) -> None:
            pass

        async def evaluate(self, arena: Arena, n: int, label: str) -> dict[str, float]:
            return {}

        def requests(self, arena: Arena, n: int) -> list[EpisodeRequest]:
            return [EpisodeRequest("e", arena.played + i) for i in range(n)]

    mixture = Mixture({"a": Part(Counted(), 1.0), "b": Part(Counted(), 1.0)})
    arena, given = Arena(), {"a": [], "b": []}

    def play(mixture: Mixture, n: int) -> dict[str, int]:
        before = {name: len(numbers) for name, numbers in given.items()}
        for request in mixture.requests(arena, n):
            given[request.task].append(request.artifact)
        arena.played += n
        return {name: len(numbers) - before[name] for name, numbers in given.items()}

    assert play(mixture, 8) == {"a": 4, "b": 4}
    mixture.reweigh({"a": 3.0, "b": 1.0}, arena.played)
    assert play(mixture, 8) == {"a": 6, "b": 2}
    kept = json.loads(json.dumps(mixture.state()))
    twin = Mixture({"a": Part(Counted(), 1.0), "b": Part(Counted(), 1.0)})
    twin.load_state(kept)
    twin.reweigh({"a": 3.0, "b": 1.0}, arena.played)  # in force already: nothing changes
    assert twin.state() == kept
    assert play(twin, 6) == {"a": 5, "b": 1}  # of 14 as of 3:1, 11 and 3
    twin.reweigh({"a": 0.0, "b": 1.0}, arena.played)
    assert play(twin, 5) == {"a": 0, "b": 5}
    assert given == {"a": list(range(15)), "b": list(range(12))}  # none skipped, none twice
    with pytest.raises(ValueError, match="it was of 2 tasks, and there are 1"):
        Mixture({"a": Part(Counted(), 1.0)}).load_state(kept)


async def test_a_tasks_share_changes_while_the_run_is_at_work_and_going_back_keeps_it(tmp_path):
    tasks = {"nim": {"options": {"openings": 2}}, "kuhn": {"name": "kuhn_poker", "weight": 1.0}}
    plain = kept().model_dump(exclude_unset=True) | {"tasks": tasks, "eval": {"every": 0, "episodes": 4}}
    del plain["task"]
    run = Run.create(configuration.parse(plain, "test"), tmp_path, "mixed")
    playing = asyncio.create_task(run.start())
    await until(lambda: run.state is RunState.RUNNING)
    run.pause()
    run.step_once()
    await until(lambda: run.state is RunState.PAUSED)
    await run.set("tasks.kuhn.weight", "0.0")
    with pytest.raises(RunError, match="has no task 'poker', but nim, kuhn"):
        await run.set("tasks.poker.weight", "2")
    with pytest.raises(RunError, match="of a task only its weight can"):
        await run.set("tasks.kuhn.every", "2")
    with pytest.raises(ConfigError, match="wants a weight above 0 for one of them at least"):
        await run.set("tasks.nim.weight", "0")
    run.resume()
    await playing
    assert run.state is RunState.FINISHED, run.reason
    with Store.open(run.folder, read_only=True) as store:
        types = [
            sorted({e.rollout.episode_type.partition("/")[0] for e in store.episodes(step=step, evaluation=False)})
            for step in (1, 2, 3)
        ]
    assert types == [["kuhn", "nim"], ["nim"], ["nim"]]
    folder = copy(run, tmp_path / "back")
    roll_back(folder, 2)
    again = Run.open(folder)
    await again.start()
    assert facts(again) == facts(run)


# Going back


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_run_rolled_back_goes_on_as_it_had(whole, tmp_path, step):
    folder = copy(whole, tmp_path / "back")
    roll_back(folder, step)
    assert [kept for kept, _, _ in checkpoints.listed(folder / "checkpoints")] == list(range(step, -1, -1))
    with Store.open(folder, read_only=True) as store:
        assert [record.step for record in store.steps()] == list(range(1, step + 1))
        ended = store.state()
        assert ended is not None
        assert ended.state is RunState.STOPPED
    assert facts(resumed(folder)) == facts(whole)


def test_what_was_kept_for_a_reason_is_moved_and_not_lost(whole, tmp_path):
    folder = copy(whole, tmp_path / "back")
    checkpoints.mark(folder / "checkpoints/step-000002", "manual")
    for _ in range(2):
        roll_back(folder, 1)
        resumed(folder)
        checkpoints.mark(folder / "checkpoints/step-000002", "manual")
    undone = {path.name for path in (folder / UNDONE).iterdir()}
    assert undone == {"step-000002", "step-000003", "step-000002.2", "step-000003.2"}
    assert checkpoint.load(folder / UNDONE / "step-000002").reasons[-1] == "manual"


def test_going_back_to_what_there_is_not_changes_nothing(whole, tmp_path):
    folder = copy(whole, tmp_path / "back")
    with pytest.raises(RunError, match=r"no checkpoint of step 7 is kept; there are: 0, 1, 2, 3"):
        roll_back(folder, 7)
    (folder / "checkpoints/step-000001/learner.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match=r"step-000001/learner\.safetensors"):
        roll_back(folder, 1)
    assert len(checkpoints.listed(folder / "checkpoints")) == 4
    with Store.open(folder), pytest.raises(StoreError, match="is running this run"):
        roll_back(folder, 2)


@pytest.mark.parametrize("keep", [True, False])
def test_edits_stay_when_going_back_or_are_taken_back_by_new_ones(whole, tmp_path, keep):
    folder = copy(whole, tmp_path / "back")
    run = Run.open(folder)

    async def edit() -> None:
        await run.set("train.learning_rate", "0.5")
        await run.set("train.learning_rate", "0.25")
        await run.edit_role("First", "Nim. Be bold.")
        await run.stop()

    asyncio.run(edit())
    roll_back(folder, 1, keep_edits=keep)
    run = Run.open(folder)
    with Store.open(folder, read_only=True) as store:
        edits = [(edit.number, edit.step, edit.target, edit.after) for edit in store.edits()]
    assert edits[:3] == [
        (1, 1, "train.learning_rate", "0.5"),
        (2, 1, "train.learning_rate", "0.25"),
        (3, 1, "role First", "Nim. Be bold."),
    ]
    taken_back = [(4, 1, "train.learning_rate", "0.001"), (5, 1, "role First", "Nim.")]
    assert edits[3:] == ([] if keep else taken_back)
    assert run.config.train.learning_rate == (0.25 if keep else 0.001)
    assert run.roles["First"].system_prompt == ("Nim. Be bold." if keep else "Nim.")
    asyncio.run(run.stop())


# Forks


@pytest.mark.parametrize("step", [0, 2])
def test_a_fork_without_changes_ends_as_the_other_did(whole, tmp_path, step):
    folder = fork(whole.folder, tmp_path, step=step, name="twin")
    run = resumed(folder)
    assert run.origin == f"whole at step {step}"
    theirs, ours = facts(whole), facts(run)
    assert ours[0] == [turn for turn in theirs[0] if after(turn[0], step)]  # what came before is in the other's
    assert ours[1:] == theirs[1:]
    assert run.evaluations.state() == whole.evaluations.state()


def after(rollout: str, step: int) -> bool:
    """Whether an episode of `small` was played after a step; the first evaluation is at 0."""
    return rollout.startswith("eval-3/") if rollout.startswith("eval") else int(rollout.split(".")[0]) >= 8 * step


def test_a_fork_has_the_edits_of_its_checkpoint_folded_in_and_those_asked_for(whole, tmp_path):
    folder = copy(whole, tmp_path / "edited")
    roll_back(folder, 1)
    run = Run.open(folder)

    async def go() -> None:
        await run.set("train.learning_rate", "0.002")
        await run.edit_role("First", "Nim. Be bold.")
        await run.start()

    asyncio.run(go())
    resumed_run = Run.open(folder)
    asyncio.run(late_edit(resumed_run))
    made = fork(folder, tmp_path, changes=["run.steps=4", "run.seed=9"])
    assert made == tmp_path / "edited-1"
    config = configuration.load(made / "config.toml")
    assert (config.train.learning_rate, config.roles["First"].prompt) == (0.002, "Nim. Be bold.")
    assert (config.run.steps, config.run.seed, config.train.kl) == (4, 9, 0.0)
    run = resumed(made)
    assert run.step == 4
    assert run.roles["First"].system_prompt == "Nim. Be bold."
    with Store.open(made, read_only=True) as store:
        assert [record.step for record in store.steps()] == [1, 2, 3, 4]
        assert store.edits() == []


async def late_edit(run: Run) -> None:
    """One that came after the newest checkpoint: no part of it."""
    await run.set("train.kl", "0.5")
    await run.stop()


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ("lora.rank=8", RunError, "lora.rank is 4 in the checkpoint, and can't be 8 in a fork"),
        ("train.optimiser=adafactor", RunError, "train.optimiser is adamw"),
        ("credit.kind=grpo", RunError, "credit.kind is rae"),
        ("train.learning_rate=-1", ConfigError, "train.learning_rate: wants a number above 0"),
        ("run.episodes_per_step=8", RunError, "run.steps is 3, and the fork begins after step 3: .* run.steps=6"),
    ],
)
def test_a_fork_that_cannot_be_is_refused_and_leaves_no_folder(whole, tmp_path, change, error, said):
    with pytest.raises(error, match=said):
        fork(whole.folder, tmp_path / "runs", changes=[change])
    assert not (tmp_path / "runs").exists()


def test_a_fork_takes_no_name_that_is_taken(whole, tmp_path):
    fork(whole.folder, tmp_path, step=1, name="one")
    with pytest.raises(RunError, match="there is a run 'one'"):
        fork(whole.folder, tmp_path, step=1, name="one")
    with pytest.raises(RunError, match="no checkpoint of step 9"):
        fork(whole.folder, tmp_path, step=9)


def test_a_run_at_work_can_be_forked(whole, tmp_path):
    with Store.open(copy(whole, tmp_path / "busy")):
        assert fork(tmp_path / "busy", tmp_path, step=1).name == "busy-1"


# The command line


def test_the_command_line_forks_and_tells_how_to_begin(whole, tmp_path, capsys):
    runs = ["--runs-dir", str(tmp_path)]
    copy(whole, tmp_path / "old")
    assert cli.main(["fork", "old", "--step", "1", "--set", "train.kl=0.5", "--name", "new", *runs]) == 0
    assert f"run new in {tmp_path / 'new'}; it begins with: selfplay-tui resume" in capsys.readouterr().out
    assert configuration.load(tmp_path / "new" / "config.toml").train.kl == 0.5
    assert cli.main(["runs", *runs]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("new ") and "1/3" in line and "(from old at step 1)" in line for line in listed)


async def test_a_run_is_opened_from_within_a_loop_as_the_app_does(whole, tmp_path):
    run = beginning.reopen(copy(whole, tmp_path / "again"), None)
    assert run.step == 3
    await run.stop()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--step", "x"], "--step: wants the step of a checkpoint, a whole number, not 'x'"),
        (["--step", "8"], "no checkpoint of step 8 is kept; there are: 0, 1, 2, 3"),
        (["--set", "lora.rank=8"], "lora.rank is 4 in the checkpoint"),
        (["--set", "train.kl"], "--set train.kl: wants key=value"),
    ],
)
def test_what_cannot_be_forked_is_one_sentence_and_exit_code_2(whole, tmp_path, capsys, words, said):
    copy(whole, tmp_path / "old")
    assert cli.main(["fork", "old", *words, "--runs-dir", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("selfplay-tui: ")
    assert said in told
    assert [folder.name for folder in tmp_path.iterdir()] == ["old"]
