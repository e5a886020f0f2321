"""The sampler draws from exactly the distribution it says, and a row's draw is its own."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from engine.inference.sampling import sample, uniforms

RNG = np.random.default_rng(7)
LOGITS = RNG.normal(0.0, 2.0, 40).astype(np.float32)
DRAWS = 40_000
SETTINGS = {
    "plain": {},
    "cold": {"temperature": 0.6},
    "hot": {"temperature": 1.7},
    "top-p": {"top_p": 0.8},
    "top-k": {"top_k": 5},
    "min-p": {"min_p": 0.1},
    "all": {"temperature": 1.3, "top_p": 0.9, "top_k": 12, "min_p": 0.02},
    "barely": {"top_p": 1e-6},
}


def exact(logits: np.ndarray, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0) -> np.ndarray:
    """The distribution by its definition, in double precision, token by token."""
    p = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    p /= p.sum()
    kept = set()
    mass = 0.0
    for rank, token in enumerate(np.argsort(-p)):
        if mass < top_p and (top_k == 0 or rank < top_k) and p[token] >= min_p * p.max():
            kept.add(token)
        mass += p[token]
    q = np.array([p[token] if token in kept else 0.0 for token in range(len(p))])
    return q / q.sum()


def draw(logits: np.ndarray, u: np.ndarray, **settings) -> tuple[np.ndarray, np.ndarray]:
    rows = len(u)
    columns = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, **settings}
    kinds = {"top_k": np.int32}
    arrays = {name: np.full(rows, value, kinds.get(name, np.float32)) for name, value in columns.items()}
    tokens, logprobs = sample(mx.array(np.broadcast_to(logits, (rows, len(logits)))), u, **arrays)
    return np.array(tokens), np.array(logprobs)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_frequencies_are_those_of_the_exact_distribution(settings):
    p = exact(LOGITS, **settings)
    tokens, _ = draw(LOGITS, RNG.random(DRAWS).astype(np.float32), **settings)
    counts = np.bincount(tokens, minlength=len(p))
    assert not counts[p == 0].any()
    often = p * DRAWS >= 5
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(p[often], p[~often].sum()) * DRAWS
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert len(expected) == 1 or chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_logprobs_are_those_of_the_exact_distribution(settings):
    p = exact(LOGITS, **settings)
    tokens, logprobs = draw(LOGITS, RNG.random(2_000).astype(np.float32), **settings)
    np.testing.assert_allclose(logprobs, np.log(p[tokens]), atol=2e-5)


def test_temperature_zero_takes_the_likeliest_token_with_logprob_zero():
    tokens, logprobs = draw(LOGITS, RNG.random(9).astype(np.float32), temperature=0.0)
    assert (tokens == LOGITS.argmax()).all()
    assert (logprobs == 0).all()


def test_the_ends_of_the_uniform_interval_draw_possible_tokens():
    logits = np.array([-np.inf, 1.0, 0.0, -200.0, -np.inf], np.float32)
    tokens, logprobs = draw(logits, np.array([0.0, 1 - 2.0**-24], np.float32), top_k=2)
    assert tokens.tolist() == [1, 2]
    assert np.isfinite(logprobs).all()


def test_the_last_uniform_never_draws_a_token_that_is_ruled_out():
    rows = RNG.normal(0.0, 3.0, (3_000, 30)).astype(np.float32)
    rows[:, -5:] = -np.inf
    ones, zeros = np.ones(3_000, np.float32), np.zeros(3_000, np.float32)
    tokens, logprobs = sample(
        mx.array(rows), ones - np.float32(2.0**-24), ones, ones, zeros.astype(np.int32) + 9, zeros
    )
    ninth = np.sort(rows, axis=-1)[:, -9]
    chosen = np.take_along_axis(rows, np.array(tokens).astype(int)[:, None], axis=-1)[:, 0]
    assert (chosen >= ninth).all()
    assert np.isfinite(np.array(logprobs)).all()


def test_a_neighbour_that_truncates_or_is_greedy_doesnt_change_a_rows_draw():
    u = np.array([0.37, 0.91, 0.05], np.float32)
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    rows = mx.array(np.stack([LOGITS, LOGITS[::-1], LOGITS * 2]))
    alone = sample(rows, u, ones, ones, zeros.astype(np.int32), zeros)
    mixed = sample(
        rows,
        u,
        np.array([1.0, 1.0, 0.0], np.float32),
        np.array([1.0, 0.5, 1.0], np.float32),
        np.array([0, 3, 0], np.int32),
        np.array([0.0, 0.2, 0.0], np.float32),
    )
    assert alone[0][0].item() == mixed[0][0].item()
    assert alone[1][0].item() == mixed[1][0].item()


def test_uniforms_are_uniform_and_uncorrelated_along_keys_and_positions():
    keys = np.repeat(np.arange(200, dtype=np.uint64), 200)
    positions = np.tile(np.arange(200), 200)
    u = uniforms(keys, positions)
    assert u.dtype == np.float32
    assert kstest(u, "uniform").pvalue > 1e-3
    grid = u.reshape(200, 200)
    for neighbour in (grid[1:], grid[:, 1:], grid[1:, 1:], grid[1:, :-1]):
        here = grid[: neighbour.shape[0], : neighbour.shape[1]]
        assert abs(np.corrcoef(here.ravel(), neighbour.ravel())[0, 1]) < 0.02


def test_uniforms_depend_on_key_and_position_alone():
    keys = RNG.integers(0, 2**64, 50, dtype=np.uint64)
    positions = np.arange(50)
    together = uniforms(keys, positions)
    alone = [uniforms(keys[i : i + 1], positions[i : i + 1])[0] for i in range(50)]
    assert together.tolist() == alone
    assert len(set(alone)) == 50


def test_splitmix64_is_the_published_one():
    # First outputs of the reference implementation for the seed 1234567 (Vigna, splitmix64.c).
    from engine.inference import sampling

    reference = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    state = np.uint64(1234567) + np.arange(1, 4, dtype=np.uint64) * sampling.GOLDEN
    assert sampling._mix(state).tolist() == reference
