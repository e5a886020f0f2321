"""Rows in our own decoders against single rows. Without CUDA, plain operations stand in for its kernels."""

from __future__ import annotations

import numpy as np
import pytest

from engine.inference import batcher, decoders, lean, models
from engine.inference.adapters import Adapters
from engine.inference.decoding import Stack, misfit
from engine.inference.kernels import Kernels
from engine.inference.lean import Lean
from engine.inference.padded import Padded
from engine.inference.places import Places
from engine.inference.requests import Request
from engine.inference.shaped import rotary_tables
from engine.types import Sampling
from tests.inference.conftest import LORA, moved
from tests.inference.plain_kernels import PlainKernels
from tests.tiny import tiny_model

import mlx.core as mx  # isort: skip
import mlx.nn as nn  # isort: skip

CUDA = mx.cuda.is_available()
KERNELS = Kernels if CUDA else PlainKernels
NEAR = 1e-4

SHAPES = {
    "llama": {"num_key_value_heads": 1},
    "llama with biases": {"attention_bias": True, "mlp_bias": True},
    "qwen2": {"model_type": "qwen2", "num_key_value_heads": 1},
    "qwen3": {"model_type": "qwen3", "head_dim": 128},
    "traditional": {"rope_traditional": True},
}

GEMMA = {"model_type": "gemma3_text", "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window_pattern": 2}


@pytest.fixture(params=SHAPES)
def lm(request, tmp_path):
    return models.load(str(tiny_model(tmp_path, dim=128, heads=2, **SHAPES[request.param])), context=512)[0]


def places(lm, adapters):
    return Places(lm, adapters, Stack(lm.model, LORA.rank, lm.context, kernels=KERNELS), compiled=CUDA)


@pytest.fixture(params=[places, Lean], ids=["places", "lean"])
def made(request):
    """What makes a decoder of a model and adapters."""
    return request.param


class Both:
    """The same rows in a decoder and as single rows through mlx-lm's modules."""

    def __init__(self, lm, made, *layers, last_layers=0):
        self.lm = lm
        self.adapters = Adapters(lm, LORA.model_copy(update={"layers": list(layers), "last_layers": last_layers}))
        for seed, player in enumerate(("red", "blue"), start=1):
            self.adapters.publish(player, moved(self.adapters, seed), version=1)
        self.decoder = made(lm, self.adapters)
        self.rows = []
        """Of each: its slot and its tokens so far."""
        self.rng = np.random.default_rng(0)

    def join(self, lengths, player):
        slot = self.adapters.slot(player)
        prompts = [self.rng.integers(3, 250, length).tolist() for length in lengths]
        width = max(lengths)
        cache = self.lm.make_cache([width - length for length in lengths])
        with self.adapters.rows([slot]):
            padded = [[0] * (width - len(prompt)) + prompt for prompt in prompts]
            self.lm.hidden(mx.array(padded), cache)
        self.decoder.join(cache)
        self.rows += [(slot, prompt) for prompt in prompts]

    def leave(self, *gone):
        kept = [row for row in range(len(self.rows)) if row not in gone]
        self.decoder.leave(np.array(kept, dtype=int))
        self.rows = [self.rows[row] for row in kept]

    def step(self):
        """Largest difference of logits after a step from those of each row alone, relative to the largest logit."""
        tokens = self.rng.integers(3, 250, len(self.rows))
        logits = np.array(self.decoder.step(tokens, np.array([slot for slot, _ in self.rows])))
        worst = 0.0
        for (slot, text), token, row in zip(self.rows, tokens.tolist(), logits, strict=True):
            text.append(token)
            with self.adapters.rows([slot]):
                alone = np.array(self.lm.head(self.lm.hidden(mx.array([text]))[:, -1]))[0]
            worst = max(worst, float(np.abs(row - alone).max() / np.abs(alone).max()))
        return worst


def test_a_row_among_others_has_the_logits_of_the_row_alone(lm, made):
    both = Both(lm, made)
    both.join([5, 17, 1], "red")
    both.join([30], "blue")
    both.join([2, 9], "base")
    assert max(both.step() for _ in range(3)) < NEAR


def test_rows_that_leave_and_join_change_nothing_for_the_others(lm, made):
    both = Both(lm, made)
    both.join([5, 17, 1, 8, 3, 4, 7, 6], "red")
    both.step()
    both.leave(1, 2, 6)
    assert both.step() < NEAR
    both.join([250, 3, 12, 9], "blue")  # more places and more columns than there were
    assert max(both.step() for _ in range(8)) < NEAR
    both.leave(0, 1, 2, 3, 4)
    assert both.step() < NEAR


@pytest.mark.parametrize(
    "layers", [["q_proj", "v_proj"], ["k_proj", "up_proj"], ["o_proj"], ["gate_proj", "down_proj"]]
)
def test_layers_that_arent_adapted_are_left_as_they_are(lm, made, layers):
    both = Both(lm, made, *layers)
    both.join([5, 17], "red")
    both.join([4], "blue")
    assert max(both.step() for _ in range(2)) < NEAR


def test_rows_of_the_base_alone_use_no_adapters(lm, made):
    both = Both(lm, made)
    both.join([5, 17], "base")
    assert max(both.step() for _ in range(2)) < NEAR


