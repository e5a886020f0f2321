"""CUDA kernels of silu(gate) · x and its gradient: one pass over memory each, in the model's own precision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx

from engine.inference.kernels import PACK, THREADS

# gate, x and the cotangent are [n, columns], each with its own strides: linears that are computed as one hand out
# parts of what they made. Outputs are contiguous.
READ = """
template <typename T, int N>
__device__ Pack<T, N> read(const T* from, long row, long column, const int64_t* strides) {
  const T* first = from + row * strides[0] + column * strides[1];
  if (strides[1] == 1 && reinterpret_cast<size_t>(first) % sizeof(Pack<T, N>) == 0)
    return *reinterpret_cast<const Pack<T, N>*>(first);
  Pack<T, N> found;
  for (int k = 0; k < N; k++) found.v[k] = first[k * strides[1]];
  return found;
}
"""

FORWARD = """
  const long columns = gate_shape[1], i = ((long)blockIdx.x * blockDim.x + threadIdx.x) * N;
  const long row = i / columns, column = i % columns;
  if (row >= gate_shape[0]) return;
  const Pack<T, N> g = read<T, N>(gate, row, column, gate_strides.data());
  const Pack<T, N> v = read<T, N>(x, row, column, x_strides.data());
  Pack<T, N> made;
  for (int k = 0; k < N; k++) {
    const float z = static_cast<float>(g.v[k]);
    made.v[k] = static_cast<T>(z / (1 + __expf(-z)) * static_cast<float>(v.v[k]));
  }
  *reinterpret_cast<Pack<T, N>*>(gated + i) = made;
"""

BACKWARD = """
  const long columns = gate_shape[1], i = ((long)blockIdx.x * blockDim.x + threadIdx.x) * N;
  const long row = i / columns, column = i % columns;
  if (row >= gate_shape[0]) return;
  const Pack<T, N> g = read<T, N>(gate, row, column, gate_strides.data());
  const Pack<T, N> v = read<T, N>(x, row, column, x_strides.data());
  const Pack<T, N> c = read<T, N>(cotangent, row, column, cotangent_strides.data());
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
    columns = like.shape[-1]
    at_once = 8 if columns % 8 == 0 else 1
    made = kernel(
        inputs=[array.reshape(-1, columns) for array in inputs],
        output_shapes=[(like.size // columns, columns)] * outputs,
        output_dtypes=[like.dtype] * outputs,
        grid=(like.size // at_once, 1, 1),
        threadgroup=(THREADS, 1, 1),
        template=[("T", like.dtype), ("N", at_once)],
    )
    return [array.reshape(like.shape) for array in made]


@cache
def _forward() -> Any:
    return _kernel("swiglu", ["gate", "x"], ["gated"], FORWARD)


@cache
def _backward() -> Any:
    return _kernel("swiglu_vjp", ["gate", "x", "cotangent"], ["by_gate", "by_x"], BACKWARD)


def _kernel(name: str, inputs: list[str], outputs: list[str], source: str) -> Any:
    return mx.fast.cuda_kernel(
        name=name,
        input_names=inputs,
        output_names=outputs,
        source=source,
        header=PACK + READ,
        ensure_row_contiguous=False,
    )
