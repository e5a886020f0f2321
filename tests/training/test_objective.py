"""The gradient of an update: by formulas in NumPy, apart or merged, in one microbatch or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np
import pytest

from engine.inference.adapters import Parameters
from engine.training import batching
from engine.training.learner import Learner
from engine.types import TrainingRecord
from tests.tiny import END
from tests.training.conftest import Tiny, drain, flat
from tests.training.test_losses import KINDS, NORMALISERS, Tokens, differences, loss_oracle, normalised_oracle
from tests.training.test_preferences import dpo_oracle

ONLY_SFT = {"policy": 0.0, "sft": 1.0}
ONLY_DPO = {"policy": 0.0, "dpo": 1.0}
POLICIES = [{"loss": kind, "normaliser": normaliser} for kind in KINDS for normaliser in NORMALISERS]
MIX = {"loss": "gspo", "policy": 0.7, "sft": 0.4, "dpo": 2.0, "dpo_beta": 0.3, "normaliser": "grpo"}


def named(settings: dict) -> str:
    return "-".join(map(str, settings.values())) if "loss" in settings and "sft" not in settings else str(settings)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


class Taken:
    """One step of a learner that has learnt something before: its gradient before clipping, its update, metrics."""

    def __init__(self, tiny: Tiny, records: Sequence[TrainingRecord], state: Parameters | None = None, **train):
        learner = tiny.learner(**train)
        learner.parameters = tiny.moved()
        if state is not None:
            learner.load_state(state)
        before = flat(learner.parameters)
        gradients: list[np.ndarray] = []
        update = learner._optimiser.update

        def spied(found, loss, grad_clip):
            gradients.append(flat(tiny.adapters.families.unpack(found)))
            return update(found, loss, grad_clip)

        learner._optimiser.update = spied
        self.metrics, self.yields = drain(learner.step(records))
        assert self.metrics["updates"] == len(gradients) == 1
        self.gradient = gradients[0]
        self.update = flat(learner.parameters) - before
        self.learner = learner


def couples(tiny: Tiny, count: int, seed: int = 0) -> list[TrainingRecord]:
    """Conversations of one turn; each with the next one's prompt and another reward, sampled from the base."""
    records = tiny.records(count, seed=seed, temperature=0.8)
    rng = np.random.default_rng(seed)
    for index, record in enumerate(records):
        record.reward = float(rng.normal())
        if index % 2:
            record.prompt_tokens = records[index - 1].prompt_tokens
            record.logprobs = taken(tiny.logs(record), record)
    return records


def taken(logs: np.ndarray, record: TrainingRecord) -> list[float]:
    return logs[np.arange(len(record.tokens)), record.tokens].tolist()


def ratios_to(logprobs: Sequence[np.ndarray], records: Sequence[TrainingRecord]) -> list[float]:
    return [
        now.sum() - sum(reference) for now, reference in zip(logprobs, (r.logprobs for r in records), strict=True)
    ]


def loss_of_a_step(logprobs: Sequence[np.ndarray], records: Sequence[TrainingRecord], held, **train) -> float:
    """The definition of a step's loss by the log-probabilities of each record; what was sampled is of the base."""
    total = 0.0
    if weight := train.get("policy", 1.0):
        kind = train["loss"]
        lengths = [len(r.tokens) for r in records]
        of = Tokens(
            np.zeros(0),
            np.concatenate([r.logprobs for r in records]),
            np.repeat([r.advantage for r in records], lengths),
            np.repeat(np.arange(len(records)), lengths),
        )
        clip, now, still = (3e-4, 4e-4) if kind == "gspo" else (0.2, 0.2), *map(np.concatenate, (logprobs, held))
        each = np.split(loss_oracle(kind, now, of, still, clip, 5.0), np.cumsum(lengths)[:-1])
        total += weight * normalised_oracle(train["normaliser"], each)
    if weight := train.get("sft", 0.0):
        chosen = [now for now, record in zip(logprobs, records, strict=True) if record.advantage > 0.0]
        total -= weight * np.concatenate(chosen).mean()
    if weight := train.get("dpo", 0.0):
        ratios, found = ratios_to(logprobs, records), []
        for first in range(0, len(records), 2):
            worse, better = sorted((first, first + 1), key=lambda index: records[index].reward)
            found.append(dpo_oracle(ratios[better], ratios[worse], 0.0, 0.0, train.get("dpo_beta", 0.1)))
        total += weight * np.mean(found)
    return total


