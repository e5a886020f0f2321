"""How much a model weighs, known before it is loaded."""

from pathlib import Path

import pytest

from engine.config import Config, ModelConfig, TaskConfig
from engine.inference.facts import Machine
from tui.weights import here, verdict, weights


@pytest.mark.parametrize(
    ("source", "size"),
    [
        ("mlx-community/Qwen2.5-1.5B-Instruct-4bit", 0.84e9),
        ("mlx-community/Llama-3.2-3B-Instruct-8bit", 3.19e9),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", 0.27e9),
        ("org/model", None),
        ("org/phi-4", None),
    ],
)
def test_a_model_that_was_never_downloaded_is_judged_by_its_name(source, size, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert weights(source) == (size and pytest.approx(size, rel=0.02))


def test_files_say_more_than_a_name(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--org--big-70B" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    (folder / "model-00001.safetensors").write_bytes(b"x" * 1000)
    assert weights("org/big-70B") == weights(str(folder)) == 1000


def test_a_gguf_file_weighs_what_it_takes_on_disk(tmp_path: Path):
    (tmp_path / "small-1B.gguf").write_bytes(b"x" * 1000)
    assert weights(str(tmp_path / "small-1B.gguf")) == 1000


def config(source: str, **model: int) -> Config:
    return Config(task=TaskConfig(name="nim"), model=ModelConfig(source=source, **model))


def test_what_is_here_is_told_with_all_that_the_run_makes_of_it():
    small = verdict(config("pocket", rows=1, context=256), Machine(4e9, on_cpu=True))
    large = verdict(config("pocket", rows=4096, context=512), Machine(4e9, on_cpu=True))
    assert small.endswith(" MB · fits")
    assert large.endswith(" GB · tight")


def test_files_that_are_broken_tell_nothing(tmp_path: Path):
    (tmp_path / "model.safetensors").write_bytes(b"x")
    assert verdict(config(str(tmp_path))) == ""


@pytest.mark.parametrize(("memory", "word"), [(8e9, ""), (1.4e9, " · tight"), (1e9, " · too big")])
def test_of_what_is_not_here_the_weights_are_told_and_never_that_the_run_fits(memory, word, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    qwen = config("mlx-community/Qwen2.5-1.5B-Instruct-4bit")
    assert verdict(qwen, Machine(memory, on_cpu=True)) == f"844 MB to fetch{word}"


def test_nothing_is_said_where_nothing_is_known():
    assert verdict(config("org/model"), Machine(1e9, on_cpu=True)) == ""


def test_this_machine_has_the_memory_that_its_system_says():
    assert 1e8 < here().memory < 1e14
