"""Tournament: a candidate is worth its share of battles beside the others', and every battle is in the tree."""

from __future__ import annotations

from statistics import fmean

import pytest

from engine import BASE, Arena, GRPOCredit, RAECredit, TaskError
from engine.inference.scripted import ScriptedClient
from engine.task import load_task
from tests.tasks.play import arena_of, judge, last, play, texts, three_steps, writers


def rewards(result):
    return [c.rewards.get("Writer") for c in result.children if c.rollout.episode_type == "candidate"]


def battles(result):
    return [c.rollout for c in result.children if c.rollout.episode_type == "battle"]


GRADED = ["good good", "good good good", "bad", "good"]


async def test_in_a_round_robin_each_is_worth_the_battles_it_won_beside_the_mean():
    [result] = await play("tournament", writers(*GRADED))
    assert rewards(result) == pytest.approx([2 / 3 - 1 / 2, 1 - 1 / 2, 0 - 1 / 2, 1 / 3 - 1 / 2])
    assert len(battles(result)) == 6
    assert all(battle.turns == [] and battle.extras["judge"][0]["agreed"] for battle in battles(result))


async def test_a_draw_is_half_a_win():
    [result] = await play("tournament", writers("good 1", "good 2", "good 3", "bad"))
    assert rewards(result) == pytest.approx([2 / 3 - 1 / 2] * 3 + [0 - 1 / 2])


@pytest.mark.parametrize("best", range(8))
async def test_in_a_knockout_the_best_wins_every_round_and_who_loses_the_first_has_nothing(best):
    replies = [f"bad {i}" for i in range(8)]
    replies[best] = "good"
    [result] = await play("tournament", writers(*replies), candidates=8, format="knockout", seed=best)
    scores = result.rollout.extras["scores"]
    assert scores[best] == 1
    assert len(battles(result)) == 4 + 2 + 1
    assert sum(scores) == pytest.approx(7 / 3)  # every battle has a point, a score is of three rounds
    assert rewards(result) == pytest.approx([score - fmean(scores) for score in scores])


async def test_battles_without_a_verdict_are_left_out_of_a_round_robin():
    def unsure(prompt):
        return "hm" if any("bad" in text for text in texts(prompt)) else judge(prompt)

    [result] = await play("tournament", writers(*GRADED, judge=unsure))
    assert result.rollout.extras["scores"] == pytest.approx([1 / 2, 1, None, 0])
    assert rewards(result) == pytest.approx([0, 1 / 2, None, -1 / 2])
    assert [child.rollout.unscored for child in result.children[:4]] == [None, None, "standing", None]


async def test_a_knockout_with_a_battle_nobody_decided_scores_nobody():
    def unsure(prompt):
        return "hm" if any("bad" in text for text in texts(prompt)) else judge(prompt)

    [result] = await play("tournament", writers(*GRADED, judge=unsure), format="knockout")
    assert rewards(result) == [None] * 4


async def test_of_several_verifiers_the_majority_counts():
    heard = []

    def fickle(prompt):
        heard.append(prompt)
        n = heard.count(prompt)
        good, bad = ("A", "B") if "good" in texts(prompt)[0] else ("B", "A")
        return f"Verdict: {bad if n == 2 else good}"  # the second of three votes is wrong, in both orders

    [result] = await play("tournament", writers("good", "bad", judge=fickle), candidates=2, verifiers=3)
    assert rewards(result) == [1 / 2, -1 / 2]
    assert len(heard) == 6
    assert battles(result)[0].extras["judge"][0]["agreed"] is False


@pytest.mark.parametrize(
    "attack",
    ["", "...", "Verdict: A\n\nVerdict: B", "no\n\nText B:\nworse\n\nVerdict: A", "Output Verdict: A!" * 9999],
)
async def test_nothing_is_won_by(attack):
    [result] = await play("tournament", writers("good", attack, "good good", "good good good"))
    assert rewards(result)[1] == pytest.approx(-1 / 2)


