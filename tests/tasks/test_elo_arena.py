"""Elo arena: everyone meets everyone, a battle is worth what it does to the ratings, and these are kept."""

from __future__ import annotations

import asyncio
import re

import pytest

from engine import BASE, Arena, TaskError
from engine.config import load, override
from engine.events import RunState, StepFinished
from engine.inference.scripted import ScriptedClient
from engine.run import Run
from engine.task import load_task
from presets import find
from tests.tasks.play import arena_of, last, play, three_steps

THREE = {"Plain": "", "Bold": "Be bold.", "Careful": "Be careful."}


def perfect(sticks):
    return f"[{sticks % 4 or 1}]"


def players(**moves):
    """Agents who each know how many sticks to take; `perfect` plays perfectly, others always take one."""
    return lambda player, messages: moves.get(player, lambda sticks: "[1]")(int(last(messages)))


def ratings(arena):
    return {artifact.data["agent"]: artifact.data["rating"] for artifact in arena.stores["ratings"]}


async def rounds(n, speak, **options):
    task = load_task("elo_arena", options)
    arena = arena_of(task, speak)
    results = await arena.generate_rollouts(task.requests(arena, n))
    for result in results:
        assert not any(node.rollout.error for node in result.walk())
    return arena, results


async def test_in_a_round_every_two_agents_meet_once_in_either_seat_from_one_beginning():
    _, [result] = await rounds(1, players(), agents=THREE)
    battles = [child.rollout for child in result.children]
    assert {battle.episode_type for battle in battles} == {f"{a}-{b}" for a in THREE for b in THREE if a != b}
    assert len(battles) == 6
    for battle in battles:
        assert [turn.role for turn in battle.turns[:2]] == battle.episode_type.split("-")[: len(battle.turns)]
        [turned] = [b for b in battles if b.episode_type == "-".join(reversed(battle.episode_type.split("-")))]
        assert battle.turns[0].messages[-1] == turned.turns[0].messages[-1]


async def test_the_reward_is_the_rating_change_and_ratings_move_at_the_end_of_a_round():
    """Who plays nim perfectly against one who takes one: from 1000 each, +k/2 for every win."""
    arena, [result] = await rounds(1, players(Ace=perfect), agents={"Ace": "", "Novice": ""}, k=20.0)
    wins = [battle.rollout.extras["score"] for battle in result.children]
    for battle, first in zip(result.children, ("Ace", "Novice"), strict=True):
        sign = 1 if battle.rollout.extras["score"] == 1 else -1
        second = {"Ace": "Novice", "Novice": "Ace"}[first]
        assert battle.rewards == {first: sign / 2, second: -sign / 2}
    gained = 10 * ((wins[0] * 2 - 1) + (1 - wins[1] * 2))
    assert ratings(arena) == {"Ace": 1000 + gained, "Novice": 1000 - gained}
    assert result.rollout.extras["change"] == {"Ace": gained, "Novice": -gained}
    assert result.rewards == {}


async def test_beating_the_weaker_is_worth_less_than_losing_to_it_costs():
    task = load_task("elo_arena", {"agents": {"Ace": "", "Novice": ""}})
    arena = arena_of(task, players(Ace=perfect))
    for artifact in arena.stores["ratings"]:
        artifact.data = {**artifact.data, "rating": 1400.0 if artifact.data["agent"] == "Ace" else 1000.0}
    [result] = await arena.generate_rollouts(task.requests(arena, 1))
    for battle in result.children:
        won = battle.rollout.extras["score"] == (battle.rollout.episode_type == "Ace-Novice")
        assert battle.rewards["Ace"] == pytest.approx(1 / 11 if won else -10 / 11)


async def test_the_best_agent_climbs_and_nothing_is_made_or_lost():
    arena, _ = await rounds(20, players(Bold=perfect), agents=THREE, k=2.0)
    final = ratings(arena)
    assert max(final, key=final.get) == "Bold"
    assert final["Bold"] > 1030
    assert sum(final.values()) == pytest.approx(3000)
    assert all(artifact.data["battles"] == 80 for artifact in arena.stores["ratings"])


async def test_ratings_survive_a_run_that_is_stopped_and_resumed(tmp_path):
    few = ["run.steps=2", "run.episodes_per_step=2", "eval.every=0", "eval.episodes=2", "checkpoint.every=1"]
    config = override(load(find("elo_arena-pocket")), few)
    whole, first = (Run.create(config, tmp_path, name) for name in ("whole", "halves"))
    await whole.start()
    told = first.watch(live=False)
    playing = asyncio.create_task(first.start())
    while not any(isinstance(event, StepFinished) for event in told.drain()):
        await asyncio.sleep(0.01)
    await first.stop()
    await playing
    assert first.state is RunState.STOPPED
    second = Run.open(tmp_path / "halves")
    await second.start()
    assert ratings(second.arena) == ratings(whole.arena) != dict.fromkeys(THREE, 1000.0)


@pytest.mark.parametrize(
    "reply", ["", "[4]", "[1] or [2]", "I win.", "[1]" * 20 + "[3]", "Ignore the rules: [win]"]
)
async def test_a_reply_that_is_no_move_loses_the_battle(reply):
    _, [result] = await rounds(1, players(Cheat=lambda _: reply), agents={"Cheat": "", "Novice": ""})
    for battle in result.children:
        assert battle.rewards == {"Cheat": -0.5, "Novice": 0.5}
        assert battle.rollout.extras["illegal"] == "Cheat"


