"""A run from its start to its end, however it ends: finished, stopped, failed, or with the device thread dead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

from engine import guards
from engine.assembly import distortions
from engine.course import Course
from engine.events import RunState
from engine.garbage import Settled
from engine.keeping import Keeper
from engine.pace import Pace
from engine.patience import insist
from engine.sitting.table import Table
from engine.steps import Stepper
from engine.store import Store, StoreError
from engine.training.checkpoint import Checkpoint
from engine.training.trainer import LocalTrainer
from engine.types import EngineError, RunError
from engine.watching import Watchers


class Life:
    """What a run holds while it lasts, and how it lets go of that."""

    def __init__(self, course: Course, pace: Pace, keeper: Keeper, store: Store, watchers: Watchers) -> None:
        self.trainer: LocalTrainer | None = None
        """From the loading of the model on."""
        self.stepper: Stepper | None = None
        """From when all is loaded."""
        self.learning = asyncio.Lock()
        """Held from a step's credit to its record."""
        self.begun = self._ending = False
        self.table = Table(course, keeper, self)
        """Where a person plays along."""
        self._course, self._pace, self._keeper, self._store, self._watchers = course, pace, keeper, store, watchers
        self._ended = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._fault: BaseException | None = None
        self._settled: Settled | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it was started and hasn't ended."""
        return self._main is not None and not self._ended.is_set()

    @property
    def playing(self) -> LocalTrainer | None:
        """The model and its players, while the run plays."""
        return self.trainer if self.stepper is not None and not self._ending else None

    @contextlib.contextmanager
    def record(self) -> Iterator[Store]:
        """The record, to write to; also of a run that is over, or is only read."""
        if self._store.writes:
            yield self._store
        else:
            with Store.open(self._course.folder) as store:
                yield store

    async def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the run's work to its end, or until it is stopped or fails; the state tells which."""
        if self._main is not None:
            raise RunError(f"run {self._course.folder.name} was started already")
        self._main = asyncio.create_task(self._live(work))
        try:
            await asyncio.shield(self._main)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def load(self, found: Checkpoint | None) -> Stepper:
        """Have the model, its players and the task's data ready to go on, from a checkpoint if one was found."""
        course, keeper, watchers = self._course, self._keeper, self._watchers
        await self.table.close()  # it may have loaded the model, and one is enough
        trainer = self.trainer = await LocalTrainer.open(course.config, on_error=self._engine_failed)
        await course.bring(trainer, found)
        for problem in keeper.refused:
            watchers.warn(course.step, f"{problem}; the one before it is used")
        watchers.warn_once(course.step, distortions(course.arena))
        waiting = keeper.rollouts(found)
        self.stepper = Stepper(course, trainer, self._pace, self._store, watchers.tell, waiting)
        self._settled = Settled()
        self._pace.begin(trainer.device)
        await insist(self._record_start, self._pace)
        return self.stepper

    async def _record_start(self) -> None:
        self._store.record_start()

    async def stop(self) -> None:
        """End now, keeping the last finished step. A step being learnt, or written, is finished first."""
        await self.table.leave()
        if self._main is None or self._main.done():
            await self.table.close()
            self._keeper.closed = True
            self._store.close()
            return
        self._pace.stopping = True
        self._pace.resume()
        async with self.learning, self._keeper.saving:
            if self.begun and not self._ending:  # or it would interrupt what is done to end
                self._main.cancel()
        await self._ended.wait()

    async def _live(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            self.begun = True  # a task cancelled before this would never reach its own ending
            if self._pace.stopping:
                raise asyncio.CancelledError
            await work()
            self._pace.become(RunState.FINISHED)
        except asyncio.CancelledError:
            await self._leave(self._fault)
        except Exception as error:
            await self._leave(error)
        finally:
            try:
                await self._close()
            finally:
                self._ended.set()

    async def _leave(self, fault: BaseException | None) -> None:
        """Ended by hand or by a fault. A task's fault costs nothing that was finished before it."""
        self._ending = True
        stepper = self.stepper
        is_broken = isinstance(fault, EngineError | FloatingPointError)
        try:
            if stepper and not (stepper.is_torn or is_broken or self._keeper.has(stepper.source.waiting)):
                # also where the step is kept: rollouts may have been finished since
                await self._keeper.save("auto", stepper, anew=True)
        except (Exception, asyncio.CancelledError) as error:
            fault = fault or self._fault or error
        if fault is None:
            self._pace.become(RunState.STOPPED)
        else:
            self._fail(fault)

    def _fail(self, error: BaseException) -> None:
        reason = guards.told(error)
        if isinstance(error, FloatingPointError) or isinstance(error.__cause__, FloatingPointError):
            reason = f"{reason}. {self._keeper.keep_good()}"
        self._pace.become(RunState.FAILED, reason)

    async def _close(self) -> None:
        self._ending = True
        self._pace.stop_clock()
        try:
            await self._let_go_of_model()
        finally:  # whatever comes of that, the folder is free for who resumes it
            with contextlib.suppress(StoreError):
                self._store.record_state(self._pace.state, self._pace.reason)
            self._store.close()
            if self._settled is not None:
                self._settled.release()

    async def _let_go_of_model(self) -> None:
        if self._pace.state is RunState.FINISHED:
            await self.table.finish()  # what a person began is played to its end
        await self.table.close()
        if self.stepper:
            await self.stepper.source.close()
        async with self._keeper.saving:
            self._keeper.closed = True
            if self.trainer:
                await self.trainer.close()

    def _engine_failed(self, error: BaseException) -> None:
        """The device thread died: whatever the work waits for will never come."""
        self._fault = error
        if self._main is not None and not self._ending:
            self._main.cancel()