def pulled(tiny: Tiny, records: Sequence[TrainingRecord], by: Sequence[np.ndarray]) -> np.ndarray:
    """The adapter's gradient of Σ by · log π: each record alone, unpadded, by a plain log-softmax."""
    total = np.zeros(0)
    for record, factors in zip(records, by, strict=True):
        row, start = mx.array([record.prompt_tokens + record.tokens]), len(record.prompt_tokens)
        weights = mx.array(factors.astype(np.float32))

        def sum_of(parameters: Parameters, row=row, start=start, weights=weights, record=record) -> mx.array:
            with tiny.adapters.learning(parameters):
                logits = tiny.lm.head(tiny.lm.hidden(row[:, :-1]))[0, start - 1 :] / record.temperature
            logs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
            return mx.sum(weights * mx.take_along_axis(logs, row[0, start:, None], axis=-1)[:, 0])

        found = flat(mx.grad(sum_of)(tiny.moved()))
        total = found if not total.size else total + found
    return total


EXACT = 1e-5
"""Relative. Matrix products add up in another order for another number of rows, most so on a GPU."""


@pytest.mark.parametrize("settings", [*POLICIES, ONLY_SFT, ONLY_DPO, MIX], ids=named)
def test_loss_and_gradient_are_those_of_the_definition(tiny: Tiny, settings: dict):
    records = couples(tiny, 8, seed=5)
    at = [np.array(taken(tiny.logs(r, tiny.moved()), r)) for r in records]
    ends = np.cumsum([len(r.tokens) for r in records])[:-1]

    def loss(flat_logprobs: np.ndarray) -> float:
        return loss_of_a_step(np.split(flat_logprobs, ends), records, at, **settings)

    step = Taken(tiny, records, microbatch_tokens=64, **settings)
    assert step.yields > 2
    assert step.metrics["loss"] == pytest.approx(loss(np.concatenate(at)), rel=1e-5, abs=1e-6)
    expected = pulled(tiny, records, np.split(differences(loss, np.concatenate(at), 1e-6), ends))
    assert apart(step.gradient, expected) < 2e-5


@pytest.fixture(scope="module")
def state(tiny: Tiny) -> Parameters:
    """Of a learner that has taken a step, with moments."""
    return Taken(tiny, couples(tiny, 28, seed=1)).learner.state()


@pytest.mark.parametrize("settings", [*POLICIES, ONLY_SFT, ONLY_DPO, MIX], ids=named)
def test_microbatches_change_nothing(tiny: Tiny, state: Parameters, settings: dict):
    records = couples(tiny, 28)
    passes = 2 if "dpo" in settings else 1
    # AdamW's first update is the gradient's sign, even where that is a rounding error's: so there has been another
    # before. And it is as large as the weights, so that it isn't rounded to their digits.
    settings = settings | {"learning_rate": 0.1, "kl": 0.1, "entropy": 0.01}
    whole = Taken(tiny, records, state, microbatch_tokens=100_000, **settings)
    assert whole.yields == passes
    for budget, count in ((440, 2), (72, 7)):
        split = Taken(tiny, records, state, microbatch_tokens=budget, **settings)
        assert split.yields == passes * count
        assert apart(split.update, whole.update) < EXACT
        assert apart(split.gradient, whole.gradient) < EXACT
        assert split.metrics["loss"] == pytest.approx(whole.metrics["loss"], rel=1e-5, abs=1e-6)


