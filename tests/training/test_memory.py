"""What learning takes in memory: measured on small models, and held against MLX's own count of bytes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load as load_mlx
from mlx_lm.utils import load_config, quantize_model, save

from engine.config import LoRAConfig, TrainConfig
from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.facts import Machine
from engine.training import batching, budget, logprobs
from engine.training.learner import Learner
from engine.training.objective import Weights, backward
from engine.types import EngineError, TrainingRecord
from tests.inference.test_experts import KINDS as EXPERTS
from tests.tiny import tiny_model
from tests.training.conftest import Tiny, finish

RANK = 4


def quantised(folder: Path) -> Path:
    plain, tokenizer = load_mlx(str(tiny_model(folder / "plain", dim=64)))[:2]
    model, config = quantize_model(plain, load_config(folder / "plain"), group_size=32, bits=4)
    save(folder / "quantised", folder / "plain", model, tokenizer, config)
    return folder / "quantised"


MODELS: dict[str, tuple[Callable[[Path], Path], LoRAConfig]] = {
    "lora": (tiny_model, LoRAConfig(rank=RANK)),
    "dora": (tiny_model, LoRAConfig(rank=RANK, kind="dora")),
    "full": (tiny_model, LoRAConfig(kind="full")),
    "the last block": (tiny_model, LoRAConfig(rank=RANK, last_layers=1)),
    "quantised": (quantised, LoRAConfig(rank=RANK)),
    "experts": (partial(tiny_model, model_type="qwen3_moe", **EXPERTS["qwen3_moe"]), LoRAConfig(rank=RANK)),
    "qwen3": (partial(tiny_model, model_type="qwen3", head_dim=16), LoRAConfig(rank=RANK)),
}


class Model:
    """One to learn from random rows of equal length."""

    def __init__(self, folder: Path, lora: LoRAConfig) -> None:
        self.lm = models.load(str(folder), context=2048)[0]
        self.adapters = Adapters(self.lm, lora)
        rng = np.random.default_rng(0)
        moved = {
            name: array + mx.array(rng.normal(0.0, 0.05, array.shape).astype(np.float32))
            for name, array in self.adapters.initial(0).items()
        }
        self.packed = self.adapters.families.pack(moved)
        mx.eval(self.packed)

    def records(self, rows: int, length: int) -> list[TrainingRecord]:
        rng = np.random.default_rng(1)
        tokens = rng.integers(3, 260, (rows, length + 1)).tolist()
        half = length // 2
        return [
            TrainingRecord(
                str(index), 0, "A", "game", row[:half], row[half:], [-4.0] * (length + 1 - half),
                [0] * (length + 1 - half), 1.0,
            )
            for index, row in enumerate(tokens)
        ]  # fmt: skip

    def budget(self, length: int) -> int:
        cost = budget.cost(self.lm, self.adapters, self.packed, TrainConfig(), length)
        return budget.tokens(self.lm, self.packed, TrainConfig(), cost)

    def gradient(self, rows: int, length: int, **train) -> tuple[dict[str, np.ndarray], int]:
        """The gradient of one pass by parameter, and the bytes it took at most."""
        settings = TrainConfig(**train)
        found = batching.minibatches(
            batching.rows(self.records(rows, length)), 1, 1 << 30, np.random.default_rng(0)
        )
        [minibatch] = found
        [microbatch] = minibatch.microbatches
        weights = Weights.of(minibatch, None, settings)
        mx.synchronize()
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        _, _, gradients = backward(self.lm, self.adapters, self.packed, microbatch, weights, settings)
        with budget.waiting(0):
            mx.eval(gradients)
        peak = mx.get_peak_memory() - before
        return {name: np.array(a) for name, a in self.adapters.families.unpack(gradients).items()}, peak


@pytest.mark.parametrize("kind", MODELS)
def test_checkpointed_layers_give_the_gradient_of_whole_ones(kind: str, tmp_path: Path):
    make, lora = MODELS[kind]
    model = Model(make(tmp_path), lora)
    whole, _ = model.gradient(3, 20, entropy=0.1, kl=0.1)
    checkpointed, _ = model.gradient(3, 20, entropy=0.1, kl=0.1, checkpoint_layers=True)
    assert whole.keys() == checkpointed.keys()
    for name, expected in whole.items():
        assert np.abs(expected).max() > 0.0, name
        np.testing.assert_allclose(checkpointed[name], expected, atol=1e-6 * np.abs(expected).max(), err_msg=name)


def test_checkpointed_layers_take_far_less_memory_and_leave_the_model_as_it_was(tmp_path: Path):
    model = Model(tiny_model(tmp_path, layers=12, dim=64), LoRAConfig(rank=RANK))
    blocks, names = list(model.lm.model.layers), [name for name, _ in model.lm.model.named_modules()]
    _, whole = model.gradient(8, 64)
    _, checkpointed = model.gradient(8, 64, checkpoint_layers=True)
    assert checkpointed < 0.4 * whole
    assert model.lm.model.layers == blocks
    assert [name for name, _ in model.lm.model.named_modules()] == names


def test_the_memory_of_scores_does_not_grow_with_the_positions(tmp_path: Path):
    lm, _ = models.load(str(tiny_model(tmp_path, vocab=8192)), context=256)
    of_a_chunk = 4 * 128 * lm.vocab_size

    def peak(count: int) -> float:
        """In float32 arrays of a chunk's logits."""
        hidden = mx.random.normal((count, 32), key=mx.random.key(0))
        targets, ones = mx.zeros(count, mx.int32), mx.ones(count)

        def total(hidden: mx.array) -> mx.array:
            found = logprobs.score(lm, hidden, targets, ones, hidden + 1.0, None, 128 * lm.vocab_size)
            assert found.forward_kl is not None
            return mx.sum(found.logprobs) + mx.sum(found.entropy) + mx.sum(found.forward_kl)

        mx.eval(hidden, targets, ones)
        before = mx.get_active_memory()
        mx.reset_peak_memory()
        mx.eval(mx.value_and_grad(total)(hidden))
        return (mx.get_peak_memory() - before) / of_a_chunk

    few, many = peak(128), peak(16 * 128)
    assert many < few + 2.0


