"""What a model's files say of it and of the memory it takes, told without loading its weights. No MLX here."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from engine.config import Config
from engine.inference import gguf
from engine.inference.gguf_config import config as gguf_config

WEIGHT_FILES = "model*.safetensors"
GROUP_BYTES = 4
"""Scale and bias of a group of quantised numbers on a GPU, in half precision."""
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}
"""Of a number of each of safetensors' types that has more than one."""
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}

RANK = Config.model_fields["lora"].default.rank
OPTIMISER_BYTES = 24
"""Of each number of an adapter: itself, its gradient, AdamW's two moments, and its copies in two slots; float32."""
SAVED_HIDDEN, SAVED_INNER = 8, 4
"""How many vectors of the hidden and of the inner size a layer keeps of each token for the way back."""

FITS, TIGHT = 0.7, 0.95
"""Shares of the machine's memory up to which a model fits easily, or at all."""


@dataclass(frozen=True)
class Facts:
    path: Path
    architecture: str
    config: dict[str, Any]
    parameters: int
    disk: int
    """Bytes of the weight files."""
    dense_bytes: int
    """Of the weights on a CPU, where all numbers but packed ones become float32."""
    compact_bytes: int
    """Of the weights on a GPU."""
    quantisation: str
    """The file's name for it, `"4 bit"`, or the type of its numbers."""
    chat_template: bool
    eos_tokens: dict[int, str]
    """The tokens that end a turn, and their texts where the files tell."""

    @property
    def context(self) -> int:
        """The model's own limit in tokens; 0 if it names none."""
        return self._size("max_position_embeddings")

    def weights(self, on_cpu: bool) -> int:
        """Bytes of the weights, loaded."""
        return self.dense_bytes if on_cpu else self.compact_bytes

    def kv(self, tokens: int, on_cpu: bool) -> int:
        """Bytes of the keys and values of so many tokens, in float32 on a CPU and half precision on a GPU."""
        heads = self._size("num_attention_heads")
        head_dim = self._size("head_dim") or self._size("hidden_size") // max(heads, 1)
        kv_heads = self._size("num_key_value_heads") or heads
        return 2 * self._size("num_hidden_layers") * kv_heads * head_dim * tokens * (4 if on_cpu else 2)

    def training(self, tokens: int, on_cpu: bool, rank: int = RANK) -> int:
        """Bytes that learning takes, roughly: an adapter with its optimiser, and one sequence's way back."""
        layers, width = self._size("num_hidden_layers"), self._size("hidden_size")
        inner = self._size("intermediate_size") or 4 * width
        adapter = layers * rank * (8 * width + 3 * (width + inner))  # q, k, v, o and the three of the MLP
        saved = layers * tokens * (SAVED_HIDDEN * width + SAVED_INNER * inner) * (4 if on_cpu else 2)
        return adapter * OPTIMISER_BYTES + saved

    def needed(self, tokens: int, on_cpu: bool) -> int:
        """All of it: weights, one sequence in play, and learning from it."""
        return self.weights(on_cpu) + self.kv(tokens, on_cpu) + self.training(tokens, on_cpu)

    def _size(self, key: str) -> int:
        """A whole number from the configuration; 0 where it names none."""
        value = self.config.get(key)
        return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class Machine:
    memory: float
    """Bytes that the device which computes has."""
    on_cpu: bool


def fit(needed: float, machine: Machine) -> str:
    """What to say of so many bytes: `"fits"`, `"tight"` or `"too big"`."""
    share = needed / machine.memory
    return "fits" if share <= FITS else "tight" if share <= TIGHT else "too big"


def read(path: Path) -> Facts:
    """The facts of a folder in MLX format, or of a GGUF file.

    Raises:
        OSError, ValueError: if its files can't be read or aren't what they should be.
    """
    return _of_file(path) if path.suffix == ".gguf" else _of_folder(path)


