"""Norms whose weight is frozen: the same values, and the gradient by the input that calculus gives."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.training.norms import frozen, normed

EPSILON = 1e-5


def test_the_value_is_mlxs_and_the_gradient_by_the_input_is_that_of_the_formula():
    rng = np.random.default_rng(0)
    x, weight, weights = rng.normal(size=(3, 5, 16)), rng.normal(size=16), rng.normal(size=(3, 5, 16))
    arrays = [mx.array(array.astype(np.float32)) for array in (x, weight, weights)]

    def total(x: mx.array) -> mx.array:
        return (normed(EPSILON)(x, arrays[1]) * arrays[2]).sum()

    value, found = mx.value_and_grad(total)(arrays[0])
    inverse = 1 / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON)
    assert value.item() == pytest.approx((x * inverse * weight * weights).sum(), abs=1e-4)
    cotangent = weight * weights  # d (x / s) / d x is 1 / s less x xᵀ / (d s³), s² = mean x² + ε
    expected = cotangent * inverse - x * inverse**3 * (cotangent * x).mean(axis=-1, keepdims=True)
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-4, atol=1e-5)


def test_norms_are_mlxs_own_again_afterwards(tiny, monkeypatch):
    norms = tiny.lm.norms
    assert len(norms) == 2 * len(tiny.lm.model.layers) + 1
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))

    def fail() -> None:
        with frozen(tiny.lm):
            assert all(type(norm) is not nn.RMSNorm for norm in norms)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert all(type(norm) is nn.RMSNorm for norm in norms)
