"""Where models come from, and one view of them all.

A source is `"pocket"` (the model that comes with the engine), a local folder in MLX format, or a hub id.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache

from engine.inference import blas, fastmath
from engine.inference.cache import BatchCache
from engine.inference.tokenizer import ChatTokenizer

POCKET = Path(__file__).resolve().parent.parent / "pocket"
"""The embedded model's folder."""

SMALL_MODEL = 20_000_000
"""Up to so many parameters a second BLAS thread gains less than it takes from the app."""
CONNECT_SECONDS = 10.0
"""How long the hub may take to answer."""
WEIGHT_FILES = "model*.safetensors"
HUB_FILES = ["*.json", WEIGHT_FILES, "tokenizer.model", "*.tiktoken", "*.txt", "*.jinja"]


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
        self.eos_tokens: frozenset[int] = eos_tokens(path)
        self._body, self._embedding = _parts(model, source)
        self.vocab_size = self._check()

    def hidden(self, tokens: mx.array, cache: list | None = None) -> mx.array:
        """[B, L] int32 → [B, L, D]: what the head reads, the final norm applied."""
        return self._body(tokens, cache)

    def head(self, hidden: mx.array) -> mx.array:
        """[..., D] → logits [..., V]."""
        output = getattr(self.model, "lm_head", None)
        return self._embedding.as_linear(hidden) if output is None else output(hidden)

    def make_cache(self, left_padding: Sequence[int]) -> list[BatchCache]:
        """An empty cache, one entry a layer, for a batch whose rows begin with so much padding.

        Raises:
            ModelError: if the model remembers in a way that can't be batched with padding.
        """
        return [self._batched(cache, left_padding) for cache in make_prompt_cache(self.model)]

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


def load(source: str, context: int) -> tuple[LanguageModel, ChatTokenizer]:
    """Load a model, in float32 on a CPU, and its tokenizer. On the device thread.

    `context` is the longest prompt and completion together; the model's own limit may lower it.

    Raises:
        ModelError: if there is no such model, it can't be reached or is of an unknown or unusable kind.
    """
    from mlx_lm.utils import load as load_mlx

    path = locate(source)
    on_cpu = mx.default_device() == mx.Device(mx.cpu)
    _check_size(source, path, on_cpu)
    try:
        model, wrapper, config = cast(Any, load_mlx)(str(path), return_config=True)
    except Exception as error:  # from four libraries, each with errors of its own
        raise ModelError(f"{source}: the model in {path} can't be loaded: {error}") from error
    if on_cpu:  # half precision and quantised products have no fast path there
        model.set_dtype(mx.float32)
    model.eval()
    model.freeze()
    mx.eval(model.parameters())
    blas.load().set_threads(1 if parameters(model) <= SMALL_MODEL else os.cpu_count() or 1)
    lm = LanguageModel(model, source, path, config, context)
    lm.eos_tokens |= frozenset(wrapper.eos_token_ids)
    if not lm.eos_tokens:
        raise ModelError(f"{source}: neither tokenizer nor config names an end-of-turn token (eos_token_id)")
    fastmath.install(lm)
    try:
        return lm, ChatTokenizer(wrapper, lm.eos_tokens)
    except ValueError as error:
        raise ModelError(f"{source}: {error}") from error


def locate(source: str) -> Path:
    """The local folder of a source, downloaded if it has to be.

    Raises:
        ModelError: if there is none.
    """
    if source == "pocket":
        return _folder(source, POCKET)
    path = Path(source).expanduser()
    if path.exists() or path.is_absolute() or source.startswith((".", "~")) or source.count("/") != 1:
        return _folder(source, path)
    return _folder(source, _download(source))


def parameters(model: nn.Module) -> int:
    """How many weights a model has."""
    from mlx_lm.utils import get_total_parameters

    return int(get_total_parameters(model))


def memory() -> int:
    """Bytes MLX holds in arrays now. Device thread only."""
    return mx.get_active_memory()


def eos_tokens(folder: Path) -> frozenset[int]:
    """Every end-of-turn token that the configuration files of a model name. Models name different ones in each."""
    found: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        if (folder / name).exists():
            named = json.loads((folder / name).read_text(encoding="utf-8")).get("eos_token_id")
            found.update(named if isinstance(named, list) else [] if named is None else [named])
    return frozenset(found)


def _folder(source: str, path: Path) -> Path:
    where = f"model source {source!r}"
    if path.suffix == ".gguf":
        raise ModelError(f"{where}: GGUF files aren't read. Give a folder in MLX format, or a hub id")
    if not path.is_dir():
        raise ModelError(
            f"{where}: there is no folder {path}. Give 'pocket', an existing folder in MLX format, "
            f"or a hub id such as 'mlx-community/SmolLM2-135M-Instruct'"
        )
    if not (path / "config.json").is_file():
        raise ModelError(f"{where}: {path} has no config.json, so it isn't a model in MLX format")
    if not list(path.glob(WEIGHT_FILES)):
        raise ModelError(f"{where}: {path} has no {WEIGHT_FILES}. Convert the model with `mlx_lm.convert`")
    return path


def _check_size(source: str, path: Path, on_cpu: bool) -> None:
    """Refuse what can't fit before the machine starts to swap."""
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    quantised = "quantization" in config or "quantization_config" in config
    widened = 1 if not on_cpu or quantised or config.get("torch_dtype", config.get("dtype")) == "float32" else 2
    needed = widened * sum(file.stat().st_size for file in path.glob(WEIGHT_FILES))
    there = _machine_memory()
    if needed > 0.9 * there:
        raise ModelError(
            f"{source}: its weights take {needed / 1e9:.1f} GB here, and this machine has {there / 1e9:.1f} GB. "
            f"Choose a smaller or a quantised model"
        )


def _machine_memory() -> float:
    """Bytes that the device MLX computes on has."""
    own = mx.device_info().get("memory_size")
    return float(own) if own is not None else float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _download(source: str) -> Path:
    """The hub's copy of a model; the local cache's where the hub can't be asked."""
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

    obstacle = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
    if not obstacle:
        try:
            HfApi().model_info(source, timeout=CONNECT_SECONDS)  # one bounded question before a long download
        except HFValidationError as error:
            raise ModelError(f"model source {source!r} is no hub id: {error}") from error
        except RepositoryNotFoundError as error:
            raise ModelError(
                f"model source {source!r}: the hub has no such model, or it needs a login (`hf auth login`)"
            ) from error
        except Exception as error:  # the HTTP library and its errors differ between versions of the hub's client
            obstacle = f"the hub can't be reached ({error})"
    try:
        return Path(snapshot_download(source, allow_patterns=HUB_FILES, local_files_only=bool(obstacle)))
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"model source {source!r} isn't complete in the local cache and {obstacle or error}. "
            f"Connect, give a local folder in MLX format, or use 'pocket'"
        ) from error
    except Exception as error:
        raise ModelError(f"model source {source!r}: the download broke off: {error}. Try again") from error


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
