"""CUDA kernels of silu(gate) · x and its gradient: one pass over memory each, in the model's own precision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx

from engine.inference.kernels import PACK, THREADS

FORWARD = """
  const long i = ((long)blockIdx.x * blockDim.x + threadIdx.x) * N;
  if (i >= gate_shape[0]) return;
  const Pack<T, N> g = *reinterpret_cast<const Pack<T, N>*>(gate + i);
  const Pack<T, N> v = *reinterpret_cast<const Pack<T, N>*>(x + i);
  Pack<T, N> made;
  for (int k = 0; k < N; k++) {
    const float z = static_cast<float>(g.v[k]);
    made.v[k] = static_cast<T>(z / (1 + __expf(-z)) * static_cast<float>(v.v[k]));
  }
  *reinterpret_cast<Pack<T, N>*>(gated + i) = made;
"""

BACKWARD = """
  const long i = ((long)blockIdx.x * blockDim.x + threadIdx.x) * N;
  if (i >= gate_shape[0]) return;
  const Pack<T, N> g = *reinterpret_cast<const Pack<T, N>*>(gate + i);
  const Pack<T, N> v = *reinterpret_cast<const Pack<T, N>*>(x + i);
  const Pack<T, N> c = *reinterpret_cast<const Pack<T, N>*>(cotangent + i);
  Pack<T, N> of_gate, of_x;
  for (int k = 0; k < N; k++) {
    const float z = static_cast<float>(g.v[k]), each = static_cast<float>(c.v[k]);
    const float sigmoid = 1 / (1 + __expf(-z)), silu = z * sigmoid;
    of_gate.v[k] = static_cast<T>(each * static_cast<float>(v.v[k]) * (sigmoid + silu * (1 - sigmoid)));
    of_x.v[k] = static_cast<T>(each * silu);
  }
  *reinterpret_cast<Pack<T, N>*>(by_gate + i) = of_gate;
  *reinterpret_cast<Pack<T, N>*>(by_x + i) = of_x;
"""


def swiglu(gate: mx.array, x: mx.array) -> mx.array:
    """silu(gate) · x, of equal shapes."""
    return _made(_forward(), [gate, x.astype(gate.dtype)], 1)[0]


def swiglu_vjp(gate: mx.array, x: mx.array, cotangent: mx.array) -> tuple[mx.array, mx.array]:
    """The gradients by `gate` and by `x`."""
    by_gate, by_x = _made(_backward(), [gate, x.astype(gate.dtype), cotangent.astype(gate.dtype)], 2)
    return by_gate, by_x.astype(x.dtype)


def _made(kernel: Any, inputs: Sequence[mx.array], outputs: int) -> list[mx.array]:
    like = inputs[0]
    at_once = 8 if like.size % 8 == 0 else 1
    made = kernel(
        inputs=[array.reshape(-1) for array in inputs],
        output_shapes=[(like.size,)] * outputs,
        output_dtypes=[like.dtype] * outputs,
        grid=(like.size // at_once, 1, 1),
        threadgroup=(THREADS, 1, 1),
        template=[("T", like.dtype), ("N", at_once)],
    )
    return [array.reshape(like.shape) for array in made]


@cache
def _forward() -> Any:
    return mx.fast.cuda_kernel(
        name="swiglu", input_names=["gate", "x"], output_names=["gated"], source=FORWARD, header=PACK
    )


@cache
def _backward() -> Any:
    return mx.fast.cuda_kernel(
        name="swiglu_vjp",
        input_names=["gate", "x", "cotangent"],
        output_names=["by_gate", "by_x"],
        source=BACKWARD,
        header=PACK,
    )
