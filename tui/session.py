"""A run being watched: its events folded as they come, whether or not a screen shows them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from engine.events import RunState, StateChanged
from engine.types import EngineError
from tui.interface import RunLike, StatusLike
from tui.rewards import latest
from tui.state import Store


class Session:
    """One run, its store, and the task that plays it. All on the app's event loop."""

    def __init__(self, run: RunLike, clock: Callable[[], float] = time.monotonic) -> None:
        self.run = run
        config = run.config
        self.title = config.title or config.played
        self.store = Store(run.decode, clock, config.eval.metric, config.eval.goal)
        for role in run.roles:
            self.store.sign_of(role)
        self.store.fold(run.history())
        self.store.opened_at = self.store.step
        self.store.notices.clear()  # they were shown when they were news
        self.left_out = 0
        """Live events dropped because nobody drained in time."""
        self._stream = run.watch()
        self._task: asyncio.Task[None] | None = None
        self._started = False
        self._recalling = asyncio.create_task(self._recall(self.store.step)) if self.store.step else None

    @property
    def state(self) -> RunState:
        return self.store.run_state

    @property
    def live(self) -> bool:
        """Whether the run is still at work, so that leaving it means stopping it."""
        return self._task is not None and not self._task.done()

    @property
    def only_read(self) -> bool:
        """Whether the run was opened without being started."""
        return self._task is None

    def begin(self, shown: asyncio.Event | None = None) -> None:
        """Starts the run, if asked for only once it is `shown`; it ends by itself or by `stop`."""
        self.run.attended = True
        self._task = asyncio.create_task(self._play(shown), name=f"run {self.run.name}")

    def show_only(self, state: str) -> None:
        """For a run that has ended: its record, without starting it."""
        self.store.fold([StateChanged(RunState(state), self.run.reason)])

    def drain(self) -> bool:
        """Folds what happened since the last time; returns whether anything has."""
        events = self._stream.drain()
        if self._stream.dropped > self.left_out:
            self.left_out = self._stream.dropped
            self.store.lose_sight()
        if events:
            self.store.fold(events)
        return bool(events)

    def status(self) -> StatusLike:
        return self.run.status()

    @property
    def step(self) -> int:
        """The last step there is a record of, whether or not the run has been loaded to go on from it."""
        return max(self.run.status().step, self.store.step)

    async def stop(self) -> None:
        """Ends the run cleanly, its state saved; returns when it has ended."""
        if self._task is None:
            return
        if not self._started:
            self._task.cancel()
        await self.run.stop()
        await asyncio.wait([self._task])
        self.drain()

    async def close(self) -> None:
        """Stops watching a run that has ended, or was only opened to be read."""
        self.run.unwatch(self._stream)
        await self.run.table.close()
        if self.only_read:
            await self.run.stop()

    async def _recall(self, step: int) -> None:
        """How rewards were spread in the steps before."""
        try:
            self.store.rewards.recall(await asyncio.to_thread(latest, self.run.folder, step))
        except EngineError:
            return  # who reads the record for its own sake is told what is wrong with it

    async def _play(self, shown: asyncio.Event | None) -> None:
        if shown is not None:
            await shown.wait()
        self._started = True
        try:
            await self.run.start()
        except Exception as error:  # whatever it is, the person watching must read it, and the app live on
            self.drain()
            reason = f"{error}" or type(error).__name__
            self.store.fold([StateChanged(RunState.FAILED, reason)])
