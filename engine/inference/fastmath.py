"""exp and what is made of it, from operations that MLX's CPU backend vectorises on x86.

There `mx.exp` takes about 20 ns an element, so SiLU and softmax cost more than the matrix products of a
small model. An exp from multiply, add and bit view is ten times faster, with a relative error of 2e-7.
On every other backend MLX's own functions are better; there `install` only has `swiglu` keep less for its gradient.

The `fast_*` functions are float32 only and carry their exact gradients. `softmax` and `logsumexp` choose.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx

from engine.inference import gating
from engine.inference.kernels import on_cuda

if TYPE_CHECKING:
    from engine.inference.models import LanguageModel

SWITCH = "SELFPLAY_FAST_MATH"
LOG2_E = 1.4426950408889634
# 2^r on [-1/2, 1/2], minimax in relative error (Remez): 7.5e-8.
POLYNOMIAL = (
    0.0013276471992398253,
    0.009675541334439939,
    0.05550713273498316,
    0.24022119723840252,
    0.6931469670647604,
    1.0000000716546849,
)
ROUND = 12582912.0 + 127.0
"""1.5·2²³ and the bias of a float32's exponent: a number of at most 2²² plus this is rounded to a whole one, and
the low bits hold what the exponent of that power of two is written as."""
LEAST = -64.0
"""The least exponent of two. Lower ones, divided and multiplied on, would become denormal numbers, and these
slow the product with the values down fourfold (measured on masked scores)."""
MASKED = -1e9
"""Added to a masked score. Finite, so that a row without any key gives a mean and not NaN."""


def available() -> bool:
    """Whether MLX runs on an x86 CPU under Linux, and `SELFPLAY_FAST_MATH=0` doesn't forbid it."""
    return _slow_exp() and os.environ.get(SWITCH, "1") != "0"


@lru_cache
def _slow_exp() -> bool:
    on_x86 = sys.platform == "linux" and platform.machine() in ("x86_64", "AMD64")
    return on_x86 and mx.default_device() == mx.Device(mx.cpu)


def install(lm: LanguageModel) -> bool:
    """Let the module that defines `lm.model` use these functions. Returns whether it now does.

    Models of mlx-lm look up `swiglu` and `scaled_dot_product_attention` in their own module. `swiglu` is replaced
    everywhere, for what learning keeps of it.
    """
    module = sys.modules[type(lm.model).__module__]
    _replace(module, "swiglu", _swiglu_beside)
    return available() and _replace(module, "scaled_dot_product_attention", _attention_beside)


def _replace(module: ModuleType, name: str, beside: Callable[[Any], Any]) -> bool:
    """Put `beside(the module's own function)` in its place, once. Other models of the module use it too."""
    own = getattr(module, name, None)
    if own is None:
        return False
    if not hasattr(own, "plain"):
        setattr(module, name, beside(own))
    return True


def exp(x: mx.array) -> mx.array:
    """e^x for x ≤ 88, by whichever way is faster here. Not for differentiation."""
    return fast_exp(x) if available() and x.dtype == mx.float32 else mx.exp(x)


def softmax(x: mx.array) -> mx.array:
    """Softmax over the last axis, by whichever way is faster here."""
    return fast_softmax(x) if available() and x.dtype == mx.float32 else mx.softmax(x, axis=-1, precise=True)


def logsumexp(x: mx.array) -> mx.array:
    """[..., V] → [...], differentiable, by whichever way is faster here."""
    return fast_logsumexp(x) if available() and x.dtype == mx.float32 else mx.logsumexp(x, axis=-1)


def fast_exp(x: mx.array) -> mx.array:
    """e^x for float32 x ≤ 88; what is below −44 gives 5e-20. No gradient of its own."""
    return _power_of_two(x * LOG2_E)


def _power_of_two(y: mx.array) -> mx.array:
    """2^y for y < 128; every operation here is a pass over memory, so there are as few as can be."""
    y = mx.maximum(y, LEAST)
    shifted = y + ROUND
    r = y - (shifted - ROUND)
    fraction = r * POLYNOMIAL[0] + POLYNOMIAL[1]
    for coefficient in POLYNOMIAL[2:]:
        fraction = fraction * r + coefficient
    # Moved up into the exponent, the low bits of `shifted` stay and the high ones fall off.
    return fraction * mx.view(mx.left_shift(mx.view(shifted, mx.int32), 23), mx.float32)


def _differentiable(function: Any) -> Any:
    """`mx.custom_function`, whose stub types the call's result as an object."""
    return mx.custom_function(function)


@_differentiable
def fast_softmax(x: mx.array) -> mx.array:
    """Softmax over the last axis."""
    e = fast_exp(x - mx.max(x, axis=-1, keepdims=True))
    return e * (1.0 / mx.sum(e, axis=-1, keepdims=True))


@fast_softmax.vjp
def _softmax_vjp(primals: Any, cotangent: Any, output: Any) -> mx.array:
    p, weighted = _only(output), _only(cotangent) * _only(output)
    return weighted - p * mx.sum(weighted, axis=-1, keepdims=True)


