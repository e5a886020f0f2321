"""Credit against its definitions: by hand where that is shortest, and in NumPy over random trees of rollouts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import (
    Arena,
    Completion,
    ConstantCredit,
    EpisodeRequest,
    GenerateResult,
    GRPOCredit,
    RAECredit,
    Role,
    Rollout,
    Rubric,
    SingleTurnEpisode,
    Turn,
)
from engine.credit import CreditAssigner, training_records
from engine.inference.scripted import ScriptedClient
from engine.rollouts import split_stale
from engine.store import Store
from engine.task import load_task
from engine.types import Credit


def played(
    id: str, rewards: dict[str, float], *, artifact=None, children=(), trains=True, turns=1, error=None, kind="game"
) -> GenerateResult:
    rollout = Rollout(id, kind, artifact, rewards=rewards, error=error)
    for role in rewards:
        for _ in range(turns):
            add_turn(rollout, role, trainable=trains)
    return GenerateResult(rollout, list(children), trains)


def add_turn(rollout: Rollout, role: str, *, trainable: bool = True, empty: bool = False) -> None:
    completion = Completion("x", [1], *(([], [], []) if empty else ([2, 3], [-0.5, -0.1], [0, 0])))
    rollout.turns.append(Turn(role, len(rollout.turns), [], completion, trainable=trainable))


def advantages(results: list[GenerateResult]) -> list[float]:
    return [record.advantage for record in training_records(results)]


def credits(results: list[GenerateResult]) -> dict[tuple[str, int], Credit]:
    """Of every turn that has one, whether it counts or not."""
    return {
        (node.rollout.id, turn.index): turn.credit
        for result in results
        for node in result.walk()
        for turn in node.rollout.turns
        if turn.credit is not None
    }


# Random trees, and what the definitions say of them

REWARDS = {
    "usual": [0.0, 1.0, -1.0, 0.5, -1.5],
    "few": [0.0, 1.0],
    "equal": [0.3],
    "huge": [1e30, -3e30, 2.5e30],
    "tiny": [1e-9, -2e-9, 5e-10],
    "any": [],
}
ARTIFACTS = (None, "question", ["question"], {"a": 1, "b": [2, 3]}, {"b": [2, 3], "a": 1}, 7, frozenset("xyz"))


class Trees:
    """Batches of rollouts in which everything that may differ does."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = random.Random(seed)
        self.pool = REWARDS[kind]

    def batch(self) -> list[GenerateResult]:
        return [self.tree(str(i), 0) for i in range(self.rng.randint(0, 25))]

    def tree(self, id: str, depth: int, parent: GenerateResult | None = None) -> GenerateResult:
        rng = self.rng
        rollout = Rollout(id, rng.choice(["solve", "propose"]), rng.choice(ARTIFACTS))
        rollout.group = rng.choice([None, None, None, "together"])
        rollout.edits = dict(parent.rollout.edits) if parent else {"A": rng.choice([0, 0, 0, 2]), "B": 0}
        rollout.error = "boom" if rng.random() < 0.1 else None
        rollout.unscored = "judge" if rng.random() < 0.1 else None
        for role in "ABC":
            if not (rollout.error or rollout.unscored) and rng.random() < 0.8:
                rollout.rewards[role] = rng.choice(self.pool) if self.pool else rng.gauss(0, 100)
        trains = (parent is None or parent.is_trainable) and rng.random() < 0.9
        for _ in range(rng.randint(0, 6)):
            role, learns = rng.choice("ABCD"), trains and rng.random() < 0.85
            add_turn(rollout, role, trainable=learns, empty=rng.random() < 0.1)
        result = GenerateResult(rollout, is_trainable=trains)
        if depth < 2 and rng.random() < 0.4:
            result.children = [self.tree(f"{id}.{i}", depth + 1, result) for i in range(rng.randint(1, 6))]
        return result


def nodes(results: list[GenerateResult], parent: str = "") -> Iterator[tuple[str, GenerateResult]]:
    """Every rollout with the id of the one that spawned it, in the order of a tree walk."""
    for result in results:
        yield parent, result
        yield from nodes(result.children, result.rollout.id)


