"""A whole run of the embedded model, small: driven, steered, killed and continued."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from engine.config import parse
from engine.events import (
    EditApplied,
    EpisodeFinished,
    EvaluationFinished,
    RunState,
    StateChanged,
    StepFinished,
    TokensSampled,
    TurnFinished,
)
from engine.run import Run, RunError
from engine.store import Store, StoreError
from engine.task import TaskError
from engine.training import checkpoint, checkpoints
from engine.training.trainer import LocalTrainer
from tui import cli


def small(**changes):
    """A configuration of `nim` that takes a second a step; `section__key=value` changes it."""
    mapping = {
        "task": {"name": "nim", "options": {"openings": 2}},
        "model": {"source": "pocket", "context": 128},
        "run": {"steps": 3, "episodes_per_step": 8, "seed": 5},
        "lora": {"rank": 4},
        "eval": {"every": 0, "episodes": 4, "metric": "win_vs_random"},
    }
    for name, value in changes.items():
        section, key = name.split("__")
        mapping.setdefault(section, {})[key] = value
    return parse(mapping, "test")


async def until(condition, seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def facts(run: Run) -> tuple:
    """What must be equal between two runs that are the same: transcripts, metrics but times, adapters."""
    with sqlite3.connect(run.folder / "run.sqlite") as db:
        turns = db.execute('SELECT episode, "index", tokens, logprobs, versions, credit FROM turns ORDER BY 1, 2')
        transcripts = turns.fetchall()
    store = Store.open(run.folder)
    timed = ("_rate", "_seconds")
    metrics = [{k: v for k, v in s.metrics.items() if not k.endswith(timed)} for s in store.steps()]
    store.close()
    last = sorted((run.folder / "checkpoints").iterdir())[-1]
    return transcripts, metrics, (last / "adapters.safetensors").read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> tuple[Run, list]:
    """A run seen through to its end, and all it announced."""
    run = Run.create(small(), tmp_path_factory.mktemp("runs"), "whole")
    stream = run.watch()
    asyncio.run(run.start())
    assert run.state is RunState.FINISHED, run.reason
    return run, stream.drain()


def test_a_run_stops_by_itself_when_its_steps_are_done(finished):
    run, events = finished
    status = run.status()
    assert (status.step, status.version) == (3, 3)
    assert [event.step for event in events if isinstance(event, StepFinished)] == [1, 2, 3]
    assert [event.state for event in events if isinstance(event, StateChanged)] == ["running", "finished"]
    assert status.tokens_generated > 0
    assert status.tokens_trained > 0


def test_it_is_measured_before_and_after(finished):
    _, events = finished
    evaluations = [event for event in events if isinstance(event, EvaluationFinished)]
    assert [event.step for event in evaluations] == [0, 3]
    assert {"win_vs_random", "loss_vs_perfect", "illegal"} <= evaluations[0].metrics.keys()


def test_every_token_knows_the_version_that_sampled_it(finished):
    _, events = finished
    versions = {
        (token, event.result.rollout.id)
        for event in events
        if isinstance(event, EpisodeFinished) and event.result.is_trainable
        for turn in event.result.rollout.turns
        for token in turn.completion.versions
    }
    assert {version for version, _ in versions} == {0, 1, 2}
    assert all(version == int(rollout) // 8 for version, rollout in versions)


def test_sampler_and_learner_agree_on_fresh_tokens(finished):
    _, events = finished
    for event in events:
        if isinstance(event, StepFinished):
            assert event.metrics["mismatch_max"] < 1e-3
            assert event.metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-3)


def test_the_adapter_moves(finished):
    _, events = finished
    norms = [event.metrics["lora_b_norm"] for event in events if isinstance(event, StepFinished)]
    assert all(later > earlier > 0 for earlier, later in itertools.pairwise(norms))


def test_everything_shown_can_be_rebuilt_from_the_folder(finished):
    run, events = finished
    store = Store.open(run.folder)
    announced = {e.step: e.metrics for e in events if isinstance(e, StepFinished)}
    assert {step.step: step.metrics for step in store.steps()} == announced
    played = {e.result.rollout.id for e in events if isinstance(e, EpisodeFinished)}
    assert {episode.rollout.id for episode in store.episodes()} == played
    store.close()


def test_streamed_tokens_are_those_of_the_record(finished):
    """Nobody drained in between, so what was streamed of a turn is one event; of short ones nothing was."""
    _, events = finished
    streamed = {(e.rollout_id, e.turn): e.tokens for e in events if isinstance(e, TokensSampled)}
    ended = {(e.rollout_id, e.turn): e.tokens for e in events if isinstance(e, TurnFinished)}
    recorded = {
        (e.result.rollout.id, turn.index): turn.completion.tokens
        for e in events
        if isinstance(e, EpisodeFinished)
        for turn in e.result.rollout.turns
    }
    assert ended == recorded
    assert streamed
    assert streamed.items() <= recorded.items()


def test_the_adapter_kept_has_the_same_logits_and_plays_the_same_greedy_moves_in_mlx_lm(finished):
    """In a process of its own: MLX there sees neither our maths nor our slots."""
    run, _ = finished
    program = """
