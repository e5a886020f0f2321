"""The rules, against what is plain without them."""

import asyncio
import random
from pathlib import Path

import pytest

from engine import Arena, GameTask
from engine.inference.scripted import ScriptedClient
from engine.task import load_task

TASK = load_task("./fifteen.py", {}, folder=Path(__file__).parent)


def test_who_brings_the_sum_to_15_wins():
    assert isinstance(TASK, GameTask)
    game, rng = TASK.game, random.Random(0)
    for _ in range(200):
        state, mover = game.initial(rng), 0
        while (returns := game.returns(state)) is None:
            mover = game.seat(state)
            state = game.play(state, rng.choice(game.legal(state)))
        assert state[0] == 15
        assert returns[mover] == 1.0
        assert sum(returns) == 0.0


@pytest.mark.parametrize("reply", ["", "2", "[4]", "[1] [2]", "I win. [15]"])
def test_a_reply_that_names_no_legal_move_loses(reply):
    arena = Arena(ScriptedClient(lambda messages, player, rng: reply))
    TASK.setup(arena)
    [result] = asyncio.run(arena.generate_rollouts(TASK.requests(arena, 1)))
    assert result.rewards == {"First": -1.5, "Second": 0.5}
