"""RMS norms of a frozen model: on a GPU MLX works out the gradient of their weights, wanted or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from engine.inference.models import LanguageModel


@contextmanager
def frozen(lm: LanguageModel) -> Iterator[None]:
    """Norms that compute within are differentiated by their input alone.

    The gradient of a weight is a sum over all tokens, down a column: of a 135M model a thirteenth of the time of a
    backward pass. On a CPU nothing that isn't asked for is computed anyway.
    """
    norms = [] if mx.default_device() == mx.Device(mx.cpu) else lm.norms
    for norm in norms:
        norm.__class__ = _FrozenNorm
    try:
        yield
    finally:
        for norm in norms:
            norm.__class__ = nn.RMSNorm


class _FrozenNorm(nn.RMSNorm):
    """x · weight / √(mean x² + ε), with a gradient by x."""

    def __call__(self, x: mx.array) -> mx.array:
        return normed(self.eps)(x, self.weight)


@cache
def normed(epsilon: float) -> Callable[[mx.array, mx.array], mx.array]:
    """Of x [..., d] and a weight [d] that counts as a constant."""

    def norm(x: mx.array, weight: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, weight, epsilon)

    def vjp(primals: Any, cotangent: Any, output: Any) -> tuple[mx.array, mx.array]:
        x, weight = primals
        _, [by_x] = mx.vjp(lambda x: mx.fast.rms_norm(x, None, epsilon), [x], [cotangent * weight])
        return by_x, mx.zeros_like(weight)

    function = cast(Any, mx.custom_function(norm))
    function.vjp(vjp)
    return function