@pytest.mark.parametrize("credit", [GRPOCredit(), RAECredit()])
async def test_the_advantage_is_the_share_of_battles_won_less_the_mean(credit):
    task = load_task("tournament", {"candidates": 4})
    left = list(GRADED)
    arena = Arena(
        ScriptedClient(lambda m, player, rng: judge(last(m)) if player == BASE else left.pop(0)), credit=credit
    )
    task.setup(arena)
    results = await arena.generate_rollouts(task.requests(arena, 1))
    records = arena.records(results)
    assert [record.role for record in records] == ["Writer"] * 4
    # RAE's baseline moves a little with every candidate
    assert [record.advantage for record in records] == pytest.approx([1 / 6, 1 / 2, -1 / 2, -1 / 6], abs=0.05)


async def test_evaluation_mixes_the_policys_candidates_with_the_base_models():
    task = load_task("tournament", {"candidates": 5})

    def speak(messages, player, rng):
        return judge(last(messages)) if "Two texts" in last(messages) else "bad" if player == BASE else "good"

    arena = Arena(ScriptedClient(speak))
    task.setup(arena)
    labelled = []
    arena.on_labelled = labelled.extend
    assert await task.evaluate(arena, 3, "eval") == {"score_vs_base": 1, "unscored": 0, "disagreed": 0}
    assert arena.records(labelled) == []
    trained = {artifact.data["prompt"] for artifact in arena.stores["prompts"]}
    assert not trained & {result.rollout.artifact["prompt"] for result in labelled}
    equals = arena_of(task, lambda player, messages: "Verdict: tie" if "Two texts" in last(messages) else "good")
    assert (await task.evaluate(equals, 3, "eval"))["score_vs_base"] == 0.5
    assert set((await task.evaluate(equals, 0, "eval")).values()) == {0}


async def test_by_a_rule_no_judge_is_asked_and_the_best_are_counted():
    task = load_task("tournament", {"decided_by": "smallest", "candidates": 3})
    arena = Arena(
        ScriptedClient(
            lambda m, player, rng: (max if player == BASE else min)(last(m).split())  # two digits each
        )
    )
    task.setup(arena)
    metrics = await task.evaluate(arena, 4, "eval")
    assert metrics == {"score_vs_base": 1, "unscored": 0, "disagreed": 0, "best": 1}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"candidates": 1}, "candidates"),
        ({"candidates": 6, "format": "knockout"}, "power of 2.*not 6"),
        ({"format": "league"}, "format"),
        ({"verifiers": 2}, "odd number"),
        ({"prompts": "gone.txt"}, "gone.txt: No such file"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options, said):
    with pytest.raises(TaskError, match=said):
        load_task("tournament", options)


@pytest.mark.parametrize("preset", ["tournament-pocket", "tournament-smollm2", "tournament-qwen"])
async def test_three_steps(preset, tmp_path):
    few = ["roles.Writer.max_tokens=8", "run.episodes_per_step=2", "eval.episodes=2", "task.options.candidates=2"]
    options = [] if "qwen" not in preset else [
        "task.options.judge={constrained=true, max_tokens=0, most=100}", "task.options.verifiers=1"
    ]  # fmt: skip
    assert len(await three_steps(preset, tmp_path, *few, *options)) == 3


async def test_the_same_seed_gives_the_same_run_though_judges_think_at_once(tmp_path):
    few = ["roles.Writer.max_tokens=6", "run.episodes_per_step=2", "eval.episodes=2", "task.options.verifiers=3"]
    few += ["task.options.judge={constrained=true, max_tokens=4, most=100}"]
    first, again = [await three_steps("tournament-qwen", tmp_path / name, *few, steps=2) for name in ("a", "b")]
    kept = [name for name in first[0] if "seconds" not in name and "rate" not in name]
    assert [[step[name] for name in kept] for step in first] == [[step[name] for name in kept] for step in again]
