"""CUDA kernels of one decode step, through `mx.fast.cuda_kernel`: everything of a layer but its four products.

A step of a small model is a few hundred launches of a few microseconds each, so what counts is how many there
are. Per layer: `norm` → product → `attend` → product → `norm` → product → `gate` → product. The adapters of eight
players ride along in the three kernels and add no launch. All arithmetic is float32; what is stored has the
model's type.

Shapes: B rows, D a head's size, d the model's width, F the feed-forward width, S slots, R the adapters' rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import mlx.core as mx

THREADS = 256
"""Of the kernels that work on a row."""
ATTEND_THREADS = 128

PACK = """
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };
"""

# `spots` holds the number of slots, then for each stack that a kernel is given which of its parameters is meant;
# −1: none, this layer isn't adapted. Where the matrix of a slot lies, counted in matrices:
SPOTS = """
__device__ long matrix(const int* spots, int stack, int slot) { return (long)spots[stack] * spots[0] + slot; }
"""

# x · A for one row x in shared memory and one slot's A [n, R], R a power of two: neighbouring threads read
# neighbouring numbers, and those of one column of A add up in shared memory. Ends with a barrier.
PROJECT = """
template <int R, int THREADS>
__device__ void project(const float* x, int n, const float* a, float* partial, float* z) {
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = t / R; i < n; i += THREADS / R) sum += x[i] * a[i * R + t % R];
  partial[t] = sum;
  __syncthreads();
  for (int half = THREADS / 2; half >= R; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  if (t < R) z[t] = partial[t];
  __syncthreads();
}
"""

NORM = """
  // One block a row: h + delta + (source A) B, normalised, and what the next adapters need of it.
  const int t = threadIdx.x, b = blockIdx.y;
  const int slot = R ? slots[b] : 0;
  __shared__ float row[WIDTH], partial[THREADS], z[R ? R : 1];
  extern __shared__ float input[];
  const bool adapted = R && ADDS && spots[1] >= 0;
  if (adapted) {
    for (int i = t; i < INPUTS; i += THREADS) input[i] = static_cast<float>(source[b * INPUTS + i]);
    __syncthreads();
    project<R ? R : 1, THREADS>(input, INPUTS, a + matrix(spots, 1, slot) * INPUTS * R, partial, z);
  }
  float squares = 0;
  for (int i = t; i < WIDTH; i += THREADS) {
    float sum = static_cast<float>(h[b * WIDTH + i]);
    if (ADDS) sum += static_cast<float>(delta[b * WIDTH + i]);
    if (adapted) {
      const float* column = lora_b + matrix(spots, 2, slot) * R * WIDTH + i;
      for (int k = 0; k < R; k++) sum += z[k] * column[k * WIDTH];
    }
    const T kept = static_cast<T>(sum);
    residual[b * WIDTH + i] = kept;
    row[i] = static_cast<float>(kept);
    squares += row[i] * row[i];
  }
  for (int o = 16; o; o /= 2) squares += __shfl_xor_sync(~0u, squares, o);
  if (t % 32 == 0) partial[t / 32] = squares;
  __syncthreads();
  squares = 0;
  for (int i = 0; i < THREADS / 32; i++) squares += partial[i];
  const float inverse = rsqrtf(squares / WIDTH + EPSILON);
  __syncthreads();
  for (int i = t; i < WIDTH; i += THREADS) {
    const T kept = static_cast<T>(row[i] * inverse * static_cast<float>(weight[i]));
    normed[b * WIDTH + i] = kept;
    row[i] = static_cast<float>(kept);
  }
  if (R && NEXT) {
    __syncthreads();
    const float* stacks[3] = {a0, a1, a2};
    for (int m = 0; m < NEXT; m++) {
      if (spots[3 + m] < 0) continue;
      project<R ? R : 1, THREADS>(row, WIDTH, stacks[m] + matrix(spots, 3 + m, slot) * WIDTH * R, partial, z);
      if (t < R) projected[(b * NEXT + m) * R + t] = z[t];
    }
  }
