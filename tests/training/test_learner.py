"""The learner against definitions in NumPy and a plain loop over mlx-lm's own LoRA layers."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from scipy.special import log_softmax

from engine.config import LoRAConfig, TrainConfig
from engine.credit import GRPOCredit, training_records
from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.batcher import Batcher, Request
from engine.inference.constraints import Choices
from engine.training.learner import Learner
from engine.types import POLICY, Completion, GenerateResult, Rollout, Sampling, TrainingRecord, Turn
from tests.tiny import END
from tests.training.conftest import LORA, Tiny, drain, finish, flat, same
from tests.training.test_losses import NORMALISERS, normalised_oracle


def test_b_moves_in_one_step_under_default_settings(tiny: Tiny):
    learner = Learner(tiny.lm, tiny.adapters, TrainConfig(), seed=0)
    before = dict(learner.parameters)
    metrics = finish(learner, tiny.records(8))
    assert not any(np.array(array).any() for name, array in before.items() if name.endswith("lora_b"))
    assert all(np.array(array).any() for name, array in learner.parameters.items() if name.endswith("lora_b"))
    assert metrics["lora_b_norm"] > 0.0
    assert metrics["grad_norm"] > 0.0


def test_steps_are_those_of_a_plain_loop_over_mlx_lms_lora_layers(tiny: Tiny):
    from mlx_lm.tuner.utils import linear_to_lora_layers
    from mlx_lm.utils import load as load_mlx

    records = [r for r in tiny.records(60) if len(r.tokens) == 3]
    for r in records:
        r.prompt_tokens = (r.prompt_tokens * 10)[:6]
    for copy, original in zip(records[1:3], records[:2], strict=True):  # equal tokens, other advantages
        copy.prompt_tokens, copy.tokens = original.prompt_tokens, original.tokens
    rows = mx.array([r.prompt_tokens + r.tokens for r in records])
    behaviour = mx.array([[-5.5 + 0.1 * i for i in range(3)] for _ in records])
    for r, logprobs in zip(records, behaviour.tolist(), strict=True):
        r.logprobs = logprobs
    advantages = mx.array([[r.advantage] for r in records])

    learner = tiny.learner(weight_decay=0.1, microbatch_tokens=64)
    model = load_mlx(str(tiny.folder))[0]
    model.freeze()
    linear_to_lora_layers(model, 2, {"rank": LORA.rank, "scale": LORA.scale, "dropout": 0.0})
    model.load_weights(list(learner.parameters.items()), strict=False)
    optimiser = optim.AdamW(1e-3, betas=[0.9, 0.99], weight_decay=0.1, bias_correction=True)

    def loss(model: nn.Module) -> mx.array:
        logits = model(rows[:, :-1])[:, 5:]
        logs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        ratio = mx.exp(mx.take_along_axis(logs, rows[:, 6:, None], axis=-1)[..., 0] - behaviour)
        return -mx.mean(mx.minimum(ratio * advantages, mx.clip(ratio, 0.8, 1.2) * advantages))

    assert len(records) > 4
    for _ in range(3):
        value, gradients = nn.value_and_grad(model, loss)(model)
        gradients, norm = optim.clip_grad_norm(gradients, 1.0)
        optimiser.update(model, gradients)
        metrics = finish(learner, records)
        assert metrics["loss"] == pytest.approx(value.item(), rel=1e-4)
        assert metrics["grad_norm"] == pytest.approx(norm.item(), rel=1e-4)
    expected = dict(tree_flatten(model.trainable_parameters()))
    assert expected.keys() == learner.parameters.keys()
    moved = flat(expected) - flat(tiny.adapters.initial(0))
    assert np.linalg.norm(flat(learner.parameters) - flat(expected)) < 1e-3 * np.linalg.norm(moved)


@pytest.mark.parametrize("kind", NORMALISERS)
@pytest.mark.parametrize("kl_kind", ["k3", "forward"])
def test_the_loss_is_its_definition(tiny: Tiny, kind: str, kl_kind: str):
    learner = tiny.learner(normaliser=kind, kl=0.3, kl_kind=kl_kind, entropy=0.2, microbatch_tokens=100)
    learner.parameters = tiny.moved()
    records = tiny.records(12, temperature=0.8)  # sampled from the base: ratios differ from 1
    sequences, divergences, entropies = [], [], []
    for r in records:
        policy, base = tiny.logs(r, learner.parameters), tiny.logs(r)
        at = np.arange(len(r.tokens)), r.tokens
        now, reference = policy[at], base[at]
        loss = ppo_oracle_at(now, np.array(r.logprobs), r.advantage)
        if kl_kind == "k3":
            divergence = np.exp(reference - now) - (reference - now) - 1.0
        else:
            divergence = np.sum(np.exp(base) * (base - policy), axis=-1)
        entropy = -np.sum(np.exp(policy) * policy, axis=-1)
        sequences.append(loss + 0.3 * divergence - 0.2 * entropy)
        divergences.append(divergence)
        entropies.append(entropy)
    metrics = finish(learner, records)
    assert metrics["loss"] == pytest.approx(normalised_oracle(kind, sequences), rel=1e-4)
    assert metrics["kl"] == pytest.approx(np.concatenate(divergences).mean(), rel=1e-4)
    assert metrics["entropy"] == pytest.approx(np.concatenate(entropies).mean(), rel=1e-4)


def ppo_oracle_at(now: np.ndarray, behaviour: np.ndarray, advantage: float) -> np.ndarray:
    ratio = np.exp(now - behaviour)
    return -np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)


def test_fresh_tokens_have_ratio_1_at_the_temperature_they_were_sampled_at(tiny: Tiny):
    learner = tiny.learner()
    records = tiny.records(6, temperature=0.6) + tiny.records(6, seed=1, temperature=1.3)
    metrics = finish(learner, records)
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["mismatch_max"] < 1e-4
    assert metrics["clip_fraction"] == 0.0
    for record in records:
        record.temperature = 1.0
    assert abs(finish(tiny.learner(), records)["ratio_mean"] - 1.0) > 0.1


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.5])
def test_what_the_batcher_sampled_has_ratio_1(tiny: Tiny, temperature: float):
    learner = tiny.learner()
    learner.parameters = tiny.moved()
    learner.version = 6
    assert learner.publish("sampler") == 7
    prompts = {r.rollout_id: r.prompt_tokens for r in tiny.records(12)}
    batcher = Batcher(tiny.lm, tiny.adapters, rows=5)
    for id, prompt in prompts.items():
        batcher.add(Request(int(id), prompt, Sampling(temperature, max_tokens=8), "sampler", key=int(id)))
    records = []
    while len(batcher):
        for made in batcher.tick().finished:
            names = str(made.id), 0, "First", "game"
            sampled = made.tokens, made.logprobs, made.versions
            records.append(TrainingRecord(*names, prompts[str(made.id)], *sampled, 1.0, temperature))
    assert len(records) == 12
    metrics = finish(learner, records)
    assert metrics["mismatch_max"] < 1e-4
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["age_mean"] == 0.0


@pytest.mark.parametrize("temperature", [0.6, 1.5])
def test_constrained_replies_have_ratio_1_among_what_was_allowed(tiny: Tiny, temperature: float):
    learner = tiny.learner()
    learner.parameters = tiny.moved()
    learner.version = 3
    learner.publish("constrained")
    legal = Choices([[10, 20, 30, END], [10, 21, END], [11, END], [12, 20, END], [12, END]])
    prompts = {id: record.prompt_tokens for id, record in enumerate(tiny.records(24))}
    batcher = Batcher(tiny.lm, tiny.adapters, rows=7)
    for id, prompt in prompts.items():
        choices = None if id % 4 == 0 else legal
        sampling = Sampling(temperature, max_tokens=8)
        batcher.add(Request(id, prompt, sampling, "constrained", key=id, choices=choices))
    records = []
    while len(batcher):
        for made in batcher.tick().finished:
            record = TrainingRecord(
                f"{made.id}", 0, "First", "game", prompts[made.id], made.tokens, made.logprobs, made.versions, 1.0
            )
            record.temperature, record.allowed = temperature, made.allowed
            records.append(record)
    assert {len(record.tokens) for record in records if record.allowed} >= {2, 3}
    metrics = finish(learner, records)
    assert metrics["mismatch_max"] < 2e-5
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=2e-5)
    for record in records:
        record.allowed = []
    unmasked = tiny.learner()
    unmasked.parameters, unmasked.version = tiny.moved(), 4
    assert finish(unmasked, records)["mismatch_max"] > 1.0


def test_learning_from_constrained_replies_moves_weight_among_the_legal_ones(tiny: Tiny):
    learner = tiny.learner(learning_rate=1e-2, entropy=0.01, kl=0.1)
    good, bad = (TrainingRecord("r", 0, "First", "game", [5, 6, 7], [t, END], [], [0, 0], 1.0) for t in (11, 10))
    bad.rollout_id, bad.advantage = "s", -1.0
    for record in (good, bad):
        record.allowed = [[10, 11], [END]]
        two = tiny.logits([5, 6, 7])[-1][[10, 11]]
        record.logprobs = [float(log_softmax(two)[record.tokens[0] - 10]), 0.0]
    before = good.logprobs[0]
    assert finish(learner, [good, bad])["mismatch_max"] < 1e-5
    assert log_softmax(tiny.logits([5, 6, 7], learner.parameters)[-1][[10, 11]])[1] > before + 0.01
    assert all(np.isfinite(np.array(array)).all() for array in learner.parameters.values())


@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_the_stop_token_alone_is_learnt(tiny: Tiny, advantage: float):
    learner = tiny.learner(learning_rate=1e-2)
    record = next(r for r in tiny.records(40) if r.tokens == [END])
    record.advantage = advantage
    finish(learner, [record])
    assert (tiny.logs(record, learner.parameters)[0, END] - record.logprobs[0]) * advantage > 0.0


def test_turns_in_one_row_learn_as_turns_apart(tiny: Tiny):
    first, second = tiny.records(2, seed=3)
    second.prompt_tokens = [*first.prompt_tokens, *first.tokens, *second.prompt_tokens]
    second.logprobs = tiny.logs(second)[np.arange(len(second.tokens)), second.tokens].tolist()
    second.rollout_id, second.turn = first.rollout_id, 1
    together, apart = tiny.learner(normaliser="grpo"), tiny.learner(normaliser="grpo")
    merged = finish(together, [first, second])
    second.rollout_id = "another"
    single = finish(apart, [first, second])
    assert merged["computed_tokens"] < single["computed_tokens"]
    assert merged["turns"] == single["turns"] == 2.0
    assert merged["mismatch_max"] < 1e-4
    difference = flat(together.parameters) - flat(apart.parameters)
    assert np.linalg.norm(difference) < 1e-5 * np.linalg.norm(flat(apart.parameters))


def _nothing(tiny: Tiny) -> list[TrainingRecord]:
    return []


def _greedy(tiny: Tiny) -> list[TrainingRecord]:
    records = tiny.records(3)
    for record in records:
        record.temperature = 0.0
    return records


def _equal_rewards(tiny: Tiny) -> list[TrainingRecord]:
    records = tiny.records(3)
    for record in records:
        record.advantage = 0.0
    return records


def _empty(tiny: Tiny) -> list[TrainingRecord]:
    return [TrainingRecord("0", 0, "First", "game", [1, 2, 3], [], [], [], 1.0)]


def _group_of(*rewards: float) -> Callable[[Tiny], list[TrainingRecord]]:
    """Records of a GRPO group with these rewards."""

    def records(tiny: Tiny) -> list[TrainingRecord]:
        results = []
        for index, (record, reward) in enumerate(zip(tiny.records(len(rewards)), rewards, strict=True)):
            said = Completion("", record.prompt_tokens, record.tokens, record.logprobs, record.versions)
            rollout = Rollout(str(index), "game", turns=[Turn("First", 0, [], said)], rewards={"First": reward})
            results.append(GenerateResult(rollout))
        GRPOCredit().assign(results)
        return training_records(results)

    return records


def test_a_record_carries_the_reward_of_its_role(tiny: Tiny):
    assert [record.reward for record in _group_of(0.25, 1.0, -1.0)(tiny)] == [0.25, 1.0, -1.0]


@pytest.mark.parametrize(
    "records",
    [_nothing, _greedy, _empty, _equal_rewards, _group_of(1.0), _group_of(0.5, 0.5, 0.5)],
    ids=["nothing", "greedy", "empty", "no advantage", "group of one", "group without spread"],
)
@pytest.mark.parametrize("minibatches", [1, 3])
def test_nothing_to_learn_changes_nothing(
    tiny: Tiny, records: Callable[[Tiny], list[TrainingRecord]], minibatches: int
):
    learner = tiny.learner(kl=0.1, entropy=0.1, weight_decay=0.1, minibatches=minibatches)
    finish(learner, tiny.records(6))  # moments that would carry the weights on
    before = learner.state()
    metrics = finish(learner, records(tiny))
    after = learner.state()
    assert metrics["skipped"] == 1.0
    assert metrics["updates"] == 0.0
    assert all(math.isfinite(value) for value in metrics.values())
    assert same({k: v for k, v in before.items() if k != "steps"}, {k: v for k, v in after.items() if k != "steps"})


@pytest.mark.parametrize("broken", [math.nan, -math.inf, math.inf])
def test_a_step_that_is_not_finite_is_left_out_and_counted(tiny: Tiny, broken: float):
    learner = tiny.learner()
    finish(learner, tiny.records(4))
    before = learner.state()
    records = tiny.records(4)
    records[1].logprobs[-1] = broken
    records[1].advantage = -1.0
    metrics = finish(learner, records)
    assert metrics["nonfinite"] == 1.0
    assert metrics["skipped"] == 1.0
    assert all(math.isfinite(value) for value in metrics.values())
    after = learner.state()
    assert same({k: v for k, v in before.items() if k != "steps"}, {k: v for k, v in after.items() if k != "steps"})
    assert finish(learner, tiny.records(4))["updates"] == 1.0


def test_an_extreme_ratio_is_learnt_from_and_stays_finite(tiny: Tiny):
    learner = tiny.learner()
    records = tiny.records(4)
    for record in records:
        record.logprobs = [-1000.0] * len(record.tokens)
        record.advantage = -1.0
    metrics = finish(learner, records)
    assert metrics["updates"] == 1.0
    assert all(math.isfinite(value) for value in metrics.values())
    assert np.isfinite(flat(learner.parameters)).all()


def reachable(start: object) -> list[object]:
    """Everything the garbage collector can reach from it, modules and types apart."""
    found: dict[int, object] = {}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if id(one) not in found and not isinstance(one, (type, type(math), type(reachable))):
            found[id(one)] = one
            waiting += gc.get_referents(one)
    return list(found.values())


def test_metrics_are_plain_floats_and_hold_no_graph(tiny: Tiny):
    learner = tiny.learner(kl=0.1, entropy=0.1, sft=0.1, dpo=0.1, minibatches=2)
    records = [*tiny.records(3), *tiny.records(3)]
    for index, record in enumerate(records):
        record.rollout_id, record.reward = str(index), float(index)
    kept, memory = [], []
    for _ in range(12):
        metrics = finish(learner, records)
        assert {type(value) for value in metrics.values()} == {float}
        assert not any(isinstance(one, mx.array) for one in reachable(metrics))
        kept.append(metrics)
        memory.append(mx.get_active_memory())
    assert memory[-1] <= memory[2] + 4096


def test_every_step_that_learns_has_these_metrics(tiny: Tiny):
    learner = tiny.learner(sft=0.1, dpo=0.1)
    records = [*tiny.records(4), *tiny.records(4)]
    for index, record in enumerate(records):
        record.rollout_id, record.reward = str(index), float(index)
    assert finish(learner, records).keys() == {
        *("loss", "policy_loss", "sft_loss", "dpo_loss", "dpo_accuracy", "pairs"),
        *("entropy", "ratio_mean", "ratio_max", "clip_fraction", "mismatch_mean", "mismatch_max", "grad_norm"),
        *("tokens", "active_tokens", "computed_tokens", "turns", "unlearnable", "age_mean", "age_max"),
        *("learning_rate", "lora_b_norm", "updates", "nonfinite", "skipped"),
    }


def test_a_resumed_learner_goes_on_bit_for_bit(tiny: Tiny, tmp_path: Path):
    settings = {"minibatches": 3, "kl": 0.05, "weight_decay": 0.01, "warmup": 4, "microbatch_tokens": 150}
    batches = [tiny.records(15, seed=seed) for seed in range(4)]
    through = tiny.learner(**settings)
    for batch in batches:
        finish(through, batch)
        through.publish("through")
    first = tiny.learner(**settings)
    for batch in batches[:2]:
        finish(first, batch)
        first.publish("first")
    mx.save_safetensors(str(tmp_path / "learner.safetensors"), first.state())
    second = tiny.learner(seed=99, **settings)
    second.load_state(dict(mx.load(str(tmp_path / "learner.safetensors"))))
    assert second.version == 2
    for batch in batches[2:]:
        finish(second, batch)
        second.publish("second")
    assert same(through.state(), second.state())
    assert through.version == second.version == 4


def test_the_shuffle_differs_between_steps_and_seeds_and_is_that_of_both(tiny: Tiny):
    def losses(seed: int) -> list[float]:
        learner = tiny.learner(seed, minibatches=4, learning_rate=1e-12)
        return [finish(learner, records)["loss"] for _ in range(2)]

    records = tiny.records(12)
    assert len({*losses(0), *losses(1)}) == 4
    assert losses(0) == losses(0)


def test_load_state_refuses_another_adapter(tiny: Tiny):
    learner = tiny.learner()
    state = learner.state()
    name = next(iter(learner.parameters))
    narrow = {**state, f"m.{name}": mx.zeros((1, 1))}
    with pytest.raises(ValueError, match=f"m.{name} has shape"):
        learner.load_state(narrow)
    del narrow[f"m.{name}"]
    with pytest.raises(ValueError, match=f"differs in 1 keys, such as m.{name}"):
        learner.load_state(narrow)


def test_load_state_says_that_another_version_made_what_lacks_a_counter(tiny: Tiny):
    learner = tiny.learner()
    finish(learner, tiny.records(2))
    before, older = learner.state(), tiny.learner(seed=1).state()
    del older["measured_tokens"]
    with pytest.raises(ValueError, match=r"another version of this program: the two differ in measured_tokens\."):
        learner.load_state(older)
    assert same(learner.state(), before)


def test_a_new_learning_rate_holds_from_the_next_step_and_keeps_the_moments(tiny: Tiny):
    learner = tiny.learner(microbatch_tokens=64)
    finish(learner, tiny.records(6))
    moments = {name: array for name, array in learner.state().items() if name.startswith(("m.", "v.", "updates"))}
    running = learner.step(tiny.records(6))
    next(running)
    learner.reconfigure(TrainConfig(learning_rate=5e-4, warmup=0, microbatch_tokens=64))
    assert same(moments, {name: learner.state()[name] for name in moments})
    assert drain(running)[0]["learning_rate"] == pytest.approx(1e-3)
    assert finish(learner, tiny.records(6))["learning_rate"] == pytest.approx(5e-4)
    assert learner.state()["updates"].item() == 3


def test_turns_sampled_at_temperature_0_are_left_out_and_the_others_learnt_as_if_alone(tiny: Tiny):
    sampled, greedy = tiny.records(4), _greedy(tiny)
    both, alone = tiny.learner(), tiny.learner()
    metrics = finish(both, [*greedy, *sampled])
    assert (metrics["updates"], metrics["turns"], metrics["unlearnable"]) == (1.0, 4.0, float(len(greedy)))
    finish(alone, sampled)
    assert same(both.parameters, alone.parameters)


@pytest.mark.parametrize("clip", [1e-3, 1e3])
def test_the_gradient_is_cut_to_the_norm_that_is_configured(tiny: Tiny, clip: float):
    """AdamW's first moment is then a tenth of the gradient."""
    learner = tiny.learner(grad_clip=clip)
    norm = finish(learner, tiny.records(4))["grad_norm"]
    moment = flat({name: array for name, array in learner.state().items() if name.startswith("m.")})
    assert np.linalg.norm(moment) == pytest.approx(0.1 * min(norm, clip), rel=1e-3)


