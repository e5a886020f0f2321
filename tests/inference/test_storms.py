"""Requests, cancellations, publishes, pauses, drops and deadlines at random: nothing is lost, and nothing left."""

from __future__ import annotations

import asyncio
import gc
import random
import resource

import pytest

from engine.types import Completion, Sampling, StopReason
from tests.inference.test_clients import Local

OPERATIONS = 250


def memory() -> int:
    """Bytes in MLX's arrays. On the device thread."""
    import mlx.core as mx

    gc.collect()
    mx.synchronize()
    return mx.get_active_memory()


def weights(adapters, seed: int):
    from tests.inference.conftest import moved

    return moved(adapters, seed)


class Storm:
    """What was asked of a client, and how often each answer came."""

    def __init__(self, local: Local, seed: int) -> None:
        self.local, self.rng = local, random.Random(seed)
        self.futures: list[asyncio.Future[Completion]] = []
        self.done: dict[int, int] = {}
        self.dropped = False
        self.version = 2
        self.publishing: list[asyncio.Task] = []
        self.words = [" ".join(self.rng.choices(("mill", "river", "town"), k=20)) for _ in range(4)]

    async def step(self) -> None:
        match self.rng.choice(["submit"] * 8 + ["cancel", "cancel", "publish", "drain", "drop", "pause", "wait"]):
            case "submit":
                for _ in range(self.rng.randint(1, 5)):
                    self.submit()
            case "cancel" if self.futures:
                self.rng.choice(self.futures).cancel()
            case "publish":
                await self.publish("guest", drain=False)
            case "drain":
                player = self.rng.choice(["policy", "guest"])
                self.publishing.append(asyncio.create_task(self.publish(player, drain=True)))
            case "drop" if "guest" in await self.local.device.call(lambda: self.local.adapters.players):
                await self.local.device.call(self.local.adapters.drop, "guest")
            case "pause":
                self.local.device.pause()
                await asyncio.sleep(self.rng.random() * 0.003)
                self.submit()
                self.local.device.resume()
            case "wait":
                await asyncio.sleep(self.rng.random() * 0.01)

    def submit(self) -> None:
        rng, id = self.rng, len(self.futures)
        text = rng.choice(self.words)[: rng.choice([1, 20, 90, 400])] + f" {rng.randrange(30)}"
        sampling = Sampling(
            temperature=rng.choice([0.0, 0.7, 1.0]),
            max_tokens=rng.choice([1, 5, 40]),
            repetition_penalty=rng.choice([1.0, 1.0, 1.3]),
            logit_bias=rng.choice([(), (), (("a", 2.0),)]),
            stop=rng.choice([(), (), ("e", "xy")]),
            choices=rng.choice([(), (), ("left", "right", "stay")]),
            seconds=rng.choice([None, None, 0.0001, 0.02]),
        )
        player = rng.choice(["base", "policy", "guest"])
        self.done[id] = 0

        def on_done() -> None:
            self.done[id] += 1

        streamed = (lambda tokens, logprobs: None) if rng.random() < 0.3 else None
        self.futures.append(
            self.local.submit(text, rng.getrandbits(64), sampling, player, on_tokens=streamed, on_done=on_done)
        )

    async def publish(self, player: str, *, drain: bool) -> None:
        self.version += 1
        version, adapters = self.version, self.local.adapters

        def put() -> None:
            adapters.publish(player, weights(adapters, version), version)

        await self.local.client.publish(player, put, drain=drain)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
async def test_in_a_storm_no_request_is_lost_and_nothing_is_left_behind(folder, seed):
    rng = random.Random(100 + seed)
    options = {"rows": rng.choice([2, 8]), "queue": rng.choice([3, 1000]), "prefill_tokens": rng.choice([48, 8192])}
    async with Local(folder, context=400, prefix_mb=1, **options) as local:
        await local.device.call(lambda: local.adapters.publish("guest", weights(local.adapters, 9), 2))
        await local.submit("warm up")
        before = await local.device.call(memory)
        storm = Storm(local, seed)
        batcher = local.client._server._batcher
        async with asyncio.timeout(60):
            for _ in range(OPERATIONS):
                await storm.step()
                assert batcher.stats.kept_bytes <= 1 << 20
            results = await asyncio.gather(*storm.futures, return_exceptions=True)
            await asyncio.gather(*storm.publishing)
        await local.device.call(lambda: local.adapters.publish("guest", weights(local.adapters, 9), 2))
        await local.device.call(batcher.forget)
        assert local.client.in_flight == 0
        assert (len(batcher), batcher.waiting) == (0, 0)
        assert local.errors == []
        assert await local.device.call(memory) <= before + (1 << 17)
    assert len(results) > OPERATIONS
    assert set(storm.done.values()) == {1}
    kinds = set()
    for result in results:
        if isinstance(result, Completion):
            assert len(result.tokens) == len(result.logprobs) == len(result.versions)
            assert len(result.allowed) == (len(result.tokens) if result.sampling.choices else 0)
            assert result.stop_reason is not StopReason.CANCELLED
            kinds.add(result.stop_reason)
        else:
            assert isinstance(result, asyncio.CancelledError | KeyError), repr(result)
    assert kinds >= {StopReason.STOP, StopReason.LENGTH, StopReason.DEADLINE}


async def requests_in_waves(local: Local, count: int) -> None:
    """So many requests, a few hundred at a time in play; conversations among them."""
    rng = random.Random(0)
    limit = asyncio.Semaphore(300)

    async def talk(id: int) -> None:
        text = f"{id} " + "mill and river " * rng.randint(0, 6)
        async with limit:
            for _ in range(2):
                completion = await local.submit(text, id, Sampling(max_tokens=4))
                text += completion.text + " and then?"

    await asyncio.gather(*(talk(id) for id in range(count // 2)))


async def flat(folder, first: int, then: int) -> None:
    async with Local(folder, prefix_mb=2) as local:
        await requests_in_waves(local, first)
        arrays, resident = await local.device.call(memory), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await requests_in_waves(local, then)
        assert await local.device.call(memory) <= arrays + (3 << 19)  # what is kept of prefixes varies within 2 MB
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= resident + 25_000  # kB
        assert local.client.in_flight == 0


@pytest.mark.slow
async def test_two_thousand_requests_leave_memory_flat(folder):
    await flat(folder, 1000, 1000)


@pytest.mark.slow
async def test_ten_thousand_requests_leave_memory_flat(folder):
    await flat(folder, 2000, 8000)