"""

ATTEND = """
  // One block a row and key head: rotate, keep the new key and value, attend with the queries that share them.
  constexpr int HEADS = KV * GROUP, LANES = D / 8, TEAMS = THREADS / LANES;
  const int t = threadIdx.x, head = blockIdx.y, b = blockIdx.z;
  const int columns = cache_shape[3], rows = cache_shape[2], end = ends[b];
  if (end < 0) return;
  const int slot = R ? slots[b] : 0;
  __shared__ float raw[(GROUP + 2) * D], fresh[(GROUP + 2) * D];
  __shared__ float tops[TEAMS][GROUP], sums[TEAMS][GROUP], mixed[TEAMS][GROUP * D];

  for (int e = t; e < (GROUP + 2) * D; e += THREADS) {
    const int part = e / D, i = e % D;
    const int which = part < GROUP ? 0 : part - GROUP + 1;
    const int column = which == 0 ? (head * GROUP + part) * D + i : head * D + i;
    const int start = which == 0 ? 0 : (HEADS + (which - 1) * KV) * D;
    float x = static_cast<float>(qkv[(long)b * (HEADS + 2 * KV) * D + start + column]);
    if (R && spots[1 + which] >= 0) {
      const int width = which == 0 ? HEADS * D : KV * D;
      const float* stack = which == 0 ? bq : which == 1 ? bk : bv;
      stack += matrix(spots, 1 + which, slot) * R * width + column;
      const float* z = projected + (b * 3 + which) * R;
      for (int k = 0; k < R; k++) x += z[k] * stack[k * width];
    }
    raw[e] = static_cast<float>(static_cast<T>(x));
  }
  __syncthreads();
  if (NORMED) {  // each head of queries and keys by its own root mean square
    for (int part = t / 32; part <= GROUP; part += THREADS / 32) {
      float squares = 0;
      for (int i = t % 32; i < D; i += 32) squares += raw[part * D + i] * raw[part * D + i];
      for (int o = 16; o; o /= 2) squares += __shfl_xor_sync(~0u, squares, o);
      const float inverse = rsqrtf(squares / D + EPSILON);
      for (int i = t % 32; i < D; i += 32) {
        const float weight = static_cast<float>(part < GROUP ? q_weight[i] : k_weight[i]);
        raw[part * D + i] = static_cast<float>(static_cast<T>(raw[part * D + i] * inverse * weight));
      }
    }
    __syncthreads();
  }
  for (int e = t; e < (GROUP + 2) * D; e += THREADS) {
    const int part = e / D, i = e % D;
    float x = raw[e];
    if (part <= GROUP) {
      const int pair = PAIRED ? i / 2 : i % (D / 2);
      const bool second = PAIRED ? i % 2 : i >= D / 2;
      const float other = raw[part * D + (PAIRED ? i ^ 1 : (i + D / 2) % D)];
      const float c = cosines[end * (D / 2) + pair], s = sines[end * (D / 2) + pair];
      x = second ? x * c + other * s : x * c - other * s;
    }
    const T kept = static_cast<T>(x);
    fresh[e] = static_cast<float>(kept);
    if (part >= GROUP && end < columns) {
      const long place = ((((long)layer[0] * 2 + part - GROUP) * rows + b) * columns + end) * KV + head;
      const_cast<T*>(cache)[place * D + i] = kept;  // the one thing changed in place: see `places.py`
    }
  }
  __syncthreads();

  const int team = t / LANES, lane = t % LANES;
  const T* keys = cache + (((long)layer[0] * 2 * rows + b) * columns * KV + head) * D + lane * 8;
  const T* values = keys + (long)rows * columns * KV * D;
  float q[GROUP][8], top[GROUP], sum[GROUP], mix[GROUP][8];
  for (int g = 0; g < GROUP; g++) {
    top[g] = -1e30f;
    sum[g] = 0;
    for (int i = 0; i < 8; i++) {
      q[g][i] = fresh[g * D + lane * 8 + i] * SCALE;
      mix[g][i] = 0;
    }
  }
  for (int first = 0; first <= end; first += TEAMS) {  // every team goes round as often, for the shuffles' sake
    const int c = first + team;
    float k[8], v[8];
    if (c < end) {
      const Pack<T, 8> packed_k = *reinterpret_cast<const Pack<T, 8>*>(keys + (long)c * KV * D);
      const Pack<T, 8> packed_v = *reinterpret_cast<const Pack<T, 8>*>(values + (long)c * KV * D);
      for (int i = 0; i < 8; i++) {
        k[i] = static_cast<float>(packed_k.v[i]);
        v[i] = static_cast<float>(packed_v.v[i]);
      }
    } else {
      for (int i = 0; i < 8; i++) {
        k[i] = fresh[GROUP * D + lane * 8 + i];
        v[i] = fresh[(GROUP + 1) * D + lane * 8 + i];
      }
    }
    for (int g = 0; g < GROUP; g++) {
      float s = 0;
      for (int i = 0; i < 8; i++) s += q[g][i] * k[i];
      for (int o = LANES / 2; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
      if (c <= end) {
        const float higher = fmaxf(top[g], s);
        const float shrink = __expf(top[g] - higher), weight = __expf(s - higher);
        top[g] = higher;
        sum[g] = sum[g] * shrink + weight;
        for (int i = 0; i < 8; i++) mix[g][i] = mix[g][i] * shrink + weight * v[i];
      }
    }
  }
  for (int g = 0; g < GROUP; g++) {
    if (lane == 0) tops[team][g] = top[g], sums[team][g] = sum[g];
    for (int i = 0; i < 8; i++) mixed[team][g * D + lane * 8 + i] = mix[g][i];
  }
  __syncthreads();
  for (int e = t; e < GROUP * D; e += THREADS) {
    const int g = e / D;
    float higher = -1e30f, total = 0, value = 0;
    for (int n = 0; n < TEAMS; n++) higher = fmaxf(higher, tops[n][g]);
    for (int n = 0; n < TEAMS; n++) {
      const float weight = __expf(tops[n][g] - higher);
      total += weight * sums[n][g];
      value += weight * mixed[n][e];
    }
    attended[((long)b * HEADS + head * GROUP) * D + e] = static_cast<T>(value / total);
  }
"""

GATE = """
  // silu(gate) · up of one row and a stretch of columns, adapters added to both.
  const int i = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
  if (i >= WIDTH) return;
  const int slot = R ? slots[b] : 0;
  float x[2];
  for (int side = 0; side < 2; side++) {
    x[side] = static_cast<float>(both[((long)b * 2 + side) * WIDTH + i]);
    if (R && spots[1 + side] >= 0) {
      const float* z = projected + (b * 2 + side) * R;
      const float* column = (side ? bu : bg) + matrix(spots, 1 + side, slot) * R * WIDTH + i;
      for (int k = 0; k < R; k++) x[side] += z[k] * column[k * WIDTH];
    }
  }
  gated[(long)b * WIDTH + i] = static_cast<T>(x[0] / (1 + __expf(-x[0])) * x[1]);
"""


def on_cuda() -> bool:
    """Whether the default device is one that these run on."""
    return mx.cuda.is_available() and mx.default_device() == mx.Device(mx.gpu)


class Matrices(NamedTuple):
    """One A or B for each slot."""

    stack: mx.array
    """[parameters, slots, in, R] or [parameters, slots, R, out], float32."""
    parameter: int


class Kernels:
    """The kernels for one model's sizes and one adapter rank. With rank 0 all matrices are None."""

    def __init__(
        self,
        *,
        heads: int,
        kv_heads: int,
        head: int,
        inputs: int,
        scale: float,
        epsilon: float,
        paired: bool,
        rank: int,
    ) -> None:
        """`inputs`: the widest input of a product. `paired`: positions turn (2i, 2i + 1), not (i, i + D/2)."""
        self._kv, self._group, self._head = kv_heads, heads // kv_heads, head
        self._paired, self._rank = paired, rank
        self._nothing = mx.zeros(1)
        """Stands in for arguments that a kernel doesn't use."""
        self._spots: dict[tuple[int, ...], mx.array] = {}
        constants = f"constexpr float EPSILON = {epsilon!r}f, SCALE = {scale!r}f;\n"
        self._norm: Any = mx.fast.cuda_kernel(
            name="decode_norm",
            input_names=["h", "delta", "source", "a", "lora_b", "weight", "a0", "a1", "a2", "slots", "spots"],
            output_names=["residual", "normed", "projected"],
            source=NORM,
            header=SPOTS + PROJECT + constants,
            shared_memory=4 * inputs if rank else 0,
        )
        self._attend: Any = mx.fast.cuda_kernel(
            name="decode_attend",
            input_names=[
                *("qkv", "projected", "bq", "bk", "bv", "slots", "q_weight", "k_weight"),
                *("cosines", "sines", "cache", "layer", "ends", "spots"),
            ],
            output_names=["attended"],
            source=ATTEND,
            header=SPOTS + PACK + constants,
        )
        self._gate: Any = mx.fast.cuda_kernel(
            name="decode_gate",
            input_names=["both", "projected", "bg", "bu", "slots", "spots"],
            output_names=["gated"],
            source=GATE,
            header=SPOTS,
        )

    def norm(
        self,
        h: mx.array,
        weight: mx.array,
        slots: mx.array,
        added: tuple[mx.array, mx.array, Matrices | None, Matrices | None] | None,
        following: Sequence[Matrices | None],
    ) -> Sequence[mx.array]:
        """The residual [B, d], its norm [B, d], and that projected for the adapters that read it [B, n · R].

        `added`: what the layer before made of its input [B, d], that input [B, n], its A and B; None at the
        beginning. `following`: A of the layers that read the result, at most 3.
        """
        rows, width = h.shape
        delta, source, a, b = added or (h, h, None, None)
        nexts = [*following, None, None, None][:3] if self._rank else [None] * 3
        count = len(following) if self._rank else 0
        a, b, *nexts, spots = self._stacks(a, b, *nexts)
        return self._norm(
            inputs=[h, delta, source, a, b, weight, *nexts, slots, spots],
            output_shapes=[(rows, width), (rows, width), (rows, max(1, count * self._rank))],
            output_dtypes=[h.dtype, h.dtype, mx.float32],
            grid=(THREADS, rows, 1),
            threadgroup=(THREADS, 1, 1),
            template=[
                *(("T", h.dtype), ("WIDTH", width), ("INPUTS", source.shape[1]), ("R", self._rank)),
                *(("ADDS", added is not None), ("NEXT", count), ("THREADS", THREADS)),
            ],
        )

    def attend(
        self,
        qkv: mx.array,
        projected: mx.array,
        b: Sequence[Matrices | None],
        slots: mx.array,
        weights: tuple[mx.array, mx.array] | None,
        tables: tuple[mx.array, mx.array],
        cache: mx.array,
        layer: mx.array,
        ends: mx.array,
    ) -> mx.array:
        """Attention of one new token a row [B, heads · D]; its key and value go into column `ends[b]` of the cache.

        `qkv` [B, (heads + 2 kv) · D], `cache` [layers, 2, B, columns, kv, D], `ends` [B] int32 columns filled
        so far, −1 for a row to leave out, `tables` cosines and sines [positions, D / 2], `weights` [D] of the norms
        of each head's queries and keys, or None.
        """
        rows = qkv.shape[0]
        group, head, kv = self._group, self._head, self._kv
        *stacks, spots = self._stacks(*b)
        norms = weights or (self._nothing, self._nothing)
        return self._attend(
            inputs=[qkv, projected, *stacks, slots, *norms, *tables, cache, layer, ends, spots],
            output_shapes=[(rows, kv * group * head)],
            output_dtypes=[qkv.dtype],
            grid=(ATTEND_THREADS, kv, rows),
            threadgroup=(ATTEND_THREADS, 1, 1),
            template=[
                *(("T", qkv.dtype), ("D", head), ("KV", kv), ("GROUP", group), ("R", self._rank)),
                *(("NORMED", weights is not None), ("PAIRED", self._paired), ("THREADS", ATTEND_THREADS)),
            ],
        )[0]

    def gate(self, both: mx.array, projected: mx.array, b: Sequence[Matrices | None], slots: mx.array) -> mx.array:
        """silu(gate) · up [B, F] of both [B, 2F], the adapters' parts added."""
        rows, width = both.shape[0], both.shape[1] // 2
        *stacks, spots = self._stacks(*b)
        return self._gate(
            inputs=[both, projected, *stacks, slots, spots],
            output_shapes=[(rows, width)],
            output_dtypes=[both.dtype],
            grid=(width, rows, 1),
            threadgroup=(THREADS, 1, 1),
            template=[("T", both.dtype), ("WIDTH", width), ("R", self._rank)],
        )[0]

    def _stacks(self, *matrices: Matrices | None) -> list[mx.array]:
        """The stacks, and what the kernels call `spots`. The same ones are one array for all steps."""
        slots = next((each.stack.shape[1] for each in matrices if each is not None), 0)
        key = slots, *(-1 if each is None else each.parameter for each in matrices)
        if key not in self._spots:
            self._spots[key] = mx.array(key, dtype=mx.int32)
        return [*(self._nothing if each is None else each.stack for each in matrices), self._spots[key]]
