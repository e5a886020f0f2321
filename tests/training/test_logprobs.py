"""Scores of active tokens against NumPy on the row alone: unpadded, all its logits."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import log_softmax

from engine.inference import fastmath
from engine.training import batching
from engine.training.logprobs import Scores, active_hidden, score
from engine.types import TrainingRecord
from tests.training.conftest import Tiny


def mixed_records(tiny: Tiny) -> list[TrainingRecord]:
    return [
        record
        for index, temperature in enumerate((1.0, 0.6, 1.7))
        for record in tiny.records(5, seed=index, temperature=temperature)
    ]


def microbatch_of(records: list[TrainingRecord]) -> tuple[batching.Microbatch, list[TrainingRecord]]:
    """One padded microbatch, and the records in its order."""
    ordered = sorted(records, key=lambda r: len(r.prompt_tokens) + len(r.tokens))
    [minibatch] = batching.minibatches(batching.rows(ordered), 1, 100_000, np.random.default_rng(0))
    [microbatch] = minibatch.microbatches
    return microbatch, ordered


def constrained(records: list[TrainingRecord], seed: int = 0) -> list[TrainingRecord]:
    """Records of which two in three were chosen among few tokens, some of them among one."""
    rng = np.random.default_rng(seed)
    for index, record in enumerate(records):
        if index % 3:
            others = [rng.choice(262, rng.integers(0, 9), replace=False).tolist() for _ in record.tokens]
            record.allowed = [sorted({*ids, token}) for ids, token in zip(others, record.tokens, strict=True)]
    return records


def masked_logs(tiny: Tiny, records: list[TrainingRecord], parameters=None) -> np.ndarray:
    """[N, V] in double precision: log-probabilities over what was allowed, −inf elsewhere."""
    found = []
    for record in records:
        for logs, ids in zip(
            tiny.logs(record, parameters), record.allowed or [[]] * len(record.tokens), strict=True
        ):
            possible = np.isin(np.arange(len(logs)), ids) if ids else np.ones(len(logs), bool)
            found.append(log_softmax(np.where(possible, logs, -np.inf)))
    return np.array(found)


def scores_of(tiny: Tiny, microbatch: batching.Microbatch, chunk_elements: int = 1 << 25) -> Scores:
    tokens, positions = mx.array(microbatch.tokens), mx.array(microbatch.positions)
    with tiny.adapters.learning(tiny.moved()):
        hidden = active_hidden(tiny.lm, tokens, positions)
    base = active_hidden(tiny.lm, tokens, positions)
    return score(
        tiny.lm,
        hidden,
        mx.array(microbatch.targets),
        mx.array(microbatch.temperatures),
        base,
        microbatch.allowed,
        chunk_elements,
    )


@pytest.mark.parametrize("fast", ["0", "1"])
def test_a_padded_row_gets_the_scores_it_would_get_alone(tiny: Tiny, fast: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(fastmath.SWITCH, fast)
    microbatch, records = microbatch_of(mixed_records(tiny))
    assert len({len(r.prompt_tokens) + len(r.tokens) for r in records}) > 5
    found = scores_of(tiny, microbatch)
    policy = np.concatenate([tiny.logs(r, tiny.moved()) for r in records])
    base = np.concatenate([tiny.logs(r) for r in records])
    rows = np.arange(len(policy)), microbatch.targets
    expected = Scores(
        logprobs=policy[rows],
        entropy=-np.sum(np.exp(policy) * policy, axis=-1),
        reference=base[rows],
        forward_kl=np.sum(np.exp(base) * (base - policy), axis=-1),
    )
    for name, array, oracle in zip(Scores._fields, found, expected, strict=True):
        np.testing.assert_allclose(np.array(array), oracle, atol=3e-5, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("positions", [7, 10_000])
def test_constrained_tokens_are_scored_among_what_was_allowed(
    tiny: Tiny, fast: str, positions: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(fastmath.SWITCH, fast)
    microbatch, records = microbatch_of(constrained(mixed_records(tiny)))
    found = scores_of(tiny, microbatch, positions * tiny.lm.vocab_size)
    policy, base = masked_logs(tiny, records, tiny.moved()), masked_logs(tiny, records)
    rows = np.arange(len(policy)), microbatch.targets
    p, q = np.exp(policy), np.exp(base)
    with np.errstate(invalid="ignore"):  # 0 · −inf and −inf − −inf, which count nothing
        expected = Scores(
            logprobs=policy[rows],
            entropy=-np.nansum(p * policy, axis=-1),
            reference=base[rows],
            forward_kl=np.nansum(q * (base - policy), axis=-1),
        )
    alone = (p > 0).sum(axis=-1) == 1
    assert alone.any()
    assert not alone.all()
    for name, array, oracle in zip(Scores._fields, found, expected, strict=True):
        np.testing.assert_allclose(np.array(array), oracle, atol=3e-5, rtol=1e-5, err_msg=name)
    assert np.abs(np.array(found.logprobs)[alone]).max() < 1e-6


@pytest.mark.parametrize("positions", [5, 10_000])
def test_the_gradient_of_constrained_tokens_is_that_of_finite_differences(tiny: Tiny, positions: int):
    microbatch, _ = microbatch_of(constrained(mixed_records(tiny)))
    rng = np.random.default_rng(4)
    count = len(microbatch.targets)
    hidden, base = (mx.array(rng.normal(size=(count, 32)).astype(np.float32)) for _ in range(2))
    weights = mx.array(rng.normal(size=(4, count)).astype(np.float32))
    targets, temperatures = mx.array(microbatch.targets), mx.array(microbatch.temperatures)

    def each(hidden: mx.array) -> mx.array:
        """[N]: of every token, a sum in which each score has another weight."""
        found = score(
            tiny.lm, hidden, targets, temperatures, base, microbatch.allowed, positions * tiny.lm.vocab_size
        )
        return mx.sum(weights * mx.stack(list(found)), axis=0)

    found = np.array(mx.grad(lambda hidden: mx.sum(each(hidden)))(hidden))
    assert np.isfinite(found).all()
    assert np.abs(found).max() > 0.1
    for _ in range(5):
        direction = rng.normal(size=(count, 32)).astype(np.float32)
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        step = mx.array(0.01 * direction)
        difference = np.array(each(hidden + step) - each(hidden - step)) / 0.02
        np.testing.assert_allclose((found * direction).sum(axis=-1), difference, atol=5e-3, rtol=1e-2)


def test_the_one_token_allowed_is_certain_and_teaches_nothing(tiny: Tiny):
    microbatch, _ = microbatch_of(tiny.records(4))
    only = batching.Allowed(np.arange(len(microbatch.targets) + 1), microbatch.targets)
    targets, temperatures = mx.array(microbatch.targets), mx.array(microbatch.temperatures)
    hidden = mx.random.normal((len(targets), 32), key=mx.random.key(0))

    def total(hidden: mx.array) -> mx.array:
        found = score(tiny.lm, hidden, targets, temperatures, hidden + 1.0, only)
        assert found.forward_kl is not None
        return mx.sum(found.logprobs) + mx.sum(found.entropy) + mx.sum(found.forward_kl)

    value, found = mx.value_and_grad(total)(hidden)
    assert abs(value.item()) < 1e-4
    assert np.abs(np.array(found)).max() < 1e-4


def gradient(tiny: Tiny, microbatch: batching.Microbatch, chunk_elements: int) -> tuple[np.ndarray, np.ndarray]:
    """(values, gradient by hidden states) of a sum in which every score has another weight."""
    rng = np.random.default_rng(1)
    hidden = mx.array(rng.normal(size=(len(microbatch.targets), 32)).astype(np.float32))
    base = mx.array(rng.normal(size=hidden.shape).astype(np.float32))
    weights = mx.array(rng.normal(size=(4, len(microbatch.targets))).astype(np.float32))
    targets, temperatures = mx.array(microbatch.targets), mx.array(microbatch.temperatures)

    def total(hidden: mx.array) -> mx.array:
        return mx.sum(
            weights
            * mx.stack(score(tiny.lm, hidden, targets, temperatures, base, microbatch.allowed, chunk_elements))
        )

    value, found = mx.value_and_grad(total)(hidden)
    return np.array(value), np.array(found)


@pytest.mark.parametrize("positions", [1, 7, 20])
def test_chunks_of_positions_change_neither_value_nor_gradient(tiny: Tiny, positions: int):
    microbatch, _ = microbatch_of(mixed_records(tiny))
    assert len(microbatch.targets) > 2 * positions
    whole = gradient(tiny, microbatch, 1 << 25)
    parts = gradient(tiny, microbatch, positions * tiny.lm.vocab_size)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-5)
    np.testing.assert_allclose(parts[1], whole[1], rtol=1e-4, atol=1e-6 * np.abs(whole[1]).max())


def test_the_gradient_is_that_of_plain_log_softmax(tiny: Tiny):
    microbatch, _ = microbatch_of(mixed_records(tiny))
    rng = np.random.default_rng(2)
    hidden, base = (mx.array(rng.normal(size=(len(microbatch.targets), 32)).astype(np.float32)) for _ in range(2))
    targets, temperatures = mx.array(microbatch.targets), mx.array(microbatch.temperatures)[:, None]

    def plain(hidden: mx.array) -> mx.array:
        logits, reference = (tiny.lm.head(h) / temperatures for h in (hidden, base))
        p = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        q = mx.stop_gradient(reference - mx.logsumexp(reference, axis=-1, keepdims=True))
        taken = mx.take_along_axis(p, targets[:, None], axis=-1)
        return mx.sum(taken) - 0.3 * mx.sum(mx.exp(p) * p) + 0.7 * mx.sum(mx.exp(q) * (q - p))

    def ours(hidden: mx.array) -> mx.array:
        found = score(tiny.lm, hidden, targets, temperatures[:, 0], base)
        assert found.forward_kl is not None
        return mx.sum(found.logprobs) + 0.3 * mx.sum(found.entropy) + 0.7 * mx.sum(found.forward_kl)

    expected, found = mx.grad(plain)(hidden), mx.grad(ours)(hidden)
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-3, atol=2e-5)


def test_no_gradient_flows_into_the_reference(tiny: Tiny):
    microbatch, _ = microbatch_of(mixed_records(tiny))
    targets, temperatures = mx.array(microbatch.targets), mx.array(microbatch.temperatures)
    hidden = mx.random.normal((len(targets), 32), key=mx.random.key(0))

    def divergence(base: mx.array) -> mx.array:
        found = score(tiny.lm, hidden, targets, temperatures, base)
        assert found.forward_kl is not None
        assert found.reference is not None
        return mx.sum(found.forward_kl) + mx.sum(found.reference)

    assert not np.array(mx.grad(divergence)(hidden + 1.0)).any()


def test_without_a_reference_there_is_no_divergence(tiny: Tiny):
    hidden = mx.random.normal((3, 32), key=mx.random.key(0))
    found = score(tiny.lm, hidden, mx.array([1, 2, 3]), mx.ones(3))
    assert found.reference is None
    assert found.forward_kl is None


@pytest.mark.parametrize("positions", [16, 10_000])
def test_log_probabilities_and_their_gradient_have_float32s_accuracy(tiny: Tiny, positions: int):
    rng = np.random.default_rng(3)
    count, head = 50, np.array(tiny.lm.model.model.embed_tokens.weight).astype(np.float64)
    hidden = rng.normal(size=(count, 32)).astype(np.float32)
    targets, temperatures = rng.integers(0, len(head), count), rng.uniform(0.5, 2.0, count).astype(np.float32)

    def logprobs(hidden: mx.array) -> mx.array:
        limit = positions * tiny.lm.vocab_size
        return score(tiny.lm, hidden, mx.array(targets), mx.array(temperatures), None, None, limit).logprobs

    logs = log_softmax(hidden.astype(np.float64) @ head.T / temperatures[:, None], axis=-1)
    expected = (np.eye(len(head))[targets] - np.exp(logs)) @ head / temperatures[:, None]
    found = np.array(mx.grad(lambda hidden: mx.sum(logprobs(hidden)))(mx.array(hidden)))
    assert np.abs(np.array(logprobs(mx.array(hidden))) - logs[np.arange(count), targets]).max() < 1e-5
    assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)


def test_what_is_not_asked_for_has_no_gradient_and_the_same_value(tiny: Tiny):
    hidden = mx.random.normal((9, 32), key=mx.random.key(0))
    targets, ones = mx.arange(9), mx.ones(9)
    whole = score(tiny.lm, hidden, targets, ones, hidden + 1.0)
    for names in ((), ("logprobs",), ("entropy", "forward_kl")):
        part = score(tiny.lm, hidden, targets, ones, hidden + 1.0, differentiable=names)
        for name in Scores._fields:
            np.testing.assert_array_equal(np.array(getattr(part, name)), np.array(getattr(whole, name)))

            def total(hidden: mx.array, name: str = name, names: tuple[str, ...] = names) -> mx.array:
                return mx.sum(
                    getattr(score(tiny.lm, hidden, targets, ones, hidden + 1.0, differentiable=names), name)
                )

            assert bool(np.abs(np.array(mx.grad(total)(hidden))).max() > 1e-4) == (name in names)