import sys, json, mlx.core as mx
from mlx.utils import tree_map
from mlx_lm import load, generate
model, tokenizer = load(sys.argv[1], adapter_path=sys.argv[2])
model.update(tree_map(lambda a: a.astype(mx.float32), model.parameters()))
moves, logits = [], []
for sticks in range(1, 21):
    messages = [{"role": "system", "content": "Nim."}, {"role": "user", "content": f"{sticks:02d}"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    moves.append(generate(model, tokenizer, prompt, max_tokens=6))
    logits.append(model(mx.array([prompt]))[0].tolist())
print(json.dumps([moves, logits]))
"""
    from engine.inference.models import POCKET

    adapter = sorted((run.folder / "checkpoints").iterdir())[-1]
    command = [sys.executable, "-c", program, str(POCKET), str(adapter)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    moves, logits = asyncio.run(moves_and_logits(run))
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert moves == theirs[0]
    for ours, expected in zip(logits, theirs[1], strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-4)


async def moves_and_logits(run: Run) -> tuple[list[str], list[np.ndarray]]:
    """Greedy moves, and the policy's logits at every token of a prompt, for 1 to 20 sticks."""
    from engine import POLICY, Sampling

    trainer = await LocalTrainer.open(run.config, on_error=lambda error: None)
    prompts = [
        [{"role": "system", "content": "Nim."}, {"role": "user", "content": f"{sticks:02d}"}]
        for sticks in range(1, 21)
    ]

    def logits() -> list[np.ndarray]:
        import mlx.core as mx

        lm, encode = trainer.model, trainer.tokenizer.prompt
        with trainer.adapters.speaking(POLICY):
            return [np.array(lm.head(lm.hidden(mx.array([encode(prompt)]))))[0] for prompt in prompts]

    try:
        found, _ = checkpoints.latest(run.folder / "checkpoints")
        assert found is not None
        await trainer.restore(found)
        client = trainer.client
        greedy = Sampling(temperature=0.0, max_tokens=6)
        futures = [client.submit(prompt, greedy, POLICY, key) for key, prompt in enumerate(prompts)]
        client.flush()
        done = []
        for future in futures:
            while not future.done():
                client.flush()
                await asyncio.sleep(0.001)
            done.append(future.result().text)
        return done, await trainer.device.call(logits)
    finally:
        await trainer.close()


async def test_the_same_seed_gives_the_same_run(finished, tmp_path):
    run, _ = finished
    again = Run.create(small(), tmp_path)
    await again.start()
    assert facts(again) == facts(run)


async def test_another_seed_gives_another_run(finished, tmp_path):
    run, _ = finished
    other = Run.create(small(run__seed=6), tmp_path)
    await other.start()
    assert facts(other)[0] != facts(run)[0]


async def test_a_stopped_run_goes_on_as_if_it_had_not_been(finished, tmp_path):
    run, _ = finished
    first = Run.create(small(), tmp_path, "halves")
    stream = first.watch(live=False)
    playing = asyncio.create_task(first.start())
    await until(lambda: any(isinstance(event, StepFinished) for event in stream.drain()))
    await first.stop()
    await playing
    assert first.state is RunState.STOPPED
    second = Run.open(tmp_path / "halves")
    await second.start()
    assert second.state is RunState.FINISHED
    assert facts(second) == facts(run)


@pytest.mark.parametrize("at", [0, 3])
async def test_a_run_stopped_in_an_evaluation_makes_up_for_it(finished, tmp_path, at):
    run, _ = finished
    first = Run.create(small(), tmp_path, "unmeasured")
    stream = first.watch()
    playing = asyncio.create_task(first.start())
    await until(lambda: any(getattr(e, "rollout_id", "").startswith(f"eval-{at}/") for e in stream.drain()))
    await first.stop()
    await playing
    assert first.state is RunState.STOPPED
    second = Run.open(tmp_path / "unmeasured")
    await second.start()
    assert second.state is RunState.FINISHED, second.reason
    assert second.evaluations.state() == run.evaluations.state()
    assert facts(second) == facts(run)


async def test_a_killed_run_goes_on_as_if_it_had_not_been(finished, tmp_path):
    run, _ = finished
    program = (
        "import asyncio, pathlib, sys; from tests.test_run import small; from engine.run import Run\n"
        "asyncio.run(Run.create(small(), pathlib.Path(sys.argv[1]), 'killed').start())"
    )
    root = Path(__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": str(root)}
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=root, env=environment)
    await until(lambda: (tmp_path / "killed/checkpoints/step-000001").exists(), 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed = Run.open(tmp_path / "killed")
    await resumed.start()
    assert facts(resumed) == facts(run)


async def test_a_damaged_checkpoint_is_refused_by_name_and_the_one_before_is_used(finished, tmp_path):
    run, _ = finished
    first = Run.create(small(run__steps=2), tmp_path, "damaged")
    await first.start()
    newest = tmp_path / "damaged/checkpoints/step-000002/learner.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    second = Run.open(tmp_path / "damaged")
    await second.set("run.steps", "3")
    stream = second.watch(live=False)
    await second.start()
    said = [event.text for event in stream.drain() if type(event).__name__ == "Notice"]
    assert any("step-000002" in text and "learner.safetensors" in text for text in said)
    assert facts(second) == facts(run)


@pytest.mark.parametrize("damage", ["every learner cut short", "no checkpoints"])
def test_a_record_of_steps_is_not_thrown_away_for_want_of_a_checkpoint(finished, tmp_path, damage):
    run, _ = finished
    folder = tmp_path / "whole"
    shutil.copytree(run.folder, folder)
    if damage == "no checkpoints":
        shutil.rmtree(folder / "checkpoints")
    for file in folder.glob("checkpoints/*/learner.safetensors"):
        file.write_bytes(b"")
    said = "there is none in" if damage == "no checkpoints" else r"step-000003/learner\.safetensors: has 0 bytes"
    with pytest.raises(RunError, match=f"run whole has no checkpoint to go on from: .*{said}"):
        Run.open(folder)
    with Store.open(folder) as store:
        assert [step.step for step in store.steps()] == [1, 2, 3]


async def test_a_pause_holds_within_a_tick_and_changes_nothing(finished, tmp_path):
    run, _ = finished
    paused = Run.create(small(), tmp_path)
    stream = paused.watch()
    playing = asyncio.create_task(paused.start())
    for _ in range(3):
        await until(lambda: any(isinstance(event, TokensSampled) for event in stream.drain()))
        paused.pause()
        await asyncio.sleep(0.1)  # whatever tick was under way is over
        stream.drain()
        await asyncio.sleep(0.2)
        assert not [event for event in stream.drain() if isinstance(event, TokensSampled)]
        assert paused.state is RunState.PAUSED
        paused.resume()
    await playing
    assert facts(paused) == facts(run)


async def test_an_edited_prompt_governs_the_next_episodes_and_says_so(tmp_path):
    run = Run.create(small(), tmp_path, "edited")
    stream = run.watch()
    playing = asyncio.create_task(run.start())
    seen = []
    await until(lambda: seen.extend(stream.drain()) or any(isinstance(e, StepFinished) for e in seen))
    assert await run.edit_role("First", "Nim. Be bold.") == 1
    with pytest.raises(RunError, match="this run has: First, Second"):
        await run.edit_role("Frist", "?")
    await playing
    seen += stream.drain()
    edit = next(event for event in seen if isinstance(event, EditApplied))
    assert (edit.number, edit.target, edit.before, edit.after) == (1, "role First", "Nim.", "Nim. Be bold.")
    for event in seen:
        if isinstance(event, EpisodeFinished):
            rollout = event.result.rollout
            for turn in rollout.turns:
                system = turn.messages[0]["content"]
                assert system == ("Nim. Be bold." if rollout.edits[turn.role] else "Nim.")
    rollouts = [event.result.rollout for event in seen if isinstance(event, EpisodeFinished)]
    assert {rollout.edits["First"] for rollout in rollouts if "First" in rollout.edits} == {0, 1}
    assert Run.open(tmp_path / "edited").roles["First"].system_prompt == "Nim. Be bold."


async def test_a_roles_sampling_can_change_without_losing_its_edited_prompt(tmp_path):
    run = Run.create(small(roles__First={"prompt": "Nim."}), tmp_path, "edits")
    await run.edit_role("First", "Nim. Be bold.")
    await run.set("roles.First.temperature", "0.5")
    for seen in (run, None):
        if seen is None:
            await run.stop()
            seen = Run.open(tmp_path / "edits")
        assert (seen.roles["First"].system_prompt, seen.roles["First"].temperature) == ("Nim. Be bold.", 0.5)


async def test_a_run_stopped_while_it_loads_ends_cleanly_and_can_be_resumed(tmp_path):
    run = Run.create(small(run__steps=1), tmp_path, "early")
    playing = asyncio.create_task(run.start())
    await asyncio.sleep(0)
    await run.stop()
    await playing
    assert run.state is RunState.STOPPED
    again = Run.open(tmp_path / "early")
    await again.start()
    assert again.state is RunState.FINISHED, again.reason


async def test_hyperparameters_change_mid_run_within_their_bounds(tmp_path):
    run = Run.create(small(), tmp_path)
    await run.set("train.learning_rate", "0.5")
    assert run.config.train.learning_rate == 0.5
    with pytest.raises(RunError, match=r"model\.source cannot change"):
        await run.set("model.source", "other")
    with pytest.raises(Exception, match="learning_rate"):
        await run.set("train.learning_rate", "-1")
    assert run.config.train.learning_rate == 0.5
    await run.stop()


FAILING = """
from engine import Episode, EpisodeRequest, Role, Rubric, Task

class Sometimes(Episode):
    rubric = Rubric([lambda rollout, arena: {"A": float(len(rollout.turns[0].completion.text))}])
    async def rollout(self, arena, artifact, state):
        await self.call_model("A", "13", arena, max_tokens=3)
        if int(state.id.split("/")[-1]) % FAIL_EVERY == 0:
            raise ValueError("a fault of the task")
        return state

class Failing(Task):
    def setup(self, arena):
        arena.add_role(Role("A"))
        arena.add_episode("sometimes", Sometimes())
    def requests(self, arena, n):
        return [EpisodeRequest("sometimes")] * n
    async def evaluate(self, arena, n, label):
        return {"win_vs_random": 0.0}
"""


async def test_a_task_that_fails_now_and_then_is_counted_and_the_run_goes_on(tmp_path):
    (tmp_path / "task.py").write_text(FAILING.replace("FAIL_EVERY", "4"))
    run = Run.create(small(task__name=str(tmp_path / "task.py"), task__options={}), tmp_path / "runs")
    await run.start()
    assert (run.state, run.status().failed) == (RunState.FINISHED, 6)


async def test_an_evaluation_without_a_number_is_named(tmp_path):
    text = FAILING.replace("FAIL_EVERY", "4").replace('"win_vs_random": 0.0', '"win_vs_random": float("nan")')
    (tmp_path / "task.py").write_text(text)
    run = Run.create(small(task__name=str(tmp_path / "task.py"), task__options={}), tmp_path / "runs")
    await run.start()
    assert (run.state, "no finite number for win_vs_random" in run.reason) == (RunState.FAILED, True)


async def test_ten_failures_in_a_row_stop_the_run_with_its_state_saved(tmp_path):
    (tmp_path / "task.py").write_text(FAILING.replace("FAIL_EVERY", "1"))
    config = small(task__name=str(tmp_path / "task.py"), task__options={}, run__episodes_per_step=12)
    run = Run.create(config, tmp_path / "runs", "failing")
    await run.start()
    assert run.state is RunState.FAILED
    assert "10 episodes in a row failed" in run.reason
    assert "ValueError: a fault of the task" in run.reason
    found, _ = checkpoints.latest(tmp_path / "runs/failing/checkpoints")
    assert found is not None
    assert found.step == 0


async def test_rollouts_may_be_played_ahead_of_the_learner(tmp_path):
    run = Run.create(small(run__max_staleness=1, run__steps=4), tmp_path)
    stream = run.watch()
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    steps = [event for event in stream.drain() if isinstance(event, StepFinished)]
    assert max(event.metrics["age_mean"] for event in steps) > 0
    assert run.status().stale == sum(int(event.metrics["stale"]) for event in steps)


async def test_a_model_that_is_not_there_fails_with_a_sentence(tmp_path):
    run = Run.create(small(model__source=str(tmp_path / "no-such-model")), tmp_path / "runs")
    await run.start()
    assert run.state is RunState.FAILED
    assert "no-such-model" in run.reason


def test_what_does_not_fit_the_task_leaves_no_folder(tmp_path):
    with pytest.raises(TaskError, match=r"\[roles.Frist\].*First, Second"):
        Run.create(parse({"task": {"name": "nim"}, "roles": {"Frist": {"prompt": "x"}}}, "test"), tmp_path)
    with pytest.raises(TaskError, match="nearest: nim"):
        Run.create(parse({"task": {"name": "nimm"}}, "test"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_could_not_be_made_whole_is_not_there(tmp_path, monkeypatch):
    """It is filled beside its place: its name is free until everything in it is written."""

    def fails(folder: Path) -> Store:
        assert (folder / "config.toml").exists()
        assert not (tmp_path / "mine").exists()
        raise StoreError(f"{folder}: no room")

    monkeypatch.setattr(Store, "create", fails)
    with pytest.raises(StoreError, match="no room"):
        Run.create(small(), tmp_path, "mine")
    assert list(tmp_path.iterdir()) == []


def test_run_names_are_folders_of_their_own(tmp_path):
    first, second = Run.create(small(), tmp_path), Run.create(small(), tmp_path)
    assert (first.name, second.name) == ("nim-1", "nim-2")
    with pytest.raises(RunError, match="already"):
        Run.create(small(), tmp_path, "nim-1")
    with pytest.raises(RunError, match="separators"):
        Run.create(small(), tmp_path, "../elsewhere")
    with pytest.raises(RunError, match="no run at"):
        Run.open(tmp_path / "nim-3")


async def test_constrained_roles_play_legal_moves_alone_and_the_learner_agrees(tmp_path):
    hot = {"constrained": True, "temperature": 5.0, "max_tokens": 1}  # a move takes more tokens than that
    run = Run.create(small(roles__First=hot, roles__Second=hot, run__steps=2, train__kl=0.1), tmp_path)
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    store = Store.open(run.folder)
    for step in store.steps():
        assert step.metrics["illegal_rate"] == step.metrics["truncated_rate"] == 0.0
        assert step.metrics["mismatch_max"] < 1e-4
        assert step.metrics["updates"] == 1.0
    assert [evaluation.metrics["illegal"] for evaluation in store.evaluations()] == [0.0, 0.0]
    assert store.notices() == []
    turns = [turn for episode in store.episodes(step=1) for turn in store.turns(episode.rollout.id)]
    assert {turn.completion.text for turn in turns} == {"[1]", "[2]", "[3]"}
    for turn in turns:
        allowed = turn.completion.allowed
        assert len(allowed) == len(turn.completion.tokens)
        assert all(token in ids for token, ids in zip(turn.completion.tokens, allowed, strict=True))
        assert max(map(len, allowed)) == min(3, int(turn.messages[-1]["content"]))
    store.close()


async def test_sampling_that_biases_what_is_learnt_is_warned_of_once_a_role(tmp_path):
    run = Run.create(small(roles__First={"top_p": 0.9, "min_p": 0.1}, run__steps=1), tmp_path)
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    store = Store.open(run.folder)
    [(step, notice)] = store.notices()
    store.close()
    assert (step, notice.severity) == (0, "warning")
    assert notice.text.startswith("role First samples with top_p=0.9, min_p=0.1: the learner computes the plain")


async def test_settings_of_sampling_change_mid_run_and_outlive_it(tmp_path):
    run = Run.create(small(), tmp_path, "edits")
    edits = {"logit_bias": '{ "1" = 2.0 }', "stop": '["]", "\\n"]', "seconds": "2.5", "constrained": "true"}
    for key, value in edits.items():
        await run.set(f"roles.First.{key}", value)
    for seen in (run, None):
        if seen is None:
            await run.stop()
            seen = Run.open(tmp_path / "edits")
        role = seen.roles["First"]
        assert role.logit_bias == (("1", 2.0),)
        assert (role.stop, role.seconds, role.constrained) == (("]", "\n"), 2.5, True)
        assert role.sampling.stop == role.stop


async def test_a_bias_of_a_text_that_isnt_one_token_is_refused_before_anything_is_played(tmp_path):
    run = Run.create(small(roles__First={"logit_bias": {"1": 1.0, "yes": 2.0}}), tmp_path)
    await run.start()
    assert run.state is RunState.FAILED
    assert run.reason.startswith("roles.First.logit_bias: 'yes' is 3 tokens")


# What a run has learnt, elsewhere


@pytest.mark.parametrize("form", ["peft", "mlx"])
def test_an_exported_adapter_begins_another_run_as_the_policy_it_was(finished, tmp_path, form, capsys):
    run, _ = finished
    assert cli.main(["export", str(run.folder), str(tmp_path / "out"), "--format", form]) == 0
    assert capsys.readouterr().out == f"step 3 of whole is in {tmp_path / 'out'}, in {form}'s format\n"
    if form == "peft":
        assert json.loads((tmp_path / "out/adapter_config.json").read_text())["base_model_name_or_path"] == "pocket"
    again = Run.create(small(lora__start=str(tmp_path / "out"), run__steps=1), tmp_path / "runs", "again")
    asyncio.run(again.start())
    assert again.state is RunState.FINISHED, again.reason
    assert again.evaluations.first["loss_vs_perfect"] == run.evaluations.latest["loss_vs_perfect"]
    found, kept = (read_arrays(folder / "checkpoints") for folder in (again.folder, run.folder))
    assert found["step-000000"] == kept["step-000003"]


def read_arrays(checkpoints: Path) -> dict[str, bytes]:
    return {path.name: (path / "adapters.safetensors").read_bytes() for path in checkpoints.iterdir()}


def test_a_checkpoint_is_exported_by_its_folder_and_a_damaged_one_is_refused(finished, tmp_path, capsys):
    run, _ = finished
    newest = checkpoint.folder(run.folder / checkpoints.ROOT, 3)
    assert cli.main(["export", str(newest), str(tmp_path / "out"), "--format", "mlx"]) == 0
    ours, theirs = (load_file(folder / "adapters.safetensors") for folder in (tmp_path / "out", newest))
    assert ours.keys() == theirs.keys()
    assert all((ours[name] == array).all() for name, array in theirs.items())
    assert cli.main(["export", str(newest), str(tmp_path / "out")]) == 2
    assert "there is something already" in capsys.readouterr().err
    damaged = tmp_path / "step-000003"
    shutil.copytree(newest, damaged)
    (damaged / "state.json").write_text("{}")
    assert cli.main(["export", str(damaged), str(tmp_path / "other")]) == 2
    assert f"{damaged / 'state.json'}: has 2 bytes" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


async def test_an_adapter_that_does_not_fit_fails_the_run_with_what_to_set(finished, tmp_path):
    whole, _ = finished
    start = checkpoint.folder(whole.folder / checkpoints.ROOT, 3)
    run = Run.create(small(lora__start=str(start), lora__rank=8), tmp_path, "other")
    await run.start()
    assert run.state is RunState.FAILED
    assert run.reason == (f"{start / 'adapter_config.json'}: rank is 4; here it is 8; to use it, set lora.rank=4")
