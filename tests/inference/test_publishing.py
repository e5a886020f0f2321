"""What becomes of completions in flight when their player's weights change: they go on, or are waited for."""

from __future__ import annotations

import asyncio

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import log_softmax

from engine.inference import models
from engine.inference.adapters import Adapters
from engine.inference.batcher import Batcher
from engine.inference.padded import Padded
from engine.inference.sampling import sample, uniforms
from engine.types import Sampling
from tests.inference.conftest import LORA, moved
from tests.inference.test_batcher import prompts, request, run
from tests.inference.test_clients import Local

LONG = Sampling(max_tokens=60)
CHANGE = 1e-3
"""Of each number of an adapter: about what a step of AdamW at the learning rate 1e-3 moves it by."""


def a_step_on(adapters):
    """The weights of "policy", and of "red", after another step."""
    rng = np.random.default_rng(0)
    return {
        name: array + mx.array(rng.normal(0.0, CHANGE, array.shape).astype(np.float32))
        for name, array in moved(adapters, 1).items()
    }


async def publish_in_between(folder, *, drain: bool):
    """Publish while eight completions are in flight and eight are asked for.

    Returns which of the first were done by then, all completions, and the log-probabilities of each under the
    weights that hold now, of the whole text in one pass.
    """
    async with Local(folder, endless=True, rows=8) as local:
        seen: list[int] = []
        futures = [
            local.submit(f"{id}", key=id, sampling=LONG, on_tokens=lambda new, _: seen.extend(new))
            for id in range(8)
        ]
        while len(seen) < 8 * 10:
            await asyncio.sleep(0.001)
        newer = await local.device.call(a_step_on, local.adapters)
        late = [local.submit(f"late {id}", key=100 + id, sampling=LONG) for id in range(8)]
        other = local.submit("other", sampling=LONG, player="base")
        await local.client.publish("policy", lambda: local.adapters.publish("policy", newer, 2), drain=drain)
        done = [future.done() for future in futures]
        first, second = await asyncio.gather(*futures), await asyncio.gather(*late)
        await other

        def recomputed(completion) -> np.ndarray:
            tokens = [*completion.prompt_tokens, *completion.tokens]
            with local.adapters.rows([local.adapters.slot("policy")]):
                hidden = local.lm.hidden(mx.array([tokens]))
                logits = np.array(local.lm.head(hidden))[0, len(completion.prompt_tokens) - 1 : -1]
            return log_softmax(logits.astype(np.float64), axis=-1)[
                np.arange(len(completion.tokens)), completion.tokens
            ]

        now = [await local.device.call(recomputed, completion) for completion in (*first, *second)]
        assert local.client.in_flight == 0
    return done, first, second, now


async def test_drained_completions_are_all_of_one_version_and_agree_with_its_weights(folder):
    done, first, second, now = await publish_in_between(folder, drain=True)
    assert done == [True] * 8
    assert {version for completion in first for version in completion.versions} == {1}
    assert {version for completion in second for version in completion.versions} == {2}
    for completion, exact in zip(second, now[8:], strict=True):
        np.testing.assert_allclose(completion.logprobs, exact, atol=1e-4)


async def test_continued_completions_change_over_and_remember_keys_of_the_old_weights(folder):
    done, first, second, now = await publish_in_between(folder, drain=False)
    assert not all(done)
    apart = []
    for completion, exact in zip(first, now, strict=False):
        versions = np.array(completion.versions)
        assert set(versions) == {1, 2}
        assert (np.diff(versions) >= 0).all()
        apart.append(np.abs(np.array(completion.logprobs) - exact)[versions == 2])
    for completion, exact in zip(second, now[8:], strict=True):  # those that began after it are as good as new
        np.testing.assert_allclose(completion.logprobs, exact, atol=1e-4)
    apart = np.concatenate(apart)
    assert apart.mean() > 1e-3


async def test_while_a_player_is_drained_it_begins_nothing_and_others_do(folder):
    async with Local(folder, endless=True) as local:
        seen: list[int] = []
        last = local.submit("x", sampling=Sampling(max_tokens=200), on_tokens=lambda new, _: seen.extend(new))
        while not seen:
            await asyncio.sleep(0.001)
        newer = await local.device.call(a_step_on, local.adapters)
        publishing = asyncio.create_task(
            local.client.publish("policy", lambda: local.adapters.publish("policy", newer, 2), drain=True)
        )
        await asyncio.sleep(0)
        brief = Sampling(max_tokens=2)
        later, other = local.submit("y", sampling=brief), local.submit("z", sampling=brief, player="base")
        await other
        assert [each.done() for each in (last, later, publishing)] == [False] * 3
        await asyncio.wait_for(publishing, 10)
        assert set((await last).versions) == {1}
        assert set((await later).versions) == {2}