def eos_tokens(folder: Path) -> frozenset[int]:
    """Every end-of-turn token that the configuration files of a model name. Models name different ones in each."""
    found: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        named = _json(folder / name).get("eos_token_id")
        found.update(named if isinstance(named, list) else [] if named is None else [named])
    return frozenset(found)


def _of_file(path: Path) -> Facts:
    from engine.inference import gguf_tokenizer

    header = gguf.read(path)
    header.check()
    tensors = header.tensors.values()
    numbers = sum(tensor.size for tensor in tensors)
    compact = sum(
        tensor.size * tensor.kind.bits // 8 + tensor.size // tensor.kind.numbers * GROUP_BYTES
        if tensor.kind.bits
        else 2 * tensor.size
        for tensor in tensors
    )
    return Facts(
        path=path,
        architecture=header.architecture,
        config=gguf_config(header),
        parameters=numbers,
        disk=path.stat().st_size,
        dense_bytes=4 * numbers,
        compact_bytes=compact,
        quantisation=header.quantisation,
        chat_template=bool(header.metadata.get("tokenizer.chat_template")),
        eos_tokens={token: header.tokens[token] for token in sorted(gguf_tokenizer.eos_tokens(header))},
    )


def _of_folder(folder: Path) -> Facts:
    config = _json(folder / "config.json")
    files = sorted(folder.glob(WEIGHT_FILES))
    tensors = {name: info for file in files for name, info in _safetensors(file).items()}
    quantisation = config.get("quantization") or config.get("quantization_config") or {}
    parameters = dense = compact = 0
    kinds: dict[str, int] = {}
    for name, (kind, size) in tensors.items():
        width = BYTES.get(kind, 1)
        compact += size * width
        dense += size * (4 if kind in FLOATS else width)
        owner, _, part = name.rpartition(".")
        quantised = f"{owner}.scales" in tensors
        if quantised and part in ("scales", "biases"):
            continue
        if quantised and part == "weight":
            own = quantisation.get(owner)
            bits = (own if isinstance(own, dict) else quantisation).get("bits", 4)
            kind, size = f"{bits} bit", size * 8 * width // bits
        parameters += size
        kinds[kind] = kinds.get(kind, 0) + size
    most = max(kinds, key=lambda kind: kinds[kind], default="")
    return Facts(
        path=folder,
        architecture=str(config.get("model_type", "")),
        config={**config, **config.get("text_config", {})},
        parameters=parameters,
        disk=sum(file.stat().st_size for file in files),
        dense_bytes=dense,
        compact_bytes=compact,
        quantisation=FLOATS.get(most, most),
        chat_template=_has_chat_template(folder),
        eos_tokens=_named_eos_tokens(folder),
    )


def _safetensors(path: Path) -> dict[str, tuple[str, int]]:
    """Each tensor's type and how many numbers it has, from the file's header.

    https://huggingface.co/docs/safetensors#format
    """
    with path.open("rb") as file:
        try:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        except (struct.error, ValueError) as error:
            raise ValueError(f"{path} isn't a safetensors file: {error}") from error
    header.pop("__metadata__", None)
    return {name: (info["dtype"], prod(info["shape"])) for name, info in header.items()}


def _has_chat_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").exists() or (folder / "chat_template.json").exists():
        return True
    return bool(_json(folder / "tokenizer_config.json").get("chat_template"))


def _named_eos_tokens(folder: Path) -> dict[int, str]:
    """Those that any file of the folder names, with their texts."""
    texts = {token["id"]: token["content"] for token in _json(folder / "tokenizer.json").get("added_tokens", [])}
    own = _json(folder / "tokenizer_config.json").get("eos_token")
    own = own.get("content") if isinstance(own, dict) else own
    of_tokenizer = {token for token, text in texts.items() if text == own}
    return {token: texts.get(token, "") for token in sorted(eos_tokens(folder) | of_tokenizer)}


def _json(path: Path) -> dict[str, Any]:
    """What a JSON file holds; nothing if there is none."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
