"""The device thread: what is asked of it happens in order, on one thread, and always comes to an end."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time

import pytest

from engine.inference.device import Device


class Counter:
    """A service that counts its ticks, and raises once it has counted to `fails_at`."""

    def __init__(self, limit: int = 10**9, fails_at: int | None = None) -> None:
        self.count, self.limit, self.fails_at = 0, limit, fails_at
        self.failures: list[Exception] = []
        self.threads: set[str] = set()
        self.closed = False

    def ready(self) -> bool:
        return self.count < self.limit

    def tick(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.count += 1
        time.sleep(0.0002)
        if self.count == self.fails_at:
            raise ArithmeticError("tick broke")

    def fail(self, error: Exception) -> None:
        self.failures.append(error)
        self.limit = self.count

    def close(self) -> None:
        self.closed = True


@pytest.fixture
async def device():
    device = Device()
    device.start()
    yield device
    assert device.stop()


async def test_calls_run_on_the_device_thread_and_bring_back_results_and_errors(device):
    here = threading.current_thread().name
    assert await device.call(lambda: threading.current_thread().name) not in (here, "")
    assert await device.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await device.call(divmod, 7, 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await device.call(next, iter([]))


async def test_work_advances_one_step_a_tick_in_between_the_ticks_of_a_service(device):
    counter = Counter()
    seen = []

    def steps():
        for _ in range(20):
            seen.append(counter.count)
            yield
        return "done"

    device.serve(counter)
    assert await device.work(steps()) == "done"
    assert [b - a for a, b in itertools.pairwise(seen)] == [1] * 19
    assert counter.threads == {"device"}


async def test_two_pieces_of_work_take_turns(device):
    order = []

    def steps(name):
        for _ in range(3):
            order.append(name)
            yield

    device.pause()
    both = [asyncio.ensure_future(device.work(steps(name))) for name in "ab"]
    await asyncio.sleep(0)
    device.resume()
    await asyncio.gather(*both)
    assert order == list("ababab")


async def test_pause_holds_within_one_tick_calls_still_run_and_resume_goes_on_where_it_was(device):
    counter, seen = Counter(), []

    def steps():
        for i in range(200):
            seen.append(i)
            yield

    device.serve(counter)
    work = asyncio.ensure_future(device.work(steps()))
    await asyncio.sleep(0.01)
    device.pause()
    held = await device.call(lambda: (counter.count, len(seen)))
    await asyncio.sleep(0.03)
    assert (counter.count, len(seen)) == held
    assert await device.call(lambda: "still here") == "still here"
    assert not work.done()
    device.resume()
    await work
    assert seen == list(range(200))


async def test_an_idle_device_sleeps(device):
    device.serve(Counter(limit=1))
    await device.call(int)
    await asyncio.sleep(0.01)
    before = time.process_time()
    await asyncio.sleep(0.3)
    assert time.process_time() - before < 0.05


async def test_an_error_in_a_tick_fails_the_service_is_reported_and_the_device_lives_on():
    reported = asyncio.get_running_loop().create_future()
    device = Device(on_error=reported.set_result)
    device.start()
    counter = Counter(fails_at=3)
    device.serve(counter)
    error = await asyncio.wait_for(reported, 5)
    assert str(error) == "tick broke"
    assert counter.failures == [error]
    assert await device.call(lambda: 1) == 1
    assert device.stop()


async def test_an_error_in_work_reaches_who_waits_for_it(device):
    def steps():
        yield
        raise ArithmeticError("step broke")

    with pytest.raises(ArithmeticError, match="step broke"):
        await device.work(steps())
    assert await device.call(lambda: 1) == 1


async def test_cancelled_work_is_closed_before_its_next_step(device):
    closed = threading.Event()

    def steps():
        try:
            while True:
                yield
        finally:
            closed.set()

    work = asyncio.ensure_future(device.work(steps()))
    await asyncio.sleep(0.01)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert await asyncio.to_thread(closed.wait, 2)


async def test_the_end_is_told_on_the_thread_once_everything_is_closed():
    counter, told = Counter(), []
    device = Device(at_end=lambda: told.append((threading.current_thread().name, counter.closed)))
    device.start()
    device.serve(counter)
    await asyncio.sleep(0.01)
    assert not told
    assert device.stop()
    assert told == [("device", True)]


async def test_stopping_cancels_everything_in_flight_and_closes_services():
    device = Device()
    device.start()
    counter = Counter()
    device.serve(counter)

    def forever():
        while True:
            yield

    device.pause()
    waiting = [asyncio.ensure_future(device.work(forever())), asyncio.ensure_future(device.call(time.sleep, 0))]
    await asyncio.sleep(0.02)
    waiting.append(asyncio.ensure_future(device.call(time.sleep, 0)))
    assert device.stop()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert counter.closed
    assert device.stop()  # a second time is harmless
    with pytest.raises(RuntimeError, match="was stopped"):
        await device.call(int)


async def test_work_that_fails_to_close_keeps_nobody_from_being_told():
    reported = []
    device = Device(on_error=reported.append)
    device.start()
    counter = Counter()
    device.serve(counter)

    def stubborn():
        try:
            while True:
                yield
        finally:
            raise ArithmeticError("will not close")

    works = [asyncio.ensure_future(device.work(stubborn())) for _ in range(2)]
    await asyncio.sleep(0.02)
    assert device.stop()
    results = await asyncio.gather(*works, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert [str(error) for error in reported] == ["will not close"] * 2
    assert counter.closed


async def test_stopping_a_device_that_doesnt_come_back_gives_up_in_time():
    device = Device()
    device.start()
    release = threading.Event()
    call = asyncio.ensure_future(device.call(release.wait))
    await asyncio.sleep(0.01)
    start = time.monotonic()
    assert not device.stop(timeout=0.1)
    assert time.monotonic() - start < 1
    release.set()
    assert device.stop()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_device_that_wasnt_started_says_so():
    with pytest.raises(RuntimeError, match="wasn't started"):
        await Device().call(int)


async def test_commands_from_many_tasks_keep_their_order(device):
    seen = []
    await asyncio.gather(*(device.call(seen.append, i) for i in range(500)))
    assert seen == list(range(500))


async def test_a_service_aside_ticks_in_pauses_and_others_do_not(device):
    run, aside = Counter(), Counter()
    device.serve(run)
    device.serve(aside, aside=True)
    await ticked(run)
    await ticked(aside)
    device.pause()
    await device.call(int)
    held, begun = run.count, aside.count
    await ticked(aside, begun + 20)
    assert run.count == held
    device.resume()
    await ticked(run, held + 1)


async def test_what_breaks_in_a_service_aside_is_its_own_affair():
    told: list[BaseException] = []
    device = Device(on_error=told.append)
    device.start()
    aside, run = Counter(fails_at=3), Counter()
    device.serve(aside, aside=True)
    device.serve(run)
    await ticked(aside, 3)
    await ticked(run, run.count + 5)
    assert [str(error) for error in aside.failures] == ["tick broke"]
    assert told == []
    assert device.stop()


async def ticked(counter: Counter, count: int = 1) -> None:
    async with asyncio.timeout(5):
        while counter.count < count:
            await asyncio.sleep(0.001)
