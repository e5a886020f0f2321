"""Clients: futures that always resolve, deterministic batches in lockstep, and errors that reach the caller."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time

import pytest

from engine.config import LoRAConfig, ModelConfig
from engine.inference.batcher import Batcher
from engine.inference.clients import LocalClient
from engine.inference.device import Device
from engine.inference.scripted import ScriptedClient
from engine.types import EngineError, Sampling, StopReason
from tests.inference.conftest import Oracle, moved
from tests.tiny import END

SAMPLING = Sampling(max_tokens=6)


def ask(text: str) -> list:
    return [{"role": "user", "content": text}]


def _load(folder, context):
    from engine.inference import models
    from engine.inference.adapters import Adapters

    lm, tokenizer = models.load(str(folder), context)
    adapters = Adapters(lm, LoRAConfig(rank=4))
    adapters.publish("policy", moved(adapters, 1), 1)
    return lm, tokenizer, adapters


class Local:
    """A client over its own device, and what became of it."""

    def __init__(
        self,
        folder,
        *,
        lockstep: bool = False,
        endless: bool = False,
        told_every: float = 0.0,
        context: int = 256,
        **config,
    ) -> None:
        """`endless`: no token ends a turn. `told_every`: seconds between what streaming requests tell, unasked."""
        self.folder, self.lockstep, self.endless, self.told_every = folder, lockstep, endless, told_every
        self.config = ModelConfig(context=context, **config)
        self.errors: list[BaseException] = []
        self.device = Device(on_error=self.errors.append)

    async def __aenter__(self) -> Local:
        self.device.start()
        self.lm, self.tokenizer, self.adapters = await self.device.call(_load, self.folder, self.config.context)
        if self.endless:
            self.lm.eos_tokens = frozenset()
        batcher = await self.device.call(Batcher.configured, self.lm, self.adapters, self.tokenizer, self.config)
        batcher._rows._seldomest = self.told_every
        self.client = LocalClient(
            self.device, batcher, self.tokenizer, queue=self.config.queue, lockstep=self.lockstep
        )
        return self

    async def __aexit__(self, *error) -> None:
        self.device.stop()

    def submit(self, text: str, key: int = 1, sampling=SAMPLING, player="policy", **callbacks):
        return self.client.submit(ask(text), sampling, player, key, **callbacks)


async def test_a_completion_holds_all_that_training_needs(folder):
    async with Local(folder) as local:
        streamed, done = [], []
        completion = await local.submit(
            "hello", on_tokens=lambda tokens, logprobs: streamed.extend(tokens), on_done=lambda: done.append(1)
        )
    assert completion.prompt_tokens == local.tokenizer.prompt(ask("hello"))
    assert completion.text == local.tokenizer.decode(completion.tokens)
    assert len(completion.tokens) == len(completion.logprobs) == len(completion.versions) > 0
    assert set(completion.versions) == {1}
    assert (completion.player, completion.sampling) == ("policy", SAMPLING)
    assert streamed == completion.tokens
    assert done == [1]


async def test_tokens_are_told_to_the_last_or_with_the_completion_only(folder):
    async def told(local: Local) -> tuple[list[int], list[int]]:
        told: list[int] = []
        sampling = Sampling(max_tokens=40)
        completion = await local.submit("x", sampling=sampling, on_tokens=lambda new, _: told.extend(new))
        return told, completion.tokens

    async with Local(folder, endless=True, told_every=math.inf) as local:
        first, tokens = await told(local)  # the one report there is comes with the first token of all
        assert first == tokens
        assert await told(local) == ([], tokens)


async def test_many_tasks_each_get_their_own_answer(folder):
    async with Local(folder, rows=5) as local:
        alone = [await local.submit(f"question {i}", key=i) for i in range(12)]
        crowded = await asyncio.gather(*(local.submit(f"question {i}", key=i) for i in range(12)))
    assert [completion.tokens for completion in crowded] == [completion.tokens for completion in alone]


async def play_in_lockstep(folder, jitter: random.Random) -> tuple[list, list]:
    """Four players of unequal patience ask on and on. Returns each batch's requests, and all log-probabilities."""
    async with Local(folder, lockstep=True) as local:
        batches: list[int] = []
        hidden = local.lm.hidden

        def watched(tokens, cache=None):
            batches.append(tokens.shape)
            time.sleep(jitter.random() * 0.003)  # the device's timing must not matter
            return hidden(tokens, cache)

        local.lm.hidden = watched  # type: ignore[method-assign]
        runnable = 4
        logprobs: dict[int, list] = {i: [] for i in range(4)}

        def settle():
            if runnable == 0:
                local.client.flush()

        def unblock():
            nonlocal runnable
            runnable += 1

        local.client.settle = settle

        async def play(i: int) -> None:
            nonlocal runnable
            for turn in range(4):
                await asyncio.sleep(jitter.random() * 0.003)
                sampling = Sampling(max_tokens=1 + (3 * i + turn) % 7)
                future = local.submit(f"{i} {turn}", key=10 * i + turn, sampling=sampling, on_done=unblock)
                runnable -= 1
                settle()
                logprobs[i].append((await future).logprobs)
            runnable -= 1
            settle()

        await asyncio.wait_for(asyncio.gather(*(play(i) for i in range(4))), 20)
    return batches, [logprobs[i] for i in range(4)]


