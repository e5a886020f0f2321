"""Learning with every kind of adapter and both optimisers."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.config import LoRAConfig
from engine.inference import models
from engine.inference.adapters import Adapters
from engine.types import POLICY
from tests.tiny import tiny_model
from tests.training.conftest import Tiny, finish, same

KINDS = {"lora": "lora_b_norm", "dora": "lora_b_norm", "full": "difference_norm"}


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def of_kind(kind: str, tmp_path: Path) -> Tiny:
    folder = tiny_model(tmp_path)
    lm = models.load(str(folder), context=512)[0]
    return Tiny(folder, lm, Adapters(lm, LoRAConfig.model_validate({"kind": kind, "rank": 4, "scale": 2.0})))


@pytest.mark.parametrize("optimiser", ["adamw", "adafactor"])
def test_every_parameter_moves_and_what_was_rewarded_becomes_likelier(kind, of_kind, optimiser):
    learner = of_kind.learner(learning_rate=3e-3, optimiser=optimiser, loss="pg")
    records = of_kind.records(6)
    for index, record in enumerate(records):
        record.advantage = 1.0 if index % 2 else -1.0
    before = dict(learner.parameters)
    for _ in range(4):
        metrics = finish(learner, records)
        assert metrics["updates"] == 1.0
        assert metrics[KINDS[kind]] > 0.0
    for name, array in learner.parameters.items():
        assert not mx.array_equal(array, before[name]), name
    for record in records:
        after = of_kind.logs(record, learner.parameters)[np.arange(len(record.tokens)), record.tokens]
        assert (after.sum() - sum(record.logprobs)) * record.advantage > 0.0


def test_the_norm_of_what_is_learnt_is_0_until_something_is(kind, of_kind):
    learner = of_kind.learner()
    assert finish(learner, [])[KINDS[kind]] == 0.0
    assert finish(learner, of_kind.records(4))[KINDS[kind]] > 0.0


def test_what_was_published_is_what_learning_computes_with(of_kind):
    learner = of_kind.learner(learning_rate=1e-2)
    finish(learner, of_kind.records(6))
    learner.publish()
    row = mx.array([of_kind.records(1)[0].prompt_tokens])
    with of_kind.adapters.rows([of_kind.adapters.slot(POLICY)]):
        published = of_kind.lm.head(of_kind.lm.hidden(row))
    learnt = of_kind.logits(row[0].tolist(), learner.parameters)
    base = of_kind.logits(row[0].tolist())
    np.testing.assert_allclose(np.array(published[0]), learnt, atol=1e-5)
    assert np.abs(learnt - base).max() > 1e-2


@pytest.mark.parametrize("optimiser", ["adamw", "adafactor"])
def test_a_resumed_learner_goes_on_bit_for_bit(of_kind, optimiser, tmp_path):
    settings = {"optimiser": optimiser, "schedule": "cosine", "warmup": 2, "weight_decay": 0.01, "average": 0.5}
    through, resumed = of_kind.learner(**settings), of_kind.learner(seed=3, **settings)
    finish(through, of_kind.records(6))
    mx.save_safetensors(str(tmp_path / "state.safetensors"), through.state())
    loaded = mx.load(str(tmp_path / "state.safetensors"))
    assert isinstance(loaded, dict)
    resumed.load_state(loaded)
    for learner in (through, resumed):
        for seed in (1, 2):
            finish(learner, of_kind.records(6, seed=seed))
    assert same(through.state(), resumed.state())


def test_computing_blocks_once_more_changes_no_update(of_kind):
    learners = [of_kind.learner(checkpoint_layers=recompute) for recompute in (False, True)]
    for learner in learners:
        for seed in (1, 2):
            finish(learner, of_kind.records(6, seed=seed))
    whole, recomputed = (learner.parameters for learner in learners)
    for name, array in whole.items():
        np.testing.assert_allclose(np.array(recomputed[name]), np.array(array), atol=1e-6, err_msg=name)
