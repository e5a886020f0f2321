"""The one thread that touches MLX.

MLX's streams belong to a thread, so everything, loading included, happens on this one. The asyncio side puts
commands into a queue; the thread turns in ticks: apply commands, let each service tick once, advance each piece
of work by one step. Results go back through `loop.call_soon_threadsafe`. Nothing here imports MLX itself.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
Command = Callable[[], None]


class Service(Protocol):
    """Something that ticks on the device thread for as long as it is ready, such as a batcher with requests."""

    def ready(self) -> bool: ...

    def tick(self) -> None: ...

    def fail(self, error: Exception) -> None:
        """A tick raised: tell everyone who waits for one."""
        ...

    def close(self) -> None:
        """The device stops: cancel what is in flight. Called once, on the device thread."""
        ...


@dataclass(eq=False, slots=True)
class Work:
    """A generator advanced by one `next` a tick, and the future of its return value."""

    generator: Generator[None, None, Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class Device:
    """The device thread. Its methods are called on the asyncio side, except where they say otherwise."""

    def __init__(
        self,
        *,
        on_error: Callable[[BaseException], None] | None = None,
        at_end: Callable[[], None] | None = None,
    ) -> None:
        """`on_error` is called on the event loop that started the device, with whatever a tick raised.

        `at_end` is called on the thread, as the last thing there.
        """
        self._on_error = on_error
        self._at_end = at_end
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._stopping = False
        self._paused = False
        self._services: list[Service] = []
        self._aside: list[Service] = []
        """Those of the services that aren't part of the run."""
        self._works: list[Work] = []
        self._calls: set[asyncio.Future[Any]] = set()

    def start(self) -> None:
        """Start the thread. Call it on a running event loop, once.

        Raises:
            RuntimeError: if it was started before.
        """
        if self._thread is not None:
            raise RuntimeError("this device was started before; make a new one")
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="device", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> bool:
        """End the thread after its current tick, cancelling what is in flight. Returns whether it ended in time."""
        if self._thread is None:
            return True
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._commands.put(_nothing)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    async def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Run a function between two ticks, also while paused; its result, or what it raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def command() -> None:
            try:
                result = function(*arguments)
            except Exception as error:
                self._settle(future, loop, error=error)
            else:
                self._settle(future, loop, result)

        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        self.post(command)
        return await future

    async def work(self, generator: Generator[None, None, Result]) -> Result:
        """Advance a generator by one `next` a tick, in between the ticks of generation; its return value.

        If the waiting task is cancelled, the generator is closed before its next step.
        """
        loop = asyncio.get_running_loop()
        work = Work(generator, loop.create_future(), loop)
        self._calls.add(work.future)
        work.future.add_done_callback(self._calls.discard)
        self.post(lambda: self._works.append(work))
        return await work.future

    def pause(self, held: Callable[[], None] | None = None) -> None:
        """Hold ticks and work after the current one. Calls still run, and services that stand aside tick.

        `held` is called on the event loop that started the device, once the current tick is over.
        """
        self.post(lambda: self._pause(held))

    def resume(self) -> None:
        """Go on exactly where `pause` held."""
        self.post(self._resume)

    def serve(self, service: Service, *, aside: bool = False) -> None:
        """Let a service tick from now on; it is closed when the device stops.

        One that stands `aside` is no part of the run: it ticks in pauses too, and its faults are its own.
        """
        if aside:
            self._aside.append(service)
        self._services.append(service)
        self.post(_nothing)

    def post(self, command: Command) -> None:
        """Run a command that returns nothing, and must not raise, between two ticks, in the order of posting.

        Raises:
            RuntimeError: if the device isn't running, or stops.
        """
        with self._lock:
            if self._thread is None or self._stopping:
                state = "was stopped" if self._stopping else "wasn't started"
                raise RuntimeError(f"the device {state}, so nothing can be asked of it")
            self._commands.put(command)

    def deliver(self, callback: Callable[..., None], *arguments: Any) -> None:
        """On the device thread: call back on the event loop that started it, unless that is closed already."""
        assert self._loop is not None
        _soon(self._loop, callback, *arguments)

    # The thread

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._apply_commands()
                if self._stopping:
                    continue
                for service in self._due():
                    self._tick(service)
                if not self._paused:
                    for work in list(self._works):
                        self._advance(work)
        except Exception as error:  # a command or a service's bookkeeping broke its promise: the thread ends
            if self._on_error is None:
                raise
            self._report(error)
        finally:
            self._close()

    def _apply_commands(self) -> None:
        """Apply what has been posted; wait for it if there is nothing else to do."""
        works = self._works and not self._paused
        if not works and not self._due():
            self._commands.get()()
        while not self._stopping:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return
            command()

    def _due(self) -> list[Service]:
        """Who ticks now."""
        return [service for service in (self._aside if self._paused else self._services) if service.ready()]

    def _tick(self, service: Service) -> None:
        try:
            service.tick()
        except Exception as error:
            service.fail(error)
            if service not in self._aside:
                self._report(error)

    def _advance(self, work: Work) -> None:
        if work.future.cancelled():
            self._works.remove(work)
            self._end(work.generator)
            return
        try:
            next(work.generator)
        except StopIteration as stop:
            self._works.remove(work)
            self._settle(work.future, work.loop, stop.value)
        except Exception as error:
            self._works.remove(work)
            self._settle(work.future, work.loop, error=error)

    def _end(self, closing: Generator[None, None, Any] | Service) -> None:
        try:
            closing.close()
        except Exception as error:
            self._report(error)

    def _pause(self, held: Callable[[], None] | None) -> None:
        self._paused = True
        if held is not None:
            self.deliver(held)

    def _resume(self) -> None:
        self._paused = False

    def _report(self, error: Exception) -> None:
        if self._on_error is not None:
            self.deliver(self._on_error, error)

    def _close(self) -> None:
        with self._lock:
            self._stopping = True
        for closing in (*(work.generator for work in self._works), *self._services):
            self._end(closing)
        for future in list(self._calls):
            _soon(future.get_loop(), future.cancel)
        if self._at_end is not None:
            self._at_end()

    def _settle(
        self,
        future: asyncio.Future[Any],
        loop: asyncio.AbstractEventLoop,
        result: Any = None,
        error: Exception | None = None,
    ) -> None:
        def resolve() -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            elif isinstance(error, StopIteration):  # the one exception that a future refuses
                future.set_exception(RuntimeError(f"StopIteration left a call: {error}"))
            else:
                future.set_exception(error)

        _soon(loop, resolve)


def _soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *arguments: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:
        if not loop.is_closed():  # a closed loop has nobody left to tell
            raise


def _nothing() -> None:
    pass
