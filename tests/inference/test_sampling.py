"""The sampler draws from exactly the distribution it says, and a row's draw is its own."""

from __future__ import annotations

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from engine.inference import fastmath
from engine.inference.sampling import BLOCK, adjusted, draw, sample, stages, uniforms

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
    "penalty": {"penalty": 1.8, "seen": [0, 3, 3, 7, 20, 31, 3]},
    "bias": {"bias": ((5, 2.5), (9, -4.0), (5, 0.5))},
    "allowed": {"allowed": [1, 6, 7, 30]},
    "one allowed": {"allowed": [11]},
    "allowed, hot": {"allowed": list(range(0, 40, 3)), "temperature": 1.6, "top_p": 0.8},
    "everything": {
        "temperature": 1.4,
        "top_p": 0.95,
        "top_k": 9,
        "min_p": 0.01,
        "penalty": 1.3,
        "seen": list(range(0, 40, 2)),
        "bias": ((3, 3.0), (4, 3.0), (39, 5.0)),
        "allowed": list(range(3, 40)),
    },
}
ADJUSTING = ("penalty", "seen", "bias", "allowed")


def exact(
    logits, temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, penalty=1.0, seen=(), bias=(), allowed=None
) -> np.ndarray:
    """The distribution by its definition, in double precision, token by token."""
    z = logits.astype(np.float64)
    for token in set(seen):
        z[token] = z[token] / penalty if z[token] > 0 else z[token] * penalty
    for token, value in bias:
        z[token] += value
    if allowed is not None:
        z[[token for token in range(len(z)) if token not in allowed]] = -np.inf
    p = np.exp((z - z.max()) / temperature)
    p /= p.sum()
    kept = set()
    mass = 0.0
    for rank, token in enumerate(np.argsort(-p)):
        if mass < top_p and (top_k == 0 or rank < top_k) and p[token] >= min_p * p.max():
            kept.add(token)
        mass += p[token]
    q = np.array([p[token] if token in kept else 0.0 for token in range(len(p))])
    return q / q.sum()


