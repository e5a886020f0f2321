"""Losses against their formulas in NumPy, in double precision, and gradients against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import log_softmax

from engine.training import losses

LOW, HIGH, CAP = 0.2, 0.28, 1.5
KINDS = ("ppo", "gspo", "cispo", "pg")
NORMALISERS: tuple[losses.Normaliser, ...] = ("dapo", "grpo", "dr_grpo")
LENGTHS = np.array([1, 9, 4, 14, 7, 5])


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


class Tokens(NamedTuple):
    """Log-probabilities now and when sampled, advantages and the sequence of each token, [N]."""

    now: np.ndarray
    behaviour: np.ndarray
    advantages: np.ndarray
    segments: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.bincount(self.segments)


def tokens(seed: int = 0, lengths: np.ndarray = LENGTHS) -> Tokens:
    """Inside and outside of the clip, with advantages of either sign, each that of a whole sequence."""
    rng = np.random.default_rng(seed)
    count = int(lengths.sum())
    behaviour = -rng.exponential(1.0, count)
    drift = np.repeat(rng.normal(0.0, 0.3, len(lengths)), lengths)
    advantages = np.repeat(rng.normal(0.0, 1.0, len(lengths)), lengths)
    now = behaviour + drift + rng.normal(0.0, 0.4, count)
    return Tokens(now, behaviour, advantages, np.repeat(np.arange(len(lengths)), lengths))


def loss_of(kind: str, now: mx.array, of: Tokens, dtype: mx.Dtype = mx.float64) -> losses.PolicyLoss:
    behaviour, advantages = (mx.array(array, dtype=dtype) for array in (of.behaviour, of.advantages))
    segments, lengths = mx.array(of.segments), mx.array(of.lengths.astype(np.float64), dtype=dtype)
    match kind:
        case "ppo":
            return losses.ppo(now, behaviour, advantages, LOW, HIGH)
        case "gspo":
            return losses.gspo(now, behaviour, advantages, segments, lengths, LOW, HIGH)
        case "cispo":
            return losses.cispo(now, behaviour, advantages, CAP)
        case _:
            return losses.policy_gradient(now, behaviour, advantages)


def ratio_oracle(kind: str, now: np.ndarray, of: Tokens) -> np.ndarray:
    """Of each token, or in gspo of its sequence, one after the other."""
    if kind != "gspo":
        return np.exp(now - of.behaviour)
    ratios = np.empty(len(now))
    for segment in np.unique(of.segments):
        own = of.segments == segment
        ratios[own] = np.exp(np.mean(now[own] - of.behaviour[own]))
    return ratios


def loss_oracle(
    kind: str,
    now: np.ndarray,
    of: Tokens,
    held: np.ndarray | None = None,
    clip: tuple[float, float] = (LOW, HIGH),
    cap: float = CAP,
) -> np.ndarray:
    """The papers' formulas; `held` are the log-probabilities by which a ratio without gradient is taken."""
    found = []
    ratios = ratio_oracle(kind, now if held is None or kind != "cispo" else held, of)
    for logprob, ratio, advantage in zip(now, ratios, of.advantages, strict=True):
        if kind in ("ppo", "gspo"):
            clipped = min(max(ratio, 1 - clip[0]), 1 + clip[1])
            found.append(-min(ratio * advantage, clipped * advantage))
        elif kind == "cispo":
            found.append(-min(ratio, cap) * advantage * logprob)
        else:
            found.append(-advantage * logprob)
    return np.array(found)


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_loss_is_the_formula_of_its_paper(kind: str):
    of = tokens()
    found = loss_of(kind, double(of.now), of)
    np.testing.assert_allclose(np.array(found.loss), loss_oracle(kind, of.now, of), rtol=1e-6)
    np.testing.assert_allclose(np.array(found.ratio), ratio_oracle(kind, of.now, of), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_loss_in_single_precision_agrees_to_a_millionth(kind: str):
    of = Tokens(*(array.astype(np.float32) if array.dtype == np.float64 else array for array in tokens(1)))
    found = loss_of(kind, mx.array(of.now), of, mx.float32)
    exact = Tokens(*(array.astype(np.float64) if array.dtype == np.float32 else array for array in of))
    np.testing.assert_allclose(np.array(found.loss), loss_oracle(kind, exact.now, exact), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seed", "lengths"), [(2, LENGTHS), (3, np.array([1]))])
def test_the_gradient_of_a_policy_loss_is_that_of_its_differences(kind: str, seed: int, lengths: np.ndarray):
    of = tokens(seed, lengths)
    expected = differences(lambda now: loss_oracle(kind, now, of, held=of.now).sum(), of.now)
    found = mx.grad(lambda now: mx.sum(loss_of(kind, now, of).loss))(double(of.now))
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-6, atol=1e-8)
    assert np.array(found).any()


@pytest.mark.parametrize("kind", ["ppo", "gspo"])
def test_clipped_are_exactly_the_tokens_without_a_gradient(kind: str):
    of = tokens(3, np.tile(LENGTHS, 5))
    found = np.array(loss_of(kind, double(of.now), of).clipped)
    gradient = mx.grad(lambda now: mx.sum(loss_of(kind, now, of).loss))(double(of.now))
    assert 0 < found.sum() < len(found)
    np.testing.assert_array_equal(np.array(gradient) == 0.0, found)


def test_cispo_bounds_a_ratio_and_keeps_its_gradient():
    of = tokens(3, np.tile(LENGTHS, 5))
    found = np.array(loss_of("cispo", double(of.now), of).clipped)
    gradient = np.array(mx.grad(lambda now: mx.sum(loss_of("cispo", now, of).loss))(double(of.now)))
    ratios = np.exp(of.now - of.behaviour)
    np.testing.assert_array_equal(found, ratios > CAP)
    assert 0 < found.sum() < len(found)
    np.testing.assert_allclose(gradient, -np.minimum(ratios, CAP) * of.advantages, rtol=1e-6)


def test_the_plain_policy_gradient_clips_nothing_and_ignores_the_ratio():
    of = tokens(4)
    assert not np.array(loss_of("pg", double(of.now), of).clipped).any()
    elsewhere = of._replace(behaviour=of.behaviour - 3.0)
    one, other = (loss_of("pg", double(of.now), each) for each in (of, elsewhere))
    np.testing.assert_array_equal(np.array(one.loss), np.array(other.loss))
    np.testing.assert_allclose(np.array(other.ratio), np.array(one.ratio) * np.exp(3.0), rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_an_advantage_of_zero_has_neither_loss_nor_gradient(kind: str):
    of = tokens(4)._replace(advantages=np.zeros(LENGTHS.sum()))
    loss = lambda now: mx.sum(loss_of(kind, now, of).loss)  # noqa: E731
    assert loss(double(of.now)).item() == 0.0
    assert not np.array(mx.grad(loss)(double(of.now))).any()


@pytest.mark.parametrize("kind", KINDS)
def test_without_an_active_token_the_loss_is_zero(kind: str):
    none, segments = mx.zeros(0), mx.zeros(0, mx.int32)
    lengths = mx.array([3.0])  # of a sequence that isn't here
    found = {
        "ppo": losses.ppo(none, none, none, LOW, HIGH),
        "gspo": losses.gspo(none, none, none, segments, lengths, LOW, HIGH),
        "cispo": losses.cispo(none, none, none, CAP),
        "pg": losses.policy_gradient(none, none, none),
    }[kind]
    assert found.loss.shape == found.ratio.shape == found.clipped.shape == (0,)
    assert losses.normalise(found.loss, segments, 1.0 / lengths).item() == 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("difference", [-1000.0, -200.0, -80.0, 80.0, 200.0, 1000.0])
def test_an_extreme_ratio_stays_finite_and_pushes_the_right_way(kind: str, advantage: float, difference: float):
    of = Tokens(np.full(3, difference), np.zeros(3), np.full(3, advantage), np.zeros(3, np.int64))
    loss = lambda now: loss_of(kind, now, of, mx.float32).loss.sum()  # noqa: E731
    value, gradient = mx.value_and_grad(loss)(mx.array(of.now.astype(np.float32)))
    pushes = np.array(gradient)
    assert np.isfinite([value.item(), *pushes]).all()
    assert (pushes * advantage <= 0.0).all()  # a good token is never pushed down, a bad one never up
    if difference > 0.0 and (kind in ("cispo", "pg") or advantage < 0.0):
        assert pushes.all()  # a bad token that has become far likelier still needs pushing down


def test_a_token_80_nats_likelier_doesnt_take_its_sequence_out_of_gspos_gradient():
    of = Tokens(np.array([80.0, 0.0, 0.0]), np.zeros(3), np.full(3, -1.0), np.zeros(3, np.int64))
    gradient = mx.grad(lambda now: loss_of("gspo", now, of, mx.float32).loss.sum())(mx.array(of.now, mx.float32))
    assert np.isfinite(np.array(gradient)).all()
    assert (np.array(gradient) > 0.0).all()


def trl(
    kind: str,
    normaliser: str,
    logps: np.ndarray,
    old: np.ndarray,
    advantages: np.ndarray,
    mask: np.ndarray,
) -> float:
    """GRPOTrainer's loss as TRL documents it, of padded completions [B, T] with one advantage each [B].

    `loss_type` grpo, dapo or dr_grpo (max_completion_length: the longest) or cispo, `importance_sampling_level`
    token or, for gspo, sequence; epsilon, epsilon_high as the clip here, for cispo epsilon_high as the cap.
    """
    log_ratio = logps - old
    if kind == "gspo":
        log_ratio = ((log_ratio * mask).sum(1) / mask.sum(1).clip(min=1))[:, None]
    ratio = np.exp(log_ratio)
    weighted = advantages[:, None]
    if kind == "cispo":
        each = -np.minimum(ratio, CAP) * weighted * logps
    else:
        each = -np.minimum(ratio * weighted, ratio.clip(1 - LOW, 1 + HIGH) * weighted)
    each = np.broadcast_to(each, mask.shape)
    if normaliser == "grpo":
        return ((each * mask).sum(1) / mask.sum(1).clip(min=1)).mean()
    if normaliser == "dapo":
        return (each * mask).sum() / mask.sum()
    return (each * mask).sum() / mask.size


@pytest.mark.parametrize("kind", ["ppo", "gspo", "cispo"])
@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_a_padded_batch_has_the_loss_that_trl_documents(kind: str, normaliser: losses.Normaliser):
    of = tokens(5)
    mask = np.arange(LENGTHS.max()) < LENGTHS[:, None]
    padded = [np.full(mask.shape, -7.0) for _ in range(2)]
    for array, values in zip(padded, (of.now, of.behaviour), strict=True):
        array[mask] = values
    advantages = of.advantages[np.cumsum(LENGTHS) - 1]
    weights = mx.array(losses.weights(normaliser, LENGTHS))
    found = losses.normalise(loss_of(kind, double(of.now), of).loss, mx.array(of.segments), weights)
    expected = trl(kind, normaliser, *padded, advantages, mask.astype(np.float64))
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_gspo_with_the_grpo_normaliser_is_the_mean_over_sequences_of_its_paper():
    of = tokens(6)
    expected = []
    for segment in range(len(LENGTHS)):
        own = of.segments == segment
        s, advantage = np.exp(np.mean(of.now[own] - of.behaviour[own])), of.advantages[own][0]
        expected.append(-min(s * advantage, np.clip(s, 1 - LOW, 1 + HIGH) * advantage))
    weights = mx.array(losses.weights("grpo", LENGTHS))
    found = losses.normalise(loss_of("gspo", double(of.now), of).loss, mx.array(of.segments), weights)
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normaliser", NORMALISERS)
def test_the_gradient_of_a_normalised_loss_is_that_of_its_differences(kind: str, normaliser: losses.Normaliser):
    of = tokens(7)
    weights = mx.array(losses.weights(normaliser, LENGTHS))

    def oracle(now: np.ndarray) -> float:
        each = np.split(loss_oracle(kind, now, of, held=of.now), np.cumsum(LENGTHS)[:-1])
        return normalised_oracle(normaliser, each)

    found = mx.grad(lambda now: losses.normalise(loss_of(kind, now, of).loss, mx.array(of.segments), weights))
    np.testing.assert_allclose(np.array(found(double(of.now))), differences(oracle, of.now), rtol=1e-6, atol=1e-9)


def test_chosen_weights_make_the_mean_negative_log_likelihood_of_what_had_a_positive_advantage():
    of = tokens(8)
    advantages = np.array([1.0, 0.0, -1.0, 0.5, 1.0, -0.1])
    weights = losses.chosen_weights(advantages, LENGTHS)
    found = losses.normalise(-double(of.now), mx.array(of.segments), mx.array(weights))
    chosen = np.isin(of.segments, [0, 3, 4])
    assert found.item() == pytest.approx(-of.now[chosen].mean(), rel=1e-6)
    gradient = mx.grad(lambda now: losses.normalise(-now, mx.array(of.segments), mx.array(weights)))
    expected = differences(lambda now: -now[chosen].mean(), of.now)
    np.testing.assert_allclose(np.array(gradient(double(of.now))), expected, rtol=1e-6, atol=1e-9)


def test_where_nothing_is_chosen_supervised_learning_weighs_nothing():
    assert not losses.chosen_weights(np.array([0.0, -1.0]), np.array([3, 2])).any()
    assert losses.chosen_weights(np.zeros(0), np.zeros(0, np.int64)).shape == (0,)


def test_exponential_is_exp_up_to_its_limit_and_its_tangent_beyond():
    np.testing.assert_allclose(
        np.array(losses.exponential(double([-800.0, -3.0, 0.0, 20.0]))),
        np.exp([-800.0, -3.0, 0.0, 20.0]),
        rtol=1e-6,
    )
    assert losses.exponential(double([25.0])).item() == pytest.approx(6.0 * np.exp(20.0))


def test_k3_is_schulmans_estimate_and_never_negative():
    now, reference, *_ = tokens(5)
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