def test_the_learning_rate_falls_over_the_steps_of_the_run_as_many_as_these_are_now(tiny: Tiny):
    train = TrainConfig(warmup=0, learning_rate=1.0, schedule="linear")
    learner = Learner(tiny.lm, tiny.adapters, train, seed=0, total=4)
    rates = [finish(learner, [])["learning_rate"] for _ in range(2)]
    learner.reconfigure(train, total=8)
    assert [*rates, finish(learner, [])["learning_rate"]] == [1.0, 0.75, 0.75]


def test_the_learning_rate_rises_from_a_tenth_over_the_warmup(tiny: Tiny):
    learner = tiny.learner(warmup=3, learning_rate=1e-3)
    rates = [finish(learner, tiny.records(2))["learning_rate"] for _ in range(5)]
    np.testing.assert_allclose(rates, [1e-4, 4e-4, 7e-4, 1e-3, 1e-3], rtol=1e-5)


def test_publishing_raises_the_version_and_what_players_say(tiny: Tiny):
    learner = tiny.learner(learning_rate=1e-2)
    records = tiny.records(4)
    finish(learner, records)
    assert learner.publish() == 1
    assert learner.version == tiny.adapters.version(POLICY) == 1
    tokens = records[0].prompt_tokens + records[0].tokens
    with tiny.adapters.rows([tiny.adapters.slot(POLICY)]):
        played = np.array(tiny.lm.head(tiny.lm.hidden(mx.array([tokens]))))[0]
    np.testing.assert_allclose(played, tiny.logits(tokens, learner.parameters), rtol=1e-4, atol=1e-4)
    assert np.abs(played - tiny.logits(tokens)).max() > 1e-3