def test_an_adapter_learnt_in_a_model_of_half_precision_is_used_in_half_precision(tmp_path: Path):
    """Nothing of a layer is kept in float32 for the adapter's sake."""
    model = Model(tiny_model(tmp_path, layers=2, dim=256), LoRAConfig(rank=RANK))
    a, b = (mx.random.normal(shape, key=mx.random.key(0)) for shape in ((256, RANK), (RANK, 256)))
    name = "model.layers.0.self_attn.q_proj"
    linear = model.lm.model.layers[0].self_attn.q_proj
    linear.linear.set_dtype(mx.bfloat16)
    x = mx.random.normal((1, 512, 256), key=mx.random.key(1)).astype(mx.bfloat16)

    def output(dtype: mx.Dtype) -> mx.Dtype:
        with model.adapters.using({f"{name}.lora_a": a.astype(dtype), f"{name}.lora_b": b.astype(dtype)}):
            return linear._low_rank(x, model.adapters.used).dtype

    assert output(mx.float32) == mx.float32
    assert output(mx.bfloat16) == mx.bfloat16
    model.adapters._computed_in = mx.bfloat16
    with model.adapters.learning_packed(model.packed):
        assert {array.dtype for array in (model.adapters.used or {}).values()} == {mx.bfloat16}


def test_an_adapter_used_in_half_precision_learns_no_worse_from_a_model_of_half_precision(tmp_path: Path):
    model = Model(tiny_model(tmp_path, layers=3, dim=64), LoRAConfig(rank=RANK))
    exact, _ = model.gradient(4, 32)
    model.lm.model.set_dtype(mx.bfloat16)
    errors = []
    for dtype in (mx.float32, mx.bfloat16):
        model.adapters._computed_in = dtype
        found, _ = model.gradient(4, 32)
        squares = [(np.sum((found[name] - array) ** 2), np.sum(array**2)) for name, array in exact.items()]
        errors.append(np.sqrt(np.divide(*np.sum(squares, axis=0))))
    assert errors[1] < 1.5 * errors[0] < 0.3