def test_a_new_version_speaks_at_the_next_step(lm, made):
    both = Both(lm, made)
    both.join([5, 9], "red")
    both.step()
    # Keys and values of the base model, so that only the new step can tell one version from another.
    both.decoder.leave(np.array([], dtype=int))
    both.rows.clear()
    both.join([5, 9], "base")
    both.adapters.publish("red", moved(both.adapters, 7), version=2)
    red = both.adapters.slot("red")
    kept = [both.rows[0][1][:], both.rows[1][1][:]]
    logits = np.array(both.decoder.step(np.array([7, 8]), np.array([red, red])))
    for text, token, row in zip(kept, (7, 8), logits, strict=True):
        cache = both.lm.make_cache([0])
        both.lm.hidden(mx.array([text]), cache)
        with both.adapters.rows([red]):
            alone = np.array(both.lm.head(both.lm.hidden(mx.array([[token]]), cache)[:, -1]))[0]
        assert np.abs(row - alone).max() < 1e-3


def test_the_first_columns_of_rows_come_out_as_a_cache(lm, made):
    both = Both(lm, made)
    both.join([5, 17, 9], "red")
    both.step()
    rows, counts = [2, 0], [7, 6]
    cache = both.decoder.spread(rows, counts)
    texts = [both.rows[row][1] for row in rows]
    more = [[11, 12], [13, 14]]
    with both.adapters.rows([both.rows[0][0]]):
        got = np.array(both.lm.head(both.lm.hidden(mx.array(more), cache)))
        for row, (text, count, end) in enumerate(zip(texts, counts, more, strict=True)):
            alone = np.array(both.lm.head(both.lm.hidden(mx.array([text[:count] + end]))))[0, -2:]
            assert np.abs(got[row] - alone).max() < 1e-3


def test_joined_layers_hold_no_weight_twice(lm):
    before = mx.get_active_memory()
    weight = np.array(lm.model.layers[0].self_attn.k_proj.weight)
    Stack(lm.model, 4, 16, kernels=KERNELS)
    mx.clear_cache()
    assert mx.get_active_memory() - before < 100_000
    assert (np.array(lm.model.layers[0].self_attn.k_proj.weight) == weight).all()


@pytest.mark.parametrize("traditional", [False, True])
def test_rotary_tables_are_cosines_and_sines_of_position_times_frequency(traditional):
    cosines, sines = rotary_tables(nn.RoPE(64, traditional=traditional, base=1e4), 64, 100)
    angles = np.arange(100)[:, None] * 1e4 ** (-np.arange(32) / 32)
    assert np.allclose(cosines, np.cos(angles), atol=1e-4)
    assert np.allclose(sines, np.sin(angles), atol=1e-4)


def test_models_of_another_shape_are_named(tmp_path):
    small = models.load(str(tiny_model(tmp_path / "small")), context=64)[0].model
    assert "heads have 16 numbers" in (misfit(small, 4) or "")
    wide = models.load(str(tiny_model(tmp_path / "wide", dim=128)), context=64)[0].model
    assert misfit(wide, 4) is None
    assert "power of two" in (misfit(wide, 12) or "")
    attention = wide.layers[1].self_attn
    attention.v_proj = nn.QuantizedLinear.from_linear(attention.v_proj, group_size=32, bits=4)
    assert "stored in different ways" in (misfit(wide, 4) or "")


def test_a_batcher_says_the_same_with_each_decoder(lm, monkeypatch):
    adapters = Adapters(lm, LORA)
    for seed, player in enumerate(("red", "blue"), start=1):
        adapters.publish(player, moved(adapters, seed), version=1)
    made = {
        "padded": Padded(lm, adapters),
        "lean": Lean(lm, adapters),
        "places": places(lm, adapters),
    }
    said = {}
    for name, decoder in made.items():
        monkeypatch.setattr(batcher, "decoder", lambda lm, adapters, decoder=decoder: decoder)
        rng = np.random.default_rng(3)
        batch = batcher.Batcher(lm, adapters, rows=6, prefix_bytes=1 << 20, chunk=32)
        done, talks = {}, [rng.integers(3, 250, 70).tolist() for _ in range(3)]
        for id in range(24):  # some go on where others ended, or begin as they do
            prompt = talks[id % 3] + rng.integers(3, 250, rng.integers(1, 60)).tolist()
            greedy = Sampling(temperature=0.0, max_tokens=int(rng.integers(1, 9)))
            batch.add(Request(id, prompt, greedy, ("base", "red", "blue")[id % 3], key=id))
        while len(batch):
            done |= {finished.id: finished.tokens for finished in batch.tick().finished}
        assert batch.stats.hits > 5
        said[name] = done
    assert said["places"] == said["lean"] == said["padded"]
    assert len(said["places"]) == 24


def test_llama_shaped_models_in_float32_are_decoded_in_few_operations_on_an_x86_cpu(tmp_path, monkeypatch):
    def chosen(**config):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        lm = models.load(str(tiny_model(folder, **config)), context=64)[0]
        return lm, type(decoders.decoder(lm, Adapters(lm, LORA)))

    monkeypatch.setattr(decoders, "on_cuda", lambda: False)
    monkeypatch.setattr(lean.fastmath, "available", lambda: True)
    lm, decoder = chosen()
    assert decoder is Lean
    assert "lora.kind 'dora'" in (lean.misfit(lm, "dora") or "")
    assert chosen(**GEMMA)[1] is Padded
    monkeypatch.setattr(lean.fastmath, "available", lambda: False)
    assert chosen()[1] is Padded


@pytest.mark.parametrize(
    "slots", [[3], [0, 0, 0], [2, 1, 2, 2, 1], [5, 5, 5, 5, 5, 5, 5, 1, 2, 9], [*range(7), 4, 4]]
)
def test_rows_lie_in_lanes_of_one_player(slots):
    lanes, rows, places = lean.in_lanes(np.array(slots))
    assert len(lanes) == len(rows) < 2 * len(set(slots)) + 1
    assert rows.size < 2 * (len(slots) + len(set(slots)))
    assert rows.flatten()[places].tolist() == list(range(len(slots)))
    assert lanes[places // rows.shape[1]].tolist() == slots