def drawn(logits: np.ndarray, u: np.ndarray, **settings) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and log-probabilities of rows that all want the same."""
    rows = len(u)
    batch = mx.array(np.broadcast_to(logits, (rows, len(logits))))
    if settings.keys() & set(ADJUSTING):
        penalties = np.full(rows, settings.get("penalty", 1.0), np.float32)
        seen, biases = [settings.get("seen", [])] * rows, [settings.get("bias", ())] * rows
        batch = adjusted(batch, penalties, seen, biases, [settings.get("allowed")] * rows)
    tokens, logprobs = sample(batch, u, **columns(rows, **settings))
    return np.array(tokens), np.array(logprobs)


def columns(rows: int, **settings) -> dict[str, np.ndarray]:
    values = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    values |= {name: value for name, value in settings.items() if name in values}
    return {name: np.full(rows, v, np.int32 if name == "top_k" else np.float32) for name, v in values.items()}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_frequencies_are_those_of_the_exact_distribution(settings):
    p = exact(LOGITS, **settings)
    tokens, _ = drawn(LOGITS, RNG.random(DRAWS).astype(np.float32), **settings)
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
    tokens, logprobs = drawn(LOGITS, RNG.random(2_000).astype(np.float32), **settings)
    np.testing.assert_allclose(logprobs, np.log(p[tokens]), atol=1e-5)


def test_temperature_zero_takes_the_likeliest_token_with_logprob_zero():
    tokens, logprobs = drawn(LOGITS, RNG.random(9).astype(np.float32), temperature=0.0)
    assert (tokens == LOGITS.argmax()).all()
    assert (logprobs == 0).all()


def test_the_ends_of_the_uniform_interval_draw_possible_tokens():
    logits = np.array([-np.inf, 1.0, 0.0, -200.0, -np.inf], np.float32)
    tokens, logprobs = drawn(logits, np.array([0.0, 1 - 2.0**-24], np.float32), top_k=2)
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


@pytest.mark.parametrize("fast", ["0", "1"])
def test_a_token_that_isnt_allowed_is_never_drawn_not_even_by_the_first_uniform(fast, monkeypatch):
    monkeypatch.setenv(fastmath.SWITCH, fast)
    logits = np.zeros(600, np.float32)
    for allowed in ([2], [599], [255, 256], [300, 301]):
        tokens, logprobs = drawn(logits, np.array([0.0, 1 - 2.0**-24], np.float32), allowed=allowed)
        assert tokens.tolist() == [allowed[0], allowed[-1]]
        np.testing.assert_allclose(logprobs, -np.log(len(allowed)), atol=1e-6)


@pytest.mark.parametrize("size", [3, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK, 7 * BLOCK + 13])
def test_the_inverse_of_the_distribution_is_found_in_a_vocabulary_of_any_size(size):
    logits = RNG.normal(0.0, 3.0, size).astype(np.float32)
    u = RNG.random(4_000).astype(np.float32)
    tokens, _ = drawn(logits, u)
    cumulative = np.cumsum(exact(logits))
    before = np.concatenate([[0.0], cumulative])[tokens]
    assert (u >= before - 1e-6).all()
    assert (u < cumulative[tokens] + 1e-6).all()


def test_every_token_of_a_flat_vocabulary_has_its_own_interval():
    size = 3 * BLOCK + 5
    middles = ((np.arange(size) + 0.5) / size).astype(np.float32)
    tokens, _ = drawn(np.zeros(size, np.float32), middles)
    assert tokens.tolist() == list(range(size))


def test_a_token_drawn_always_has_a_weight_at_the_borders_of_blocks():
    rng = np.random.default_rng(3)
    rows = np.full((2_000, 4 * BLOCK), -np.inf, np.float32)
    for row in rows:  # few tokens with weights, most blocks without any
        row[rng.choice(len(row), 3, replace=False)] = rng.normal(0.0, 8.0, 3)
    for u in (0.0, 2.0**-24, 0.5, 1 - 2.0**-23, 1 - 2.0**-24):
        tokens, logprobs = sample(mx.array(rows), np.full(len(rows), u, np.float32), **columns(len(rows)))
        chosen = np.take_along_axis(rows, np.array(tokens).astype(int)[:, None], axis=-1)
        assert np.isfinite(chosen).all()
        assert np.isfinite(np.array(logprobs)).all()


def test_what_rows_are_adjusted_by_is_their_own():
    rows = np.stack([LOGITS, LOGITS * 2, -LOGITS, LOGITS + 1])
    wants = [{}, {"penalty": 2.0, "seen": [1, 2, 39]}, {"bias": ((0, 1.5),)}, {"allowed": [4, 5]}]
    found = adjusted(
        mx.array(rows),
        np.array([want.get("penalty", 1.0) for want in wants], np.float32),
        [np.array(want.get("seen", [8, 9])) for want in wants],
        [want.get("bias", ()) for want in wants],
        [want.get("allowed") for want in wants],
    )
    for row, logits, want in zip(np.array(found), rows, wants, strict=True):
        p = np.exp(row.astype(np.float64) - row.max())
        np.testing.assert_allclose(p / p.sum(), exact(logits, **want), rtol=1e-5)
    assert np.array(found)[0].tolist() == rows[0].tolist()


def test_adjusting_leaves_the_logits_given_as_they_were():
    logits = mx.array(LOGITS[None])
    adjusted(logits, np.array([2.0], np.float32), [[1, 2]], [((3, 1.0),)], [[1, 2, 3]])
    assert np.array(logits)[0].tolist() == LOGITS.tolist()


def test_logits_in_half_precision_are_adjusted_in_single():
    found = adjusted(mx.array(LOGITS[None]).astype(mx.bfloat16), biases=[((3, 1e-4),)])
    assert found.dtype == mx.float32
    assert np.array(found)[0, 3] == np.array(mx.array(LOGITS).astype(mx.bfloat16).astype(mx.float32))[3] + 1e-4


@pytest.mark.parametrize("settings", [{}, {"top_k": 5, "top_p": 0.9}, {"temperature": 0.0}])
def test_a_compiled_draw_gives_the_same_tokens(settings):
    u = RNG.random(300).astype(np.float32)
    wanted = columns(300, **settings)
    compiled = mx.compile(partial(draw, stages(**wanted)))
    batch = mx.array(np.broadcast_to(LOGITS, (300, len(LOGITS))))
    found = compiled(batch, mx.array(u), *map(mx.array, wanted.values()))
    assert np.array(found[0]).tolist() == drawn(LOGITS, u, **settings)[0].tolist()


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
