"""Drawing a token a row on CUDA in one launch, where the plain operations of `sampling.py` are some thirty."""

from __future__ import annotations

from functools import cache
from typing import Any

import mlx.core as mx

THREADS = 1024

CHOOSE = """
  // One block a row. A warp owns a stretch of the vocabulary: the running sum goes over stretches, then within one.
  constexpr int WARPS = THREADS / 32, STRETCH = (V + WARPS * 32 - 1) / (WARPS * 32) * 32;
  const int t = threadIdx.x, warp = t / 32, lane = t % 32, b = blockIdx.y;
  const T* row = logits + (long)b * V;
  const int begin = warp * STRETCH, end = min(V, begin + STRETCH);
  const bool greedy = temperature[b] == 0;
  const float cold = greedy ? 1.0f : 1.0f / temperature[b];
  // Rounded, so that it isn't contracted with what is subtracted later: the likeliest token has to weigh 1 exactly.
  auto scaled = [&](int i) { return __fmul_rn(static_cast<float>(row[i]), cold); };
  __shared__ float tops[WARPS], sums[WARPS];
  __shared__ int places[WARPS];

  float top = -INFINITY;
  int place = V;
  for (int i = begin + lane; i < end; i += 32) {
    const float z = scaled(i);
    if (z > top || isnan(z)) top = z, place = i;
    if (isnan(z)) break;
  }
  for (int o = 16; o; o /= 2) {
    const float other = __shfl_xor_sync(~0u, top, o);
    const int there = __shfl_xor_sync(~0u, place, o);
    const bool earlier = other == top && there < place;
    if (isnan(other) || (!isnan(top) && (other > top || earlier))) top = other, place = there;
  }
  if (lane == 0) tops[warp] = top, places[warp] = place;
  __syncthreads();
  top = tops[0];
  place = places[0];
  for (int w = 1; w < WARPS; w++)
    if (isnan(tops[w]) || tops[w] > top) top = tops[w], place = places[w];
  const bool broken = isnan(top) || (isinf(top) && !greedy);
  if (broken || greedy) {
    if (t == 0) tokens[b] = min(place, V - 1), logprobs[b] = broken ? NAN : 0.0f;
    return;
  }

  const float least = FLOORED ? floors[b] * (1.0f - 1e-6f) : LEAST;  // made by another exp, perhaps an ulp away
  float sum = 0;
  for (int i = begin + lane; i < end; i += 32) {
    const float weight = expf(scaled(i) - top);
    sum += weight >= least ? weight : 0.0f;
  }
  for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < WARPS; w++) total += sums[w];
  const float target = uniforms[b] * total;
  // The last stretch with a weight is taken where rounding leaves the target beyond every running sum.
  int mine = -1;
  float before = 0, running = 0;
  for (int w = 0; w < WARPS; w++) {
    if (sums[w] <= 0) continue;
    mine = w;
    before = running;
    running += sums[w];
    if (running > target) break;
  }
  if (warp != mine) return;
  int last = -1, found = -1;
  for (int first = begin; first < end && found < 0; first += 32) {
    const int i = first + lane;
    float weight = i < end ? expf(scaled(i) - top) : 0.0f;
    if (weight < least) weight = 0;
    float upto = weight;
    for (int o = 1; o < 32; o *= 2) {
      const float other = __shfl_up_sync(~0u, upto, o);
      if (lane >= o) upto += other;
    }
    const unsigned there = __ballot_sync(~0u, weight > 0);
    const unsigned beyond = __ballot_sync(~0u, weight > 0 && before + upto > target);
    if (beyond) found = first + __ffs(beyond) - 1;
    if (there) last = first + 31 - __clz(there);
    before += __shfl_sync(~0u, upto, 31);
  }
  if (found < 0) found = last;
  if (lane == 0) {
    tokens[b] = found;
    logprobs[b] = scaled(found) - top - logf(total);
  }
"""


LEAST = 1e-19
"""The least weight that counts."""


def choose(
    logits: mx.array, uniforms: mx.array, temperature: mx.array, floors: mx.array | None
) -> tuple[mx.array, mx.array]:
    """Tokens [B] uint32 and log-probabilities [B], as `sampling.draw` has them, for logits [B, V] of any type.

    `floors` [B]: what a token must weigh to be kept, relative to the likeliest one's 1. All others float32 [B].
    """
    rows, size = logits.shape
    template = ("T", logits.dtype), ("V", size), ("THREADS", THREADS), ("FLOORED", floors is not None)
    tokens, logprobs = _kernel()(
        inputs=[logits, uniforms, temperature, temperature if floors is None else floors],
        output_shapes=[(rows,), (rows,)],
        output_dtypes=[mx.uint32, mx.float32],
        grid=(THREADS, rows, 1),
        threadgroup=(THREADS, 1, 1),
        template=list(template),
    )
    return tokens, logprobs


@cache
def _kernel() -> Any:
    return mx.fast.cuda_kernel(
        name="choose",
        input_names=["logits", "uniforms", "temperature", "floors"],
        output_names=["tokens", "logprobs"],
        source=CHOOSE,
        header=f"constexpr float LEAST = {LEAST!r}f;\n",
    )
