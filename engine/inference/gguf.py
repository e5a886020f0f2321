"""What a GGUF file says of itself: metadata and tensors, without their numbers. No MLX here.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32
"""Of tensors in the file, in bytes, unless its metadata say another."""

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of metadata to what `struct` calls them. There are two more:"""
TEXT, ARRAY = 8, 9

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""`general.architecture` of the models that are read; Mistral and SmolLM call themselves llama."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How the numbers of a tensor are stored: in blocks of so many numbers and bytes."""

    name: str
    numbers: int = 1
    bytes: int = 0
    bits: int | None = None
    """Of MLX's affine quantisation in groups of 32, for a kind that is the same but for the order of its bits."""


READ = {
    0: Kind("F32", 1, 4),
    1: Kind("F16", 1, 2),
    2: Kind("Q4_0", 32, 18, bits=4),
    3: Kind("Q4_1", 32, 20, bits=4),
    8: Kind("Q8_0", 32, 34, bits=8),
    14: Kind("Q6_K", 256, 210),
    30: Kind("BF16", 1, 2),
}
"""The kinds that are read. Q4_0, Q4_1 and Q8_0 are MLX's own quantisation; the others become plain numbers."""
OTHERS = {
    **{6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 15: "Q8_K", 16: "IQ2_XXS"},
    **{17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS"},
    **{24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"},
}
"""Names of kinds that aren't, to say which one it is."""


class GGUFError(ValueError):
    """A file that isn't GGUF, is damaged, or holds what isn't read: what is wrong, and what would be right."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]
    """Rows first, as MLX has it."""
    kind: Kind
    offset: int
    """In bytes from where the tensors begin."""

    @property
    def size(self) -> int:
        """How many numbers."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size // self.kind.numbers * self.kind.bytes


@dataclass(frozen=True)
class Header:
    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def get(self, key: str, default: Any = None) -> Any:
        """The model's own value under a key such as `"block_count"`."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def need(self, key: str) -> Any:
        """The same, where a model can't do without.

        Raises:
            GGUFError: if the file doesn't say.
        """
        value = self.get(key)
        if value is None:
            raise GGUFError(f"{self.path} lacks the metadata {self.architecture}.{key}")
        return value

    @cached_property
    def tokens(self) -> list[str]:
        return self.metadata.get("tokenizer.ggml.tokens", [])

    @property
    def quantisation(self) -> str:
        """The kind that most of the numbers are stored in."""
        numbers: dict[str, int] = {}
        for tensor in self.tensors.values():
            numbers[tensor.kind.name] = numbers.get(tensor.kind.name, 0) + tensor.size
        return max(numbers, key=lambda name: numbers[name], default="")

    def check(self) -> None:
        """See that the model is one of those that are read.

        Raises:
            GGUFError: if it isn't.
        """
        if self.architecture not in ARCHITECTURES:
            raise GGUFError(
                f"{self.path} holds a model of the architecture {self.architecture!r}; "
                f"{', '.join(ARCHITECTURES)} are read. Give the model in MLX format instead"
            )
        if self.metadata.get("split.count", 1) > 1:
            raise GGUFError(
                f"{self.path} is one of {self.metadata['split.count']} parts; join them with `gguf-split --merge`"
            )
        for tensor in self.tensors.values():
            if not tensor.kind.bytes:
                read = ", ".join(kind.name for kind in READ.values())
                raise GGUFError(
                    f"{self.path}: {tensor.name} is stored as {tensor.kind.name}; read are {read}. "
                    f"Take the model's Q8_0 or Q4_0 file, or the model in MLX format"
                )


def read(path: Path) -> Header:
    """Read what comes before the tensors, and see that the file holds them all.

    Raises:
        GGUFError: if the file isn't GGUF or ends too early.
        OSError: if it can't be read.
    """
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise GGUFError(f"{path} isn't a GGUF file: it doesn't begin with {MAGIC.decode()}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()


class _Reader:
    """A place in the file, and what can be read from there."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._at = len(MAGIC)

    def header(self) -> Header:
        try:
            (version,) = self._unpack("I")
            if version not in VERSIONS:
                raise GGUFError(f"{self._path} is GGUF of version {version}; versions 2 and 3 are read")
            tensors, pairs = self._unpack("QQ")
            metadata = {self._text(): self._value(*self._unpack("I")) for _ in range(pairs)}
            infos = [self._tensor() for _ in range(tensors)]
        except (struct.error, UnicodeDecodeError, OverflowError, KeyError, RecursionError) as error:
            raise GGUFError(f"{self._path} is damaged: byte {self._at} of {len(self._data)}: {error}") from error
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise GGUFError(f"{self._path} is damaged: its general.alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        end = start + max((info.offset + info.bytes for info in infos), default=0)
        if end > len(self._data):
            raise GGUFError(f"{self._path} ends at byte {len(self._data)} of {end}: the download broke off")
        return Header(self._path, metadata, {info.name: info for info in infos})

    def _unpack(self, form: str) -> tuple[Any, ...]:
        form = f"<{form}"
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def _text(self) -> str:
        (length,) = self._unpack("Q")
        if length > len(self._data) - self._at:
            raise OverflowError(f"a text of {length} bytes")
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind != ARRAY:
            return self._unpack(SCALARS[kind])[0]
        kind, count = self._unpack("IQ")
        if count > len(self._data) - self._at:
            raise OverflowError(f"a list of {count} values")
        return (
            list(self._unpack(f"{count}{SCALARS[kind]}"))
            if kind in SCALARS
            else [self._value(kind) for _ in range(count)]
        )

    def _tensor(self) -> TensorInfo:
        name = self._text()
        (axes,) = self._unpack("I")
        shape = self._unpack(f"{axes}Q")
        kind, offset = self._unpack("IQ")
        known = READ.get(kind) or Kind(OTHERS.get(kind, f"type {kind}"))
        return TensorInfo(name, shape[::-1], known, offset)
