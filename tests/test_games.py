"""The driver of games: how replies are read, what illegal moves cost, who sits where."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine import Arena, EpisodeRequest, read_move
from engine.matches import seats_in_turn, standing
from engine.progress import step_metrics
from engine.task import TaskError, load_task
from tests.test_arena import WavesClient


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        ("[2]", "[2]"),
        ("I take two. [2]", "[2]"),
        ("[2] is best, so [2]", "[2]"),
        ("[1] or [2]", None),
        ("[2] [9]", None),
        ("[9]", None),
        ("2", None),
        ("", None),
        ("[ 2 ]", None),
        ("[[2]]", "[2]"),
        ("[2", None),
        ("[/think][2]", None),
    ],
)
def test_a_reply_names_one_legal_move_or_none(reply, move):
    assert read_move(reply, ["[1]", "[2]", "[3]"]) == move


def arena_for(name: str, answer, **options) -> Arena:
    arena = Arena(WavesClient(answer))
    load_task(name, options).setup(arena)
    return arena


async def test_an_illegal_move_costs_the_offender_and_consoles_the_other():
    arena = arena_for("nim", lambda messages, player: "[7]")
    result = await arena.run_episode("nim")
    assert result.rewards == {"First": -1.5, "Second": 0.5}
    assert result.rollout.breakdown == {
        "outcome": {"First": 0.0, "Second": 0.0},
        "illegal_move": {"First": -1.5, "Second": 0.5},
    }
    assert [turn.illegal for turn in result.rollout.turns] == [True]


async def test_who_met_whom_is_told_though_a_bot_asks_no_model():
    arena = arena_for("nim", lambda messages, player: "[1]")
    request = EpisodeRequest("nim-match", is_trainable=False, players={"Second": "random"})
    (result,) = await arena.generate_rollouts([request])
    assert result.rollout.players == {"First": "policy", "Second": "random"}


async def test_both_seats_of_self_play_train_and_their_rewards_sum_to_zero():
    arena = arena_for("nim", lambda messages, player: "[1]")
    results = await arena.generate_rollouts([EpisodeRequest("nim")] * 20)
    assert all(sum(result.rewards.values()) == 0 for result in results)
    assert {record.role for record in arena.records(results)} == {"First", "Second"}


async def test_the_policy_sits_in_each_seat_in_every_other_match():
    arena = arena_for("tictactoe", lambda messages, player: messages[-1]["content"] and "[none]")
    task = load_task("tictactoe", {})
    metrics = await task.evaluate(arena, 8, "eval-0")
    assert metrics["loss_vs_random"] == metrics["illegal"] == metrics["loss_vs_perfect"] == 1.0
    assert metrics["win_vs_random"] == 0.0


def nth_legal(messages, player):
    """Plays the cells in the order 0 1 2 4 3 5 7 6 8, which nobody wins."""
    lines = messages[-1]["content"]
    return next(f"[{cell}]" for cell in "012435768" if cell in lines[2:])


async def test_a_draw_may_cost_both_while_they_learn_and_is_a_draw_in_matches():
    arena = arena_for("tictactoe", nth_legal, draw=-0.25)
    drawn = await arena.run_episode("tictactoe")
    assert drawn.rollout.extras["returns"] == {"X": 0.0, "O": 0.0}
    assert drawn.rewards == {"X": -0.25, "O": -0.25}
    assert drawn.rollout.breakdown["draw"] == {"X": -0.25, "O": -0.25}
    arena = arena_for("tictactoe", lambda messages, player: "?", draw=-0.25)
    assert (await arena.run_episode("tictactoe")).rewards == {"X": -1.5, "O": 0.5}
    arena = arena_for("tictactoe", nth_legal, draw=-0.25)
    played = await seats_in_turn(arena, "tictactoe-match", ["X", "O"], "policy", 2, label="eval-0")
    assert standing(played, "itself")["draw_vs_itself"] == 1.0


async def test_matches_are_scored_from_the_policys_seat():
    """First always wins: a policy that plays first in every other game wins half."""
    arena = arena_for("nim", lambda messages, player: "[1]")
    played = await seats_in_turn(arena, "nim", ["First", "Second"], "other", 4, label="eval-0")
    for result, mine in played:
        assert result.rollout.players[mine] != "other" in result.rollout.players.values()
        result.rollout.rewards = {"First": 1.0, "Second": -1.0}
    assert standing(played, "other") == {
        "win_vs_other": 0.5, "draw_vs_other": 0.0, "loss_vs_other": 0.5, "reward_vs_other": 0.0
    }  # fmt: skip


async def test_an_evaluation_that_failed_throughout_says_so_instead_of_measuring_nothing():
    arena = arena_for("nim", nth_legal)
    arena.roles.clear()
    with pytest.raises(ValueError, match=r"all 3 episodes of an evaluation failed: KeyError: .*no role 'First'"):
        await seats_in_turn(arena, "nim", ["First", "Second"], "other", 3, label="eval-0")


async def test_openings_are_played_by_nobody_and_differ():
    asked = []
    arena = arena_for(
        "tictactoe", lambda messages, player: asked.append(messages[-1]["content"]) or "?", openings=4
    )
    await arena.generate_rollouts([EpisodeRequest("tictactoe")] * 50)
    assert len(set(asked)) > 20


async def test_a_deal_depends_on_the_seed_and_the_episode_alone():
    def first_prompts(batches):
        asked = []
        arena = arena_for("kuhn_poker", lambda messages, player: asked.append(messages[-1]["content"]) or "?")
        return arena, asked, batches

    arena, together, _ = first_prompts(1)
    await arena.generate_rollouts([EpisodeRequest("kuhn_poker")] * 6)
    arena, apart, _ = first_prompts(6)
    for _ in range(6):
        await arena.run_episode("kuhn_poker")
    assert together == apart


async def test_words_are_shown_where_the_preset_asks_for_them():
    asked = []
    arena = arena_for("nim", lambda messages, player: asked.append(messages) or "?", notation="words")
    await arena.run_episode("nim")
    assert "pile of sticks" in asked[0][0]["content"]
    assert asked[0][1]["content"].startswith("Sticks left:")


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nimm", {}, "nearest: nim"),
        ("nim", {"opening": 3}, "no option 'opening'; did you mean 'openings'"),
        ("nim", {"openings": -1}, "'openings' wants a whole number from 0 to 1000, not -1"),
        ("nim", {"repeats": 0}, "'repeats' wants a whole number from 1"),
        ("nim", {"notation": "prose"}, "'notation' wants one of compact, words, not 'prose'"),
        ("tictactoe", {"draw": -1.5}, "'draw' wants a number from -0.99 to 0.99"),
        ("tictactoe", {"draw": True}, "'draw' wants a number"),
        ("./nowhere.py", {}, "no task file"),
    ],
)
def test_a_task_that_cannot_be_loaded_says_why(name, options, says):
    with pytest.raises(TaskError, match=says):
        load_task(name, options)


def test_a_task_of_ones_own_is_a_class_in_a_file(tmp_path):
    (tmp_path / "coin.py").write_text(
        "from engine import Game\n"
        "class Coin(Game[int]):\n"
        "    def deals(self): return [0]\n"
        "    def seat(self, state): return state\n"
        "    def legal(self, state): return ['[heads]', '[tails]']\n"
        "    def play(self, state, move): return state + 1\n"
        "    def returns(self, state): return (1.0, -1.0) if state == 2 else None\n"
        "    def observe(self, state, seat): return 'Call.'\n"
    )
    arena = Arena(WavesClient(lambda messages, player: "[heads]"))
    load_task("./coin.py", {"openings": 1}, folder=tmp_path).setup(arena)
    assert list(arena.episodes) == ["coin", "coin-match"]
    with pytest.raises(TaskError, match="no task class 'Dice'; it has: Coin"):
        load_task("coin.py:Dice", {}, folder=tmp_path)


async def test_a_steps_metrics_are_plain_sums_over_its_turns():
    arena = arena_for("nim", lambda messages, player: "[1]")
    results = await arena.generate_rollouts([EpisodeRequest("nim")] * 10)
    records = arena.records(results)
    metrics = step_metrics(results, records, 0, 1.0, 2.0)
    turns = sum(len(result.rollout.turns) for result in results)
    assert metrics["tokens_generated"] == 2 * turns
    assert metrics["training_rate"] == 3 * turns / 2.0
    assert metrics["reward/First"] == -metrics["reward/Second"] == metrics["reward/First/outcome"]
    assert metrics["seat_bias"] == 2 * abs(metrics["reward/First"])


async def test_a_constrained_role_can_answer_with_the_legal_moves_alone():
    asked: list[tuple[str, tuple[str, ...]]] = []

    class Noting(WavesClient):
        def submit(self, messages, sampling, player, key, **callbacks):
            asked.append((messages[-1]["content"], sampling.choices))
            return super().submit(messages, sampling, player, key, **callbacks)

    arena = Arena(Noting(lambda messages, player: "[1]"))
    load_task("nim", {}).setup(arena)
    arena.add_role(replace(arena.roles["First"], constrained=True))
    await arena.run_episode("nim")
    assert len(asked) > 3
    assert all(choices == () for _, choices in asked[1::2])
    for sticks, choices in asked[::2]:
        assert choices == ("[1]", "[2]", "[3]")[: int(sticks)]
