"""What `engine.inference.kernels` computes, in plain MLX operations: stands in for CUDA, and says what is meant."""

from __future__ import annotations

import mlx.core as mx


class PlainKernels:
    def __init__(self, *, heads, kv_heads, head, inputs, scale, epsilon, paired, rank):
        self.heads, self.kv, self.head, self.scale = heads, kv_heads, head, scale
        self.epsilon, self.paired, self.rank = epsilon, paired, rank

    def norm(self, h, weight, slots, added, following):
        if added is not None:
            delta, source, a, b = added
            h = h + delta + (self._times(self._times(source, a, slots), b, slots) if self.rank else 0.0)
        normed = mx.fast.rms_norm(h, weight, self.epsilon)
        projected = [self._times(normed, a, slots) for a in following] if self.rank else []
        return h, normed, mx.concatenate(projected, axis=1) if projected else mx.zeros(1)

    def attend(self, qkv, projected, b, slots, weights, tables, cache, layer, ends):
        rows, q_size, kv_size = qkv.shape[0], self.heads * self.head, self.kv * self.head
        q, k, v = mx.split(qkv, [q_size, q_size + kv_size], axis=1)
        if self.rank:
            z = mx.split(projected, 3, axis=1)
            q, k, v = (x + self._times(low, b, slots) for x, low, b in zip((q, k, v), z, b, strict=True))
        q, k, v = (x.reshape(rows, -1, self.head) for x in (q, k, v))
        if weights is not None:
            q, k = (mx.fast.rms_norm(x, w, self.epsilon) for x, w in zip((q, k), weights, strict=True))
        cosines, sines = (table[mx.maximum(ends, 0)][:, None] for table in tables)
        q, k = self._turned(q, cosines, sines), self._turned(k, cosines, sines)
        alive = [row for row, end in enumerate(ends.tolist()) if end >= 0]
        out = [mx.full((q_size,), float("nan"))] * rows
        for row in alive:
            end = int(ends[row].item())
            cache[layer.item(), 0, row, end], cache[layer.item(), 1, row, end] = k[row], v[row]
            keys, values = (cache[layer.item(), side, row, : end + 1].transpose(1, 0, 2)[None] for side in (0, 1))
            mixed = mx.fast.scaled_dot_product_attention(q[row][None, :, None], keys, values, scale=self.scale)
            out[row] = mixed.reshape(-1)
        return mx.stack(out)

    def gate(self, both, projected, b, slots):
        gate, up = mx.split(both, 2, axis=1)
        if self.rank:
            z = mx.split(projected, 2, axis=1)
            gate, up = (x + self._times(low, b, slots) for x, low, b in zip((gate, up), z, b, strict=True))
        return gate * mx.sigmoid(gate) * up

    def _times(self, x, matrices, slots):
        """Each row of x with the matrix of its slot; a layer that isn't adapted has none."""
        if matrices is None:
            return mx.zeros((x.shape[0], self.rank)) if x.shape[1] != self.rank else mx.array(0.0)
        return (x[:, None] @ matrices.stack[matrices.parameter][slots])[:, 0]

    def _turned(self, x, cosines, sines):
        if self.paired:
            first, second = x[..., 0::2], x[..., 1::2]
            turned = first * cosines - second * sines, second * cosines + first * sines
            return mx.stack(turned, axis=-1).reshape(x.shape)
        first, second = mx.split(x, 2, axis=-1)
        return mx.concatenate([first * cosines - second * sines, second * cosines + first * sines], axis=-1)
