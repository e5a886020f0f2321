"""Writes GGUF files, and says what numbers its blocks stand for: the format's definition, apart from the reader.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and `ggml-quants.c` for the blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ALIGNMENT = 32
TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14, "BF16": 30}
BLOCK = 32
SUPER_BLOCK = 256


class Tensor(NamedTuple):
    type: str
    shape: tuple[int, ...]
    """Rows first, as numpy has it."""
    data: bytes

    @classmethod
    def of(cls, type: str, values: np.ndarray) -> Tensor:
        """The values in the blocks of a type, rounded to what it can hold."""
        return cls(type, values.shape, ENCODERS[type](values.astype(np.float32)))

    def values(self) -> np.ndarray:
        """The float32 numbers that the data stands for."""
        return DECODERS[self.type](self.data).reshape(self.shape)


def write(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor], version: int = 3) -> Path:
    """Integers become uint32, floats float32; lists are of text, of integers (int32) or of floats."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        header += _text(key) + _value(value)
    offset = 0
    for name, tensor in tensors.items():
        header += _text(name) + struct.pack("<I", len(tensor.shape))
        header += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        header += struct.pack("<IQ", TYPES[tensor.type], offset)
        offset += len(_padded(tensor.data))
    path.write_bytes(_padded(header) + b"".join(_padded(tensor.data) for tensor in tensors.values()))
    return path


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack("<I?", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))
        case [float(), *_]:
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
        case list():
            return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    raise TypeError(f"no GGUF value: {value!r}")


# Blocks of 32: q4_0 is d·(q − 8), q4_1 is d·q + m, q8_0 is d·q; d and m in half precision. The low four bits of
# a byte belong to the first sixteen numbers of a block, the high ones to the last.


def _q4_0(values: np.ndarray) -> bytes:
    rows = values.reshape(-1, BLOCK)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(1)[:, None], 1)
    d = (largest / -8).astype(np.float16)
    q = np.clip(np.round(rows / _nonzero(d)) + 8, 0, 15).astype(np.uint8)
    return np.concatenate([d.view(np.uint8), q[:, :16] | q[:, 16:] << 4], axis=1).tobytes()


def _q4_1(values: np.ndarray) -> bytes:
    rows = values.reshape(-1, BLOCK)
    m = rows.min(1, keepdims=True).astype(np.float16)
    d = ((rows.max(1, keepdims=True) - m) / 15).astype(np.float16)
    q = np.clip(np.round((rows - m) / _nonzero(d)), 0, 15).astype(np.uint8)
    return np.concatenate([d.view(np.uint8), m.view(np.uint8), q[:, :16] | q[:, 16:] << 4], axis=1).tobytes()


def _q8_0(values: np.ndarray) -> bytes:
    rows = values.reshape(-1, BLOCK)
    d = (np.abs(rows).max(1, keepdims=True) / 127).astype(np.float16)
    q = np.clip(np.round(rows / _nonzero(d)), -127, 127).astype(np.int8)
    return np.concatenate([d.view(np.uint8), q.view(np.uint8)], axis=1).tobytes()


def _nonzero(d: np.ndarray) -> np.ndarray:
    return np.where(d == 0, 1, d).astype(np.float32)


def _halves(data: np.ndarray, start: int) -> np.ndarray:
    """[blocks, 1]: the half-precision number at a place in each block."""
    return np.ascontiguousarray(data[:, start : start + 2]).view(np.float16).astype(np.float32)


def _nibbles(data: np.ndarray) -> np.ndarray:
    return np.concatenate([data & 15, data >> 4], axis=1).astype(np.float32)


def _blocks(data: bytes, size: int) -> np.ndarray:
    return np.frombuffer(data, np.uint8).reshape(-1, size)


def _from_q4_0(data: bytes) -> np.ndarray:
    blocks = _blocks(data, 18)
    return _halves(blocks, 0) * (_nibbles(blocks[:, 2:]) - 8)


def _from_q4_1(data: bytes) -> np.ndarray:
    blocks = _blocks(data, 20)
    return _halves(blocks, 0) * _nibbles(blocks[:, 4:]) + _halves(blocks, 2)


def _from_q8_0(data: bytes) -> np.ndarray:
    blocks = _blocks(data, 34)
    return _halves(blocks, 0) * np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32)


def _from_q4_k(data: bytes) -> np.ndarray:
    """Eight groups of 32, each with a scale and a minimum of six bits: d·scale·q − dmin·min."""
    blocks = _blocks(data, 144)
    d, dmin, packed, q = _halves(blocks, 0), _halves(blocks, 2), blocks[:, 4:16], blocks[:, 16:]
    low, high, extra = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([low & 63, extra & 15 | low >> 6 << 4], axis=1).astype(np.float32)
    minima = np.concatenate([high & 63, extra >> 4 | high >> 6 << 4], axis=1).astype(np.float32)
    pairs = q.reshape(-1, 4, 32)
    values = np.stack([pairs & 15, pairs >> 4], axis=2).reshape(-1, 8, 32).astype(np.float32)
    return (d * scales)[..., None] * values - (dmin * minima)[..., None]


def _from_q6_k(data: bytes) -> np.ndarray:
    """Sixteen groups of 16 with a scale of eight bits: d·scale·(q − 32); q has four low bits and two high ones."""
    blocks = _blocks(data, 210)
    low, high = blocks[:, :128].reshape(-1, 2, 64), blocks[:, 128:192].reshape(-1, 2, 1, 32)
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    four = np.stack([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    two = high >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    q = (four | two << 4).astype(np.float32) - 32
    return (_halves(blocks, 208) * scales)[..., None] * q.reshape(-1, 16, 16)


ENCODERS = {
    "F32": lambda values: values.tobytes(),
    "F16": lambda values: values.astype(np.float16).tobytes(),
    "BF16": lambda values: (values.view(np.uint32) >> 16).astype(np.uint16).tobytes(),
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q8_0": _q8_0,
}
DECODERS = {
    "F32": lambda data: np.frombuffer(data, np.float32),
    "F16": lambda data: np.frombuffer(data, np.float16).astype(np.float32),
    "BF16": lambda data: (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32),
    "Q4_0": _from_q4_0,
    "Q4_1": _from_q4_1,
    "Q8_0": _from_q8_0,
    "Q4_K": _from_q4_k,
    "Q6_K": _from_q6_k,
}
