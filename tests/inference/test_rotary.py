"""What stands in for a rotary embedding that CUDA can't launch gives the same numbers."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.utils import load as load_mlx

from engine.inference import rotary
from engine.inference.models import POCKET


@pytest.mark.parametrize("positions", [1, 2, 5])
@pytest.mark.parametrize("offset", [7, mx.array([3, 0, 11])], ids=["one offset", "one a row"])
def test_two_positions_turn_as_one_does(positions: int, offset: int | mx.array):
    rope = nn.RoPE(16, base=500.0)
    x = mx.random.normal((3, 6, positions, 16), key=mx.random.key(0))
    turned = rotary.TwoPositions(rope)(x, offset=offset)
    assert np.array_equal(np.array(turned), np.array(rope(x, offset=offset)))


def test_only_very_small_heads_are_given_it():
    model = load_mlx(str(POCKET))[0]
    rotary.install(model)
    assert all(type(layer.self_attn.rope) is rotary.TwoPositions for layer in model.layers)
    plain = nn.RoPE(64)
    model.layers[0].self_attn.rope = plain
    rotary.install(model)
    assert model.layers[0].self_attn.rope is plain


def test_the_model_gives_the_same_logits_with_it():
    tokens = mx.array([[5], [9]])
    before = np.array(load_mlx(str(POCKET))[0](tokens))
    model = load_mlx(str(POCKET))[0]
    rotary.install(model)
    assert np.array_equal(np.array(model(tokens)), before)
