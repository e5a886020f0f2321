"""The command line: what it answers, on which stream, with which exit code."""

from __future__ import annotations

import gc
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import presets
from engine.config import Config, parse, save
from engine.events import EvaluationFinished, RunState
from engine.store import Store
from tests.scripted_run import ScriptedRun
from tui import cli, headless
from tui.cli import beginning
from tui.cli.places import RUNS_DIR_VARIABLE

ROOT = Path(__file__).parent.parent
JSON_KEYS = [
    "run_dir", "steps", "seconds", "tokens_generated", "tokens_trained", "policy_version", "checkpoint",
    "eval_start", "eval_end", "eval_best", "stale", "illegal", "failed", "skipped",
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "presets"
    monkeypatch.setattr(presets, "user_folder", lambda: folder)
    return folder


@pytest.fixture
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(RUNS_DIR_VARIABLE, str(tmp_path / "runs"))
    return tmp_path / "runs"


@pytest.fixture
def created(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Config, Path, str | None]]:
    """What the command line asked to be created; a scripted run is made in its place."""
    asked = []

    def create(config: Config, where: Path, name: str | None) -> ScriptedRun:
        asked.append((config, where, name))
        return ScriptedRun(where / (name or "nim-1"), config.run.steps if config.run.steps < 10 else 3)

    monkeypatch.setattr(beginning, "create", create)
    return asked


def a_run(folder: Path, steps_done: int = 0) -> Path:
    with Store.create(folder) as store:
        save(
            parse({"title": "Nim", "task": {"name": "nim"}, "eval": {"metric": "win"}}, ""), folder / "config.toml"
        )
        store.record_evaluation(EvaluationFinished(0, {"win": 0.5}), [])
        for step in range(1, steps_done + 1):
            store.record_step(step, step, 1.0, {}, [])
        store.record_state(RunState.STOPPED)
    return folder


# A run without a screen