def learning_turns(result: GenerateResult, role: str) -> list[Turn]:
    rollout = result.rollout
    if not result.is_trainable or rollout.error or rollout.unscored or role not in rollout.rewards:
        return []
    return [turn for turn in rollout.turns if turn.role == role and turn.trainable and turn.completion.tokens]


def discounted(turns: list[Turn], value: np.longdouble, discount: float) -> dict[int, float]:
    exponents = len(turns) - 1 - np.arange(len(turns))
    weights = np.longdouble(discount) ** exponents
    return {turn.index: float(weight * value) for turn, weight in zip(turns, weights, strict=True)}


def grpo_oracle(
    results: list[GenerateResult], normalise: bool, discount: float
) -> dict[tuple[str, int], tuple[float, int]]:
    """(rollout, turn) → its advantage, and how many were compared. In extended precision, two by two."""
    expected = {}
    everyone = list(nodes(results))

    def alike(one: tuple[str, GenerateResult], other: tuple[str, GenerateResult]) -> bool:
        a, b = one[1].rollout, other[1].rollout
        began = a.group == b.group if (a.group or b.group) else a.artifact == b.artifact
        edits = ({role: n for role, n in r.edits.items() if n} for r in (a, b))
        return one[0] == other[0] and a.episode_type == b.episode_type and began and next(edits) == next(edits)

    for role in "ABCD":
        players = [(node, learning_turns(node[1], role)) for node in everyone]
        players = [(node, turns) for node, turns in players if turns]
        for node, turns in players:
            rewards = [other[1].rollout.rewards[role] for other, _ in players if alike(node, other)]
            group = np.array(rewards, np.longdouble)
            value = np.longdouble(node[1].rollout.rewards[role]) - group.mean()
            if np.ptp(group) == 0:
                value = np.longdouble(0)
            elif normalise:
                value /= group.std(ddof=1) + 1e-4
            for index, advantage in discounted(turns, value, discount).items():
                expected[node[1].rollout.id, index] = advantage, len(group)
    return expected


def rae_oracle(
    results: list[GenerateResult], decay: float, discount: float, baselines: dict[tuple[str, str], float]
) -> dict[tuple[str, int], float]:
    """(rollout, turn) → its advantage; `baselines` move along."""
    expected = {}
    for _, node in nodes(results):
        for role in "ABCD":
            turns = learning_turns(node, role)
            if turns:
                key, reward = (node.rollout.episode_type, role), node.rollout.rewards[role]
                value = np.longdouble(reward) - baselines.get(key, 0.0)
                for index, advantage in discounted(turns, value, discount).items():
                    expected[node.rollout.id, index] = advantage
                baselines[key] = decay * baselines.get(key, 0.0) + (1 - decay) * reward
    return expected


def close(found: float, expected: float, scale: float) -> bool:
    return abs(found - expected) <= 1e-12 * scale


def largest(results: list[GenerateResult]) -> float:
    """What rounding is measured by: the largest reward."""
    return max((abs(r) for _, node in nodes(results) for r in node.rollout.rewards.values()), default=1.0)


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("normalise", [False, True])
def test_grpo_is_its_definition_on_random_trees(kind: str, normalise: bool):
    for seed in range(8):
        discount = 1.0 if seed % 2 else 0.9
        results = Trees(seed, kind).batch()
        GRPOCredit(normalise, discount).assign(results)
        expected, found = grpo_oracle(results, normalise, discount), credits(results)
        assert found.keys() == expected.keys()
        for place, (advantage, size) in expected.items():
            scale = max(abs(advantage), 1e-3) if normalise else largest(results)
            assert close(found[place].advantage, advantage, scale), (seed, place)
            assert found[place].group_size == size
        kept = {(record.rollout_id, record.turn) for record in training_records(results)}
        flat = {place for place, credit in found.items() if not credit.counts}
        assert kept == found.keys() - flat
        assert all(found[place].advantage == 0.0 for place in flat)