def test_a_step_yields_once_a_microbatch_and_updates_once_a_minibatch(tiny: Tiny):
    learner = tiny.learner(minibatches=3, microbatch_tokens=64)
    result, microbatches = drain(learner.step(tiny.records(20)))
    assert result["updates"] == 3.0
    assert learner.state()["updates"].item() == 3
    assert microbatches > 3
    assert result["turns"] == 20.0


def test_mismatch_is_measured_on_tokens_of_the_learners_version_before_the_first_update(tiny: Tiny):
    learner = tiny.learner(learning_rate=0.5, minibatches=2)
    learner.version = 3
    old, fresh = tiny.records(8, seed=1), tiny.records(8, seed=2)
    for record in old:
        record.versions = [1] * len(record.tokens)
        record.logprobs = [logprob - 0.5 for logprob in record.logprobs]
    for record in fresh:
        record.versions = [3] * len(record.tokens)
    metrics = finish(learner, old + fresh)
    assert metrics["mismatch_max"] < 1e-4
    assert metrics["age_mean"] == 1.0
    assert metrics["age_max"] == 2.0
    assert "mismatch_mean" not in finish(tiny.learner(), [*old])


def test_the_base_stays_as_it_was(tiny: Tiny):
    record = tiny.records(1)[0]
    before = tiny.logits(record.prompt_tokens)
    learner = tiny.learner(learning_rate=1e-2, kl=0.1)
    for _ in range(3):
        finish(learner, tiny.records(6))
    np.testing.assert_array_equal(tiny.logits(record.prompt_tokens), before)