def chats(tiny: Tiny, count: int, turns: int = 6, seed: int = 0) -> list[TrainingRecord]:
    """Conversations of two roles with `turns` turns each; what each hears of the other extends its own prompt."""
    rng = np.random.default_rng(seed)

    def ids(least: int, most: int) -> list[int]:
        return rng.integers(3, 260, rng.integers(least, most)).tolist()

    records = []
    openings = {role: ids(8, 9) for role in ("First", "Second")}
    for index in range(count):
        heard = {role: list(opening) for role, opening in openings.items()}
        rewards = {"First": float(rng.normal()), "Second": float(rng.normal())}
        for turn in range(2 * turns):
            role, other = ("First", "Second") if turn % 2 == 0 else ("Second", "First")
            said = [*ids(3, 8), END]
            record = TrainingRecord(
                str(index),
                turn,
                role,
                "chat",
                list(heard[role]),
                said,
                [],
                [0] * len(said),
                rewards[role],
                0.9,
                reward=rewards[role],
            )
            record.logprobs = [float(x) for x in rng.normal(-5.5, 0.1, len(said))]
            records.append(record)
            heard[role] += [*said, 9]
            heard[other] += [*said, 10]
    return records


def computed(records: Sequence[TrainingRecord]) -> int:
    """Tokens a model has to read, padding left out."""
    return sum(row.length for row in batching.rows(records))


@pytest.mark.parametrize(
    "settings", [*({"loss": kind, "normaliser": "grpo"} for kind in KINDS), ONLY_SFT, ONLY_DPO, MIX], ids=named
)
def test_conversations_merged_or_turn_by_turn_have_the_same_gradient(tiny: Tiny, settings: dict):
    records = chats(tiny, 2)
    backwards = records[::-1]  # no turn extends the one before it, so each gets a row of its own
    assert len(batching.rows(records)) == 4
    assert len(batching.rows(backwards)) == 24
    assert computed(backwards) >= 2.5 * computed(records)
    merged, single = (Taken(tiny, order, microbatch_tokens=256, **settings) for order in (records, backwards))
    assert single.metrics["computed_tokens"] >= 2.5 * merged.metrics["computed_tokens"]
    assert apart(merged.gradient, single.gradient) < 1e-5
    for name in ("loss", "ratio_mean", "clip_fraction", "active_tokens"):
        assert merged.metrics[name] == pytest.approx(single.metrics[name], rel=1e-5, abs=1e-6)


def test_dpo_compares_whole_conversations(tiny: Tiny):
    records = chats(tiny, 2)
    step = Taken(tiny, records, **ONLY_DPO)
    assert step.metrics["pairs"] == 1.0  # of First; the prompts of Second begin with what First said
    ratios: dict[float, float] = {}
    for record in (r for r in records if r.role == "First"):
        ratio = sum(taken(tiny.logs(record, tiny.moved()), record)) - sum(taken(tiny.logs(record), record))
        ratios[record.reward] = ratios.get(record.reward, 0.0) + ratio
    worse, better = (ratios[reward] for reward in sorted(ratios))
    assert step.metrics["dpo_loss"] == pytest.approx(dpo_oracle(better, worse, 0.0, 0.0, 0.1), rel=1e-4)


def test_a_mix_is_the_weighted_sum_of_its_parts(tiny: Tiny):
    records = couples(tiny, 12)
    mix = Taken(tiny, records, **MIX)
    parts = [
        0.7 * Taken(tiny, records, loss="gspo", normaliser="grpo").gradient,
        0.4 * Taken(tiny, records, **ONLY_SFT).gradient,
        2.0 * Taken(tiny, records, **ONLY_DPO, dpo_beta=0.3).gradient,
    ]
    assert apart(sum(parts), mix.gradient) < 1e-5
    weighted = 0.7 * mix.metrics["policy_loss"] + 0.4 * mix.metrics["sft_loss"] + 2.0 * mix.metrics["dpo_loss"]
    assert mix.metrics["loss"] == pytest.approx(weighted, rel=1e-5)


