"""Losses against their formulas in NumPy, in double precision, and gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import log_softmax

from engine.training import losses

LOW, HIGH = 0.2, 0.28
NORMALISERS: tuple[losses.Normaliser, ...] = ("dapo", "grpo", "dr_grpo")


@pytest.fixture(autouse=True)
def _cpu() -> Iterator[None]:
    """Double precision, for the finite differences, is the CPU's alone."""
    with mx.stream(mx.cpu):
        yield


def double(values) -> mx.array:
    return mx.array(np.asarray(values, np.float64), dtype=mx.float64)


def differences(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient by central differences."""
    found = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        found[index] = (function(up) - function(down)) / (2 * step)
    return found


def tokens(seed: int = 0, count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-probabilities now and when sampled, and advantages: inside and outside of the clip, of either sign."""
    rng = np.random.default_rng(seed)
    behaviour = -rng.exponential(1.0, count)
    return behaviour + rng.normal(0.0, 0.4, count), behaviour, rng.normal(0.0, 1.0, count)


def ppo_oracle(now: np.ndarray, behaviour: np.ndarray, advantages: np.ndarray) -> np.ndarray:
    found = []
    for new, old, advantage in zip(now, behaviour, advantages, strict=True):
        ratio = np.exp(new - old)
        found.append(-min(ratio * advantage, min(max(ratio, 1 - LOW), 1 + HIGH) * advantage))
    return np.array(found)


def test_ppo_clip_is_the_clipped_surrogate_of_its_paper():
    now, behaviour, advantages = tokens()
    loss, ratio = losses.ppo_clip(double(now), double(behaviour), double(advantages), LOW, HIGH)
    np.testing.assert_allclose(np.array(loss), ppo_oracle(now, behaviour, advantages), rtol=1e-6)
    np.testing.assert_allclose(np.array(ratio), np.exp(now - behaviour), rtol=1e-6)


def test_ppo_clip_in_single_precision_agrees_to_a_millionth():
    now, behaviour, advantages = (values.astype(np.float32) for values in tokens(1))
    loss, _ = losses.ppo_clip(mx.array(now), mx.array(behaviour), mx.array(advantages), LOW, HIGH)
    oracle = ppo_oracle(*(values.astype(np.float64) for values in (now, behaviour, advantages)))
    np.testing.assert_allclose(np.array(loss), oracle, rtol=1e-6, atol=1e-6)


def test_the_gradient_of_ppo_clip_is_that_of_its_differences():
    now, behaviour, advantages = tokens(2)

    def total(now: mx.array) -> mx.array:
        return mx.sum(losses.ppo_clip(now, double(behaviour), double(advantages), LOW, HIGH)[0])

    expected = differences(lambda now: ppo_oracle(now, behaviour, advantages).sum(), now)
    np.testing.assert_allclose(np.array(mx.grad(total)(double(now))), expected, rtol=1e-6, atol=1e-8)


def test_clipped_names_exactly_the_tokens_without_a_gradient():
    now, behaviour, advantages = tokens(3, count=200)
    gradient = mx.grad(lambda x: mx.sum(losses.ppo_clip(x, double(behaviour), double(advantages), LOW, HIGH)[0]))
    silent = losses.clipped(np.exp(now - behaviour), advantages, LOW, HIGH)
    assert 0 < silent.sum() < 200
    np.testing.assert_array_equal(np.array(gradient(double(now))) == 0.0, silent)


def test_an_advantage_of_zero_has_neither_loss_nor_gradient():
    now, behaviour, _ = tokens(4)
    zero = mx.zeros(len(now))
    loss = lambda x: mx.sum(losses.ppo_clip(x, double(behaviour), zero, LOW, HIGH)[0])  # noqa: E731
    assert loss(double(now)).item() == 0.0
    assert not np.array(mx.grad(loss)(double(now))).any()


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("difference", [-1000.0, -200.0, 200.0, 1000.0])
def test_an_extreme_ratio_stays_finite_and_pushes_the_right_way(advantage: float, difference: float):
    now, behaviour, advantages = mx.array([difference]), mx.array([0.0]), mx.array([advantage])
    loss = lambda x: losses.ppo_clip(x, behaviour, advantages, LOW, HIGH)[0].sum()  # noqa: E731
    value, gradient = mx.value_and_grad(loss)(now)
    assert np.isfinite([value.item(), gradient.item()]).all()
    # Only a bad token that has become far likelier still needs pushing down.
    assert (gradient.item() > 0.0) == (advantage < 0.0 and difference > 0.0)


def test_exponential_is_exp_up_to_its_limit_and_its_tangent_beyond():
    np.testing.assert_allclose(
        np.array(losses.exponential(double([-800.0, -3.0, 0.0, 20.0]))),
        np.exp([-800.0, -3.0, 0.0, 20.0]),
        rtol=1e-6,
    )
    assert losses.exponential(double([25.0])).item() == pytest.approx(6.0 * np.exp(20.0))


def test_k3_is_schulmans_estimate_and_never_negative():
    now, reference, _ = tokens(5)
    found = np.array(losses.k3(double(now), double(reference)))
    np.testing.assert_allclose(found, np.exp(reference - now) - (reference - now) - 1.0, atol=1e-6)
    assert (found >= -1e-7).all()


def test_k3_averages_to_the_divergence_under_the_policy():
    rng = np.random.default_rng(6)
    policy, reference = (log_softmax(rng.normal(0.0, 1.0, 12)) for _ in range(2))
    estimates = np.array(losses.k3(double(policy), double(reference)))
    exact = np.sum(np.exp(policy) * (policy - reference))
    assert np.sum(np.exp(policy) * estimates) == pytest.approx(exact)


def test_k3_of_a_token_the_policy_has_all_but_lost_is_finite_and_pulls_it_back():
    value, gradient = mx.value_and_grad(lambda x: losses.k3(x, mx.array([-1.0])).sum())(mx.array([-500.0]))
    assert np.isfinite(value.item())
    assert -np.inf < gradient.item() < 0.0


def distributions(seed: int, positions: int = 5, vocabulary: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, 2.0, (positions, vocabulary)), rng.normal(0.0, 2.0, (positions, vocabulary))


def entropy_oracle(logits: np.ndarray) -> np.ndarray:
    logs = log_softmax(logits, axis=-1)
    return -np.sum(np.exp(logs) * logs, axis=-1)


def forward_kl_oracle(logits: np.ndarray, reference: np.ndarray) -> np.ndarray:
    p, q = log_softmax(logits, axis=-1), log_softmax(reference, axis=-1)
    return np.sum(np.exp(q) * (q - p), axis=-1)


def entropy_of(logits: mx.array) -> mx.array:
    return losses.entropy(logits, mx.softmax(logits, axis=-1), mx.logsumexp(logits, axis=-1))


def forward_kl_of(logits: mx.array, reference: mx.array) -> mx.array:
    normaliser, base = mx.logsumexp(logits, axis=-1), mx.logsumexp(reference, axis=-1)
    return losses.forward_kl(logits, normaliser, reference, mx.softmax(reference, axis=-1), base)


def test_entropy_and_its_gradient_are_exact():
    logits, _ = distributions(7)
    np.testing.assert_allclose(np.array(entropy_of(double(logits))), entropy_oracle(logits), rtol=1e-6)
    expected = differences(lambda x: entropy_oracle(x).sum(), logits)
    found = np.array(mx.grad(lambda x: entropy_of(x).sum())(double(logits)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_forward_kl_and_its_gradient_are_exact():
    logits, reference = distributions(8)
    found = np.array(forward_kl_of(double(logits), double(reference)))
    np.testing.assert_allclose(found, forward_kl_oracle(logits, reference), rtol=1e-6)
    expected = differences(lambda x: forward_kl_oracle(x, reference).sum(), logits)
    gradient = np.array(mx.grad(lambda x: forward_kl_of(x, double(reference)).sum())(double(logits)))
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


def test_forward_kl_of_a_policy_from_itself_is_zero():
    logits, _ = distributions(9)
    np.testing.assert_allclose(np.array(forward_kl_of(double(logits), double(logits))), 0.0, atol=1e-7)


def normalised_oracle(kind: str, sequences: list[np.ndarray]) -> float:
    """The definitions, sequence by sequence."""
    if kind == "dapo":
        return sum(s.sum() for s in sequences) / sum(len(s) for s in sequences)
    if kind == "grpo":
        return sum(s.mean() for s in sequences) / len(sequences)
    return sum(s.sum() for s in sequences) / (len(sequences) * max(len(s) for s in sequences))


@pytest.mark.parametrize("kind", NORMALISERS)
@pytest.mark.parametrize("lengths", [[1], [4], [3, 1, 7, 2], [1, 1, 1]])
def test_normalisers_are_their_definitions(kind: losses.Normaliser, lengths: list[int]):
    rng = np.random.default_rng(10)
    sequences = [rng.normal(size=length) for length in lengths]
    segments = mx.array(np.repeat(np.arange(len(lengths)), lengths))
    weights = mx.array(losses.weights(kind, np.array(lengths)))
    found = losses.normalise(mx.array(np.concatenate(sequences).astype(np.float32)), segments, weights)
    assert found.item() == pytest.approx(normalised_oracle(kind, sequences), rel=1e-6, abs=1e-6)


def test_normalisers_differ_where_lengths_do():
    weights = {kind: losses.weights(kind, np.array([1, 3])) for kind in NORMALISERS}
    np.testing.assert_allclose(weights["dapo"], [1 / 4, 1 / 4])
    np.testing.assert_allclose(weights["grpo"], [1 / 2, 1 / 6])
    np.testing.assert_allclose(weights["dr_grpo"], [1 / 6, 1 / 6])


def test_no_sequences_have_no_weights_and_an_empty_one_is_refused():
    assert losses.weights("dapo", np.array([], np.int64)).shape == (0,)
    with pytest.raises(ValueError, match="sequence 1 has 0 active tokens"):
        losses.weights("grpo", np.array([3, 0]))
