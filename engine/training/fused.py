"""A CUDA kernel that goes from logits to scores and their gradients: two passes over a row, and nothing in float32.

Written out in MLX's operations the same is some twenty passes over float32 arrays of [n, V]: 30 ms of 224 where a
135M model learnt from 32,768 tokens.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mlx.core as mx

from engine.inference.kernels import PACK

THREADS = 512
"""Of the block that works on a row."""

SOURCE = """
  // Each thread keeps what is largest, Σ e^(z − top) and Σ e^(z − top) (z − top) of its part of the row.
  const int t = threadIdx.x;
  const long row = blockIdx.y;
  const T* own = logits + row * V;
  const float inverse = 1 / temperatures[row];
  float top = LOWEST, sum = 0, mean = 0;
  for (int i = t * N; i < V; i += THREADS * N) {
    const Pack<T, N> part = *reinterpret_cast<const Pack<T, N>*>(own + i);
    float high = top, z[N];
    for (int k = 0; k < N; k++) high = fmaxf(high, z[k] = static_cast<float>(part.v[k]) * inverse);
    lower(top, sum, mean, high);
    for (int k = 0; k < N; k++) {
      const float e = expf(z[k] - top);
      sum += e;
      mean += e * (z[k] - top);
    }
  }
  for (int o = 16; o; o /= 2) {
    float other_top = __shfl_xor_sync(~0u, top, o);
    float other_sum = __shfl_xor_sync(~0u, sum, o), other_mean = __shfl_xor_sync(~0u, mean, o);
    const float high = fmaxf(top, other_top);
    lower(top, sum, mean, high);
    lower(other_top, other_sum, other_mean, high);
    sum += other_sum;
    mean += other_mean;
  }
  __shared__ float tops[THREADS / 32], sums[THREADS / 32], means[THREADS / 32];
  if (t % 32 == 0) tops[t / 32] = top, sums[t / 32] = sum, means[t / 32] = mean;
  __syncthreads();
  top = LOWEST, sum = 0, mean = 0;
  for (int n = 0; n < THREADS / 32; n++) {  // each thread for itself, all in the same order
    float other_top = tops[n], other_sum = sums[n], other_mean = means[n];
    const float high = fmaxf(top, other_top);
    lower(top, sum, mean, high);
    lower(other_top, other_sum, other_mean, high);
    sum += other_sum;
    mean += other_mean;
  }
  const float log_sum = logf(sum), spread = log_sum - mean / sum;
  const int target = targets[row];
  if (t == 0) {
    logprobs[row] = (static_cast<float>(own[target]) * inverse - top) - log_sum;
    entropy[row] = spread;
  }
  if (!BY_LOGPROB && !BY_ENTROPY) return;
  for (int i = t * N; i < V; i += THREADS * N) {
    const Pack<T, N> part = *reinterpret_cast<const Pack<T, N>*>(own + i);
    Pack<T, N> certain, even;
    for (int k = 0; k < N; k++) {
      const float log_p = static_cast<float>(part.v[k]) * inverse - top - log_sum, p = expf(log_p);
      certain.v[k] = static_cast<T>(((i + k == target) - p) * inverse);
      even.v[k] = static_cast<T>(p > 0 ? -p * (log_p + spread) * inverse : 0);
    }
    if (BY_LOGPROB) *reinterpret_cast<Pack<T, N>*>(of_logprob + row * V + i) = certain;
    if (BY_ENTROPY) *reinterpret_cast<Pack<T, N>*>(of_entropy + row * V + i) = even;
  }
"""

HEADER = (
    PACK
    + """
constexpr float LOWEST = -1e30f;
__device__ void lower(float& top, float& sum, float& mean, float high) {
  const float shrink = expf(top - high);
  mean = shrink * (mean + sum * (top - high));
  sum *= shrink;
  top = high;
}
"""
)


def scores(
    logits: mx.array, targets: mx.array, temperatures: mx.array, by_logprob: bool, by_entropy: bool
) -> tuple[mx.array, mx.array, list[mx.array]]:
    """Of logits [n, V]: the targets' log-probabilities [n] and the distributions' entropies [n], both float32.

    And the gradients of these two by the logits [n, V], in the logits' precision, as far as they are wanted.
    """
    n, V = logits.shape
    at_once = 16 // logits.itemsize
    wanted = by_logprob, by_entropy
    logprobs, entropy, *gradients = _kernel()(
        inputs=[logits, targets.astype(mx.int32), temperatures.astype(mx.float32)],
        output_shapes=[(n,), (n,), *((n, V) if is_wanted else (1,) for is_wanted in wanted)],
        output_dtypes=[mx.float32, mx.float32, logits.dtype, logits.dtype],
        grid=(THREADS, n, 1),
        threadgroup=(THREADS, 1, 1),
        template=[
            *(("T", logits.dtype), ("V", V), ("N", at_once if V % at_once == 0 else 1), ("THREADS", THREADS)),
            *(("BY_LOGPROB", by_logprob), ("BY_ENTROPY", by_entropy)),
        ],
    )
    return logprobs, entropy, [gradient for gradient, is_wanted in zip(gradients, wanted, strict=True) if is_wanted]


@cache
def _kernel() -> Any:
    return mx.fast.cuda_kernel(
        name="scores",
        input_names=["logits", "targets", "temperatures"],
        output_names=["logprobs", "entropy", "of_logprob", "of_entropy"],
        source=SOURCE,
        header=HEADER,
    )