def test_gspo_reports_the_ratios_of_sequences_and_ppo_those_of_tokens(tiny: Tiny):
    records = couples(tiny, 8)
    logs = [np.array(taken(tiny.logs(r, tiny.moved()), r)) - r.logprobs for r in records]
    own = np.exp(np.concatenate(logs))
    whole = np.concatenate([np.full(len(log), np.exp(log.mean())) for log in logs])
    advantages = np.repeat([r.advantage for r in records], [len(r.tokens) for r in records])
    for kind, ratios, low, high in (("ppo", own, 0.2, 0.2), ("gspo", whole, 3e-4, 4e-4)):
        metrics = Taken(tiny, records, loss=kind).metrics
        clipped = np.where(advantages > 0, ratios > 1 + high, ratios < 1 - low)
        assert metrics["ratio_mean"] == pytest.approx(ratios.mean(), rel=1e-4)
        assert metrics["ratio_max"] == pytest.approx(ratios.max(), rel=1e-4)
        assert metrics["clip_fraction"] == pytest.approx(clipped.mean())
    capped = Taken(tiny, records, loss="cispo", ratio_cap=1.1).metrics
    assert capped["clip_fraction"] == pytest.approx((own > 1.1).mean())
    assert Taken(tiny, records, loss="pg").metrics["clip_fraction"] == 0.0


def test_the_clip_is_that_of_the_losss_paper_unless_it_is_set(tiny: Tiny):
    clips = {kind: tiny.learner(loss=kind).train.clip for kind in ("ppo", "gspo")}
    assert clips == {"ppo": (0.2, 0.2), "gspo": (3e-4, 4e-4)}
    assert tiny.learner(loss="gspo", clip_low=0.1).train.clip == (0.1, 4e-4)
    assert tiny.learner(clip_high=0.28).train.clip == (0.2, 0.28)


@pytest.mark.parametrize("settings", [{"kl": 0.5}, {"kl": 0.5, "kl_kind": "forward"}, ONLY_DPO], ids=str)
def test_the_reference_is_the_player_that_is_named(tiny: Tiny, settings: dict):
    records = couples(tiny, 8)
    other = tiny.moved(seed=7)
    tiny.adapters.publish("earlier", other, version=3)
    step = Taken(tiny, records, kl_reference="earlier", **settings)
    policy, reference = ([tiny.logs(r, p) for r in records] for p in (tiny.moved(), other))
    if "kl" in settings:
        if settings.get("kl_kind") == "forward":
            found = [np.sum(np.exp(q) * (q - p), axis=-1) for p, q in zip(policy, reference, strict=True)]
        else:
            gaps = [
                np.subtract(taken(q, r), taken(p, r)) for p, q, r in zip(policy, reference, records, strict=True)
            ]
            found = [np.exp(gap) - gap - 1.0 for gap in gaps]
        assert step.metrics["kl"] == pytest.approx(np.concatenate(found).mean(), rel=1e-4)
    else:
        ratios = [sum(taken(p, r)) - sum(taken(q, r)) for p, q, r in zip(policy, reference, records, strict=True)]
        margins = []
        for first in range(0, len(records), 2):
            worse, better = sorted((first, first + 1), key=lambda index: records[index].reward)
            margins.append(ratios[better] - ratios[worse])
        expected = np.mean([dpo_oracle(margin, 0.0, 0.0, 0.0, 0.1) for margin in margins])
        assert step.metrics["dpo_loss"] == pytest.approx(expected, rel=1e-4)
        assert step.metrics["dpo_accuracy"] == np.mean(np.array(margins) > 0.0)
    assert apart(step.gradient, Taken(tiny, records, **settings).gradient) > 1e-2
    tiny.adapters.drop("earlier")


@pytest.mark.parametrize("settings", [{"kl": 0.5}, {"dpo": 1.0}], ids=str)
def test_a_reference_that_is_no_player_is_refused_by_name(tiny: Tiny, settings: dict):
    learner = tiny.learner(kl_reference="nobody", **settings)
    with pytest.raises(ValueError, match=r"train\.kl_reference is 'nobody'; the players are base"):
        drain(learner.step(tiny.records(2)))
    assert learner.steps == 0
    assert drain(tiny.learner(kl_reference="nobody").step(tiny.records(2)))[0]["updates"] == 1.0  # not needed


