"""`selfplay-tui models`: what is at hand, what it needs, and how others are got, against a hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

import presets
from engine.inference import models
from engine.inference.facts import Machine
from tests.hub_server import COMMIT, MODEL, hub_server
from tests.tiny import tiny_model
from tests.tiny_gguf import tiny_gguf
from tui import cli
from tui.models import HEADINGS

QWEN = "mlx-community/Qwen2.5-1.5B-Instruct-4bit"
SMOLLM = "HuggingFaceTB/SmolLM2-135M-Instruct"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, an empty hub cache, no presets but ours, and a CPU with 1 GB."""
    cache, here = tmp_path / "hub", tmp_path / "here"
    here.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(presets, "user_folder", lambda: tmp_path / "presets")
    monkeypatch.setattr(models, "machine", lambda: Machine(1e9, on_cpu=True))
    monkeypatch.chdir(here)
    return here


def in_cache(tmp_path: Path, source: str, **config) -> Path:
    """A model in the hub's cache, as a download leaves it."""
    repository = tmp_path / "hub" / f"models--{source.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    return tiny_model(repository / "snapshots" / COMMIT, **config)


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    assert cli.main(["models", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_models_of_every_kind_are_listed_and_those_that_presets_name(place, tmp_path, capsys):
    in_cache(tmp_path, "org/cached")
    tiny_model(place / "folder")
    tiny_gguf(place / "model.gguf", kind="Q4_0")
    (place / "not-a-model").mkdir()
    found = {model["source"]: model for model in told(capsys)["models"]}
    assert list(found) == ["pocket", "./folder", "./model", "./model.gguf", "org/cached", SMOLLM, QWEN]
    assert found["pocket"]["presets"][:3] == ["nim-pocket", "kuhn-pocket", "tictactoe-pocket"]
    assert found["./model.gguf"]["quantisation"] == "Q4_0"
    assert all(
        model["present"] and model["fit"] == "fits"
        for source, model in found.items()
        if source not in (SMOLLM, QWEN)
    )
    assert not found[QWEN]["present"]
    assert f"models fetch {QWEN}" in found[QWEN]["problem"]


def test_the_list_is_a_table_whose_columns_line_up(place, capsys):
    tiny_gguf(place / "model.gguf", kind="Q8_0")
    assert cli.main(["models"]) == 0
    out, err = capsys.readouterr()
    heading, *lines = out.splitlines()
    assert heading.split("  ")[0] == "model"
    start = heading.index("stored as")
    stored = {line.split()[0]: line[start:].split("  ")[0].split()[:1] for line in lines}
    assert stored["pocket"] == ["float16"]
    assert stored["./model.gguf"] == ["Q8_0"]
    assert "about 844 MB" in out
    assert "not here" in out
    assert "This machine has 1.0 GB (CPU, where weights become float32)" in err
    assert len(HEADINGS) == 6


def test_a_model_larger_than_the_machine_is_too_big(place, monkeypatch, capsys):
    file = tiny_gguf(place / "model.gguf")
    needed = told(capsys, "show", str(file))["needed"]
    for share, word in ((0.5, "fits"), (0.9, "tight"), (1.1, "too big")):
        memory = needed / share
        monkeypatch.setattr(models, "machine", lambda memory=memory: Machine(memory, on_cpu=True))
        assert told(capsys, "show", str(file))["fit"] == word


def test_memory_told_is_of_the_models_own_context_if_that_is_shorter(place, capsys):
    tiny_model(place / "short", max_position_embeddings=100)
    tiny_model(place / "long", max_position_embeddings=100_000)
    assert told(capsys, "show", "./short")["tokens"] == 100
    assert told(capsys, "show", "./long")["tokens"] == 2048


def test_one_model_is_shown_in_words(place, capsys):
    tiny_gguf(place / "model.gguf", kind="Q4_1")
    assert cli.main(["models", "show", "./model.gguf"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    lines = {name: text.strip() for name, text in lines.items()}
    assert lines["architecture"] == "llama"
    assert lines["stored as"].startswith("Q4_1, ")
    assert lines["chat template"] == "yes"
    assert lines["end of turn"] == "<|im_end|> (2)"
    assert lines["context"] == "512 tokens"
    assert lines["fit"].startswith("fits: ")


def test_a_cached_model_is_shown_without_asking_the_hub(tmp_path, monkeypatch, capsys):
    in_cache(tmp_path, "org/cached")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert told(capsys, "show", "org/cached")["architecture"] == "llama"


WRONG = {
    "nothing": (lambda place: "./nowhere", "there is no nowhere"),
    "a folder of something else": (lambda place: str(place), "has no config.json"),
    "no such file": (lambda place: "none.gguf", "there is no none.gguf"),
    "not downloaded": (lambda place: "org/other", "selfplay-tui models fetch org/other"),
    "no GGUF": (lambda place: written(place / "bad.gguf", b"zip"), "doesn't begin with GGUF"),
    "nothing in it": (lambda place: written(place / "empty.gguf", b""), "doesn't begin with GGUF"),
    "no JSON": (lambda place: no_json(place / "folder"), "Expecting value"),
}


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def no_json(folder: Path) -> str:
    tiny_model(folder)
    (folder / "config.json").write_text("no")
    return str(folder)


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_cant_be_shown_is_said(place, capsys, make, message):
    assert cli.main(["models", "show", make(place)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_broken_file_doesnt_keep_the_others_from_the_list(place, capsys):
    (place / "bad.gguf").write_bytes(b"zip")
    assert cli.main(["models"]) == 0
    out = capsys.readouterr().out
    assert "./bad.gguf: " in out
    assert "doesn't begin with GGUF" in out
    assert "pocket" in out


def fetch(tmp_path: Path, address: str, source: str = MODEL) -> subprocess.CompletedProcess[str]:
    """In a process of its own, for the hub's client reads its address when it is imported."""
    return subprocess.run(
        [sys.executable, "-m", "tui.cli", "models", "fetch", source],
        env={**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_fetched_model_is_there_and_stays_there_without_the_hub(tmp_path, capsys):
    served = tiny_model(tmp_path / "served")
    with hub_server(served) as address:
        done = fetch(tmp_path, address)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.splitlines()[0])
    assert (folder / "model.safetensors").read_bytes() == (served / "model.safetensors").read_bytes()
    assert told(capsys, "show", MODEL)["path"] == str(folder)
    again = fetch(tmp_path, address)
    assert again.returncode == 0
    assert "this is the local cache's copy" in again.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"error": (403, "GatedRepo")}, "accepted its terms"),
        ({"error": (401, "RepoNotFound")}, "the hub has no such model, or it needs a login"),
        ({"error": (500, "")}, "isn't complete in the local cache and the hub can't be reached"),
        ({"pretended_size": 10**16}, "needs 10000000.0 GB and the disk of"),
    ],
    ids=["gated", "unknown", "hub down", "disk full"],
)
def test_why_a_model_cant_be_fetched_is_said(tmp_path, options, message):
    with hub_server(tiny_model(tmp_path / "served"), **options) as address:
        done = fetch(tmp_path, address)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("source", ["tiny", "org/tiny/more"])
def test_what_is_no_hub_id_isnt_asked_for(capsys, source):
    assert cli.main(["models", "fetch", source]) == 1
    assert f"'{source}' is no hub id" in capsys.readouterr().err


def test_what_is_here_needs_no_fetching(place, capsys):
    tiny_gguf(place / "model.gguf")
    for source in ("pocket", "./model.gguf"):
        assert cli.main(["models", "fetch", source]) == 0
        assert f"{source} is here already" in capsys.readouterr().err