@pytest.mark.parametrize("kind", REWARDS)
def test_rae_is_its_definition_on_random_trees_over_several_steps(kind: str):
    for seed in range(8):
        decay, discount = 0.5 + 0.05 * seed, 1.0 if seed % 2 else 0.9
        trees, credit = Trees(seed, kind), RAECredit(decay, discount)
        baselines: dict[tuple[str, str], float] = {}
        for _ in range(3):
            results = trees.batch()
            credit.assign(results)
            expected, found = rae_oracle(results, decay, discount, baselines), credits(results)
            assert found.keys() == expected.keys()
            assert all(close(found[at].advantage, expected[at], largest(results)) for at in expected)
        assert credit.baselines == pytest.approx({f"{k}/{r}": b for (k, r), b in baselines.items()}, rel=1e-12)


def test_the_order_of_results_changes_none_of_grpos_advantages():
    for seed in range(8):
        results = Trees(seed, "any").batch()
        GRPOCredit(normalise=True).assign(results)
        before = credits(results)
        shuffle = random.Random(seed).shuffle
        for _, node in nodes(results):
            shuffle(node.children)
        shuffle(results)
        GRPOCredit(normalise=True).assign(results)
        assert credits(results) == before


def test_a_groups_name_stands_for_one_type_one_beginning_one_edit_one_parent_and_one_role():
    for seed in range(8):
        results = Trees(seed, "few").batch()
        GRPOCredit().assign(results)
        named: dict[str, list[tuple[str, GenerateResult, Turn]]] = {}
        sizes: dict[str, set[int]] = {}
        for parent, node in nodes(results):
            for turn in node.rollout.turns:
                if turn.credit is not None:
                    named.setdefault(turn.credit.group, []).append((parent, node, turn))
                    sizes.setdefault(turn.credit.group, set()).add(turn.credit.group_size)
        for name, members in named.items():
            assert sizes[name] == {len({node.rollout.id for _, node, _ in members})}
            (parent, first, spoke), *others = members
            for other_parent, other, turn in others:
                assert (parent, first.rollout.episode_type) == (other_parent, other.rollout.episode_type)
                assert first.rollout.edits == other.rollout.edits
                assert first.rollout.group == other.rollout.group
                assert first.rollout.group or first.rollout.artifact == other.rollout.artifact
                assert spoke.role == turn.role


@pytest.mark.parametrize("assigner", [GRPOCredit(False, 0.9), GRPOCredit(True, 0.9), RAECredit(discount=0.9)])
def test_the_sum_can_be_redone_by_hand_from_what_the_store_keeps(assigner: CreditAssigner, tmp_path: Path):
    results = [result for seed in range(8) for result in Trees(seed, "usual").batch()]
    for index, result in enumerate(results):
        result.rollout.id = f"{index}"
        result.children = []
    assigner.assign(results)
    scale = getattr(assigner, "normalise", False)
    with Store.create(tmp_path / "run") as store:
        store.record_step(1, 1, 0.1, {}, results)
        stored = [(e.rollout, turn) for e in store.episodes(step=1) for turn in store.turns(e.rollout.id)]
    found = [(rollout, turn, turn.credit) for rollout, turn in stored if turn.credit is not None]
    assert len(found) > 20
    assert {(rollout.id, turn.index): credit for rollout, turn, credit in found} == credits(results)
    for rollout, turn, credit in found:
        by_hand = credit.discount * (credit.reward - credit.baseline)
        by_hand /= credit.spread + 1e-4 if scale else 1.0
        assert credit.reward == rollout.rewards[turn.role]
        assert credit.advantage == pytest.approx(by_hand if credit.counts else 0.0, abs=1e-12)
        if isinstance(assigner, GRPOCredit):
            compared = {r.id: c.reward for r, _, c in found if c.group == credit.group}
            assert credit.group_size == len(compared)
            assert credit.baseline == pytest.approx(np.mean(list(compared.values())), abs=1e-12)
            if len(compared) > 1:
                assert credit.spread == pytest.approx(np.std(list(compared.values()), ddof=1), abs=1e-12)


# What is compared


def test_grpo_compares_only_rollouts_that_began_with_the_same_artifact():
    results = [
        played(str(i), {"A": r}, artifact=a) for i, (r, a) in enumerate([(1, "p"), (0, "p"), (5, "q"), (7, "q")])
    ]
    GRPOCredit().assign(results)
    assert advantages(results) == [0.5, -0.5, -1.0, 1.0]