@_differentiable
def fast_logsumexp(x: mx.array) -> mx.array:
    """log Σ exp over the last axis: [..., V] → [...]."""
    top = mx.max(x, axis=-1, keepdims=True)
    return (top + mx.log(mx.sum(fast_exp(x - top), axis=-1, keepdims=True)))[..., 0]


@fast_logsumexp.vjp
def _logsumexp_vjp(primals: Any, cotangent: Any, output: Any) -> mx.array:
    x = _only(primals)
    return _only(cotangent)[..., None] * fast_exp(x - _only(output)[..., None])


@_differentiable
def fast_swiglu(gate: mx.array, x: mx.array) -> mx.array:
    """silu(gate) · x."""
    return gate / (1.0 + _exp_of_minus(gate)) * x


@fast_swiglu.vjp
def _swiglu_vjp(primals: Any, cotangent: Any, output: Any) -> tuple[mx.array, mx.array]:
    gate, x = primals
    cotangent = _only(cotangent)
    sigmoid = 1.0 / (1.0 + _exp_of_minus(gate))
    silu = gate * sigmoid
    return cotangent * x * (sigmoid + silu * (1.0 - sigmoid)), cotangent * silu


def _exp_of_minus(x: mx.array) -> mx.array:
    return _power_of_two(mx.minimum(x * -LOG2_E, 115.0))


def fast_attention(
    queries: mx.array, keys: mx.array, values: mx.array, scale: float, mask: mx.array | str | None
) -> mx.array:
    """softmax(scale · queries keysᵀ + mask) values.

    Queries [B, heads, L, D], keys and values [B, kv_heads, K, D]; the queries of the heads that share keys
    become the rows of one product. A boolean mask is true where a key may be seen.
    """
    B, heads, L, _ = queries.shape
    kv_heads, K = keys.shape[1:3]
    shared = heads // kv_heads
    q = (queries * scale).reshape(B, kv_heads, shared * L, -1)
    # One query against all keys is the other way round the faster product.
    scores = keys @ q.transpose(0, 1, 3, 2) if shared * L == 1 else q @ keys.transpose(0, 1, 3, 2)
    scores = scores.reshape(B, heads, L, K)
    if isinstance(mask, str):
        mask = _causal(L, K)
    if mask is not None:
        scores = mx.where(mask, scores, MASKED) if mask.dtype == mx.bool_ else scores + mask
    mixed = fast_softmax(scores).reshape(B, kv_heads, shared * L, K) @ values
    return mixed.reshape(B, heads, L, -1)


def _swiglu_beside(plain: Any) -> Any:
    """mlx-lm's signature. Half precision has other bits to view, and other machines have a fast exp of their own:
    there mlx-lm's function computes, and only what is kept for the backward pass differs. On CUDA each way is one
    kernel, for MLX compiles nothing that it differentiates."""

    @_differentiable
    def lean(gate: mx.array, x: mx.array) -> mx.array:
        return gating.swiglu(gate, x) if on_cuda() else plain(gate, x)

    @lean.vjp
    def _(primals: Any, cotangent: Any, output: Any) -> tuple[mx.array, mx.array]:
        gate, x = primals
        cotangent = _only(cotangent)
        if on_cuda():
            return gating.swiglu_vjp(gate, x, cotangent)
        sigmoid = mx.sigmoid(gate)
        silu = gate * sigmoid
        return cotangent * x * (sigmoid + silu * (1.0 - sigmoid)), cotangent * silu

    def swiglu(gate: mx.array, x: mx.array) -> mx.array:
        fast = available() and gate.dtype == x.dtype == mx.float32
        return cast(mx.array, fast_swiglu(gate, x) if fast else lean(gate, x))

    swiglu.plain = plain  # type: ignore[attr-defined]
    return swiglu


def _attention_beside(plain: Any) -> Any:
    """mlx-lm's signature. What `fast_attention` isn't made for goes on to mlx-lm's own function."""

    def scaled_dot_product_attention(
        queries: mx.array,
        keys: Any,
        values: Any,
        cache: Any,
        scale: float,
        mask: mx.array | str | None,
        sinks: mx.array | None = None,
    ) -> mx.array:
        if sinks is not None or hasattr(cache, "bits") or queries.dtype != mx.float32:
            return plain(queries, keys, values, cache=cache, scale=scale, mask=mask, sinks=sinks)
        return fast_attention(queries, keys, values, scale, mask)

    scaled_dot_product_attention.plain = plain  # type: ignore[attr-defined]
    return scaled_dot_product_attention


def _causal(L: int, K: int) -> mx.array:
    """[L, K], true where the key at k is not after the query at l, both ending together."""
    return mx.arange(K - L, K)[:, None] >= mx.arange(K)[None]


def _only(arrays: Any) -> mx.array:
    """MLX hands a custom vjp one array or a sequence of one, by the function's arity."""
    return arrays[0] if isinstance(arrays, (tuple, list)) else arrays
