"""Adapters of Hugging Face's `peft`, against what the library made and computed (tests/peft_made/make.py)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.config import LoRAConfig
from engine.inference import adapter_folders, models, peft
from engine.inference.adapter_folders import AdapterError
from engine.inference.adapters import Adapters
from tests.inference.conftest import Oracle
from tests.tiny import write_tokenizer

MADE = Path(__file__).parent.parent / "peft_made"
GIVEN = np.load(MADE / "logits.npz")
SETTINGS = {
    "lora": LoRAConfig(rank=4, scale=3.0),
    "rslora": LoRAConfig(rank=4, scale=1.5, rslora=True, layers=["q_proj", "v_proj"]),
    "dora": LoRAConfig(rank=4, scale=2.0, kind="dora"),
    "last": LoRAConfig(rank=4, scale=2.0, layers=["q_proj", "down_proj"], last_layers=1),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("peft") / "model"
    shutil.copytree(MADE / "model", folder)
    write_tokenizer(folder)
    return str(folder)


def logits(source: str, settings: LoRAConfig, adapter: Path) -> np.ndarray:
    """[2, 8, 262] of the policy that began from an adapter, as a player and as the learner computes it."""
    lm = models.load(source, 64)[0]
    adapters = Adapters(lm, settings)
    parameters = adapters.load(adapter)
    adapters.publish("policy", parameters, 0)
    tokens = mx.array(GIVEN["tokens"])
    with adapters.speaking("policy"):
        said = np.array(lm.head(lm.hidden(tokens)))
    with adapters.learning(parameters):
        learnt = np.array(lm.head(lm.hidden(tokens)))
    np.testing.assert_allclose(said, learnt, atol=1e-5)
    return said


def test_the_tiny_model_is_the_one_peft_had(source):
    lm = models.load(source, 64)[0]
    np.testing.assert_allclose(np.array(lm.head(lm.hidden(mx.array(GIVEN["tokens"])))), GIVEN["base"], atol=1e-5)


@pytest.mark.parametrize("name", SETTINGS)
def test_an_adapter_made_by_peft_gives_the_logits_it_gave_there(source, name):
    assert np.abs(GIVEN[name] - GIVEN["base"]).max() > 1
    np.testing.assert_allclose(logits(source, SETTINGS[name], MADE / name), GIVEN[name], atol=2e-5)


def test_layers_of_different_alphas_are_brought_to_one_scale(source, tmp_path):
    """v_proj has alpha 16, the others 8: as if it had been made with 8 and twice the B."""
    arrays = mx.load(str(MADE / "rslora" / "adapter_model.safetensors"))
    config = json.loads((MADE / "rslora" / "adapter_config.json").read_text())
    assert isinstance(arrays, dict)
    plain, _ = peft.imported(arrays, config)
    found, settings = peft.imported(arrays, config | {"alpha_pattern": {"v_proj": 12}})
    assert settings["lora_parameters"]["scale"] == 3.0
    for name, array in plain.items():
        factor = 2.0 if name.endswith("v_proj.lora_b") else 1.0
        assert mx.array_equal(found[name], array * factor)


@pytest.mark.parametrize("name", ["lora", "dora", "last"])
def test_what_is_exported_is_what_peft_writes(name, tmp_path):
    """To the bit in its arrays; and what peft would read of the configuration means the same."""
    parameters, config = adapter_folders.read(MADE / name)
    adapter_folders.write(tmp_path / "out", parameters, config, "peft", "tiny")
    ours, theirs = (
        mx.load(str(folder / "adapter_model.safetensors")) for folder in (tmp_path / "out", MADE / name)
    )
    assert isinstance(ours, dict)
    assert isinstance(theirs, dict)
    assert ours.keys() == theirs.keys()
    assert all(mx.array_equal(ours[key], array) and ours[key].dtype == array.dtype for key, array in theirs.items())
    said, meant = (
        json.loads((folder / "adapter_config.json").read_text()) for folder in (tmp_path / "out", MADE / name)
    )
    targets = said.pop("target_modules")
    assert all(any(target.endswith(f".{name}") for target in targets) for name in meant["target_modules"])
    assert {key: meant[key] for key in said if key != "rank_pattern"} == said


@pytest.mark.parametrize("name", SETTINGS)
def test_an_imported_adapter_written_as_mlx_lms_is_the_same_there(source, name, tmp_path):
    parameters, config = adapter_folders.read(MADE / name)
    adapter_folders.write(tmp_path / "out", parameters, config, "mlx")
    oracle = Oracle(Path(source), tmp_path / "out")
    for row, tokens in enumerate(GIVEN["tokens"]):
        np.testing.assert_allclose(oracle.logits(tokens.tolist()), GIVEN[name][row], atol=2e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (LoRAConfig(rank=8, scale=3.0), r"rank is 4; here it is 8; to use it, set lora\.rank=4"),
        (LoRAConfig(rank=4, scale=2.0), r"scale is 3\.0; here it is 2\.0; to use it, set lora\.scale=3\.0"),
        (
            LoRAConfig(rank=4, scale=3.0, kind="dora"),
            r"is 'lora'; here it is 'dora'; to use it, set lora\.kind=lora",
        ),
        (LoRAConfig(rank=4, scale=3.0, layers=["q_proj"]), r"It has down_proj, .*, v_proj of the blocks 0 to 1"),
    ],
)
def test_an_adapter_that_does_not_fit_says_what_to_set(source, settings, message):
    with pytest.raises(AdapterError, match=f"{MADE / 'lora'}.*{message}"):
        Adapters(models.load(source, 64)[0], settings).load(MADE / "lora")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA'"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save is"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out is True"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa', which changes the model's own weights"),
        ({"layer_replication": [[0, 1]]}, "layer_replication is"),
        ({"something_new": {"of": "later"}}, "something_new is"),
        ({"rank_pattern": {"q_proj": 2}}, r"rank_pattern: .*q_proj has rank 2, others 4"),
        ({"lora_alpha": None}, "lora_alpha is None"),
    ],
)
def test_what_can_not_be_had_here_is_refused_by_name(tmp_path, changes, message):
    folder = tmp_path / "a"
    shutil.copytree(MADE / "lora", folder)
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | changes))
    with pytest.raises(AdapterError, match=f"{folder}: .*{message}"):
        adapter_folders.read(folder)


def test_peft_s_own_different_ranks_are_refused():
    with pytest.raises(
        AdapterError, match=r"rank_pattern: model\.layers\.1\.self_attn\.q_proj has rank 2, others 4"
    ):
        adapter_folders.read(MADE / "patterns")


def test_an_embeddings_adapter_is_refused_by_its_key(tmp_path):
    folder = tmp_path / "a"
    shutil.copytree(MADE / "lora", folder)
    key = "base_model.model.model.embed_tokens.lora_embedding_A"
    mx.save_safetensors(str(folder / "adapter_model.safetensors"), {key: mx.zeros((4, 262))})
    with pytest.raises(AdapterError, match=key):
        adapter_folders.read(folder)


def test_a_pickled_adapter_and_an_empty_folder_are_no_adapters(tmp_path):
    with pytest.raises(AdapterError, match="no adapter there"):
        adapter_folders.read(tmp_path)
    (tmp_path / "adapter_model.bin").write_bytes(b"")
    with pytest.raises(AdapterError, match="save it with safetensors"):
        adapter_folders.read(tmp_path)


@pytest.mark.parametrize(
    ("config", "arrays", "message"),
    [
        (
            {"fine_tune_type": "full"},
            {"model.layers.0.mlp.up_proj.weight": (4, 4)},
            "fine_tune_type 'full' has no form",
        ),
        ({}, {"model.layers.0.mlp.switch_mlp.up_proj.lora_a": (8, 4, 4)}, r"switch_mlp.*\(8, 4, 4\), has no form"),
    ],
)
def test_what_peft_has_no_lora_for_is_refused_and_leaves_nothing(tmp_path, config, arrays, message):
    parameters = {name: mx.zeros(shape) for name, shape in arrays.items()}
    whole = {"lora_parameters": {"rank": 4, "scale": 2.0}} | config
    with pytest.raises(AdapterError, match=message):
        adapter_folders.write(tmp_path / "out", parameters, whole, "peft")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_one_stands_in_is_written_to(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    parameters, config = adapter_folders.read(MADE / "lora")
    adapter_folders.write(Path("."), parameters, config, "mlx")
    assert adapter_folders.read(tmp_path / "here")[0].keys() == parameters.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_nothing_is_written_over(tmp_path):
    parameters, config = adapter_folders.read(MADE / "lora")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(AdapterError, match="there is something already"):
        adapter_folders.write(tmp_path, parameters, config, "mlx")
