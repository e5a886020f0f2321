"""How many moves a second come out of the client: `pytest -m bench -s tests/bench/test_generation.py`."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from engine.config import LoRAConfig, ModelConfig
from engine.inference.clients import LocalClient
from engine.inference.device import Device
from engine.types import Message, Sampling
from tasks.nim import Nim
from tasks.tictactoe import TicTacToe

GAMES = 128
WAVES = 10


def load():
    from engine.inference import blas

    blas.load()
    import mlx.core as mx

    from engine.inference import models
    from engine.inference.adapters import Adapters

    lm, tokenizer = models.load("pocket", 512)
    adapters = Adapters(lm, LoRAConfig())
    moved = {name: array + 1e-3 * mx.random.normal(array.shape) for name, array in adapters.initial(0).items()}
    adapters.publish("policy", moved, 1)
    return lm, tokenizer, adapters


def positions(game, rng: random.Random) -> list[list[Message]]:
    """What is asked in so many games, each at a random point of random play."""
    found: list[list[Message]] = []
    while len(found) < GAMES:
        state = rng.choice(game.deals())
        for _ in range(rng.randrange(5)):
            if game.returns(state) is None:
                state = game.play(state, rng.choice(game.legal(state)))
        if game.returns(state) is None:
            question: Message = {"role": "user", "content": game.observe(state, game.seat(state))}
            found.append([{"role": "system", "content": game.prompt}, question])
    return found


@pytest.mark.bench
@pytest.mark.parametrize("game", [Nim(), TicTacToe()], ids=["nim", "tictactoe"])
async def test_moves_a_second(game):
    device = Device()
    device.start()
    lm, tokenizer, adapters = await device.call(load)
    client = LocalClient(device, lm, adapters, tokenizer, ModelConfig(), lockstep=True)
    client.settle = client.flush
    rng, spent, processor, completions = random.Random(0), 0.0, 0.0, []
    for wave in range(WAVES + 2):
        asked = positions(game, rng)
        start, used = time.perf_counter(), time.process_time()
        futures = [client.submit(each, Sampling(max_tokens=8), "policy", rng.getrandbits(64)) for each in asked]
        answers = asyncio.gather(*futures)
        client.flush()
        completions = await answers
        if wave >= 2:
            spent += time.perf_counter() - start
            processor += time.process_time() - used
    device.stop()
    prompt = sum(len(completion.prompt_tokens) for completion in completions) / GAMES
    answer = sum(len(completion.tokens) for completion in completions) / GAMES
    print(
        f"\n{type(game).__name__}: {GAMES * WAVES / spent:.0f} moves/s, {GAMES * WAVES / processor:.0f} a "
        f"processor second; {prompt:.0f} tokens asked and {answer:.1f} answered a move"
    )