async def test_a_pause_holds_a_drain_too(folder):
    async with Local(folder, endless=True) as local:
        seen: list[int] = []
        future = local.submit("x", sampling=LONG, on_tokens=lambda new, _: seen.extend(new))
        while not seen:
            await asyncio.sleep(0.001)
        newer = await local.device.call(a_step_on, local.adapters)
        publishing = asyncio.create_task(
            local.client.publish("policy", lambda: local.adapters.publish("policy", newer, 2), drain=True)
        )
        await asyncio.sleep(0)
        local.device.pause()
        await local.device.call(int)
        await asyncio.sleep(0.05)
        if not future.done():
            assert not publishing.done()
        local.device.resume()
        await asyncio.wait_for(publishing, 10)
        assert set((await future).versions) == {1}
        assert await local.device.call(local.adapters.version, "policy") == 2


async def test_a_drain_that_is_given_up_lets_the_player_go_on(folder):
    async with Local(folder, endless=True) as local:
        hog = local.submit("x", sampling=Sampling(max_tokens=100))
        publishing = asyncio.create_task(local.client.publish("policy", lambda: 1 / 0, drain=True))
        await asyncio.sleep(0.01)
        publishing.cancel()
        assert (await asyncio.wait_for(local.submit("y"), 10)).tokens
        await asyncio.wait([hog])


async def test_what_fails_while_publishing_reaches_the_caller_and_releases_the_player(folder):
    async with Local(folder) as local:
        with pytest.raises(ZeroDivisionError):
            await local.client.publish("policy", lambda: 1 / 0, drain=True)
        assert (await asyncio.wait_for(local.submit("y"), 10)).tokens


@pytest.mark.parametrize("of_modules", [True, False], ids=["modules", "this machine's"])
def test_the_next_token_is_what_the_new_weights_give_over_the_keys_there_are(lm, adapters, monkeypatch, of_modules):
    """Bit for bit where a decode step runs mlx-lm's modules, as the oracle does; others add up in another order."""
    if of_modules:
        monkeypatch.setattr("engine.inference.batcher.decoder", Padded)
    lm.eos_tokens = frozenset()
    prompt, newer = prompts(1, seed=30)[0], a_step_on(adapters)
    batcher = Batcher(lm, adapters)
    batcher.add(request(0, prompt, Sampling(max_tokens=2), "red", key=7))
    batcher.tick()
    keys = lm.make_cache([0])
    with adapters.rows([adapters.slot("red")]):
        lm.hidden(mx.array([prompt]), keys)
        mx.eval([layer.state for layer in keys])
    adapters.publish("red", newer, 9)
    end = run(batcher)[0]

    adapters.publish("green", newer, 1)  # who has never had others
    with adapters.rows([adapters.slot("green")]):
        logits = lm.head(lm.hidden(mx.array([end.tokens[:1]]), keys)[:, -1])
    drawn = uniforms(np.array([7], np.uint64), np.array([1]))
    token, logprob = sample(logits, drawn, np.ones(1, np.float32))
    assert end.tokens[1] == token.item()
    assert end.logprobs[1] == (logprob.item() if of_modules else pytest.approx(logprob.item(), abs=1e-5))


def test_what_begins_after_a_publish_is_bit_for_bit_what_a_fresh_model_with_those_weights_says(folder):
    def loaded():
        lm = models.load(str(folder), context=256)[0]
        adapters = Adapters(lm, LORA)
        return Batcher(lm, adapters, prefix_bytes=1 << 20), adapters

    prompt, sampling = prompts(1, seed=5, shortest=80, longest=81)[0], Sampling(max_tokens=20)
    used, adapters = loaded()
    adapters.publish("red", moved(adapters, 1), 1)
    before = run(used, [request(0, prompt, sampling, "red", key=9)])[0]
    used.add(request(1, prompt, sampling, "red", key=9))  # it continues what the first one left behind
    used.tick()
    adapters.publish("red", moved(adapters, 2), 2)
    under_way = run(used)[1]
    after = run(used, [request(2, prompt, sampling, "red", key=9)])[2]

    fresh, adapters = loaded()
    adapters.publish("red", moved(adapters, 2), 2)
    expected = run(fresh, [request(0, prompt, sampling, "red", key=9)])[0]
    assert (after.tokens, after.logprobs) == (expected.tokens, expected.logprobs)
    assert set(under_way.versions) == {1, 2}
    assert before.logprobs != after.logprobs