def with_memory(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    monkeypatch.setattr(models, "machine", lambda: Machine(size, on_cpu=True))


@pytest.mark.parametrize(
    ("length", "vocab", "sizes"), [(32, 262, (100e6, 400e6)), (256, 262, (100e6, 400e6)), (32, 16384, (200e6,))]
)
def test_what_was_measured_to_fit_fits(
    tmp_path: Path, length: int, vocab: int, sizes: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logprobs, "CHUNK_ELEMENTS", 1 << 21)  # of the large vocabulary half of what there is
    model = Model(tiny_model(tmp_path, layers=4, dim=64, vocab=vocab), LoRAConfig(rank=RANK))
    for size in sizes:
        with_memory(monkeypatch, size)
        tokens = model.budget(length)
        assert budget.LEAST_TOKENS < tokens < budget.MOST_TOKENS
        _, peak = model.gradient(max(1, tokens // length), length)
        # A chunk's logits may be there before those of the one before it are gone.
        assert 0.2 * budget.SHARE * size < peak <= 1.2 * budget.SHARE * size


def test_a_pass_that_waits_takes_less_and_leaves_the_limit_as_it_was(tmp_path: Path):
    model = Model(tiny_model(tmp_path, layers=6, dim=64, vocab=8192), LoRAConfig(rank=RANK))
    limit = mx.set_memory_limit(1 << 40)
    try:
        waiting = [model.gradient(16, 128)[1] for _ in range(3)]
        assert mx.set_memory_limit(1 << 40) == 1 << 40
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(budget, "waiting", lambda beyond: nullcontext())
            ahead = [model.gradient(16, 128)[1] for _ in range(3)]
    finally:
        mx.set_memory_limit(limit)
    assert max(waiting) < 0.9 * max(ahead), (waiting, ahead)


@pytest.mark.slow
def test_a_precise_measure_tells_a_longer_pass_and_what_there_is_only_once_apart(tmp_path: Path):
    model = Model(tiny_model(tmp_path, layers=4, dim=64), LoRAConfig(rank=256))  # an adapter of more than the pass

    def cost(**how: bool) -> budget.Cost:
        with budget.waiting(0):
            return budget.cost(model.lm, model.adapters, model.packed, TrainConfig(), 64, **how)

    rough, precise = cost(), cost(precise=True)
    of_adapter = sum(array.nbytes for array in model.packed.values())
    assert rough.once == 0.0
    assert 0.3 * of_adapter < precise.once < 3 * of_adapter
    _, peak = model.gradient(128, 64)
    assert abs(precise.of(128 * 64) - peak) < abs(rough.of(128 * 64) - peak)
    assert precise.of(128 * 64) == pytest.approx(peak, rel=0.25)


def test_what_else_is_in_memory_changes_no_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = Model(tiny_model(tmp_path, layers=4, dim=64), LoRAConfig(rank=RANK))
    with_memory(monkeypatch, 100e6)
    alone = model.budget(64)
    ballast = mx.zeros(20_000_000)
    mx.eval(ballast)
    assert budget.LEAST_TOKENS < model.budget(64) == alone
    assert ballast.nbytes == 80e6


def test_weights_and_learner_are_counted_as_they_lie_in_memory(tmp_path: Path):
    mx.synchronize()
    before = mx.get_active_memory()
    lm = models.load(str(tiny_model(tmp_path, layers=3, dim=128)), context=64)[0]
    adapters, train = Adapters(lm, LoRAConfig(rank=128)), TrainConfig(average=0.5)
    learner = Learner(lm, adapters, train, seed=0)
    for player in ("policy", "average"):
        adapters.publish(player, learner.parameters, 0)
    learner._average.follow(learner._optimiser.packed, 0.5)
    mx.synchronize()
    without_gradient = budget.held(lm, learner._optimiser.packed, train) - adapters.bytes
    free_slot = adapters.bytes  # there are four
    assert mx.get_active_memory() - before - free_slot == pytest.approx(without_gradient, rel=0.05)


def test_rows_of_a_single_token_are_measured_too(tiny: Tiny):
    packed, train = tiny.adapters.families.pack(tiny.moved()), TrainConfig(kl=0.1, entropy=0.1)
    cost = budget.cost(tiny.lm, tiny.adapters, packed, train, 1)
    assert budget.tokens(tiny.lm, packed, train, cost) == budget.MOST_TOKENS


def test_a_budget_is_a_power_of_two_within_bounds():
    fitting = [-5.0, 0.0, 300.0, 4095.0, 4096.0, 1e12]
    assert [budget.rounded(tokens) for tokens in fitting] == [256, 256, 256, 2048, 4096, 16384]


def test_a_measured_budget_is_kept_and_goes_on_in_a_resumed_learner(tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
    with_memory(monkeypatch, 30e6)
    learner = tiny.learner()
    assert learner.train.microbatch_tokens == 0
    finish(learner, tiny.records(6))
    found = learner.measured_tokens
    assert 0 < found < budget.MOST_TOKENS
    with_memory(monkeypatch, 1e12)
    resumed = Learner(tiny.lm, tiny.adapters, learner.train, seed=0)
    resumed.load_state(learner.state())
    for one in (learner, resumed):
        finish(one, tiny.records(6, seed=1))
        assert one.measured_tokens == found


def test_a_budget_is_measured_anew_once_rows_are_longer_than_those_it_was_measured_for(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    monkeypatch.setattr(budget, "cost", lambda *about, **_: asked.append(about[-1]) or budget.Cost(1.0, 1.0, 1))
    learner = tiny.learner()
    finish(learner, [])
    for length in (10, 16, 9, 17, 32, 31, 100):
        [record] = tiny.records(1)
        record.prompt_tokens = [5] * (length + 1 - len(record.tokens))
        finish(learner, [record])
    assert asked == [16, 32, 128]
    resumed = tiny.learner(seed=1)
    resumed.load_state(learner.state())
    finish(resumed, [record])
    assert asked == [16, 32, 128]


def test_a_configured_budget_is_not_measured(tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(budget, "cost", None)
    learner = tiny.learner(microbatch_tokens=64)
    finish(learner, tiny.records(6))
    assert learner.measured_tokens == 0


def test_where_memory_does_not_suffice_the_error_says_what_to_lower(tiny: Tiny, monkeypatch: pytest.MonkeyPatch):
    def full(*arrays: object) -> None:
        raise RuntimeError("[malloc] Unable to allocate 123 bytes.")

    learner = tiny.learner(microbatch_tokens=64)
    monkeypatch.setattr("engine.training.learner.mx.eval", full)
    with pytest.raises(EngineError, match=r"rows of \d+\).*123 bytes.*train.microbatch_tokens.*checkpoint_layers"):
        finish(learner, tiny.records(3))