def test_equal_conversations_with_different_rewards_pull_at_nothing(tiny: Tiny):
    one, other = couples(tiny, 2)
    other.tokens, other.logprobs, other.versions = one.tokens, one.logprobs, one.versions
    assert not Taken(tiny, [one, other], **ONLY_DPO).gradient.any()


def _learnt(tiny: Tiny, records: list[TrainingRecord], steps: int, **train) -> tuple[Learner, list[dict]]:
    learner = tiny.learner(learning_rate=1e-2, **train)
    return learner, [drain(learner.step(records))[0] for _ in range(steps)]


def test_pairs_train_though_no_turn_has_an_advantage(tiny: Tiny):
    records = couples(tiny, 6)
    for record in records:
        record.advantage = 0.0
    learner, steps = _learnt(tiny, records, 6, dpo=1.0, minibatches=3)
    assert [step["updates"] for step in steps] == [3.0] * 6
    assert [step["pairs"] for step in steps] == [3.0] * 6
    assert steps[-1]["dpo_accuracy"] == 1.0
    assert steps[-1]["dpo_loss"] < steps[0]["dpo_loss"]
    gains = [sum(taken(tiny.logs(r, learner.parameters), r)) - sum(r.logprobs) for r in records]
    for first in range(0, 6, 2):
        worse, better = sorted((first, first + 1), key=lambda index: records[index].reward)
        assert gains[better] > gains[worse]


def test_the_first_step_of_dpo_from_its_reference_has_a_loss_of_log_2(tiny: Tiny):
    _, [step] = _learnt(tiny, couples(tiny, 6), 1, **ONLY_DPO)
    assert step["dpo_loss"] == pytest.approx(np.log(2.0), rel=1e-5)


def test_supervised_learning_makes_chosen_turns_likelier_and_minds_no_other(tiny: Tiny):
    records = tiny.records(8)
    for index, record in enumerate(records):
        record.advantage = 1.0 if index < 4 else -1.0
    learner, steps = _learnt(tiny, records, 5, **ONLY_SFT)
    chosen = np.concatenate([r.logprobs for r in records[:4]])
    assert steps[0]["sft_loss"] == pytest.approx(-chosen.mean(), rel=1e-5)
    assert steps[0]["loss"] == pytest.approx(-chosen.mean(), rel=1e-5)
    assert steps[-1]["sft_loss"] < steps[0]["sft_loss"]
    without = tiny.learner(learning_rate=1e-2, **ONLY_SFT)
    for _ in range(5):
        drain(without.step(records[:4]))
    assert apart(flat(learner.parameters), flat(without.parameters)) < 1e-4


def _bad_turns(tiny: Tiny) -> list[TrainingRecord]:
    records = tiny.records(4)
    for record in records:
        record.advantage = -1.0
    return records


def _equal_rewards(tiny: Tiny) -> list[TrainingRecord]:
    records = couples(tiny, 4)
    for record in records:
        record.reward = 0.5
    return records


@pytest.mark.parametrize(
    ("records", "settings"), [(_bad_turns, ONLY_SFT), (_equal_rewards, ONLY_DPO)], ids=["sft", "dpo"]
)
def test_a_step_with_nothing_chosen_or_preferred_is_left_out(
    tiny: Tiny, records: Callable[[Tiny], list[TrainingRecord]], settings: dict
):
    learner = tiny.learner(kl=0.1, weight_decay=0.1, **settings)
    before = flat(learner.parameters)
    metrics = drain(learner.step(records(tiny)))[0]
    assert metrics["skipped"] == 1.0
    assert not {"pairs", "dpo_loss", "sft_loss"} & metrics.keys()
    np.testing.assert_array_equal(flat(learner.parameters), before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampled_at", [-80.0, 0.0])
def test_tokens_far_from_the_policy_keep_gradients_finite(tiny: Tiny, kind: str, sampled_at: float):
    records = couples(tiny, 6)
    for record in records:
        record.logprobs = [sampled_at] * len(record.tokens)
    step = Taken(tiny, records, loss=kind, sft=0.1, dpo=0.1)
    assert np.isfinite(step.gradient).all()
    assert step.gradient.any()
    assert all(np.isfinite(value) for value in step.metrics.values())
