"""How much a model weighs, known before it is loaded."""

from pathlib import Path

import pytest

from tui.weights import verdict, weights


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


def test_the_embedded_model_fits_everywhere():
    assert verdict("pocket", memory=1e9).endswith("kB · fits")


@pytest.mark.parametrize(("memory", "word"), [(8e9, "fits"), (1.4e9, "tight"), (1e9, "too big")])
def test_the_verdict_depends_on_the_machine(memory, word, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert verdict("mlx-community/Qwen2.5-1.5B-Instruct-4bit", memory) == f"844 MB · {word}"


def test_nothing_is_said_where_nothing_is_known():
    assert verdict("org/model", memory=1e9) == ""