async def test_lockstep_batches_dont_depend_on_timing_to_the_last_bit(folder):
    first = await play_in_lockstep(folder, random.Random(1))
    second = await play_in_lockstep(folder, random.Random(2))
    assert first == second
    assert len({shape[0] for shape in first[0]}) > 1


async def test_in_lockstep_nothing_starts_before_the_flush(folder):
    async with Local(folder, lockstep=True) as local:
        futures = [local.submit(f"{i}", key=i, sampling=Sampling(max_tokens=3)) for i in range(3)]
        await asyncio.sleep(0.05)
        assert not any(future.done() for future in futures)
        local.client.settle = local.client.flush
        local.client.flush()
        await asyncio.wait_for(asyncio.gather(*futures), 5)


async def test_a_flush_while_the_device_ticks_lets_nothing_in_before_the_next_delivery(folder):
    async with Local(folder, lockstep=True) as local:
        tokens: dict[str, list[int]] = {"long": [], "late": []}
        short = local.submit("short", sampling=Sampling(max_tokens=1))
        long = local.submit(
            "long", sampling=Sampling(max_tokens=50), on_tokens=lambda new, _: tokens["long"].extend(new)
        )
        local.client.flush()
        late = local.submit("late", on_tokens=lambda new, _: tokens["late"].extend(new))
        local.client.flush()
        await asyncio.wait_for(short, 5)
        await asyncio.sleep(0.05)
        assert {name: len(new) for name, new in tokens.items()} == {"long": 1, "late": 0}
        local.client.settle = local.client.flush
        local.client.flush()
        await asyncio.wait_for(asyncio.gather(long, late), 5)


async def test_work_of_the_learner_goes_on_while_lockstep_holds_the_batcher(folder):
    async with Local(folder, lockstep=True) as local:
        local.submit("waiting")

        def steps():
            for _ in range(5):
                yield
            return 5

        assert await asyncio.wait_for(local.device.work(steps()), 5) == 5


async def test_pausing_holds_generation_and_resuming_goes_on(folder):
    async with Local(folder) as local:
        expected = await local.submit("x", sampling=Sampling(max_tokens=60))
        tokens = []
        future = local.submit("x", sampling=Sampling(max_tokens=60), on_tokens=lambda new, _: tokens.extend(new))
        while not tokens:
            await asyncio.sleep(0.001)
        local.device.pause()
        await local.device.call(int)
        await asyncio.sleep(0.01)
        held = len(tokens)
        await asyncio.sleep(0.05)
        assert len(tokens) == held
        assert future.done() == (held == len(expected.tokens))
        local.device.resume()
        assert (await future).tokens == expected.tokens


@pytest.mark.parametrize("lockstep", [False, True])
async def test_cancelling_a_future_withdraws_the_request_and_frees_its_row(folder, lockstep):
    async with Local(folder, lockstep=lockstep, rows=1) as local:
        done = []
        local.client.settle = local.client.flush
        endless = Sampling(max_tokens=10_000)
        hog = local.submit("hog", sampling=endless, on_done=lambda: done.append("hog"))
        unsent = local.submit("unsent", on_done=lambda: done.append("unsent"))
        unsent.cancel()
        local.client.flush()
        await asyncio.sleep(0.01)
        hog.cancel()
        after = local.submit("after", on_done=lambda: done.append("after"))
        local.client.flush()
        assert (await asyncio.wait_for(after, 10)).tokens
        assert sorted(done) == ["after", "hog", "unsent"]
        assert local.client.in_flight == 0


