"""Where models come from, and one view of them all.

A source is `"pocket"` (the model that comes with the engine), a local folder in MLX format, a GGUF file, or a
hub id.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache

from engine.inference import blas, facts, fastmath, gguf, hub, rotary
from engine.inference.cache import BatchCache, Layers
from engine.inference.estimate import Need
from engine.inference.facts import WEIGHT_FILES, Machine
from engine.inference.hub import POCKET
from engine.inference.kernels import on_cuda
from engine.inference.tokenizer import ChatTokenizer

SMALL_MODEL = 20_000_000
"""Up to so many parameters a second BLAS thread gains less than it takes from the app."""
GGUF = ".gguf"


class ModelError(Exception):
    """A model that can't be had: what is wrong, where, and what would be right."""


class LanguageModel:
    """An mlx-lm model, frozen, as the batcher and the learner see it: hidden states, then logits.

    Raises:
        ModelError: if the model hasn't the shape `model.model(tokens, cache)` followed by a head.
    """

    def __init__(self, model: Any, source: str, path: Path, config: dict[str, Any], context: int) -> None:
        self.model = model
        self.source = source
        self.path = path
        self.config = config
        limit = config.get("max_position_embeddings") or context
        self.context = min(context, int(limit))
        self.eos_tokens: frozenset[int] = facts.eos_tokens(path)
        self._body, self._embedding = _parts(model, source)
        self.norms = [module for _, module in model.named_modules() if type(module) is nn.RMSNorm]
        self.vocab_size = self._check()
        self.dtype: mx.Dtype = self.hidden(mx.array([[0]])).dtype
        """What it computes in."""

    def hidden(self, tokens: mx.array, cache: list | None = None) -> mx.array:
        """[B, L] int32 → [B, L, D]: what the head reads, the final norm applied."""
        return self._body(tokens, cache)

    def head(self, hidden: mx.array) -> mx.array:
        """[..., D] → logits [..., V]."""
        output = getattr(self.model, "lm_head", None)
        return self._embedding.as_linear(hidden) if output is None else output(hidden)

    def make_cache(self, left_padding: Sequence[int]) -> Layers:
        """An empty cache, one entry a layer, for a batch whose rows begin with so much padding.

        Raises:
            ModelError: if the model remembers in a way that can't be batched with padding.
        """
        return Layers(self._batched(cache, left_padding) for cache in make_prompt_cache(self.model))

    def _batched(self, cache: Any, left_padding: Sequence[int]) -> BatchCache:
        if type(cache) is KVCache:
            return BatchCache(left_padding)
        if type(cache) is RotatingKVCache and cache.keep == 0:
            return BatchCache(left_padding, window=cache.max_size)
        raise ModelError(
            f"{self.source}: its layers keep a {type(cache).__name__}, which rows of unequal length can't share. "
            f"Choose a model of plain attention, such as a Llama, Qwen or Mistral"
        )

    def _check(self) -> int:
        """Compare a padded row with the same row alone in the model's own forward pass; the vocabulary's size."""
        alone = self.model(mx.array([[2, 1]], dtype=mx.int32))
        try:
            cache = self.make_cache([1, 0])
            padded = self.head(self.hidden(mx.array([[0, 2, 1], [3, 4, 5]], dtype=mx.int32), cache))[:1, 1:]
            usable = padded.shape == alone.shape and _near(alone, padded)
        except ValueError:  # shapes that don't go together
            usable = False
        if not usable:
            raise ModelError(
                f"{self.source}: {type(self.model).__module__} gives a padded row other logits than the row alone, "
                f"does more after its last layer than a head, or has weights that aren't finite. "
                f"Choose a model of a common shape, such as a Llama, Qwen or Mistral"
            )
        return alone.shape[-1]


def load(source: str, context: int, need: Need | None = None) -> tuple[LanguageModel, ChatTokenizer]:
    """Load a model, in float32 on a CPU, and its tokenizer. On the device thread.

    `context` is the longest prompt and completion together; the model's own limit may lower it. `need` tells what
    else will be in memory.

    Raises:
        ModelError: if there is no such model, it can't be reached or is of an unknown or unusable kind; or if it
            can't fit in this machine's memory.
    """
    # MLX would make a CUDA graph of every evaluation anew: launching a step's kernels one by one costs less.
    os.environ.setdefault("MLX_USE_CUDA_GRAPHS", "0")
    path = locate(source)
    here = machine()
    read = _read_gguf if path.suffix == GGUF else _read_folder
    try:
        _check_size(source, path, here, need)
        model, tokenizer, config, ends = read(path, here.on_cpu)
    except ModelError:
        raise
    except Exception as error:  # from four libraries, each with errors of its own
        raise ModelError(f"{source}: the model in {path} can't be loaded: {error}") from error
    model.eval()
    model.freeze()
    if on_cuda():
        rotary.install(model)
    mx.eval(model.parameters())
    blas.load().set_threads(1 if parameters(model) <= SMALL_MODEL else os.cpu_count() or 1)
    lm = LanguageModel(model, source, path, config, context)
    lm.eos_tokens |= ends
    if not lm.eos_tokens:
        raise ModelError(f"{source}: neither tokenizer nor config names an end-of-turn token (eos_token_id)")
    fastmath.install(lm)
    try:
        return lm, ChatTokenizer(tokenizer, lm.eos_tokens)
    except ValueError as error:
        raise ModelError(f"{source}: {error}") from error


