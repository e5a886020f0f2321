"""`kill -9` at any moment, resume, and nothing shows: processes of the command line, at moments drawn at random.

    uv run pytest -m slow tests/test_resume.py

A failure names its seed; `KILL_SEED=…` before the command draws the same moments again, though what a process is
doing at one of them depends on the machine.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from engine.training import checkpoint, checkpoints

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
SEED = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(10**6)))
MOMENTS = 20
STEPS, EPISODES, EVERY = 10, 24, 3
SETTINGS = {
    "run.episodes_per_step": EPISODES,
    "eval.every": EVERY,
    "eval.episodes": 24,
    "checkpoint.every": 2,
    "train.minibatches": 2,
    "train.average": 0.8,
    "credit.discount": 0.9,
}
TIMED = {"generation_rate", "training_rate", "play_seconds", "learn_seconds"}


def command(*words: str, **settings: object) -> list[str]:
    changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "tui.cli", *words, "--headless", *changes]


def run(runs: Path, name: str, **settings: object) -> list[str]:
    words = ("run", "nim-pocket", "--runs-dir", str(runs), "--name", name, "--steps", str(STEPS), "--seed", "11")
    return command(*words, **{**SETTINGS, **settings})


def go_on(runs: Path, name: str, **settings: object) -> list[str]:
    """Resume it, or begin it if it was killed before there was anything to resume."""
    there = (runs / name).exists()
    return command("resume", name, "--runs-dir", str(runs)) if there else run(runs, name, **settings)


def finish(words: list[str]) -> float:
    """See a command through; the seconds it took."""
    began = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began


def kill(words: list[str], after: float, since: Path | None = None) -> bool:
    """Begin a command and `kill -9` it so many seconds later, or after a file is there; whether it went on."""
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while since is not None and not since.exists() and process.poll() is None:
        time.sleep(0.002)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    assert process.returncode == 0
    return False


def facts(folder: Path) -> dict[str, object]:
    """All that must be equal: what was said, measured, learnt and kept. Of metrics, all but times."""
    with closing(sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True)) as db:
        found: dict[str, object] = {
            table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            for table in ("turns", "episodes", "evaluations", "edits")
        }
        steps = db.execute("SELECT step, version, skipped, metrics FROM steps ORDER BY step").fetchall()
    for step, version, skipped, metrics in steps:
        for name, value in json.loads(metrics).items():
            if name not in TIMED:
                found[f"step {step}: {name}"] = value
        found[f"step {step}"] = version, skipped
    for path in sorted((folder / "checkpoints" / f"step-{STEPS:06d}").rglob("*")):
        if path.is_file() and path.name not in (checkpoint.MANIFEST, checkpoint.STATE):
            found[path.name] = path.read_bytes()
    state = json.loads((folder / "checkpoints" / f"step-{STEPS:06d}" / checkpoint.STATE).read_text())
    del state["totals"]["seconds"]
    return found | {"state": state}


def different(one: dict[str, object], other: dict[str, object]) -> list[str]:
    """NaN is equal to itself here."""
    names = sorted(one.keys() | other.keys())
    return [name for name in names if repr(one.get(name)) != repr(other.get(name))]


def phase(folder: Path) -> str:
    """What a killed process was doing, as far as its folder tells."""
    if not folder.exists():
        return "starting"
    kept = folder / "checkpoints"
    if any(".tmp-" in path.name or ".old-" in path.name for path in (kept.iterdir() if kept.exists() else ())):
        return "writing a checkpoint"
    with closing(sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True)) as db:
        [[step]] = db.execute("SELECT max(step) FROM steps").fetchall()
        [[measured]] = db.execute("SELECT max(step) FROM evaluations").fetchall()
        [[state]] = db.execute("SELECT max(value) FROM meta WHERE key = 'state'").fetchall() or [[None]]
    if step is None and measured is None:
        return "loading, or in the first evaluation"
    step = step or 0
    due = step % EVERY == 0 or step == STEPS
    if due and measured != step:
        return f"evaluating after step {step}"
    return "ending" if step == STEPS else f"playing or learning step {step + 1}" + (" again" if state else "")


@dataclass(frozen=True)
class Whole:
    """The run that nobody interrupted."""

    facts: dict[str, object]
    seconds: float
    playing: float
    """Of these, without loading."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    runs = tmp_path_factory.mktemp("whole")
    seconds = finish(run(runs, "whole"))
    found = facts(runs / "whole")
    assert len(found["turns"]) > STEPS * EPISODES  # type: ignore[arg-type]
    state = checkpoint.load(runs / "whole" / checkpoints.ROOT / f"step-{STEPS:06d}").state
    return Whole(found, seconds, state["totals"]["seconds"])


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_run_killed_at_any_moment_ends_as_if_it_had_not_been(whole: Whole, tmp_path: Path, moment: int):
    """Of four, the clock of two starts with the process, that of two with the first checkpoint, as most of the time
    goes into loading; the last of four is killed once more when it is resumed."""
    rng = np.random.default_rng((SEED, moment))
    told = [f"KILL_SEED={SEED}, moment {moment}"]
    first = tmp_path / "run" / checkpoints.ROOT / "step-000000"
    for since in ([None], [first], [None], [first, None])[moment % 4]:
        after = rng.uniform(0.0, whole.playing if since else whole.seconds)
        while not (killed := kill(go_on(tmp_path, "run"), after, since)) and len(told) == 1:
            shutil.rmtree(tmp_path / "run")  # it went faster than the whole one, and ended before
            after *= rng.uniform()
        if killed:
            told.append(f"killed after {after:.2f} s{' of playing' if since else ''}: {phase(tmp_path / 'run')}")
    print("; ".join(told))
    finish(go_on(tmp_path, "run"))
    odd = different(facts(tmp_path / "run"), whole.facts)
    assert not odd, f"{'; '.join(told)}: {odd[:8]} differ"


