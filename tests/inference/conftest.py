"""A tiny model, and mlx-lm's own as the oracle: loaded afresh, with MLX's own maths, one row at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax

from engine.inference import blas

blas.load()

import mlx.core as mx  # noqa: E402
import mlx_lm.models.llama as llama  # noqa: E402
from mlx_lm.models.activations import swiglu  # noqa: E402
from mlx_lm.models.base import scaled_dot_product_attention  # noqa: E402
from mlx_lm.utils import load as load_mlx  # noqa: E402

from engine.config import LoRAConfig  # noqa: E402
from engine.inference import models  # noqa: E402
from engine.inference.adapters import Adapters, Parameters  # noqa: E402
from engine.inference.models import LanguageModel  # noqa: E402
from tests.tiny import tiny_model  # noqa: E402

LORA = LoRAConfig(rank=4, scale=3.0)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def lm(folder: Path) -> LanguageModel:
    return models.load(str(folder), context=256)[0]


@pytest.fixture
def adapters(lm: LanguageModel) -> Adapters:
    """Players "red" and "blue" over the base."""
    adapters = Adapters(lm, LORA)
    for seed, player in enumerate(("red", "blue"), start=1):
        adapters.publish(player, moved(adapters, seed), version=seed)
    return adapters


def moved(adapters: Adapters, seed: int) -> Parameters:
    """An adapter that has learnt something: neither A nor B is zero."""
    rng = np.random.default_rng(seed)
    return {
        name: mx.array(rng.normal(0.0, 0.2, array.shape).astype(np.float32))
        for name, array in adapters.initial(seed).items()
    }


def save_adapter(folder: Path, adapters: Adapters, parameters: Parameters) -> Path:
    """As a checkpoint holds it."""
    folder.mkdir(parents=True)
    mx.save_safetensors(str(folder / "adapters.safetensors"), adapters.saved(parameters))
    (folder / "adapter_config.json").write_text(json.dumps(adapters.config()))
    return folder


@contextmanager
def plain_maths() -> Iterator[None]:
    """mlx-lm's Llama as it comes, whatever `fastmath.install` put into its module."""
    installed = llama.swiglu, llama.scaled_dot_product_attention
    llama.swiglu, llama.scaled_dot_product_attention = swiglu, scaled_dot_product_attention
    try:
        yield
    finally:
        llama.swiglu, llama.scaled_dot_product_attention = installed


class Oracle:
    """mlx-lm's model and adapter loading, without anything of ours."""

    def __init__(self, folder: Path, adapter: Path | None = None) -> None:
        self.model, self.tokenizer = load_mlx(str(folder), adapter_path=str(adapter) if adapter else None)[:2]

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        """[L, V] in double precision, of one row alone and without a cache."""
        with plain_maths():
            return np.array(self.model(mx.array([list(tokens)])))[0].astype(np.float64)

    def logprobs(self, prompt: Sequence[int], tokens: Sequence[int], temperature: float = 1.0) -> np.ndarray:
        """[T]: of each token of a completion, teacher-forced in one pass."""
        predicting = self.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
        return log_softmax(predicting / temperature, axis=-1)[np.arange(len(tokens)), list(tokens)]

    def greedy(self, prompt: Sequence[int], count: int) -> list[int]:
        """mlx-lm's own generation."""
        from mlx_lm.generate import generate_step

        with plain_maths():
            return [int(token) for token, _ in generate_step(mx.array(prompt), self.model, max_tokens=count)]


@pytest.fixture
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)
