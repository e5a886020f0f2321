"""Several tasks in one run: what they share, what stays apart, and what is only measured."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from engine import (
    Arena,
    ArtifactStore,
    Episode,
    EpisodeRequest,
    GRPOCredit,
    RAECredit,
    Role,
    Rubric,
    Task,
    TaskError,
)
from engine.assembly import apply_edit, arena_of
from engine.config import Config, ConfigError, dump, load, override, parse, set_value
from engine.events import EditApplied, EpisodeFinished, EpisodeStarted, RunState, TurnFinished, TurnStarted
from engine.inference.scripted import ScriptedClient
from engine.mixture import Mixture, Part, shares, task_of
from engine.progress import role_means, step_metrics
from engine.run import Run
from engine.scopes import qualified
from engine.store import Store
from engine.task import load_task
from tests.test_arena import WavesClient
from tests.test_run import facts, until

SMALL = {
    "model": {"source": "pocket", "context": 256},
    "run": {"steps": 4, "episodes_per_step": 12, "seed": 5},
    "lora": {"rank": 4},
    "train": {"microbatch_tokens": 4096},
    "eval": {"every": 2, "episodes": 4},
}
SUMS = {"name": "arithmetic", "options": {"samples": 3, "digits": 1}}


def said(rollout, arena):
    """The length of what was said: the first sample says "a", the second "aa", …"""
    return {"Solver": float(len(rollout.turns[0].completion.text))} if rollout.turns else {"Solver": 0.0}


class Word(Episode):
    rubric = Rubric([said])

    async def rollout(self, arena, artifact, state):
        if artifact[1]:
            children = [EpisodeRequest("word", [artifact[0], artifact[1] - 1]) for _ in range(2)]
            state.child_results = await arena.generate_rollouts(children)
            assert [child.rollout.episode_type for child in state.child_results] == ["word", "word"]
            assert all(child.rewards.keys() == {"Solver"} for child in state.child_results)
        await self.call_model("Solver", artifact[0], arena)
        return state


class Words(Task):
    """Asks words from its store: samples of one word are compared. All such tasks have the same names."""

    def __init__(self, words: list[str], samples: int = 2, depth: int = 0) -> None:
        self.words, self.samples, self.depth = words, samples, depth

    def setup(self, arena):
        arena.add_role(Role("Solver", system_prompt=f"{self.words}"))
        arena.add_episode("word", Word())
        arena.add_store("words", ArtifactStore(self.words))

    def requests(self, arena, n):
        [word] = arena.stores["words"].sample()
        return [EpisodeRequest("word", [word.data, self.depth])] * n

    async def evaluate(self, arena, n, label):
        results = await arena.generate_rollouts([EpisodeRequest("word", [self.words[0], 0])] * n, label=label)
        return {"said": sum(result.rewards["Solver"] for result in results) / n}


def letters() -> ScriptedClient:
    """Says as many letters as its random number tells."""
    return ScriptedClient(lambda messages, player, rng: "a" * rng.randint(1, 9))


def two(client=None, credit=None, **of_second) -> tuple[Mixture, Arena]:
    mixture = Mixture({
        "left": Part(Words(["one", "two"]), 1.0),
        "right": Part(Words(["uno", "due"]), of_second.pop("weight", 1.0), **of_second),
    })  # fmt: skip
    arena = Arena(client or letters(), credit=credit)
    mixture.setup(arena)
    return mixture, arena


def config(**changes) -> Config:
    return parse({**SMALL, **changes}, "test")


def refusal(**changes) -> str:
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    return str(caught.value)


# Shares


@pytest.mark.parametrize("seed", range(20))
def test_episodes_are_shared_out_by_weight_over_any_number_of_steps(seed):
    rng = random.Random(seed)
    weights = [rng.choice([0.0, rng.random(), rng.randint(1, 5)]) for _ in range(rng.randint(1, 5))] + [1.0]
    played, before = 0, shares(weights, 0)
    assert not any(before)
    for _ in range(40):
        played += rng.randint(1, 50)
        after = shares(weights, played)
        assert sum(after) == played
        assert all(then <= now for then, now in zip(before, after, strict=True))
        quotas = [played * weight / sum(weights) for weight in weights]
        assert all(abs(count - quota) < 1.5 for count, quota in zip(after, quotas, strict=True))
        assert not any(count for count, weight in zip(after, weights, strict=True) if weight == 0.0)
        before = after


def test_shares_that_come_out_even_are_exact_in_every_step():
    steps = [shares([1.0, 2.0, 1.0], 48 * step) for step in range(5)]
    assert [[now - then for then, now in zip(*pair, strict=True)] for pair in pairwise(steps)] == [[12, 24, 12]] * 4


# Apart


async def test_tasks_with_the_same_names_keep_their_own_roles_episodes_and_stores():
    mixture, arena = two()
    assert list(arena.roles) == ["left/Solver", "right/Solver"]
    assert list(arena.stores) == ["left/words", "right/words"]
    results = await arena.generate_rollouts(mixture.requests(arena, 4))
    assert arena.played == 4
    assert [r.rollout.id for r in results] == ["0", "1", "2", "3"]
    for result, name, words in zip(
        results, ["left"] * 2 + ["right"] * 2, ["one two"] * 2 + ["uno due"] * 2, strict=True
    ):
        rollout = result.rollout
        assert rollout.error is None
        assert rollout.episode_type == f"{name}/word"
        assert rollout.artifact[0] in words.split()
        assert rollout.turns[0].messages[0]["content"] == str(words.split())
        of_role = rollout.rewards, rollout.players, rollout.edits, *rollout.breakdown.values()
        assert {tuple(table) for table in of_role} == {(f"{name}/Solver",)}
        assert {turn.role for turn in rollout.turns} == {f"{name}/Solver"}


async def test_children_stay_in_their_parents_task():
    mixture, arena = two()
    for part in mixture.parts.values():
        part.task.depth = 2  # type: ignore[attr-defined]
    results = await arena.generate_rollouts(mixture.requests(arena, 2))
    for result, name in zip(results, ("left", "right"), strict=True):
        nodes = result.walk()
        assert len(nodes) == 7
        assert not [node.rollout.error for node in nodes if node.rollout.error]
        assert {node.rollout.episode_type for node in nodes} == {f"{name}/word"}


async def test_rewards_are_compared_within_a_task_alone():
    mixture, arena = two(credit=GRPOCredit())
    mixture.parts["right"].task.words[:] = ["one", "two"]  # type: ignore[attr-defined]
    results = await arena.generate_rollouts(mixture.requests(arena, 8))
    arena.records(results)
    by_group: dict[str, set[str]] = {}
    for result in results:
        by_group.setdefault(result.rollout.turns[0].credit.group, set()).add(result.rollout.episode_type)
        expected = [r.rewards[k] for r in results for k in r.rewards if k in result.rewards]
        assert result.rollout.turns[0].credit.baseline == pytest.approx(sum(expected) / 4)
    assert sorted(map(sorted, by_group.values())) == [["left/word"], ["right/word"]]


async def test_each_task_has_baselines_and_metrics_of_its_own():
    mixture, arena = two(credit=RAECredit(decay=0.5))
    results = await arena.generate_rollouts(mixture.requests(arena, 2))
    records = arena.records(results)
    rewards = [sum(result.rewards.values()) for result in results]
    baselines = {"left/word/Solver": rewards[0] / 2, "right/word/Solver": rewards[1] / 2}
    assert arena.credit.state() == {"baselines": baselines}
    metrics = step_metrics(results, records, 0, 1.0, 1.0)
    assert role_means(metrics) == ["reward/left/Solver", "reward/right/Solver"]
    assert metrics["reward/left/Solver/said"] == rewards[0]
    assert metrics["seat_bias"] == 0.0  # one role in each task: their rewards are no seats of one game


async def test_those_who_watch_hear_the_same_names_as_the_record_has():
    mixture, arena = two()
    seen: list = []
    arena.on_event = seen.append
    await arena.generate_rollouts(mixture.requests(arena, 2))
    assert {e.episode_type for e in seen if isinstance(e, EpisodeStarted)} == {"left/word", "right/word"}
    for kind in (TurnStarted, TurnFinished):
        assert {event.role for event in seen if isinstance(event, kind)} == {"left/Solver", "right/Solver"}
    ended = [event.result for event in seen if isinstance(event, EpisodeFinished)]
    assert {tuple(result.rewards) for result in ended} == {("left/Solver",), ("right/Solver",)}


async def test_all_tasks_play_in_one_lockstep():
    client = WavesClient()
    mixture, arena = two(client)
    await arena.generate_rollouts(mixture.requests(arena, 8))
    assert [len(wave) for wave in client.waves] == [8]
    assert arena.live == 0


async def test_a_mixture_of_one_plays_as_the_task_does():
    alone, mixed = (
        load_task("nim", {"openings": 2}),
        task_of(config(tasks={"x": {"name": "nim", "options": {"openings": 2}}})),
    )
    played = []
    for task in (alone, mixed):
        arena = Arena(ScriptedClient(lambda messages, player, rng: f"[{rng.randint(1, 3)}]"), seed=3)
        task.setup(arena)
        results = [await arena.generate_rollouts(task.requests(arena, 8)) for _ in range(2)]
        records = [record for batch in results for record in arena.records(batch)]
        assert await task.evaluate(arena, 4, "eval-0")
        played.append([(r.rollout_id, r.turn, r.tokens, r.advantage, r.role.removeprefix("x/")) for r in records])
    assert played[0] == played[1]


@pytest.mark.parametrize("name", ["elo_arena", "proposer_solver", "refine", "self_distill", "tournament"])
async def test_a_task_that_spawns_episodes_needs_to_know_nothing_of_the_others(name):
    def speak(messages, player, rng):
        return rng.choice(["[1]", "17 25", "yes", "A", "B", "42"])

    played = []
    for task in (load_task(name, {}), task_of(config(tasks={"x": {"name": name}, "nim": {"weight": 0.0}}))):
        arena = Arena(ScriptedClient(speak), credit=GRPOCredit(), seed=3)
        task.setup(arena)
        results = [r for _ in range(2) for r in await arena.generate_rollouts(task.requests(arena, 4))]
        records = [(r.rollout_id, r.turn, r.tokens, r.advantage) for r in arena.records(results)]
        stores = [store.state() for store in arena.stores.values()]
        prefix = "" if played else "x/"
        played.append(([flat(qualified(result, prefix)) for result in results], records, stores))
    assert played[0] == played[1]


async def test_a_task_that_goes_through_its_data_in_turn_meets_all_of_it():
    class InTurn(Words):
        def requests(self, arena, n):
            return [EpisodeRequest("word", [self.words[(arena.played + i) % len(self.words)], 0]) for i in range(n)]

    words = list("abcdefgh")
    mixture, arena = two()
    mixture.parts["left"] = Part(InTurn(words), 1.0)
    batches = [await arena.generate_rollouts(mixture.requests(arena, 8)) for _ in range(4)]
    asked = [r.rollout.artifact[0] for batch in batches for r in batch if r.rollout.episode_type == "left/word"]
    assert asked == words * 2
    assert arena.played == 32
    assert [result.rollout.id for result in batches[3]] == [str(24 + i) for i in range(8)]


def flat(result):
    nodes = [node.rollout for node in result.walk()]
    return [(r.id, r.episode_type, r.artifact, r.rewards, r.breakdown, r.extras, r.players, r.error) for r in nodes]


async def test_an_edit_concerns_the_role_of_one_task():
    mixed = config(tasks={"a": {"name": "nim"}, "b": {"name": "nim"}}, roles={"b/First": {"prompt": "B."}})
    task = task_of(mixed)
    arena = arena_of(mixed, task)
    arena.connect(ScriptedClient(lambda messages, player, rng: "[1]"))
    apply_edit(EditApplied(7, 0, "role a/First", "", "A!"), mixed, arena)
    assert [arena.roles[f"{name}/First"].system_prompt for name in "ab"] == ["A!", "B."]
    for result in await arena.generate_rollouts(task.requests(arena, 4)):
        name = result.rollout.episode_type[0]
        assert result.rollout.edits == {f"{name}/First": 7 * (name == "a"), f"{name}/Second": 0}
        prompts = {t.messages[0]["content"] for t in result.rollout.turns if t.role.endswith("First")}
        assert prompts <= {"A!" if name == "a" else "B."}


# Held out


async def test_a_held_out_set_is_measured_and_never_trained_on():
    mixture, arena = two(weight=0.0)
    played: list = []
    arena.on_labelled = played.extend
    assert {request.task for _ in range(3) for request in mixture.requests(arena, 5)} == {"left"}
    metrics = await mixture.evaluate(arena, 4, "eval-2")
    assert metrics.keys() == {"left/said", "right/said"}
    assert [node.rollout.id for node in played] == [
        f"eval-2:{name}/{i}" for name in ("left", "right") for i in range(4)
    ]
    assert {node.rollout.episode_type for node in played} == {"left/word", "right/word"}
    assert arena.records(played) == []
    assert arena.credit.state() == {"baselines": {}}
    assert arena.played == 0


@pytest.mark.parametrize(("step", "due"), [(0, True), (5, False), (6, True), (9, True), (10, False), (11, True)])
def test_a_held_out_set_can_be_measured_less_often(step, due):
    mixture, _ = two(weight=0.0, every=3)
    assert list(mixture.at(step, 11).parts) == ["left"] + ["right"] * due


async def test_a_held_out_set_beside_one_task_leaves_that_tasks_names_alone(tmp_path):
    changes = {
        "task": {"name": "nim"},
        "tasks": {"kuhn_poker": {"weight": 0.0}, "arithmetic": {"weight": 0, "every": 3, "options": {"digits": 1}}},
    }
    run = Run.create(set_value(config(**changes), "run.steps", "1"), tmp_path)
    assert run.name == "nim-1"
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    assert {"win_vs_random", "kuhn_poker/nash_conv", "arithmetic/accuracy"} <= run.evaluations.latest.keys()
    with Store.open(run.folder, read_only=True) as store:
        assert {episode.rollout.episode_type for episode in store.episodes(evaluation=False)} == {"nim"}
        types = {episode.rollout.episode_type for episode in store.episodes(step=1, evaluation=True)}
        assert types == {"nim-match", "kuhn_poker/kuhn_poker-match", "arithmetic/exam", "arithmetic/problem"}
        first = store.episodes(step=1, evaluation=False)[0].rollout
    assert first.edits.keys() == {"First", "Second"}  # not those of the held-out sets


# Configuration


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, "test: task.name: missing, wants text"),
        (
            {"task": {"name": "nim"}, "tasks": {"kuhn": {"weight": 1.0}}},
            "tasks.kuhn.weight: wants 0 for a held-out set",
        ),
        ({"tasks": {"nim": {"weight": 0.0}}}, "tasks: wants a weight above 0 for one of them"),
        ({"tasks": {"nim": {"weight": -1.0}}}, "tasks.nim.weight: wants a number of at least 0, not -1.0"),
        ({"tasks": {"a/b": {"name": "nim"}}}, "tasks.a/b: wants a name of letters"),
        ({"tasks": {"nim": {"wieght": 1.0}}}, "tasks.nim.wieght: no such key; did you mean tasks.nim.weight?"),
        ({"tasks": {"nim": {"every": 5}}, "eval": {"metric": "nim/illegal"}}, "tasks.nim.every: wants 0"),
        ({"tasks": "nim"}, "tasks: wants a table of keys, [tasks], not 'nim'"),
    ],
)
def test_a_mixture_that_is_none_is_explained(changes, problem):
    assert problem in refusal(**changes)


def test_settings_that_are_right_together_may_come_in_any_order():
    words = ["tasks.k.name=kuhn_poker", "eval.metric=k/nash_conv", "tasks.k.weight=0"]
    for order in (words, words[::-1]):
        beside = override(parse({"task": {"name": "nim"}}, ""), order)
        assert (beside.parts["k"].name, beside.parts["k"].weight) == ("kuhn_poker", 0.0)


def test_an_unknown_task_or_role_is_explained_by_the_name_in_the_mixture():
    with pytest.raises(TaskError, match=r"\[tasks.x\]: no task 'nmi'; nearest: nim"):
        task_of(config(tasks={"x": {"name": "nmi"}}))
    mixed = config(tasks={"nim": {}, "k": {"name": "kuhn_poker"}}, roles={"First": {"prompt": "?"}})
    with pytest.raises(TaskError, match=r"\[roles.First\]: .*it has: nim/First, nim/Second, k/First"):
        arena_of(mixed, task_of(mixed))


def test_a_mixture_is_read_back_from_what_a_run_keeps(tmp_path):
    (tmp_path / "mine.toml").write_text('[tasks.own]\nname = "./own.py:Own"\n[tasks.nim]\nweight = 0.5\n')
    mixed = load(tmp_path / "mine.toml")
    assert mixed.parts["own"].name == f"{tmp_path}/own.py:Own"
    assert (mixed.parts["nim"].name, mixed.played) == ("nim", "own-nim")
    (tmp_path / "kept.toml").write_text(dump(mixed))
    assert load(tmp_path / "kept.toml").parts == mixed.parts


def test_the_mixture_in_the_documentation_is_right():
    page = (Path(__file__).parent.parent / "docs" / "tasks.md").read_text(encoding="utf-8")
    section = page.split("## Several tasks in one run")[1]
    mixed = parse(tomllib.loads(section.split("```toml")[1].split("```")[0]), "tasks.md")
    arena = arena_of(mixed, task_of(mixed))
    assert mixed.played == "nim-kuhn_poker"
    assert arena.roles["kuhn/First"].temperature == 1.2
    assert "sums/Solver" in arena.roles
    words = section.split("```sh")[1].split("```")[0].split()
    assert words[:4] == ["selfplay-tui", "run", "nim-pocket", "--set"]
    beside = override(parse({"task": {"name": "nim"}}, ""), words[4:])
    assert list(arena_of(beside, task_of(beside)).roles) == [
        "First",
        "Second",
        "kuhn_poker/First",
        "kuhn_poker/Second",
    ]


# A whole run


ODD = config(
    tasks={"nim": {}, "sums": SUMS},
    credit={"kind": "grpo"},
    roles={"sums/Solver": {"max_tokens": 3, "tags": ["<novice>", "<expert>"]}, "nim/First": {"tags": ["a", "b"]}},
    rewards={"right": {"weight": 0.5}, "length": {"options": {"most": 2}, "roles": ["sums/Solver"]}},
)
"""Tasks, tags and rewards at once."""


async def test_a_run_of_several_tasks_goes_on_bit_for_bit(tmp_path: Path):
    whole = Run.create(ODD, tmp_path, "whole")
    await whole.start()
    assert whole.state is RunState.FINISHED, whole.reason
    first = Run.create(set_value(ODD, "run.steps", "2"), tmp_path, "halves")
    await first.start()
    second = Run.open(first.folder)
    await second.set("run.steps", "4")
    await second.start()
    assert second.state is RunState.FINISHED, second.reason
    assert facts(second) == facts(whole)
    with Store.open(whole.folder, read_only=True) as store:
        kinds = [episode.rollout.episode_type for episode in store.episodes(step=3, evaluation=False)]
        assert store.last_step().metrics.keys() >= {"reward/nim/First", "reward/sums/Solver/right"}  # type: ignore[union-attr]
    assert kinds == ["nim/nim"] * 6 + ["sums/problem"] * 6
    assert json.loads(json.dumps(whole.evaluations.latest)).keys() >= {"nim/win_vs_random", "sums/accuracy"}


async def test_each_task_prepares_once_before_its_first_episode_while_the_event_loop_goes_on(tmp_path, monkeypatch):
    ready, begun = threading.Event(), []

    def prepare(self) -> None:
        assert ready.wait(20), "nothing else could go on meanwhile"
        begun.append(type(self).__name__)

    monkeypatch.setattr("engine.task.Task.prepare", prepare)
    config = parse(SMALL | {"tasks": {"nim": {}, "sums": SUMS}, "run": SMALL["run"] | {"steps": 1}}, "test")
    run = Run.create(config, tmp_path, "prepared")
    playing = asyncio.create_task(run.start())
    await asyncio.sleep(0.5)
    ready.set()
    await playing
    assert (run.state, begun) == (RunState.FINISHED, ["GameTask", "Arithmetic"]), run.reason


async def test_several_tasks_are_played_ahead_and_what_waited_is_learnt_from_once_as_it_was_scored(tmp_path: Path):
    ahead = override(ODD, ["run.max_staleness=2", "eval.every=1", "eval.episodes=24", "checkpoint.every=3"])
    first = Run.create(ahead, tmp_path, "ahead")
    playing = asyncio.create_task(first.start())
    await until(lambda: first.step >= 1 and first.status().queued >= 12)
    await first.set("rewards.right.weight", "0.25")
    await first.stop()
    await playing
    second = Run.open(first.folder)
    await second.start()
    assert second.state is RunState.FINISHED, second.reason
    with Store.open(second.folder, read_only=True) as store:
        for step in range(1, 5):
            learnt = [episode.rollout for episode in store.episodes(step=step, evaluation=False)]
            assert [rollout.id for rollout in learnt] == [str(12 * (step - 1) + i) for i in range(12)]
            assert [rollout.episode_type for rollout in learnt] == ["nim/nim"] * 6 + ["sums/problem"] * 6
            for rollout in learnt[6:]:
                right, short = (rollout.breakdown[name]["sums/Solver"] for name in ("right", "length"))
                weight = 0.25 if rollout.edits["rewards.right"] else 0.5
                assert rollout.rewards["sums/Solver"] == weight * right + short
                assert rollout.tags["sums/Solver"] in ("<novice>", "<expert>")
        edits = [e.rollout.edits["rewards.right"] for n in (1, 4) for e in store.episodes(step=n, evaluation=False)]
    assert edits == [0] * 12 + [1] * 12