def test_siblings_are_compared_with_each_other_and_only_where_they_began_alike():
    def proposer(id: str, own: float, solver_rewards: list[float]) -> GenerateResult:
        children = [
            played(f"{id}.{i}", {"Solver": r}, kind="solve", artifact="sum" if i < 2 else "product")
            for i, r in enumerate(solver_rewards)
        ]
        return played(id, {"Proposer": own}, children=children)

    results = [proposer("0", 1.0, [0.0, 1.0, 5.0, 7.0]), proposer("1", 0.0, [10.0, 12.0])]
    GRPOCredit().assign(results)
    found = {record.rollout_id: record.advantage for record in training_records(results)}
    solvers = {"0.0": -0.5, "0.1": 0.5, "0.2": -1.0, "0.3": 1.0, "1.0": -1.0, "1.1": 1.0}
    assert found == {"0": 0.5, "1": -0.5, **solvers}


class Invent(SingleTurnEpisode):
    role = "Proposer"
    rubric = Rubric([lambda rollout, arena: {"Proposer": float(len(rollout.extras["reply"]))}])

    def prompt(self, artifact):
        return f"Ask about: {artifact}"


@pytest.mark.parametrize(("group", "expected"), [(None, []), ("proposers", [-1.0, 0.0, 1.0])])
async def test_proposers_whose_documents_are_their_own_are_compared_by_a_common_group(group, expected):
    replies = iter(["?", "??", "???"])
    arena = Arena(ScriptedClient(lambda messages, player, rng: next(replies)), credit=GRPOCredit())
    arena.add_role(Role("Proposer"))
    arena.add_episode("invent", Invent())
    documents = ["on whales", "on glass", "on tides"]
    requests = [EpisodeRequest("invent", document, group=group) for document in documents]
    assert sorted(r.advantage for r in arena.records(await arena.generate_rollouts(requests))) == expected


async def test_games_are_compared_only_with_games_from_the_same_beginning():
    client = ScriptedClient(lambda messages, player, rng: f"[{rng.randint(1, 3)}]")
    for repeats, sizes in ((1, {1}), (4, {4, 2})):
        task = load_task("nim", {"repeats": repeats, "openings": 3})
        arena = Arena(client, credit=GRPOCredit())
        task.setup(arena)
        results = await arena.generate_rollouts(task.requests(arena, 10))
        records = arena.records(results)
        groups: dict[str, set[str]] = {}
        for result in results:
            turn = result.rollout.turns[0]
            assert turn.credit is not None
            groups.setdefault(turn.credit.group, set()).add(turn.messages[-1]["content"])
        firsts = [c for (_, turn), c in credits(results).items() if turn == 0]
        assert all(len(beginnings) == 1 for beginnings in groups.values())
        assert (bool(records), len(set.union(*groups.values())) > 1) == (repeats > 1, True)
        assert sizes >= {credit.group_size for credit in firsts}


def test_a_group_is_never_taken_for_an_artifact_of_the_same_text():
    results = [played("0", {"A": 0.0}, artifact=1), played("1", {"A": 1.0})]
    results[1].rollout.group = "1"
    GRPOCredit().assign(results)
    assert [credit.group_size for credit in credits(results).values()] == [1, 1]


def test_rollouts_under_different_prompt_edits_are_never_compared():
    results = [played(str(i), {"A": float(i)}) for i in range(4)]
    for result in results[2:]:
        result.rollout.edits = {"A": 1}
    GRPOCredit().assign(results)
    assert advantages(results) == [-0.5, 0.5, -0.5, 0.5]


class AnswerOrPass(SingleTurnEpisode):
    """B only speaks after A has said something."""

    role = "A"
    rubric = Rubric([lambda rollout, arena: {"A": float(len(rollout.turns))}])

    def prompt(self, artifact):
        return "?"

    async def rollout(self, arena, artifact, state):
        state = await super().rollout(arena, artifact, state)
        if state.data["reply"] != "pass":
            await self.call_model("B", "!", arena)
        return state