async def test_on_done_comes_before_the_one_who_waits_goes_on_also_when_cancelled(folder):
    async with Local(folder) as local:
        order = []

        async def wait(future):
            try:
                await future
            finally:
                order.append("resumed")

        for cancelled in (False, True):
            order.clear()
            future = local.submit("x", on_done=lambda: order.append("done"))
            task = asyncio.ensure_future(wait(future))
            await asyncio.sleep(0)
            if cancelled:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert order == ["done", "resumed"]


@pytest.mark.parametrize("lockstep", [False, True])
async def test_a_device_error_reaches_every_caller_and_the_next_request_works(folder, lockstep):
    async with Local(folder, lockstep=lockstep) as local:
        head = local.lm.head

        def broken(hidden):
            raise MemoryError("no room")

        local.lm.head = broken  # type: ignore[method-assign]
        futures = [local.submit(f"{i}") for i in range(3)]
        local.client.flush()
        results = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 5)
        assert all(isinstance(result, EngineError) for result in results)
        assert "MemoryError: no room" in str(results[0])
        await local.device.call(int)
        assert [str(error) for error in local.errors] == ["no room"]
        local.lm.head = head  # type: ignore[method-assign]
        again = local.submit("again")
        local.client.flush()
        assert (await asyncio.wait_for(again, 5)).tokens


async def test_an_unknown_player_fails_its_own_request_only(folder):
    async with Local(folder) as local:
        good, bad = local.submit("x"), local.submit("x", player="nobody")
        with pytest.raises(KeyError, match="no player 'nobody': there are base, policy"):
            await bad
        assert (await good).tokens


async def test_stopping_the_device_cancels_what_is_in_flight_and_later_requests_fail(folder):
    async with Local(folder) as local:
        done = []
        future = local.submit("x", sampling=Sampling(max_tokens=10_000), on_done=lambda: done.append(1))
        await asyncio.sleep(0.02)
        if not future.done():
            local.device.stop()
            with pytest.raises(asyncio.CancelledError):
                await future
        assert done == [1]
        local.device.stop()
        with pytest.raises(EngineError, match="was stopped"):
            await local.submit("y")


@pytest.mark.parametrize("lockstep", [False, True])
async def test_a_request_the_device_never_looked_at_is_cancelled_when_it_stops(folder, lockstep):
    async with Local(folder, lockstep=lockstep) as local:
        done = []
        futures = [local.submit(f"{i}", on_done=lambda: done.append(1)) for i in range(3)]
        local.device.stop()
        results = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 5)
        assert all(isinstance(result, (asyncio.CancelledError, EngineError)) for result in results)
        assert done == [1, 1, 1]


async def test_a_callback_that_raises_is_reported_and_takes_nobody_along(folder):
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["exception"]))
    async with Local(folder) as local:
        first = local.submit("x", on_done=lambda: 1 / 0)
        second = local.submit("y")
        await asyncio.gather(first, second)
    assert [type(error) for error in reported] == [ZeroDivisionError]


async def test_scores_are_mlx_lms_teacher_forced_logprobs_with_the_end_of_turn(folder):
    replies = ["a", "bc", ""]
    async with Local(folder) as local:
        scores = await local.client.score(ask("x"), replies, Sampling(temperature=0.8), "base")
        oracle = await local.device.call(Oracle, folder)
        for score, reply in zip(scores, replies, strict=True):
            tokens = [*local.tokenizer.encode(reply), END]
            prompt = local.tokenizer.prompt(ask("x"))
            expected = await local.device.call(oracle.logprobs, prompt, tokens, 0.8)
            assert score == pytest.approx(expected.sum(), abs=1e-3)