def _read_folder(path: Path, on_cpu: bool) -> tuple[Any, Any, dict[str, Any], frozenset[int]]:
    """Model, tokenizer, configuration, and the tokens that end a turn as the tokenizer has them."""
    from mlx_lm.utils import load as load_mlx

    model, wrapper, config = cast(Any, load_mlx)(str(path), return_config=True)
    if on_cpu:  # half precision and quantised products have no fast path there
        model.set_dtype(mx.float32)
    return model, wrapper, config, frozenset(wrapper.eos_token_ids)


def _read_gguf(path: Path, on_cpu: bool) -> tuple[Any, Any, dict[str, Any], frozenset[int]]:
    """The same of a GGUF file. On a CPU its quantised layers become float32, on a GPU they stay as they are."""
    from engine.inference import gguf_model, gguf_tokenizer

    header = gguf.read(path)
    model, config = gguf_model.load(header, dense=on_cpu)
    return model, gguf_tokenizer.tokenizer(header), config, gguf_tokenizer.eos_tokens(header)


def locate(source: str) -> Path:
    """The local folder or GGUF file of a source, downloaded if it has to be.

    Raises:
        ModelError: if there is none.
    """
    if source == "pocket":
        return _folder(source, POCKET)
    path = Path(source).expanduser()
    if path.suffix == GGUF:
        return _file(source, path)
    return _folder(source, _download(source) if hub.is_id(source) else path)


def parameters(model: nn.Module) -> int:
    """How many weights a model has."""
    from mlx_lm.utils import get_total_parameters

    return int(get_total_parameters(model))


def memory() -> int:
    """Bytes MLX holds in arrays now. Device thread only."""
    return mx.get_active_memory()


def _folder(source: str, path: Path) -> Path:
    where = f"model source {source!r}"
    if not path.is_dir():
        raise ModelError(
            f"{where}: there is no folder {path}. Give 'pocket', an existing folder in MLX format, "
            f"a GGUF file, or a hub id such as 'mlx-community/SmolLM2-135M-Instruct'"
        )
    if not (path / "config.json").is_file():
        raise ModelError(f"{where}: {path} has no config.json, so it isn't a model in MLX format")
    if not list(path.glob(WEIGHT_FILES)):
        raise ModelError(f"{where}: {path} has no {WEIGHT_FILES}. Convert the model with `mlx_lm.convert`")
    return path


def _file(source: str, path: Path) -> Path:
    if not path.is_file():
        raise ModelError(f"model source {source!r}: there is no file {path}")
    return path


def _check_size(source: str, path: Path, here: Machine, need: Need | None) -> None:
    """Refuse what can't fit before the machine starts to swap."""
    found = facts.read(path)
    needed = found.weights(here.on_cpu)
    if needed > 0.9 * here.memory:
        raise ModelError(
            f"{source}: its weights take {needed / 1e9:.1f} GB here, and this machine has "
            f"{here.memory / 1e9:.1f} GB. Choose a smaller or a quantised model"
        )
    estimate = need(found, here.on_cpu) if need else None
    if estimate and estimate.fit(here) == "too big":
        parts = ", ".join(f"{name} {size / 1e9:.1f}" for name, size in estimate.parts.items())
        raise ModelError(
            f"{source}: playing and learning one conversation of model.context tokens takes "
            f"{estimate.least / 1e9:.1f} GB, and this machine has {here.memory / 1e9:.1f} GB (as configured: "
            f"{parts}). Choose a smaller or a quantised model, or lower model.context or lora.rank"
        )


def machine() -> Machine:
    """The device that MLX computes on."""
    info = mx.device_info()
    own = info.get("memory_size", info.get("total_memory"))  # of Metal and of CUDA
    total = float(own) if own is not None else float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return Machine(total, on_cpu=mx.default_device() == mx.Device(mx.cpu))


def _download(source: str) -> Path:
    try:
        return hub.download(source).folder
    except hub.HubError as error:
        raise ModelError(f"model source {error}") from error


def _near(expected: mx.array, actual: mx.array) -> bool:
    """Equal but for rounding in half precision. False where anything is NaN."""
    expected, actual = expected.astype(mx.float32), actual.astype(mx.float32)
    return bool((mx.max(mx.abs(expected - actual)) <= 0.02 * mx.max(mx.abs(expected))).item())


def _parts(model: Any, source: str) -> tuple[Any, Any]:
    body = getattr(model, "model", None)
    embedding = getattr(body, "embed_tokens", None)
    if not callable(body) or embedding is None or not hasattr(model, "layers"):
        raise ModelError(
            f"{source}: {type(model).__module__} isn't built as model.model and a head. "
            f"Choose a model of a common shape, such as a Llama, Qwen or Mistral"
        )
    return body, embedding