def test_the_divergence_from_the_base_starts_at_0_and_holds_the_policy_back(tiny: Tiny):
    def after(kl: float) -> tuple[float, float]:
        learner = tiny.learner(learning_rate=1e-2, kl=kl, kl_kind="forward")
        divergences = [finish(learner, tiny.records(8))["kl"] for _ in range(8)]
        return divergences[0], divergences[-1]

    free, held = after(1e-6), after(1.0)
    assert free[0] == held[0] == pytest.approx(0.0, abs=1e-5)
    assert 0.0 < held[1] < free[1]


def test_an_entropy_bonus_keeps_the_policy_broader(tiny: Tiny):
    def after(weight: float) -> float:
        learner = tiny.learner(learning_rate=1e-2, entropy=weight)
        return [finish(learner, tiny.records(8))["entropy"] for _ in range(6)][-1]

    assert after(1.0) > after(0.0)


def test_only_the_layers_asked_for_are_learnt(tiny: Tiny):
    lm, _ = models.load(str(tiny.folder), context=512)
    adapters = Adapters(lm, LoRAConfig(rank=2, layers=["q_proj"]))
    learner = Learner(lm, adapters, TrainConfig(), seed=0)
    assert finish(learner, tiny.records(3))["updates"] == 1.0
    assert {name.split(".")[-2] for name in learner.parameters} == {"q_proj"}
