"""What the learner says of each turn, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.types import Fate
from tests.training.conftest import Tiny, finish


def test_every_turn_is_told_its_own_ratios_bounds_and_loss(tiny: Tiny):
    learner = tiny.learner(microbatch_tokens=60, minibatches=1, normaliser="grpo", policy=0.5)
    learner.parameters = tiny.moved()
    learner.version = 3
    records = tiny.records(14, temperature=0.8)  # sampled from the base: ratios differ from 1
    records.append(replace(records[0], rollout_id="twin", advantage=-2.0))  # computed once, learnt from twice
    logs = [tiny.logs(r, learner.parameters)[np.arange(len(r.tokens)), r.tokens] for r in records]
    metrics = finish(learner, records)
    total = 0.0
    for record, now in zip(records, logs, strict=True):
        ratios = np.exp(now - record.logprobs)
        a = record.advantage
        bounded = (ratios > 1.2) if a > 0 else (ratios < 0.8)
        loss = -np.minimum(ratios * a, np.clip(ratios, 0.8, 1.2) * a).sum() / len(records) / len(ratios)
        learnt = record.learnt
        assert learnt is not None
        assert (learnt.fate, learnt.age, learnt.clipped) == (Fate.LEARNT, 3, bounded.sum())
        assert record.ratios == pytest.approx(ratios, rel=1e-3)
        assert (learnt.ratio, learnt.ratio_max) == pytest.approx((ratios.mean(), ratios.max()), rel=1e-3)
        assert learnt.loss == pytest.approx(loss, rel=2e-3, abs=1e-6)
        assert all(
            type(number) is float for number in (learnt.ratio, learnt.ratio_max, learnt.loss, *record.ratios)
        )
        total += learnt.loss
    assert any(record.learnt.clipped for record in records if record.learnt)
    assert total == pytest.approx(metrics["policy_loss"], rel=1e-4)


def test_a_turn_that_was_not_learnt_from_is_told_why(tiny: Tiny):
    greedy, flat, odd = tiny.records(3)
    greedy.temperature, flat.advantage = 0.0, 0.0
    finish(tiny.learner(), [greedy, flat])
    odd.advantage = float("inf")
    finish(tiny.learner(), [odd])
    told = [record.learnt and record.learnt.fate for record in (greedy, flat, odd)]
    assert told == [Fate.GREEDY, Fate.IDLE, Fate.NONFINITE]
    assert not any(record.ratios for record in (greedy, flat, odd))