def test_a_headless_run_ends_stdout_with_one_json_object(created, runs_dir, capsys):
    assert cli.main(["run", "nim-pocket", "--json", "--steps", "4", "--name", "mine"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(found) == JSON_KEYS
    assert found["run_dir"] == str(runs_dir / "mine")
    assert (found["steps"], found["policy_version"], found["illegal"], found["seconds"]) == (4, 4, 2, 1.5)
    assert found["eval_start"] == {"win_vs_random": 0.5, "draw_vs_random": None}
    assert found["eval_end"] == found["eval_best"] == {"win_vs_random": 0.75, "draw_vs_random": None}
    assert found["checkpoint"].endswith("step-000004")
    assert "step 4/4" in err


def test_progress_off_a_terminal_is_a_plain_line_for_each_fact(created, capsys):
    assert cli.main(["run", "nim-pocket", "--headless", "--name", "mine"]) == 0
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert lines[0].startswith("run mine in ")
    assert lines[1] == "evaluation after step 0: win vs random 0.50, draw vs random –"
    assert lines[2] == "step 1/3  First +0.12  loss 0.2500"
    assert "evaluation after step 3: win vs random 0.75, draw vs random – (best so far)" in lines
    assert "\x1b" not in err
    assert out.splitlines()[:2] == [
        "mine: finished after 3 steps, 0:00:01",
        "win vs random: 0.50 at the start, 0.75 at the end, 0.75 at best",
    ]


def test_progress_on_a_terminal_keeps_one_line_up_to_date(tmp_path):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    progress = headless.Progress(out)
    run = ScriptedRun(tmp_path / "r")
    progress.show(run, [])
    progress.show(run, [EvaluationFinished(0, {"win_vs_random": 0.5})])
    run.step = 1
    progress.show(run, [])
    progress.close()
    written = out.getvalue()
    assert written.count("\n") == 2
    assert written.startswith("\r\x1b[2Kloading: step 0/3")
    assert written.endswith("step 1/3  1.2k tokens/s  0:00:01\n")


def test_a_terminal_that_was_closed_does_not_break_the_run(tmp_path):
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(5, "Input/output error")

    progress = headless.Progress(Closed())
    progress.say("hello")
    progress.say("again")


def test_a_failed_run_exits_1_and_says_why(created, runs_dir, monkeypatch, capsys):
    reason = "the model \x1b[2J is gone"
    monkeypatch.setattr(beginning, "create", lambda config, where, name: ScriptedRun(where / "r", fails=reason))
    assert cli.main(["run", "nim-pocket", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["steps"] == 1
    assert "failed: the model" in err
    assert "\x1b[2J" not in err


def test_settings_reach_the_run(created, runs_dir):
    changes = ["--set", "train.kl=0.5", "--set", "roles.First.prompt=Hi there"]
    assert cli.main(["run", "nim-pocket", "--headless", "--steps", "2", "--seed", "7", *changes]) == 0
    [(config, where, name)] = created
    assert (config.run.steps, config.run.seed, config.train.kl, config.roles["First"].prompt) == (
        2,
        7,
        0.5,
        "Hi there",
    )
    assert (where, name) == (runs_dir, None)


def test_a_flag_comes_before_the_environment(created, tmp_path):
    assert cli.main(["run", "nim-pocket", "--headless", "--runs-dir", str(tmp_path / "other")]) == 0
    assert cli.main(["--runs-dir", str(tmp_path / "third"), "run", "nim-pocket", "--headless"]) == 0
    assert [where.name for _, where, _ in created] == ["other", "third"]


# What is refused


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("run nim-poket", "nim-poket: no such preset; did you mean nim-pocket"),
        ("run nim-pocket --steps many", "--steps: run.steps: wants a whole number of at least 1, not 'many'"),
        ("run nim-pocket --steps 0", "--steps: run.steps: wants a whole number of at least 1, not 0"),
        ("run nim-pocket --seed -1", "--seed: run.seed: wants a whole number from 0 to 4294967295, not -1"),
        ("run nim-pocket --set train.learning_rat=1", "did you mean train.learning_rate?"),
        ("run nim-pocket --set train.lr=1", "--set: train.lr: no such key; train has optimiser, learning_rate"),
        ("run nim-pocket --set task.name=nmi", "no task 'nmi'; nearest: nim"),
        ("run nim-pocket --set roles.Third.prompt=x", "no such role; it has: First, Second"),
        ("run nim-pocket --name a/b", "without separators"),
        ("resume nim-1", "nim-1: no such run in "),
        ("export nim-1 out", "nim-1: no such run in "),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(runs_dir, capsys, command, message):
    assert cli.main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("selfplay-tui: ")
    assert len(err.splitlines()) == 1
    assert not runs_dir.exists() or not any(runs_dir.iterdir())


@pytest.mark.parametrize(
    ("command", "message", "see"),
    [
        ("rnu nim-pocket", "rnu: no such command; did you mean run?", ""),
        ("fly", "fly: no such command", ""),
        ("models fetsh x", "fetsh: no such command; did you mean fetch?", " models"),
        ("run nim-pocket --hedless", "--hedless: no such option; did you mean --headless?", " run"),
        ("run --stesp=3 nim-pocket", "--stesp: no such option; did you mean --steps?", " run"),
        ("run nim-pocket -x", "-x: no such option", " run"),
        ("--run-dir here runs", "--run-dir: no such option; did you mean --runs-dir?", ""),
        ("--headless run nim-pocket", "--headless: no such option; those of a command come after it", ""),
        ("run nim-pocket kuhn-pocket", "kuhn-pocket: one word too many", " run"),
        ("run", "the following arguments are required: PRESET", " run"),
        ("run nim-pocket --steps", "--steps: expected one argument", " run"),
        ("--fps 0", "--fps: wants a whole number from 1 to 60, not '0'", ""),
        ("--fps x", "--fps: wants a whole number from 1 to 60, not 'x'", ""),
        ("export nim-1 out --format zip", "--format: wants peft or mlx, not 'zip'", " export"),
    ],
)
def test_a_slip_is_named_with_what_was_meant_and_where_all_is_listed(command, message, see, runs_dir, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(command.split())
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"selfplay-tui: {message}\nselfplay-tui{see} --help lists all there is\n"
    assert not runs_dir.exists()


@pytest.mark.parametrize("value", ["roles.First.prompt=--x", "roles.First.prompt=-1 or less"])
def test_what_is_set_may_look_like_an_option(created, value):
    assert cli.main(["run", "nim-pocket", "--headless", "--set", value]) == 0
    assert created[0][0].roles["First"].prompt == value.partition("=")[2]


def test_without_a_terminal_the_app_is_not_opened_but_explained(capsys):
    assert cli.main([]) == 2
    assert "`selfplay-tui run PRESET` runs without one" in capsys.readouterr().err


def test_a_broken_preset_of_the_users_is_listed_with_its_problem(own_presets, capsys):
    own_presets.mkdir()
    (own_presets / "mine.toml").write_text('[task]\nname = "nim"\n[tarin]\n')
    assert cli.main(["presets"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("nim-pocket")
    assert re.search(r"mine +yours +.*tarin: no such key; did you mean train\?", out)
    assert cli.main(["run", "mine", "--headless"]) == 2


# Runs there are


def test_runs_are_listed_with_what_they_reached(runs_dir, capsys):
    a_run(runs_dir / "good", steps_done=3)
    (runs_dir / "torn").mkdir()
    assert cli.main(["runs"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"good +stopped +3/100  win 0\.50 +Nim +just now", out)
    assert re.search(r"torn +damaged +.*no run\.sqlite", out)


def test_no_runs_is_no_error(runs_dir, capsys):
    assert cli.main(["runs"]) == 0
    out, err = capsys.readouterr()
    assert (out, "no runs in " in err) == ("", True)


def test_a_misspelt_run_names_the_nearest(runs_dir, capsys):
    a_run(runs_dir / "nim-1")
    assert cli.main(["resume", "nmi-1"]) == 2
    assert "did you mean nim-1?" in capsys.readouterr().err


def test_steps_already_done_are_no_extension(runs_dir, capsys):
    a_run(runs_dir / "nim-1", steps_done=5)
    assert cli.main(["resume", "nim-1", "--steps", "5", "--headless"]) == 2
    assert "has done 5 already" in capsys.readouterr().err


@pytest.mark.parametrize("as_path", [False, True])
def test_resume_goes_on_to_as_many_steps_as_asked(runs_dir, monkeypatch, capsys, as_path):
    folder = a_run(runs_dir / "nim-1", steps_done=2)
    from engine.run import Run

    monkeypatch.setattr(Run, "open", classmethod(lambda cls, folder: ScriptedRun(folder)))
    named = str(folder) if as_path else "nim-1"
    assert cli.main(["resume", named, "--steps", "6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 6


@pytest.mark.parametrize("flag", ["--headless", "--json"])
@pytest.mark.parametrize(("steps_done", "is_finished"), [(3, True), (2, False)])
def test_a_run_resumed_with_no_steps_left_says_how_to_go_on(
    runs_dir, monkeypatch, capsys, flag, steps_done, is_finished
):
    a_run(runs_dir / "nim-1", steps_done)
    from engine.run import Run

    def opened(cls, folder: Path) -> ScriptedRun:
        made = ScriptedRun(folder, steps=3)
        made.step = steps_done
        return made

    monkeypatch.setattr(Run, "open", classmethod(opened))
    assert cli.main(["resume", "nim-1", flag]) == 0
    told = "it is finished, at step 3 of 3; to go on: selfplay-tui resume nim-1 --steps M, with M above 3"
    assert (told in capsys.readouterr().err.splitlines()) == is_finished


def test_resume_goes_on_with_other_settings(runs_dir, capsys):
    folder = a_run(runs_dir / "nim-1")
    made = beginning.reopen(folder, "7", ["train.learning_rate = 1e-4", "train.grad_clip=0.5"])
    assert (made.config.run.steps, made.config.train.learning_rate, made.config.train.grad_clip) == (7, 1e-4, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("train.learning_rat=1", "did you mean train.learning_rate?"),
        ("train.learning_rate", "wants key=value"),
        ("train.learning_rate=7", "train.learning_rate: wants a number above 0 and at most 1, not 7"),
    ],
)
def test_one_mistake_in_what_is_set_on_resuming_and_nothing_is_set(runs_dir, capsys, change, message):
    a_run(runs_dir / "nim-1")
    assert cli.main(["resume", "nim-1", "--set", "train.grad_clip=0.5", "--set", change, "--headless"]) == 2
    assert message in capsys.readouterr().err
    with Store.open(runs_dir / "nim-1", read_only=True) as store:
        assert store.edits() == []


def test_what_is_fixed_for_a_run_is_not_set_on_resuming(runs_dir, capsys):
    a_run(runs_dir / "nim-1")
    assert cli.main(["resume", "nim-1", "--set", "lora.rank=4", "--headless"]) == 2
    assert "selfplay-tui: lora.rank cannot change while a run goes on" in capsys.readouterr().err


def test_what_cannot_be_exported_says_why_and_leaves_nothing(runs_dir, tmp_path, capsys):
    a_run(runs_dir / "nim-1")
    whole = tmp_path / "whole"
    whole.mkdir()
    save_file({"model.layers.0.mlp.up_proj.weight": np.zeros((2, 2), np.float32)}, whole / "adapters.safetensors")
    (whole / "adapter_config.json").write_text('{"fine_tune_type": "full"}')
    for source, message in (("nim-1", "the run has no checkpoint yet"), (whole, "--format mlx writes them")):
        assert cli.main(["export", str(source), str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_the_command_that_goes_on_finds_a_run_kept_elsewhere(tmp_path, runs_dir, monkeypatch, capsys):
    monkeypatch.setattr(beginning, "create", lambda config, where, name: ScriptedRun(where / name, fails="odd"))
    elsewhere = str(tmp_path / "else where")
    for where, found in (([], "mine"), (["--runs-dir", elsewhere], f"'{elsewhere}/mine'")):
        cli.main(["run", "nim-pocket", "--headless", "--name", "mine", *where])
        told = capsys.readouterr().out.splitlines()[-1]
        assert told == f"go on with: selfplay-tui resume {found} (with other settings: --set KEY=VALUE)"


# A process of its own


SCRIPT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.scripted_run import ScriptedRun
from tui import cli
from tui.cli import beginning

class Stubborn(ScriptedRun):
    async def stop(self):
        print("asked to stop", file=sys.stderr, flush=True)

kind = Stubborn if "stubborn" in sys.argv else ScriptedRun
beginning.create = lambda config, where, name: kind(where / "r", steps=1000, pace=0.05)
sys.exit(cli.main(["run", "nim-pocket", "--json"]))
"""


def interrupted(number: int, *mode: str, again: bool = False) -> tuple[int, str, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    seen = ""
    while "step 1/" not in seen:
        seen += process.stderr.readline()
    process.send_signal(number)
    if again:
        while "asked to stop" not in seen:
            seen += process.stderr.readline()
        process.send_signal(number)
    out, err = process.communicate(timeout=20)
    return process.returncode, out, seen + err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_cleanly_with_the_state_saved(number, code):
    returned, out, err = interrupted(number)
    assert returned == code
    found = json.loads(out.splitlines()[-1])
    assert 1 <= found["steps"] < 1000
    assert found["checkpoint"].endswith(f"step-{found['steps']:06}")
    assert "stopping" in err
    assert "Traceback" not in err


def test_a_second_signal_ends_at_once():
    started = time.monotonic()
    returned, out, _ = interrupted(signal.SIGINT, "stubborn", again=True)
    assert returned == 130
    assert out == ""
    assert time.monotonic() - started < 15


def test_the_command_line_starts_without_loading_a_model_library_or_textual():
    code = (
        "import sys; sys.argv = ['selfplay-tui', 'presets']; from tui import cli; cli.main(['presets']);"
        "print({'mlx', 'mlx_lm', 'transformers', 'textual'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == "set()"


def test_no_package_is_asked_for_plugins_while_the_command_line_is_imported():
    code = (
        "import sys; from importlib import metadata; told = [];"
        "metadata.distributions = lambda **_: told.append('asked') or []; from tui import cli;"
        "cli.main(['presets']); print(told, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == "[]"


def test_no_garbage_is_looked_for_until_a_command_works(monkeypatch):
    code = (
        "import argparse, gc, sys; from tui import cli; told = [];"
        "gc.callbacks.append(lambda *_: told.append('looked'));"
        "argparse.ArgumentParser.parse_args = lambda *_: sys.exit(f'{told}');"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == "[]"
    monkeypatch.setattr("tui.cli.commands.list_presets", lambda _: 0 if gc.isenabled() else 1)
    assert cli.main(["presets"]) == 0
    assert gc.isenabled()


def test_a_reader_that_leaves_early_makes_no_traceback():
    code = "import sys, time; from tui import cli; time.sleep(0.5); sys.exit(cli.main(['presets']))"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait(20)
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_on_a_real_terminal_headless_progress_updates_one_line(tmp_path):
    code = SCRIPT.replace("steps=1000, pace=0.05", "steps=3, pace=0.3")
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, text=True
    )
    os.close(terminal)
    seen = b""
    while select.select([reader], [], [], 20)[0]:
        try:
            chunk = os.read(reader, 4096)
        except OSError:  # Linux says so when the other side has closed
            break
        if not chunk:
            break
        seen += chunk
    os.close(reader)
    assert process.stdout is not None
    out = process.stdout.read()
    process.stdout.close()
    assert process.wait(20) == 0
    assert json.loads(out)["steps"] == 3
    assert b"\r\x1b[2Krunning: step " in seen
    assert b"step 1/3  First" not in seen
