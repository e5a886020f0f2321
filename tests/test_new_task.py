"""`new-task` writes what works as it stands, and writes over nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tasks
from engine.config import load, override
from engine.events import RunState
from engine.run import Run
from tui import cli

KINDS = [([], "episode"), (["--game"], "game")]


def made(folder: Path, name: str, *flags: str) -> int:
    return cli.main(["new-task", name, "--folder", str(folder), *flags])


@pytest.mark.parametrize(("flags", "kind"), KINDS, ids=["episode", "game"])
async def test_what_it_writes_is_short_passes_its_test_and_trains(tmp_path: Path, flags, kind, capsys):
    assert made(tmp_path, "my_TestSignals_2", *flags) == 0
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert files.keys() == {"my_TestSignals_2.py", "test_my_TestSignals_2.py", "my_TestSignals_2.toml"}
    assert all(len(text.splitlines()) < 50 for text in files.values())
    assert "class MyTestSignals2(" in files["my_TestSignals_2.py"]
    assert f"selfplay-tui run {tmp_path / 'my_TestSignals_2.toml'}" in capsys.readouterr().out
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_my_TestSignals_2.py"]
    tested = subprocess.run(test, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert tested.returncode == 0, tested.stdout
    few = ["run.steps=3", "run.episodes_per_step=6", "eval.episodes=4", "eval.every=0", "lora.rank=4"]
    run = Run.create(override(load(tmp_path / "my_TestSignals_2.toml"), few), tmp_path / "runs")
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    assert run.totals.failed == run.totals.illegal == 0
    assert run.config.eval.metric in run.evaluations.latest


@pytest.mark.parametrize("there", ["mine.py", "test_mine.py", "mine.toml"])
def test_it_writes_over_nothing(tmp_path: Path, there, capsys):
    (tmp_path / there).write_text("precious")
    assert made(tmp_path, "mine") == 2
    assert f"{there} is there already" in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my-task", "can't name a Python file"),
        ("2nd", "can't name a Python file"),
        ("", "can't name a Python file"),
        ("../up", "can't name a Python file"),
        ("_hidden", "a letter first"),
        ("naïve", "can't name a Python file"),
        ("class", "a word of Python's own"),
        ("nim", "comes with selfplay-tui"),
        ("kuhn_poker", "comes with selfplay-tui"),
        ("json", "a Python module, which yours would hide"),
        ("engine", "a Python module, which yours would hide"),
        ("rubric", "a class Rubric, which is the engine's"),
    ],
)
def test_a_name_that_would_not_do_is_refused(tmp_path: Path, name, said, capsys):
    assert made(tmp_path / "new", name) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_package_that_tasks_are_made_of_is_no_task_and_its_name_is_free(tmp_path: Path):
    assert (Path(tasks.__file__).parent / "proofs/__init__.py").exists()
    assert made(tmp_path, "proofs") == 0


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, capsys):
    (tmp_path / "file").write_text("")
    assert made(tmp_path / "file" / "below", "mine") == 2
    assert "can't be written" in capsys.readouterr().err
