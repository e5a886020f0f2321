"""Fast maths gives what exact maths gives, values and gradients, also where everything is masked."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.activations import swiglu
from mlx_lm.models.base import create_causal_mask

from engine.inference import fastmath
from tests.inference.conftest import Oracle

RNG = np.random.default_rng(0)


def normal(*shape: int, scale: float = 3.0) -> mx.array:
    return mx.array(RNG.normal(0.0, scale, shape).astype(np.float32))


def close(a: mx.array, b: mx.array | np.ndarray, relative: float = 2e-6, absolute: float = 2e-6) -> None:
    np.testing.assert_allclose(np.array(a, np.float64), np.array(b, np.float64), rtol=relative, atol=absolute)


def test_exp_is_numpys_to_a_few_units_in_the_last_place():
    x = np.linspace(-40, 40, 100_001).astype(np.float32)
    close(fastmath.fast_exp(mx.array(x)), np.exp(x.astype(np.float64)), relative=3e-6, absolute=0)
    near = np.linspace(-1, 1, 100_001).astype(np.float32)
    close(fastmath.fast_exp(mx.array(near)), np.exp(near.astype(np.float64)), relative=3e-7, absolute=0)


def test_exp_of_very_small_numbers_is_negligible_but_never_denormal_or_negative():
    values = np.array(fastmath.fast_exp(mx.array([-44.0, -100.0, -1e9, -3e38, -np.inf])))
    assert (values > 1e-37).all()
    assert (values < 1e-19).all()


@pytest.mark.parametrize(
    ("fast", "exact"),
    [
        (fastmath.fast_softmax, lambda x: mx.softmax(x, axis=-1)),
        (fastmath.fast_logsumexp, lambda x: mx.logsumexp(x, axis=-1)),
    ],
)
def test_reductions_and_their_gradients_are_mlxs_own(fast, exact):
    x = normal(5, 7, 33)
    weights = normal(*exact(x).shape)
    close(fast(x), exact(x))
    close(mx.grad(lambda x: (fast(x) * weights).sum())(x), mx.grad(lambda x: (exact(x) * weights).sum())(x), 1e-5)


def test_swiglu_and_both_its_gradients_are_mlxs_own():
    gate, x, weights = normal(4, 50, scale=20.0), normal(4, 50), normal(4, 50)
    close(fastmath.fast_swiglu(gate, x), swiglu(gate, x))
    ours = mx.grad(lambda g, x: (fastmath.fast_swiglu(g, x) * weights).sum(), argnums=(0, 1))(gate, x)
    plain = mx.grad(lambda g, x: (nn.silu(g) * x * weights).sum(), argnums=(0, 1))(gate, x)
    for a, b in zip(ours, plain, strict=True):
        close(a, b, 1e-5, 1e-5)


def test_swiglu_of_half_precision_has_the_value_and_gradients_of_single_precision_rounded():
    ours = fastmath._swiglu_beside(swiglu)
    for width in (50, 48):  # of the second a CUDA kernel takes eight at a time
        gate, x, weights = (normal(4, width).astype(mx.bfloat16) for _ in range(3))
        whole = [array.astype(mx.float32) for array in (gate, x, weights)]
        close(ours(gate, x).astype(mx.float32), nn.silu(whole[0]) * whole[1], 0.02, 0.01)
        found = mx.grad(lambda g, x, w: (ours(g, x) * w).sum(), argnums=(0, 1))(gate, x, weights)
        expected = mx.grad(lambda g, x, w: (nn.silu(g) * x * w).sum(), argnums=(0, 1))(*whole)
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == mx.bfloat16
            close(a.astype(mx.float32), b, 0.03, 0.02)


MASKS = {
    "none": None,
    "causal": "causal",
    "boolean": create_causal_mask(6, 5, left_padding=mx.array([0, 4, 2])),
    "additive": mx.array(np.where(RNG.random((3, 1, 6, 11)) < 0.3, -1e9, 0.0).astype(np.float32)),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_attention_and_its_gradients_are_mlxs_own(mask, kv_heads):
    q, k, v = normal(3, 4, 6, 8), normal(3, kv_heads, 11, 8), normal(3, kv_heads, 11, 8)
    weights = normal(3, 4, 6, 8)

    def fast(q, k, v):
        return fastmath.fast_attention(q, k, v, 0.35, mask)

    def plain(q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.35, mask=mask)

    close(fast(q, k, v), plain(q, k, v), 1e-5, 1e-5)
    ours = mx.grad(lambda *a: (fast(*a) * weights).sum(), argnums=(0, 1, 2))(q, k, v)
    theirs = mx.grad(lambda *a: (plain(*a) * weights).sum(), argnums=(0, 1, 2))(q, k, v)
    for a, b in zip(ours, theirs, strict=True):
        close(a, b, 1e-4, 1e-4)


def test_a_row_that_may_see_nothing_gives_numbers_and_gradients_not_nan():
    q, k, v = normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 4)
    mask = mx.zeros((2, 1, 3, 5), dtype=mx.bool_)
    gradients = mx.grad(lambda *a: fastmath.fast_attention(*a, 1.0, mask).sum(), argnums=(0, 1, 2))(q, k, v)
    for array in (fastmath.fast_attention(q, k, v, 1.0, mask), *gradients):
        assert np.isfinite(np.array(array)).all()


@pytest.mark.skipif(not fastmath.available(), reason="only x86 CPUs under Linux use fast maths")
def test_an_installed_model_gives_the_logits_of_the_plain_one(lm, folder):
    tokens = mx.array(RNG.integers(0, 262, (3, 20)))
    oracle = Oracle(folder)
    for row in range(3):
        logits = np.array(lm.head(lm.hidden(tokens[row : row + 1])))[0]
        np.testing.assert_allclose(logits, oracle.logits(tokens[row].tolist()), atol=2e-4)


def test_the_switch_turns_it_off(lm, monkeypatch):
    monkeypatch.setenv(fastmath.SWITCH, "0")
    assert not fastmath.available()
    assert not fastmath.install(lm)