async def test_the_event_loop_stays_responsive_while_the_device_works(folder):
    async with Local(folder) as local:
        futures = [local.submit(f"{i}", key=i, sampling=Sampling(max_tokens=200)) for i in range(64)]
        lags = []
        while not all(future.done() for future in futures):
            start = time.perf_counter()
            await asyncio.sleep(0.002)
            lags.append(time.perf_counter() - start - 0.002)
    assert sorted(lags)[len(lags) // 2] < 0.02
    assert threading.active_count() < 20


# What waits on this side


@pytest.mark.parametrize("lockstep", [False, True])
async def test_the_device_has_no_more_requests_than_the_queue_holds_and_all_come_back_in_order(folder, lockstep):
    async with Local(folder, lockstep=lockstep, queue=4, rows=2) as local:
        local.client.settle = local.client.flush
        most, batcher = 0, local.client._server._batcher
        tick = batcher.tick

        def watched():
            nonlocal most
            most = max(most, len(batcher))
            return tick()

        batcher.tick = watched  # type: ignore[method-assign]
        order: list[int] = []
        futures = [
            local.submit(f"{i}", key=i, sampling=Sampling(max_tokens=2), on_done=lambda i=i: order.append(i))
            for i in range(20)
        ]
        local.client.flush()
        await asyncio.wait_for(asyncio.gather(*futures), 10)
        assert most == 4
        assert sorted(order) == list(range(20))
        assert all(abs(place - i) < 4 for place, i in enumerate(order))


async def test_what_waits_for_the_queue_costs_nothing_not_even_a_prompt_and_can_be_withdrawn(folder):
    async with Local(folder, queue=2, rows=1, endless=True) as local:
        rendered = []
        prompt = local.tokenizer.prompt
        local.tokenizer.prompt = lambda messages: rendered.append(messages) or prompt(messages)  # type: ignore
        futures = [local.submit(f"{i}", sampling=Sampling(max_tokens=30)) for i in range(100)]
        await asyncio.sleep(0.005)
        assert 2 <= len(rendered) < 50
        for future in futures[10:]:
            future.cancel()
        await asyncio.wait_for(asyncio.gather(*futures[:10]), 10)
        assert len(rendered) == 10
        assert local.client.in_flight == 0


async def test_a_deadline_counts_from_asking_also_where_the_queue_is_full(folder):
    async with Local(folder, queue=1, rows=1, endless=True) as local:
        done = []
        hog = local.submit("hog", sampling=Sampling(max_tokens=200))
        late = local.submit("late", sampling=Sampling(seconds=0.01), on_done=lambda: done.append(1))
        completion = await asyncio.wait_for(late, 5)
        assert (completion.stop_reason, completion.tokens, completion.text) == (StopReason.DEADLINE, [], "")
        assert completion.prompt_tokens == local.tokenizer.prompt(ask("late"))
        assert not hog.done()
        assert done == [1]
        assert (await hog).stop_reason is StopReason.LENGTH


async def test_a_deadline_cuts_a_reply_short(folder):
    async with Local(folder, endless=True, context=256) as local:
        cut = await local.submit("x", sampling=Sampling(max_tokens=10**6, temperature=0.0, seconds=0.02))
        assert cut.stop_reason in (StopReason.DEADLINE, StopReason.CONTEXT)
        assert len(cut.tokens) == len(cut.logprobs) == len(cut.versions)


async def test_a_stop_string_ends_the_text_before_it_and_the_record_after_it(folder):
    async with Local(folder, endless=True) as local:
        whole = await local.submit("x", sampling=Sampling(max_tokens=40))
        letters = [character for character in whole.text[3:] if character.isascii() and character.isprintable()]
        stop = letters[0]
        cut = await local.submit("x", sampling=Sampling(max_tokens=40, stop=(stop, "no such text")))
    assert cut.stop_reason is StopReason.STOP
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.tokens == whole.tokens[: len(cut.tokens)]
    assert local.tokenizer.decode(cut.tokens).endswith(stop)


async def test_choices_and_biases_are_given_as_texts(folder):
    async with Local(folder) as local:
        chosen = await local.submit("x", sampling=Sampling(max_tokens=1, choices=("left", "right")))
        biased = await local.submit("x", sampling=Sampling(max_tokens=3, logit_bias=(("q", 100.0),)))
        wrong = local.submit("x", sampling=Sampling(logit_bias=(("two tokens", 1.0),)))
        fine = local.submit("x")
        with pytest.raises(ValueError, match="two tokens"):
            await wrong
        assert (await fine).tokens
    assert chosen.text in ("left", "right")  # whole, whatever max_tokens
    assert [len(allowed) for allowed in chosen.allowed] == [2] + [1] * (len(chosen.tokens) - 1)
    assert biased.text == "qqq"
    assert biased.allowed == []


@pytest.mark.parametrize("stop", [("",), ("ok", "")])
async def test_an_empty_stop_string_is_refused(folder, stop):
    async with Local(folder) as local:
        with pytest.raises(ValueError, match="empty"):
            await local.submit("x", sampling=Sampling(stop=stop))


async def test_in_lockstep_forgetting_makes_what_follows_repeatable_to_the_last_bit(folder):
    async def conversation(local) -> list:
        text, logprobs = "Tell me all. " * 6, []
        for _ in range(3):
            future = local.submit(text, key=len(text))
            local.client.flush()
            completion = await asyncio.wait_for(future, 5)
            logprobs.append(completion.logprobs)
            text += completion.text + "Go on. "
        return logprobs

    async with Local(folder, lockstep=True) as local:
        local.client.settle = lambda: None
        first = await conversation(local)
        assert local.client.stats.hits == 2
        local.client.forget()
        again = await conversation(local)
        assert local.client.stats.hits == 4
    assert first == again


# A client without a model


async def test_scripted_answers_are_bytes_with_an_end_of_turn_and_seeded_by_the_key():
    client = ScriptedClient(lambda messages, player, rng: f"{messages[-1]['content']} {player} {rng.random():.3f}")
    first = await client.submit(ask("hi"), SAMPLING_LONG, "policy", 5)
    again = await client.submit(ask("hi"), SAMPLING_LONG, "policy", 5)
    other = await client.submit(ask("hi"), SAMPLING_LONG, "policy", 6)
    assert first.text.startswith("hi policy 0.")
    assert first.text == again.text != other.text
    assert first.tokens == [*first.text.encode(), client.tokenizer.end_of_turn]
    assert len(first.logprobs) == len(first.versions) == len(first.tokens)
    assert first.stop_reason is StopReason.STOP


SAMPLING_LONG = Sampling(max_tokens=100)


async def test_a_scripted_answer_that_is_too_long_is_cut():
    client = ScriptedClient(lambda messages, player, rng: "0123456789")
    completion = await client.submit(ask("hi"), Sampling(max_tokens=4), "policy", 0)
    assert (completion.text, completion.stop_reason) == ("0123", StopReason.LENGTH)


async def test_a_scripted_error_reaches_the_caller_and_on_done_is_called():
    def reply(messages, player, rng):
        raise EngineError("scripted")

    done = []
    with pytest.raises(EngineError, match="scripted"):
        await ScriptedClient(reply).submit(ask("x"), SAMPLING, "p", 0, on_done=lambda: done.append(1))
    assert done == [1]


async def test_in_lockstep_scripted_answers_wait_for_the_flush_and_settle_follows():
    client = ScriptedClient(lambda messages, player, rng: "ok", lockstep=True)
    settled = []
    client.settle = lambda: settled.append(1)
    futures = [client.submit(ask("x"), SAMPLING, "p", i) for i in range(2)]
    futures[0].cancel()
    await asyncio.sleep(0.01)
    assert not futures[1].done()
    client.flush()
    assert (await futures[1]).text == "ok"
    assert settled == [1]


async def test_a_stop_string_inside_a_legal_answer_doesnt_cut_it(folder):
    async with Local(folder) as local:
        sampling = Sampling(choices=("[2]", "[3]"), stop=("]",), max_tokens=1)
        assert (await local.submit("which?", sampling=sampling)).text in ("[2]", "[3]")


async def test_a_template_that_fails_after_the_deadline_still_answers(folder, monkeypatch):
    async with Local(folder, endless=True, queue=1) as local:
        first = local.submit("first", sampling=Sampling(max_tokens=200))
        await asyncio.sleep(0)

        def broken(messages):
            raise RuntimeError("this template has no such role")

        monkeypatch.setattr(local.tokenizer, "prompt", broken)
        late = local.submit("late", sampling=Sampling(seconds=0.01))
        with pytest.raises(RuntimeError, match="no such role"):
            await asyncio.wait_for(late, 5)
        await first


async def test_a_player_on_disk_can_be_scored(folder):
    async with Local(folder) as local:
        before = await local.client.score(ask("x"), ["yes", "no"], SAMPLING, "policy")

        def to_disk():
            local.adapters._slots._limit = 2
            local.adapters.publish("other", moved(local.adapters, 5), 1)
            local.adapters.use(["other"])
            with pytest.raises(LookupError):
                local.adapters.slot("policy")

        await local.device.call(to_disk)
        assert await local.client.score(ask("x"), ["yes", "no"], SAMPLING, "policy") == before
