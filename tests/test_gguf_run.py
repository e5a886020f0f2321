"""A whole run on a GGUF file: played, learnt, saved and gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tiny_gguf import tiny_gguf
from tui import cli

SMALL = (
    "model.context=128", "run.episodes_per_step=4", "lora.rank=2", "eval.every=0", "eval.episodes=2",
    "train.kl_kind=k3",
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tiny_gguf(tmp_path / "model.gguf", kind="Q4_0")


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    """What a run says of itself at its end."""
    assert cli.main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_on_a_gguf_file_learns_saves_and_goes_on_from_elsewhere(file, tmp_path, monkeypatch, capsys):
    settings = [part for setting in ("model.source=./model.gguf", *SMALL) for part in ("--set", setting)]
    runs = ("--runs-dir", str(tmp_path / "runs"))
    first = ended(capsys, "run", "nim-pocket", "--steps", "1", "--name", "tiny", *runs, *settings)
    assert (first["steps"], first["policy_version"]) == (1, 1)
    assert first["tokens_trained"] > 0
    saved = Path(first["checkpoint"])
    assert {"adapters.safetensors", "adapter_config.json"} <= {path.name for path in saved.iterdir()}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    second = ended(capsys, "resume", "tiny", "--steps", "2", *runs)
    assert (second["steps"], second["policy_version"]) == (2, 2)


def test_a_gguf_file_that_isnt_there_is_said_before_anything_is_played(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "nim-pocket", "--json", "--runs-dir", "runs", "--set", "model.source=none.gguf"]) == 1
    assert f"there is no file {tmp_path / 'none.gguf'}" in capsys.readouterr().err