async def test_whether_an_edited_role_came_to_speak_does_not_part_a_group():
    replies = itertools.cycle(["pass", "yes"])
    client = ScriptedClient(lambda messages, player, rng: next(replies) if messages[-1]["content"] == "?" else "ok")
    arena = Arena(client, credit=GRPOCredit())
    for role in "AB":
        arena.add_role(Role(role))
    arena.add_episode("talk", AnswerOrPass())
    arena.edits["B"] = 1
    results = await arena.generate_rollouts([EpisodeRequest("talk")] * 4)
    assert sorted(len(result.rollout.turns) for result in results) == [1, 1, 2, 2]
    assert sorted(record.advantage for record in arena.records(results)) == [-0.5, -0.5, 0.5, 0.5]


def test_artifacts_are_equal_by_content_whatever_the_order_in_which_they_were_made():
    words = [f"word {i}" for i in range(50)]
    pairs = [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ((1, 2), [1, 2]),
        (set(words), {*words[20:], *words[:20]}),
        (np.int64(3), 3),
    ]
    for one, other in pairs:
        results = [played("0", {"A": 0.0}, artifact=one), played("1", {"A": 1.0}, artifact=other)]
        GRPOCredit().assign(results)
        assert advantages(results) == [-0.5, 0.5]


def test_a_document_is_named_briefly_and_still_told_from_another_that_begins_alike():
    documents = ["word " * 1000 + end for end in ("one", "two")]
    results = [played(str(i), {"A": float(i)}, artifact=documents[i % 2]) for i in range(4)]
    GRPOCredit().assign(results)
    names = {credit.group for credit in credits(results).values()}
    assert len(names) == 2
    assert all(len(name) < 100 for name in names)
    assert advantages(results) == [-1.0, -1.0, 1.0, 1.0]


# What teaches nothing


def test_a_group_of_one_gets_nothing_and_leaves_the_batch():
    results = [played("0", {"A": 5.0})]
    GRPOCredit().assign(results)
    credit = results[0].rollout.turns[0].credit
    assert credit is not None
    assert (credit.advantage, credit.counts, credit.group_size) == (0.0, False, 1)
    assert training_records(results) == []


@pytest.mark.parametrize(
    "rewards",
    [[1.0] * 4, [0.1 + 0.2, 0.3], [0.1 + 0.2 - 0.3, 0.0], [1e30, 1e30 * (1 + 1e-15)], [-1.5, -1.5], [0.0, -0.0]],
)
@pytest.mark.parametrize("normalise", [False, True])
def test_rewards_that_differ_by_rounding_only_leave_the_batch(rewards: list[float], normalise: bool):
    results = [played(str(i), {"A": reward}) for i, reward in enumerate(rewards)]
    GRPOCredit(normalise).assign(results)
    assert training_records(results) == []
    assert {credit.advantage for credit in credits(results).values()} == {0.0}


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, 1e39])
async def test_a_reward_that_is_no_number_is_unscored_by_name_and_its_group_goes_on_without_it(broken: float):
    def graded(rollout, arena):
        return {"Proposer": broken if rollout.id == "1" else float(rollout.id)}

    arena = Arena(ScriptedClient(lambda messages, player, rng: "?"), credit=GRPOCredit())
    arena.add_role(Role("Proposer"))
    arena.add_episode("invent", Invent(Rubric([lambda rollout, arena: {"Proposer": 1.0}, graded])))
    results = await arena.generate_rollouts([EpisodeRequest("invent")] * 3)
    assert {record.rollout_id: record.advantage for record in arena.records(results)} == {"0": -1.0, "2": 1.0}
    unscored = results[1].rollout
    assert (unscored.unscored, unscored.rewards) == (f"graded: {broken:g} for Proposer", {})
    assert "graded" not in unscored.breakdown


@pytest.mark.parametrize("credit", [GRPOCredit(), RAECredit()])
def test_a_reward_that_never_met_a_rubric_poisons_nobody_either(credit: CreditAssigner):
    results = [played("0", {"A": 1.0}), played("1", {"A": math.nan}), played("2", {"A": 3.0})]
    credit.assign(results)
    assert [record.rollout_id for record in training_records(results)] == ["0", "2"]
    assert all(map(math.isfinite, advantages(results)))
    assert all(map(math.isfinite, credit.state().get("baselines", {}).values()))


