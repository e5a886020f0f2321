"""Rewards in the configuration: other weights, functions added, and weights changed while a run goes on."""

from __future__ import annotations

import pytest

from engine import Arena, EpisodeRequest, GRPOCredit, TaskError
from engine.assembly import apply_edit, arena_of, changed
from engine.config import Config, ConfigError, parse, value_text
from engine.credit import groups
from engine.events import EditApplied, RunState
from engine.inference.scripted import ScriptedClient
from engine.mixture import task_of
from engine.run import Run
from engine.store import Store
from engine.types import GenerateResult, RunError
from tests.test_run import small
from tests.test_skill_tags import taken

REGEX = {"function": "regex", "options": {"pattern": "a"}, "weight": 0.25}


def config(task="nim", **changes) -> Config:
    played = {"task": {"name": task}} if isinstance(task, str) else {"tasks": task}
    return parse({**played, **changes}, "test")


async def play(config: Config, n: int = 4, arena: Arena | None = None) -> list[GenerateResult]:
    """Games in which everybody takes one stick and says so at more length than is needed."""
    task = task_of(config)
    arena = arena or arena_of(config, task)
    arena.connect(ScriptedClient(lambda messages, player, rng: taken(1)))
    results = await arena.generate_rollouts(task.requests(arena, n))
    assert not [result.rollout.error for result in results if result.rollout.error]
    return results


def outcome(result: GenerateResult) -> dict[str, float]:
    return result.rollout.breakdown["outcome"]


async def test_a_table_of_the_tasks_own_function_changes_its_weight():
    for result in await play(config(rewards={"outcome": {"weight": 0.5}})):
        assert result.rewards == {role: 0.5 * value for role, value in outcome(result).items()}
        assert set(outcome(result).values()) == {1.0, -1.0}


async def test_a_weight_of_0_pays_nothing_and_is_still_shown():
    for result in await play(config(rewards={"outcome": {"weight": 0.0}})):
        assert set(result.rewards.values()) == {0.0}
        assert set(outcome(result).values()) == {1.0, -1.0}


async def test_a_function_is_added_for_all_that_speak():
    for result in await play(config(rewards={"letter": REGEX})):
        assert result.rollout.breakdown["letter"] == {"First": 1.0, "Second": 1.0}
        assert result.rewards == {role: value + 0.25 for role, value in outcome(result).items()}


async def test_a_function_can_be_limited_to_roles():
    for result in await play(config(rewards={"letter": {**REGEX, "roles": ["Second"]}})):
        assert result.rollout.breakdown["letter"] == {"Second": 1.0}
        assert result.rewards["Second"] - outcome(result)["Second"] == 0.25
        assert result.rewards["First"] == outcome(result)["First"]


async def test_a_weight_can_be_limited_to_a_role():
    for result in await play(config(rewards={"outcome": {"weight": 3.0, "roles": ["First"]}})):
        assert result.rewards == {"First": 3.0 * outcome(result)["First"], "Second": outcome(result)["Second"]}


async def test_a_function_can_be_limited_to_types_of_episodes():
    setup = config({"nim": {}, "k": {"name": "nim"}}, rewards={"letter": {**REGEX, "episodes": ["k/nim"]}})
    for result in await play(setup):
        assert ("letter" in result.rollout.breakdown) == (result.rollout.episode_type == "k/nim")


async def test_among_several_tasks_a_role_is_meant_by_its_whole_name():
    setup = config({"nim": {}, "k": {"name": "nim"}}, rewards={"letter": {**REGEX, "roles": ["k/First"]}})
    for result in await play(setup):
        paid = result.rollout.breakdown.get("letter") or {}
        assert paid == ({"k/First": 1.0} if result.rollout.episode_type == "k/nim" else {})


async def test_a_role_of_a_held_out_set_costs_the_task_beside_it_nothing():
    letter = {**REGEX, "roles": ["First", "held/X"]}
    setup = config(tasks={"held": {"name": "tictactoe", "weight": 0.0}}, rewards={"letter": letter})
    for result in await play(setup):
        assert result.rollout.breakdown["letter"] == {"First": 1.0}


async def test_a_function_of_ones_own_is_a_file_beside_the_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def twice(rollout, arena, *, times: int = 2):\n    return {t.role: times * 1.0 for t in rollout.turns}\n"
    )
    table = {"function": "./mine.py:twice", "roles": ["First"], "options": {"times": 3}}
    for result in await play(config(rewards={"own": table})):
        assert result.rollout.breakdown["own"] == {"First": 3.0}


@pytest.mark.parametrize(("weight", "judged"), [(1.0, False), (0.0, True)])
async def test_a_function_without_a_judgement_costs_the_rollout_only_if_it_pays(tmp_path, weight, judged):
    (tmp_path / "mine.py").write_text("def unsure(rollout, arena):\n    return None\n")
    table = {"function": f"{tmp_path}/mine.py:unsure", "weight": weight}
    for result in await play(config(rewards={"own": table})):
        assert result.rollout.is_scored == judged
        assert result.rollout.unscored == (None if judged else "own")
        assert "own" not in result.rollout.breakdown


