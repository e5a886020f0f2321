"""The path of a turn, on whole runs of the embedded model: what is shown was used, and adds up."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

import pytest

from engine.config import Config, parse
from engine.credit import GRPOCredit
from engine.events import CreditAssigned, StepFinished
from engine.reading import tracing
from engine.reading.tracing import Trace
from engine.rows import ADDED, StoredEpisode
from engine.run import Run
from engine.store import Store
from engine.types import Completion, Credit, Fate, GenerateResult, Learnt, Rollout, Turn
from tests.test_run import small
from tui.why import Sum, Why, explain

WORDY = {"weight": 0.25, "options": {"most": 3, "unit": "characters"}}


def sampled(**credit: object) -> Config:
    """Four answers to each question, rewarded for being right and for being short."""
    return parse(
        {
            "task": {"name": "arithmetic", "options": {"samples": 4, "digits": 1}},
            "model": {"source": "pocket", "context": 256},
            "run": {"steps": 3, "episodes_per_step": 8, "seed": 5},
            "rewards": {"length": WORDY},
            "lora": {"rank": 4},
            "credit": credit,
            "eval": {"every": 0, "episodes": 4},
        },
        "test",
    )


KINDS = {
    "rae": small(credit__kind="rae", credit__decay=0.8, credit__discount=0.9, train__minibatches=2),
    "grpo": sampled(kind="grpo", discount=0.9),
    "normalised": sampled(kind="grpo", normalise=True),
    "constant": small(credit__kind="constant", credit__discount=0.5),
}


@pytest.fixture(scope="module", params=list(KINDS))
def played(request, tmp_path_factory) -> tuple[str, Run, list[CreditAssigned], dict[int, dict[str, float]]]:
    """A finished run, what it announced while its credit was fresh, and its metrics by step."""
    run = Run.create(KINDS[request.param], tmp_path_factory.mktemp("runs"), request.param)
    stream = run.watch()
    asyncio.run(run.start())
    events = stream.drain()
    metrics = {event.step: event.metrics for event in events if isinstance(event, StepFinished)}
    return request.param, run, [event for event in events if isinstance(event, CreditAssigned)], metrics


def traces(run: Run) -> list[Trace]:
    with Store.open(run.folder, read_only=True) as store:
        ids = [episode.rollout.id for episode in store.episodes(evaluation=False)]
    found = [tracing.read(run.folder, rollout_id) for rollout_id in ids]
    assert found
    return [trace for trace in found if trace is not None]


def turns(run: Run) -> list[tuple[Trace, Turn]]:
    return [(trace, turn) for trace in traces(run) for turn in trace.episode.rollout.turns]


def sums(why: Why) -> dict[str, Sum]:
    return {row.what: row for part in why.parts for row in part.rows if isinstance(row, Sum)}


def reckoned(written: str) -> float:
    """What a person with a calculator gets of it."""
    return eval(written.replace("×", "*").replace("−", "-"), {"__builtins__": {}})


def test_every_sum_that_is_shown_adds_up_to_what_was_used(played):
    kind, run, _, _ = played
    checked = 0
    for trace, turn in turns(run):
        why = explain(trace, turn)
        for row in sums(why).values():
            if row.written:
                assert reckoned(row.written) == pytest.approx(row.value, rel=2e-5, abs=2e-5), row.shown
                checked += 1
        assert turn.credit is not None
        assert sums(why)["advantage"].value == turn.credit.advantage
        if kind != "constant":
            assert sums(why)["reward"].value == turn.credit.reward == trace.episode.rollout.rewards[turn.role]
    assert checked > 100


def test_weights_times_values_are_the_reward(played):
    _, run, _, _ = played
    for trace in traces(run):
        rollout = trace.episode.rollout
        for role, reward in rollout.rewards.items():
            shares = [rollout.weights[name][role] * values[role] for name, values in rollout.breakdown.items()]
            assert math.fsum(shares) == pytest.approx(reward)


def test_the_baseline_follows_from_the_members_that_are_listed(played):
    kind, run, _, _ = played
    groups = {}
    for trace in traces(run):
        for group, members in trace.compared.items():
            groups[trace.episode.step, group] = members
    averages: dict[str, float] = {}
    for (_, group), members in sorted(groups.items()):
        rewards = [member.credit.reward for member in members]
        if kind in ("grpo", "normalised"):
            assert len(members) == members[0].credit.group_size
            for member in members:
                assert member.credit.baseline == pytest.approx(fmean(rewards))
                assert member.credit.spread == pytest.approx(stdev(rewards) if len(rewards) > 1 else 0.0)
                scale = member.credit.spread + 1e-4 if kind == "normalised" else 1.0
                assert member.credit.scale == pytest.approx(scale)
        elif kind == "rae":
            # each takes up the average where the one before it in the list left it, from step to step
            for member in members:
                assert member.credit.baseline == averages.get(group, 0.0)
                averages[group] = member.credit.after
    assert set(averages) == ({"nim/First", "nim/Second"} if kind == "rae" else set())
    if kind in ("grpo", "normalised"):
        assert any(len({m.credit.reward for m in members}) > 1 for members in groups.values())


def test_what_was_announced_was_filled_in_by_the_end_of_its_step_and_is_in_the_record(played):
    _, run, announced, _ = played
    recorded = {(trace.episode.rollout.id, turn.index): (turn.credit, turn.learnt) for trace, turn in turns(run)}
    for event in announced:
        for result in event.results:
            for turn in result.rollout.turns:
                assert recorded[result.rollout.id, turn.index] == (turn.credit, turn.learnt)


def test_turns_add_up_to_the_metrics_of_their_step(played):
    _, run, _, metrics = played
    by_step: dict[int, list[Turn]] = {}
    for trace, turn in turns(run):
        by_step.setdefault(trace.episode.step, []).append(turn)
    for step, spoken in by_step.items():
        learnt = [turn for turn in spoken if turn.learnt is not None and turn.learnt.fate is Fate.LEARNT]
        if not learnt:
            assert metrics[step]["skipped"]
            continue
        ratios = [ratio for turn in learnt for ratio in turn.ratios]
        clipped = sum(turn.learnt.clipped for turn in learnt if turn.learnt)
        updates = metrics[step]["updates"]
        assert fmean(ratios) == pytest.approx(metrics[step]["ratio_mean"], rel=1e-5)
        assert max(ratios) == pytest.approx(metrics[step]["ratio_max"], rel=1e-5)
        assert clipped / len(ratios) == pytest.approx(metrics[step]["clip_fraction"], abs=1e-6)
        losses = [turn.learnt.loss for turn in learnt if turn.learnt]
        assert math.fsum(losses) / updates == pytest.approx(metrics[step]["policy_loss"], rel=1e-4, abs=1e-7)
        for turn in learnt:
            assert turn.learnt is not None
            assert len(turn.ratios) == len(turn.completion.tokens)
            assert turn.learnt.ratio == pytest.approx(fmean(turn.ratios), rel=1e-6)
            assert turn.learnt.ratio_max == pytest.approx(max(turn.ratios), rel=1e-6)
            assert turn.learnt.age == 0


def test_a_second_update_of_a_step_sees_other_ratios_than_1(played):
    kind, run, _, _ = played
    ratios = [ratio for _, turn in turns(run) for ratio in turn.ratios]
    far = max(abs(ratio - 1) for ratio in ratios)
    assert (far > 1e-3) == (kind == "rae")  # the one with two minibatches


def test_children_are_compared_with_their_siblings_and_told_beside_their_parent():
    children = [result(f"7.{i}", reward) for i, reward in enumerate((1.0, 0.0, 0.5))]
    batch = [result("6", 0.25), result("7", 1.0, children), result("8", 0.0)]
    GRPOCredit().assign(batch)
    trace = tracing.of([[], batch], "7.2", 4)
    assert trace is not None
    assert (trace.episode.step, trace.episode.parent) == (5, "7")
    assert trace.parent is not None
    assert trace.parent.rollout.id == "7"
    [members] = trace.compared.values()
    assert [(member.rollout_id, member.credit.reward) for member in members] == [
        ("7.0", 1.0), ("7.1", 0.0), ("7.2", 0.5),
    ]  # fmt: skip
    why = explain(trace, trace.episode.rollout.turns[0])
    assert sums(why)["mean"].shown == "(1 + 0 + 0.5) / 3 = 0.5"
    assert [(other.relation, other.rollout_id, other.is_here) for other in why.others] == [
        ("group", "7.0", False), ("group", "7.1", False), ("group", "7.2", True), ("parent", "7", False),
    ]  # fmt: skip
    assert not why.is_settled  # the learner hasn't had it
    above = tracing.of([batch], "7", 1)
    assert above is not None
    assert [child.rollout.id for child in above.children] == ["7.0", "7.1", "7.2"]
    assert tracing.of([batch], "9", 1) is None


def test_what_has_no_weights_and_what_was_given_beside_functions_is_said():
    rollout = Rollout("1", "game", rewards={"A": 2.0}, breakdown={"won": {"A": 1.0}})
    rollout.turns.append(Turn("A", 0, [], Completion("x", [1], [2], [-0.5], [3])))
    trace = Trace(StoredEpisode(rollout, 1, False, None, True))
    assert "its weight is not in this older record" in explain(trace, rollout.turns[0]).text()
    rollout.weights = {"won": {"A": 0.5}}
    found = sums(explain(trace, rollout.turns[0]))
    assert (found["won"].shown, found["beside them"].value) == ("0.5 × 1 = 0.5", 1.5)
    assert found["reward"].shown == "0.5 + 1.5 = 2"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"trainable": False}, "nothing is learnt from its words"),
        ({"learnt": Learnt(Fate.STALE, 3)}, "Left out as stale"),
        ({"learnt": Learnt(Fate.GREEDY)}, "temperature 0"),
        ({"learnt": Learnt(Fate.IDLE)}, "asked for other weights"),
        ({"learnt": Learnt(Fate.NONFINITE)}, "was not finite"),
    ],
)
def test_whatever_kept_a_turn_from_being_learnt_from_is_named(change, told):
    credit = None if "trainable" in change else Credit(0.5, 1.0, 0.5, group="g", rule="rae", after=0.5)
    rollout = Rollout("1", "game", rewards={"A": 1.0})
    rollout.turns.append(Turn("A", 0, [], Completion("x", [1], [2], [-0.5], [3]), credit=credit, **change))
    why = explain(Trace(StoredEpisode(rollout, 1, False, None, True)), rollout.turns[0])
    assert told in why.text()
    assert why.is_settled


def result(id: str, reward: float, children: Sequence[GenerateResult] = ()) -> GenerateResult:
    rollout = Rollout(id, "game", "question", rewards={"A": reward})
    rollout.turns.append(Turn("A", 0, [], Completion("x", [1], [2], [-0.5], [0])))
    return GenerateResult(rollout, list(children))


def test_a_run_of_before_this_was_kept_still_opens_and_is_explained(played, tmp_path: Path):
    _, run, _, _ = played
    old = tmp_path / "old"
    old.mkdir()
    with sqlite3.connect(run.folder / "run.sqlite") as source, sqlite3.connect(old / "run.sqlite") as db:
        source.backup(db)
        for table, column, _ in ADDED:
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        lacking = "json_remove(credit, '$.rule', '$.scale', '$.decay', '$.after')"
        db.execute(f"UPDATE turns SET credit = {lacking}")
    with Store.open(old, read_only=True) as store:
        rollout_id = next(e.rollout.id for e in store.episodes(evaluation=False))
    trace = tracing.read(old, rollout_id)
    assert trace is not None
    why = explain(trace, trace.episode.rollout.turns[0])
    text = why.text()
    assert "not in this older record" in text
    assert sums(why)["advantage"].value == trace.episode.rollout.turns[0].credit.advantage  # type: ignore[union-attr]
    Store.open(old).close()  # gone on with, it has the columns again
    assert tracing.read(old, rollout_id) == trace


async def test_a_run_tells_of_episodes_that_wait_to_be_learnt_from_as_of_those_in_its_record(tmp_path: Path):
    run = Run.create(small(), tmp_path, "traced")
    stream = run.watch()
    playing = asyncio.create_task(run.start())
    told: dict[str, Trace] = {}
    while not playing.done():
        await asyncio.sleep(0.002)
        for event in stream.drain():
            if isinstance(event, CreditAssigned):
                rollout_id = event.results[0].rollout.id
                trace = await run.trace(rollout_id)
                assert trace is not None
                assert trace.episode.step == event.step
                told[rollout_id] = trace
    await playing
    assert len(told) == 3
    for rollout_id, before in told.items():
        after = await run.trace(rollout_id)
        assert after == tracing.read(run.folder, rollout_id)
        assert after is not None
        assert after.compared == before.compared
        assert after.episode.rollout.weights == before.episode.rollout.weights
    assert await run.trace("none of that name") is None