@pytest.mark.parametrize("moment", range(2))
def test_a_longer_run_killed_and_resumed_to_fewer_steps_is_the_shorter_one(
    whole: Whole, tmp_path: Path, moment: int
):
    rng = np.random.default_rng((SEED, 200 + moment))
    folder, after = tmp_path / "run", whole.playing
    longer = [word if word != str(STEPS) else "80" for word in run(tmp_path, "run")]
    while not folder.exists() or steps_done(folder) >= STEPS:
        shutil.rmtree(folder, ignore_errors=True)
        after *= rng.uniform()
        assert kill(longer, after, folder / checkpoints.ROOT / "step-000000")
    told = f"KILL_SEED={SEED}, moment {moment}, killed after {after:.2f} s of playing: {phase(folder)}"
    print(told)
    finish([*go_on(tmp_path, "run"), "--steps", str(STEPS)])
    found = facts(folder)
    state = found["state"]
    assert isinstance(state, dict)
    assert state["edits"] == 1  # of `run.steps`
    assert different(found | {"edits": [], "state": state | {"edits": 0}}, whole.facts) == [], told


def steps_done(folder: Path) -> int:
    with closing(sqlite3.connect(f"file:{folder}/run.sqlite?mode=ro", uri=True)) as db:
        return db.execute("SELECT max(step) FROM steps").fetchone()[0] or 0


@pytest.mark.parametrize("nth", [1, 4])
def test_a_run_killed_while_it_writes_a_checkpoint_ends_as_if_it_had_not_been(
    whole: Whole, tmp_path: Path, nth: int
):
    process = subprocess.Popen(run(tmp_path, "run"), cwd=ROOT, stderr=subprocess.DEVNULL)
    kept = tmp_path / "run" / "checkpoints"
    drafts: set[str] = set()
    while len(drafts) < nth:
        drafts |= {path.name for path in kept.glob("*.tmp-*")}
        assert process.poll() is None, "it ended before it could be killed"
    process.kill()
    process.wait()
    finish(go_on(tmp_path, "run"))
    assert different(facts(tmp_path / "run"), whole.facts) == []


def test_a_seed_fixes_everything_whatever_else_the_machine_does(whole: Whole, tmp_path: Path):
    """Another process, beside four that keep every core busy."""
    with busy(4):
        finish(run(tmp_path, "beside"))
    assert different(facts(tmp_path / "beside"), whole.facts) == []


@contextmanager
def busy(processes: int):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


AHEAD = {"run.max_staleness": 2, "train.average": 0.0, "eval.every": 1, "checkpoint.every": 1}
"""While it is measured the learner waits and playing goes on, so that some rollouts are always ahead."""


@pytest.mark.parametrize("moment", range(4))
def test_played_ahead_nothing_is_lost_or_learnt_from_twice(whole: Whole, tmp_path: Path, moment: int):
    """Which tokens are sampled by which version depends on timing there; which episodes are learnt from doesn't."""
    rng = np.random.default_rng((SEED, 100 + moment))
    told = [f"KILL_SEED={SEED}, moment {moment}"]
    waiting: dict[str, list] = {}
    for since in (tmp_path / "run" / checkpoints.ROOT / "step-000002", None):
        after = rng.uniform(0.0, 0.5) * (whole.playing if since else whole.seconds)
        if kill(go_on(tmp_path, "run", **AHEAD), after, since):
            found, refused = checkpoints.latest(tmp_path / "run" / "checkpoints")
            assert not refused
            kept = [result for batch in (found.rollouts() if found else []) for result in batch]
            told.append(f"killed after {after:.2f} s, {len(kept)} rollouts waiting: {phase(tmp_path / 'run')}")
            waiting |= {
                result.rollout.id: [
                    (turn.completion.tokens, turn.completion.logprobs) for turn in result.rollout.turns
                ]
                for result in kept
            }
    print("; ".join(told))
    finish(go_on(tmp_path, "run", **AHEAD))
    from engine.store import Store

    with Store.open(tmp_path / "run", read_only=True) as store:
        for step in store.steps():
            learnt = [int(episode.rollout.id) for episode in store.episodes(step=step.step, evaluation=False)]
            first = (step.step - 1) * EPISODES
            assert learnt == list(range(first, first + EPISODES)), told
            assert step.metrics["stale"] == 0, told
            assert step.metrics["age_max"] <= 2, told
        assert len(store.steps()) == STEPS
        for rollout, said in waiting.items():
            found = [(turn.completion.tokens, turn.completion.logprobs) for turn in store.turns(rollout)]
            assert found == said, told
