"""What a model's files say of it and of the memory it takes, told without loading its weights. No MLX here."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from engine.config import LoRAConfig
from engine.inference import gguf
from engine.inference.gguf_config import config as gguf_config

WEIGHT_FILES = "model*.safetensors"
GROUP_BYTES = 4
"""Scale and bias of a group of quantised numbers on a GPU, in half precision."""
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}
"""Of a number of each of safetensors' types that has more than one."""
FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


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
        return 2 * self.layers * self._kv_heads * self._head_dim * tokens * (4 if on_cpu else 2)

    def learnt(self, lora: LoRAConfig) -> int:
        """How many numbers an adapter has, of a model whose layers have the usual names."""
        blocks = min(lora.last_layers or self.layers, self.layers)
        return blocks * sum(
            count * _learnt(inputs, outputs, lora)
            for name, (count, inputs, outputs) in self._linears().items()
            if not lora.layers or name in {path.rpartition(".")[2] for path in lora.layers}
        )

    @property
    def layers(self) -> int:
        return self._size("num_hidden_layers")

    @property
    def hidden(self) -> int:
        return self._size("hidden_size")

    @property
    def inner(self) -> int:
        """Of the MLP; of experts, of all that a token is sent to."""
        experts = self._size("num_experts_per_tok") * self._size("moe_intermediate_size")
        return experts or self._size("intermediate_size") or 4 * self.hidden

    @property
    def heads(self) -> int:
        return self._size("num_attention_heads")

    @property
    def vocabulary(self) -> int:
        return self._size("vocab_size")

    def _linears(self) -> dict[str, tuple[int, int, int]]:
        """How many there are of each linear layer in a block, its inputs and outputs."""
        experts = self._size("num_experts") or self._size("num_local_experts") or 1
        inner = (self._size("moe_intermediate_size") if experts > 1 else 0) or self._size("intermediate_size")
        inner = inner or 4 * self.hidden
        queries, keys = self.heads * self._head_dim, self._kv_heads * self._head_dim
        return {
            "q_proj": (1, self.hidden, queries),
            "k_proj": (1, self.hidden, keys),
            "v_proj": (1, self.hidden, keys),
            "o_proj": (1, queries, self.hidden),
            "gate_proj": (experts, self.hidden, inner),
            "up_proj": (experts, self.hidden, inner),
            "down_proj": (experts, inner, self.hidden),
        }

    @property
    def _head_dim(self) -> int:
        return self._size("head_dim") or self.hidden // max(self.heads, 1)

    @property
    def _kv_heads(self) -> int:
        return self._size("num_key_value_heads") or self.heads

    def _size(self, key: str) -> int:
        """A whole number from the configuration; 0 where it names none."""
        value = self.config.get(key)
        return value if isinstance(value, int) else 0


@dataclass(frozen=True, slots=True)
class Machine:
    memory: float
    """Bytes that the device which computes has."""
    on_cpu: bool


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


def _learnt(inputs: int, outputs: int, lora: LoRAConfig) -> int:
    """Of one linear layer."""
    if lora.kind == "full":
        return inputs * outputs
    return lora.rank * (inputs + outputs) + (outputs if lora.kind == "dora" else 0)


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