async def test_what_a_task_measures_is_scored_as_the_task_says():
    setup = config(rewards={"outcome": {"weight": 0.0}, "letter": REGEX})
    task = task_of(setup)
    arena = arena_of(setup, task)
    arena.connect(ScriptedClient(lambda messages, player, rng: taken(1)))
    results = await arena.generate_rollouts([EpisodeRequest("nim")] * 4, label="eval-0")
    assert [result.rewards for result in results] == [outcome(result) for result in results]
    assert all("letter" not in result.rollout.breakdown for result in results)


async def test_rubrics_that_tasks_share_are_left_as_they_are():
    before = await play(config())
    await play(config(rewards={"outcome": {"weight": 9.0}, "letter": REGEX}))
    after = await play(config())
    assert [result.rewards for result in after] == [result.rewards for result in before]
    assert all(set(result.rollout.breakdown) == {"outcome", "illegal_move"} for result in after)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            {"lenght": {}},
            r"\[rewards.lenght\]: no reward 'lenght'; did you mean 'length'.*own are: outcome, illegal_m",
        ),
        ({"x": {"function": "regex"}}, r"\[rewards.x\]: reward 'regex': option 'pattern' is missing"),
        (
            {"x": {**REGEX, "roles": ["Thrid"]}},
            r"\[rewards.x\]: there is no role 'Thrid'; there are: First, Second",
        ),
        ({"x": {**REGEX, "episodes": ["chess"]}}, r"no type of episode 'chess'; there are: nim, nim-match"),
        ({"outcome": REGEX}, r"\[rewards.outcome\]: the task has a reward function 'outcome'; give yours another"),
    ],
)
def test_a_reward_there_is_not_is_explained(table, problem):
    setup = config(rewards=table)
    with pytest.raises(TaskError, match=problem):
        arena_of(setup, task_of(setup))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("rewards.letter.roles", "First", "of a reward only its weight can"),
        ("rewards.lettre.weight", "1", r"\[rewards.lettre\]: no reward 'lettre'"),
        ("rewards.letter.weight", "much", "wants a number, not 'much'"),
        ("roles.Frist.temperature", "1", r"\[roles.Frist\]: nim has no such role"),
        ("tasks.nim.weight", "1", "tasks.nim.weight cannot change while a run goes on"),
    ],
)
def test_what_cannot_be_set_in_a_run_is_refused_before_it_is_recorded(key, value, problem):
    setup = config(rewards={"letter": REGEX})
    with pytest.raises((RunError, ConfigError), match=problem):
        changed(setup, key, value, arena_of(setup, task_of(setup)))


async def test_an_edit_of_a_weight_is_in_force_from_the_next_episode_and_named_by_it():
    setup = config(rewards={"letter": REGEX})
    task = task_of(setup)
    arena = arena_of(setup, task)
    before = await play(setup, arena=arena)
    setup = apply_edit(EditApplied(3, 1, "rewards.letter.weight", "0.25", "2.0"), setup, arena)
    setup = apply_edit(EditApplied(4, 1, "rewards.outcome.weight", "", "0.0"), setup, arena)
    after = await play(setup, arena=arena)
    assert (value_text(setup, "rewards.letter.weight"), value_text(setup, "rewards.outcome.weight")) == (
        "2.0",
        "0.0",
    )
    assert {sum(result.rewards.values()) for result in before} == {0.5}
    assert {tuple(result.rewards.values()) for result in after} == {(2.0, 2.0)}
    assert all(result.rollout.edits["rewards.letter"] == 0 for result in before)
    assert all(result.rollout.edits["rewards.letter"] == 3 for result in after)
    assert all(result.rollout.edits["rewards.outcome"] == 4 for result in after)


async def test_rollouts_of_different_weights_are_never_compared():
    setup = config(rewards={"letter": REGEX}, credit={"kind": "grpo"})
    setup = setup.model_copy(update={"task": setup.task.model_copy(update={"options": {"repeats": 4}})})  # type: ignore[union-attr]
    task = task_of(setup)
    arena = arena_of(setup, task)
    assert isinstance(arena.credit, GRPOCredit)
    results = await play(setup, arena=arena)
    apply_edit(EditApplied(1, 1, "rewards.letter.weight", "0.25", "2.0"), setup, arena)
    arena.played = 0  # the same beginnings again
    results += await play(setup, arena=arena)
    assert [len(rollouts) for _, rollouts in groups(results)] == [4, 4]


async def test_a_run_keeps_an_edited_weight(tmp_path):
    table = {"function": "length", "options": {"most": 8}, "weight": 0.5}
    run = Run.create(small(rewards__short=table, run__steps=1), tmp_path, "r")
    assert await run.set("rewards.short.weight", "0.25") == 1
    with pytest.raises(RunError, match="no reward 'shrt'"):
        await run.set("rewards.shrt.weight", "1")
    await run.start()
    assert run.state is RunState.FINISHED, run.reason
    again = Run.open(run.folder)
    assert again.config.rewards["short"].weight == 0.25
    await again.stop()
    with Store.open(run.folder, read_only=True) as store:
        assert [edit.target for edit in store.edits()] == ["rewards.short.weight"]
        for episode in store.episodes(step=1, evaluation=False):
            rollout = episode.rollout
            assert rollout.edits["rewards.short"] == 1
            for role, paid in rollout.breakdown["short"].items():
                others = sum(values[role] for name, values in rollout.breakdown.items() if name != "short")
                assert rollout.rewards[role] == pytest.approx(others + 0.25 * paid)