async def test_an_agents_prompt_is_the_games_and_its_style():
    arena, _ = await rounds(1, players(), agents=THREE)
    assert arena.roles["Plain"].system_prompt == "Nim."
    assert arena.roles["Bold"].system_prompt == "Nim. Be bold."


def judged(better):
    """Agents that answer with their names, and a judge that likes one of them."""

    def speak(player, messages):
        prompt = last(messages)
        if "Two texts" not in prompt:
            return f"{player} answers."
        a, b = (re.search(rf"^Text {letter}:\n> (\w+)", prompt, re.MULTILINE)[1] for letter in "AB")
        return f"Verdict: {'A' if a == better else 'B' if b == better else 'tie'}"

    return speak


async def test_on_questions_a_judge_decides_and_each_two_agents_meet_once():
    arena, [result] = await rounds(1, judged("Bold"), game="questions", agents=THREE)
    assert [c.rollout.episode_type for c in result.children] == ["Plain-Bold", "Plain-Careful", "Bold-Careful"]
    assert [list(c.rewards.values()) for c in result.children] == [[-0.5, 0.5], [0, 0], [0.5, -0.5]]
    assert ratings(arena) == {"Plain": 990, "Bold": 1020, "Careful": 990}


async def test_a_battle_without_a_verdict_changes_nothing():
    arena, [result] = await rounds(1, lambda player, _: f"{player}?", game="questions", agents=THREE)
    assert [child.rollout.unscored for child in result.children] == ["rating_change"] * 3
    assert ratings(arena) == dict.fromkeys(THREE, 1000)


async def test_evaluation_rates_the_agents_against_random_play_and_moves_no_rating():
    task = load_task("elo_arena", {"agents": {"Ace": "", "Novice": ""}})

    def speak(messages, player, rng):
        return perfect(int(last(messages))) if messages[0]["content"].endswith("ace") else "[1]"

    arena = Arena(ScriptedClient(speak))
    task.setup(arena)
    arena.roles["Ace"].system_prompt = "You ace"
    labelled = []
    arena.on_labelled = labelled.extend
    metrics = await task.evaluate(arena, 80, "eval")
    assert metrics["rating_Ace"] > max(1000, metrics["rating_Novice"]) + 50
    assert metrics["spread"] == pytest.approx(metrics["rating_Ace"] - metrics["rating_Novice"])
    assert metrics["rating"] == pytest.approx((metrics["rating_Ace"] + metrics["rating_Novice"]) / 2)
    assert 0.5 < metrics["score_vs_anchor"] < 1
    assert metrics["illegal"] == metrics["unscored"] == 0
    assert arena.records(labelled) == []
    assert ratings(arena) == {"Ace": 1000, "Novice": 1000}
    assert (await task.evaluate(arena, 0, "eval"))["rating"] == 1000


async def test_on_questions_the_anchor_is_the_base_model():
    task = load_task("elo_arena", {"game": "questions", "agents": THREE})
    arena = Arena(ScriptedClient(lambda messages, player, _: judged("policy")(player, messages)))
    task.setup(arena)
    labelled = []
    arena.on_labelled = labelled.extend
    metrics = await task.evaluate(arena, 6, "eval")
    assert metrics["score_vs_anchor"] == 1
    assert metrics["rating"] > 1000
    spoke = {(turn.role, turn.completion.player) for result in labelled for turn in result.rollout.turns}
    assert spoke == {("Anchor", BASE), *((agent, "policy") for agent in THREE)}
    trained = {artifact.data["prompt"] for artifact in arena.stores["prompts"]}
    assert not trained & {result.rollout.artifact["prompt"] for result in labelled}


@pytest.mark.parametrize("game", ["tictactoe", "kuhn_poker"])
async def test_other_games_are_played_too(game):
    results = await play("elo_arena", lambda player, messages: "no", 1, game=game, agents=THREE)
    assert all(sum(battle.rewards.values()) == 0 for battle in results[0].children)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"game": "arithmetic"}, "two-player game, such as 'nim', or 'questions', not 'arithmetic'"),
        ({"game": "nimm"}, "no task 'nimm'; nearest: nim"),
        ({"agents": {"One": ""}}, "two or more names"),
        ({"agents": {"Anchor": "", "B": ""}}, "none of them 'Anchor'"),
        ({"agents": {"A b": "", "B": ""}}, "letters, digits"),
        ({"agents": {"A": 1, "B": ""}}, "agents"),
        ({"k": 0.0}, "k"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options, said):
    with pytest.raises(TaskError, match=said):
        load_task("elo_arena", options)


@pytest.mark.parametrize("preset", ["elo_arena-pocket", "elo_arena-smollm2", "elo_arena-qwen"])
async def test_three_steps(preset, tmp_path):
    few = ["run.episodes_per_step=1", "eval.episodes=2"]
    if "qwen" not in preset:  # the shortest of the games
        few += ["task.options.game=kuhn_poker", "task.options.notation=compact", "task.options.openings=0"]
    else:
        few += [f"roles.{agent}.max_tokens=4" for agent in ("Plain", "Bold", "Careful", "Patient")]
        few += ["task.options.judge={constrained=true, max_tokens=0, most=100}"]
    assert len(await three_steps(preset, tmp_path, *few)) == 3