def test_a_turn_that_is_too_old_leaves_alone_and_its_group_stays_what_it_was():
    results = [played(str(i), {"A": float(i)}) for i in range(4)]
    results[3].rollout.turns[0].completion.versions = [0, 3]
    for result in results[:3]:
        result.rollout.turns[0].completion.versions = [3, 3]
    GRPOCredit().assign(results)
    fresh, stale = split_stale(training_records(results), version=4, max_staleness=1)
    assert ([record.advantage for record in fresh], stale) == ([-1.5, -0.5, 0.5], 1)


class Spawn(Invent):
    async def rollout(self, arena, artifact, state):
        await arena.generate_rollouts([EpisodeRequest("invent", artifact)] * 2)
        return await super().rollout(arena, artifact, state)


async def test_what_children_say_has_the_version_that_said_it():
    arena = Arena(ScriptedClient(lambda messages, player, rng: "?" * rng.randint(1, 9), versions=lambda player: 7))
    arena.add_role(Role("Proposer"))
    arena.add_episode("invent", Invent())
    arena.add_episode("spawn", Spawn())
    records = arena.records(await arena.generate_rollouts([EpisodeRequest("spawn", "x")]))
    assert sorted((record.rollout_id, record.version) for record in records) == [("0", 7), ("0.0", 7), ("0.1", 7)]


# Moving baselines


def test_rae_reads_the_baseline_before_it_moves_it():
    credit, results = (
        RAECredit(decay=0.5),
        [played("0", {"A": 1.0}), played("1", {"A": 1.0}), played("2", {"A": 0.0})],
    )
    credit.assign(results)
    assert advantages(results) == [1.0, 0.5, -0.75]
    assert credit.baselines == {"game/A": 0.375}


def test_rae_keeps_one_baseline_for_each_episode_type_and_role():
    credit = RAECredit()
    credit.assign([played("0", {"A": 1.0, "B": -1.0}), played("1", {"A": 1.0}, kind="other")])
    assert credit.baselines == pytest.approx({"game/A": 0.05, "game/B": -0.05, "other/A": 0.05})


@pytest.mark.parametrize("kept_out", [{"trains": False}, {"error": "boom"}])
def test_rollouts_that_do_not_train_never_touch_a_baseline(kept_out):
    credit, results = RAECredit(), [played("0", {"A": 1.0}, **kept_out)]
    credit.assign(results)
    assert credit.baselines == {}
    assert advantages(results) == []


async def test_a_frozen_player_and_an_evaluation_never_touch_a_baseline():
    arena = Arena(ScriptedClient(lambda messages, player, rng: "??"), credit=RAECredit())
    arena.add_role(Role("Proposer"))
    arena.add_episode("invent", Invent())
    frozen = await arena.generate_rollouts([EpisodeRequest("invent", players={"Proposer": "base"})])
    assert arena.records(frozen) == []
    assert arena.records(await arena.generate_rollouts([EpisodeRequest("invent")], label="eval-0")) == []
    assert arena.credit.state() == {"baselines": {}}


def test_rae_goes_on_from_its_saved_state():
    first, second = RAECredit(), RAECredit()
    first.assign([played("0", {"A": 1.0})])
    second.load_state(first.state())
    one, other = [played("1", {"A": 1.0})], [played("1", {"A": 1.0})]
    first.assign(one)
    second.assign(other)
    assert advantages(one) == advantages(other) == [0.95]


# Turns


def test_early_turns_are_discounted_by_the_turns_still_to_come():
    results = [played("0", {"A": 1.0}, turns=3)]
    RAECredit(discount=0.5).assign(results)
    assert advantages(results) == [0.25, 0.5, 1.0]
    assert [credit.discount for credit in credits(results).values()] == [0.25, 0.5, 1.0]


def test_constant_credit_weighs_every_turn_alike():
    results = [played("0", {"A": -3.0}, turns=2), played("1", {"A": 9.0})]
    ConstantCredit().assign(results)
    assert advantages(results) == [1.0, 1.0, 1.0]
