"""A thread that reads while the screen goes on: one question after the other, those no longer wanted left out."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Tool = TypeVar("Tool")


@contextmanager
def collected_later() -> Iterator[None]:
    """Collects no garbage meanwhile, in a slice that makes much that lives short and holds no cycles.

    A full collection, on whatever thread, stops the screen: for 8 ms, and longer the more is loaded.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Desk(Generic[Tool]):
    """Opens something on a thread of its own, and asks it there.

    SQLite's connections belong to the thread that opened them. The thread is a daemon: an app that quits does not
    wait for it. `close` ends it after the question at hand; whatever `tool` was opened is closed on its thread.
    """

    def __init__(self, opened: Callable[[], Tool], name: str) -> None:
        self._opened = opened
        self._asked: SimpleQueue[tuple[Future[Any], Callable[[Tool], Any]] | None] = SimpleQueue()
        self.closing = threading.Event()
        """Long work looks at it, and ends."""
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def ask(self, question: Callable[[Tool], T]) -> T:
        """The answer, or what was raised. Cancelled before its turn came, a question is not asked at all."""
        future: Future[T] = Future()
        if self.closing.is_set():
            raise asyncio.CancelledError
        self._asked.put((future, question))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        self.closing.set()
        self._asked.put(None)

    def _work(self) -> None:
        tool: Tool | None = None
        while (asked := self._asked.get()) is not None:
            future, question = asked
            if self.closing.is_set() or not future.set_running_or_notify_cancel():
                future.cancel()
                continue
            try:
                # opened by the first question, which hears why it can't be
                tool = tool if tool is not None else self._opened()
                future.set_result(question(tool))
            except BaseException as error:  # it belongs to who asked
                future.set_exception(error)
        if tool is not None:
            close = getattr(tool, "close", None)
            if close is not None:
                close()
