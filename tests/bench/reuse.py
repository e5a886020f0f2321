"""Through the client, as episodes ask: prompt tokens computed against those asked for, and moves a second."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.config import LoRAConfig, ModelConfig
from engine.inference.clients import LocalClient
from engine.inference.device import Device
from engine.types import Completion, Message, Sampling
from tasks.nim import Nim
from tasks.tictactoe import TicTacToe
from tests.bench.results import Result, Target
from tests.bench.sides import documentation

POLICY = "policy"
GROUP = 8
TURNS = 6
EPISODES = 16
GAMES = 128
WAVES = 10
PERSONA = (
    "You are {name}, and you talk with someone you have just met on a long journey by train. You are curious "
    "and kind, you listen well, and you always answer what was said last before you tell something of your own. "
    "Speak in one or two short sentences. Never repeat yourself, and end with a question as often as you can. "
    "Your profession is {profession}, and you are on the way to a town that you knew as a child."
)
CAST = (("Anna", "watchmaker"), ("Bela", "cook"))


@dataclass
class Service:
    """A client and what is behind it."""

    device: Device
    client: LocalClient
    passes: list[int]
    """Tokens of each forward pass of more than one column, as counted around it."""

    async def ask(self, conversations: Sequence[list[Message]], max_tokens: int, rng: random.Random):
        sampling = Sampling(max_tokens=max_tokens)
        futures = [self.client.submit(each, sampling, POLICY, rng.getrandbits(64)) for each in conversations]
        answers = asyncio.gather(*futures)
        self.client.flush()
        return await answers


async def start(source: str, rank: int, context: int, *, lockstep: bool = False) -> Service:
    device = Device()
    device.start()
    passes: list[int] = []

    def load():
        import mlx.core as mx

        from engine.inference import models
        from engine.inference.adapters import Adapters
        from engine.inference.batcher import Batcher

        lm, tokenizer = models.load(source, context)
        hidden = lm.hidden

        def counted(tokens, cache=None):
            if tokens.shape[1] > 1:
                passes.append(tokens.size)
            return hidden(tokens, cache)

        lm.hidden = counted
        adapters = Adapters(lm, LoRAConfig(rank=rank))
        moved = {name: array + 1e-3 * mx.random.normal(array.shape) for name, array in adapters.initial(0).items()}
        adapters.publish(POLICY, moved, 1)
        return Batcher.configured(lm, adapters, tokenizer, ModelConfig()), tokenizer

    batcher, tokenizer = await device.call(load)
    client = LocalClient(device, batcher, tokenizer, queue=ModelConfig().queue, lockstep=lockstep)
    if lockstep:
        client.settle = client.flush
    return Service(device, client, passes)


async def reuse(source: str, rank: int, max_tokens: int) -> list[Result]:
    """Groups of samples of one prompt that differ in all else, and two-sided conversations that grow."""
    results = []
    for measure, play in (
        (f"groups of {GROUP} samples: prompt tokens computed", groups),
        (f"chats of {TURNS} turns a side: prompt tokens computed", chats),
    ):
        service = await start(source, rank, context=4096)
        answers = await play(service, max_tokens)
        stats = service.client.stats
        service.device.stop()
        served = [answer for answer in answers if answer.tokens]  # the others' prompts were too long
        asked = sum(len(answer.prompt_tokens) for answer in served)
        note = (
            f"{len(served)} of {len(answers)} requests, {stats.hits} hits, {sum(service.passes):,} in wide passes"
        )
        results.append(
            Result(measure, stats.computed, "tokens", "asked for", asked, Target(0.25, at_most=True), note=note)
        )
    return results


async def groups(service: Service, max_tokens: int) -> list[Completion]:
    rng = random.Random(0)
    texts = [text for text in documentation().split("\n\n") if len(text) > 200]
    prompts: list[list[Message]] = [
        [{"role": "user", "content": text[:400]}] for text in rng.sample(texts, EPISODES)
    ]
    return await service.ask([prompt for prompt in prompts for _ in range(GROUP)], max_tokens, rng)


async def chats(service: Service, max_tokens: int) -> list[Completion]:
    """Each side sees its own turns as the assistant's, and the other's as the user's."""
    rng, answers = random.Random(0), []
    said: list[list[str]] = [[f"Good morning! Is seat {number} free?"] for number in range(EPISODES)]
    for turn in range(2 * TURNS):
        name, profession = CAST[turn % 2]
        system: Message = {"role": "system", "content": PERSONA.format(name=name, profession=profession)}
        asked = [[system, *seen(episode)] for episode in said]
        spoken = await service.ask(asked, max_tokens, rng)
        for episode, answer in zip(said, spoken, strict=True):
            episode.append(answer.text)
        answers += spoken
    return answers


def seen(said: Sequence[str]) -> list[Message]:
    """What was said, by whom, for the one whose turn it is: the last to speak was the other."""
    return [
        {"role": "user" if (len(said) - place) % 2 else "assistant", "content": text}
        for place, text in enumerate(said)
    ]


async def moves() -> list[Result]:
    """Moves a second of games of the embedded model."""
    results = []
    for game in (Nim(), TicTacToe()):
        service = await start("pocket", LoRAConfig().rank, 512, lockstep=True)
        rng, spent, processor, answers = random.Random(0), 0.0, 0.0, []
        for wave in range(WAVES + 2):
            asked = positions(game, rng, GAMES)
            since, used = time.perf_counter(), time.process_time()
            answers = await service.ask(asked, 8, rng)
            if wave >= 2:
                spent += time.perf_counter() - since
                processor += time.process_time() - used
        service.device.stop()
        prompt = sum(len(answer.prompt_tokens) for answer in answers) / GAMES
        reply = sum(len(answer.tokens) for answer in answers) / GAMES
        note = (
            f"{GAMES * WAVES / processor:,.0f} a processor second; {prompt:.0f} tokens asked, {reply:.1f} answered"
        )
        results.append(Result(f"{type(game).__name__}: moves", GAMES * WAVES / spent, "moves/s", note=note))
    return results


def positions(game: Any, rng: random.Random, count: int) -> list[list[Message]]:
    """What is asked in so many games, each at a random point of random play."""
    found: list[list[Message]] = []
    while len(found) < count:
        state = rng.choice(game.deals())
        for _ in range(rng.randrange(5)):
            if game.returns(state) is None:
                state = game.play(state, rng.choice(game.legal(state)))
        if game.returns(state) is None:
            question: Message = {"role": "user", "content": game.observe(state, game.seat(state))}
            found.append([{"role": "system", "content": game.prompt}, question])
    return found
