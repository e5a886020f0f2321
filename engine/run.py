"""A run: configure it, drive it, steer it, watch it, keep it.

What the app, the command line and a test drive. Its folder is the truth: configuration, a database of all that
happened, and checkpoints. A step is played, credited, learnt from, stored, and only then announced; killed at any
moment, a run resumes from its last checkpoint and drops from its record what came after.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from engine import config as configuration
from engine import guards, past
from engine import store as storage
from engine.arena import Arena
from engine.assembly import PROMPT, arena_of, check_biases, distortions
from engine.config import Config
from engine.credit import keep_learnt
from engine.evaluation import measure
from engine.events import (
    CheckpointSaved,
    CreditAssigned,
    EditApplied,
    EvaluationFinished,
    Event,
    EventStream,
    Notice,
    RunState,
    StateChanged,
    StepFinished,
)
from engine.folders import FolderError, new_folder
from engine.guards import FailureGuard, FiniteGuard
from engine.keeping import Keeper, Kept
from engine.mixture import Mixture, task_of
from engine.past import Past
from engine.progress import Evaluations, Totals, step_metrics, why_skipped
from engine.reading import tracing
from engine.reading.tracing import Trace
from engine.rollouts import Position, RolloutSource, split_stale
from engine.sitting.table import Table
from engine.status import Status
from engine.steering import patience
from engine.steering.edits import Setting, Steering, before
from engine.store import Store
from engine.training.checkpoint import Checkpoint
from engine.training.trainer import LocalTrainer
from engine.types import EngineError, GenerateResult, Question, Role, RunError

T = TypeVar("T")


class Run:
    """Made by `create` or `open`; then `await start()`. Everything here is called on one event loop."""

    def __init__(self, folder: Path, config: Config, store: Store, task: Mixture) -> None:
        self.folder, self.name = folder, folder.name
        self.state = RunState.LOADING
        self.reason = ""
        self.step = 0
        self.totals = Totals()
        self.evaluations = Evaluations(config.eval.metric, config.eval.goal)
        self._store, self._task = store, task
        self._forked_from = store.meta("origin") or ""
        self._arena = arena_of(config, task)
        self._arena.humans.on_absent = self._nobody_there
        self._steering = Steering(config, self._arena, task)
        self.table = Table(self)
        """Where a person plays along."""
        self._keeper = Keeper(folder)
        self._past = Past(folder)
        self._history: list[Event] = []
        self._origin: Checkpoint | None = None
        """Where a resumed run goes on from."""
        self._warned: set[str] = set()
        self._failures, self._finite = FailureGuard(), FiniteGuard()
        self._streams: list[EventStream] = []
        self._trainer: LocalTrainer | None = None
        self._source: RolloutSource | None = None
        self._main: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._going = asyncio.Event()
        self._going.set()
        self._hold_at: int | None = None
        """The step after which it pauses by itself."""
        self._learning = asyncio.Lock()
        """Held from a step's credit to its record."""
        self._saving = asyncio.Lock()
        self._begun = self._stopping = self._ending = self._over = False
        self._is_torn = False
        """Whether weights and record are those of no finished step, and so can't be kept."""
        self._fault: BaseException | None = None
        self._rates = (0.0, 0.0)
        self._clock: float | None = None

    # Making and opening

    @classmethod
    def create(cls, config: Config, runs_dir: Path, name: str | None = None) -> Run:
        """A new run in a folder of its own, named after its task if not by `name`.

        Raises `RunError` if the folder exists or can't be written, `TaskError` if the task and the configuration
        don't fit.
        """
        task = task_of(config)
        arena_of(config, task)  # a configuration that doesn't fit the task leaves no folder behind

        def fill(folder: Path) -> None:
            configuration.save(config, folder / "config.toml")
            Store.create(folder).close()

        try:
            folder = new_folder(runs_dir, config.played, name, fill)
        except FolderError as error:
            raise RunError(f"{error}") from error
        return cls(folder, config, Store.open(folder), task)

    @classmethod
    def open(cls, folder: Path) -> Run:
        """A run that was stopped or killed, to go on with. Raises `RunError` or `StoreError`."""
        if not folder.is_dir():
            raise RunError(f"no run at {folder}; `selfplay-tui runs` lists those there are")
        store = Store.open(folder)
        try:
            config = configuration.load(folder / "config.toml")
            run = cls(folder, config, store, task_of(config))
            run._go_back()
            for edit in store.edits():
                run._apply(edit)
            run._steering.reweigh()
            run._check_edits()
            store.rewind(run._origin.step if run._origin else -1)  # a run that can't be opened is left as it is
            run._history = store.history()
        except BaseException:
            store.close()
            raise
        return run

    # Watching

    @property
    def config(self) -> Config:
        """The configuration as it is in force now."""
        return self._steering.config

    @property
    def origin(self) -> str:
        """The run it was forked from, and where: empty for one that wasn't."""
        return self._forked_from

    @property
    def roles(self) -> dict[str, Role]:
        """The roles as they are in force now."""
        return dict(self._arena.roles)

    def watch(self, *, live: bool = True) -> EventStream:
        """A stream of events from now on; without `live` only facts, which costs nothing while playing."""
        stream = EventStream(live=live)
        self._streams.append(stream)
        self._listen()
        return stream

    def unwatch(self, stream: EventStream) -> None:
        self._streams.remove(stream)
        self._listen()

    def decode(self, tokens: list[int]) -> str:
        """Tokens of an event as text."""
        return self._trainer.tokenizer.decode(tokens) if self._trainer else ""

    async def trace(self, rollout_id: str) -> Trace | None:
        """An episode that is over, with all that its rewards were compared with; None while it isn't known.

        Of a batch still in play none is. Raises `StoreError` where the record can't be read.
        """
        waiting = tracing.of(self._source.waiting, rollout_id, self.step + 1) if self._source else None
        return waiting or await asyncio.to_thread(tracing.read, self.folder, rollout_id)

    def history(self) -> list[Event]:
        """The facts of before it was opened: steps, evaluations, edits, checkpoints."""
        return list(self._history)

    @property
    def checkpoint_path(self) -> Path | None:
        """The newest checkpoint."""
        return self._keeper.newest

    def checkpoints(self) -> list[Kept]:
        """Those there are to roll back to, or to fork from, the newest first."""
        return self._keeper.kept()

    def settings(self) -> list[Setting]:
        """What `set` can change while the run is at work, and what it is now."""
        return self._steering.settings()

    def status(self) -> Status:
        generation, training = self._rates
        return Status(
            state=self.state,
            step=self.step,
            steps=self.config.run.steps,
            version=self._trainer.learner.version if self._trainer else 0,
            tokens_generated=self.totals.tokens_generated,
            tokens_trained=self.totals.tokens_trained,
            generation_rate=generation,
            training_rate=training,
            memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            stale=self.totals.stale,
            queued=self._source.queued if self._source else 0,
            illegal=self.totals.illegal,
            failed=self.totals.failed,
            skipped=self.totals.skipped,
            seconds=self._seconds(),
            live=self._arena.live,
        )

    # Steering

    async def start(self) -> None:
        """Load, play and learn until the steps are done, the run is stopped, or it fails; `state` tells which."""
        if self._main is not None:
            raise RunError(f"run {self.name} was started already")
        self._main = asyncio.create_task(self._run())
        try:
            await asyncio.shield(self._main)
        except asyncio.CancelledError:
            await self.stop()
            raise

    def pause(self, reason: str = "") -> None:
        """Hold everything within one tick of the device. `reason` is for whoever wonders why."""
        if self.state is RunState.PAUSED and reason:
            self._become(RunState.PAUSED, reason)
        if self.state is RunState.RUNNING:
            self._going.clear()
            self._stop_clock()
            self._arena.humans.pause()
            if self._trainer:
                self._trainer.device.pause()
            self._become(RunState.PAUSED, reason)

    def resume(self) -> None:
        """Go on exactly where `pause` held."""
        self._hold_at = None
        if self.state is RunState.PAUSED:
            self._become(RunState.RUNNING)
            self._clock = time.monotonic()
            self._arena.humans.resume()
            if self._trainer:
                self._trainer.device.resume()
            self._going.set()

    def step_once(self) -> None:
        """Go on from a pause for one optimiser step, its evaluation and checkpoint if due, and pause again.

        A step that was held half way is the one. Raises `RunError` where the run isn't paused.
        """
        if self.state is not RunState.PAUSED:
            raise RunError(f"run {self.name} is {self.state}, not paused: pause it to go on by single steps")
        self.resume()
        self._hold_at = self.step + 1

    async def stop(self) -> None:
        """End now, keeping the last finished step. A step being learnt, or written, is finished first."""
        await self.table.leave()
        if self._main is None or self._main.done():
            await self.table.close()
            self._over = True
            self._store.close()
            return
        self._stopping = True
        self.resume()
        async with self._learning, self._saving:
            if self._begun and not self._ending:  # or it would interrupt what is done to end
                self._main.cancel()
        await self._ended.wait()

    async def checkpoint(self) -> Path:
        """Keep the last finished step for good; returns its folder. Raises `RunError` if there is none yet."""
        if self._keeper.has(self.step):
            return await self._save("manual")
        async with self._learning:  # until the step being learnt is done: in a pause, that is after it
            return await self._save("manual")

    async def edit_role(self, role: str, prompt: str) -> int:
        """Give a role another prompt, from the next episode on; returns the edit's number."""
        return self._edit(self._steering.prompt(role, prompt, self.step))

    async def set(self, key: str, value: str) -> int:
        """Change a key of the configuration, from the next episode or step on; returns the edit's number."""
        tokenizer = self._trainer.tokenizer if self._trainer else None
        edit = self._steering.value(key, value, self.step, tokenizer)
        if tokenizer is None and self._begun and "logit_bias" in key:
            raise RunError(f"{key} names tokens of a model that isn't loaded yet: set it once the run goes on")
        return self._edit(edit)

    async def undo(self, number: int) -> int:
        """Have what an edit changed be again what it was before: a new edit, whose number is returned."""
        self._check_is_open("undo an edit")
        edit = next((edit for edit in self._store.edits() if edit.number == number), None)
        if edit is None:
            raise RunError(f"run {self.name} has no edit {number}; it has {self._steering.edits}")
        if edit.target.startswith(PROMPT):
            return await self.edit_role(edit.target.removeprefix(PROMPT), before(edit))
        return await self.set(edit.target, before(edit))

    def _edit(self, edit: EditApplied) -> int:
        self._check_is_open(f"go on with another {edit.target}")
        self._store.record_edit(edit)
        self._apply(edit)
        self._steering.reweigh()
        self._emit(edit)
        self._warn_of_distortions()
        return edit.number

    def _check_is_open(self, purpose: str) -> None:
        if self._over:
            raise RunError(f"run {self.name} is over: resume it to {purpose}")

    def _apply(self, edit: EditApplied) -> None:
        self._steering.apply(edit)
        self.evaluations.metric, self.evaluations.goal = self.config.eval.metric, self.config.eval.goal
        if self._trainer:
            self._trainer.reconfigure(self.config.train, self.config.run.steps)

    # A person

    @property
    def attended(self) -> bool:
        """Whether somebody is there to answer `questions`. Until it is set, they go unanswered at once."""
        return self._arena.humans.attended

    @attended.setter
    def attended(self, is_there: bool) -> None:
        self._arena.humans.attended = is_there

    @property
    def questions(self) -> list[Question]:
        """What episodes ask the person and is not yet answered, the oldest first; as many as one can bear."""
        return self._arena.humans.questions

    def answer(self, question: int, text: str | None) -> None:
        """Answer a question by its id, or skip it with None.

        Raises `RunError` if it is over by now, or takes no such answer.
        """
        try:
            self._arena.humans.answer(question, text)
        except (KeyError, ValueError) as error:
            raise RunError(f"{error.args[0]}") from error

    # Who plays along, at `table`

    @property
    def arena(self) -> Arena:
        """Roles, edits and artifact stores as they are now: to read, for what is played here counts."""
        return self._arena

    @property
    def trainer(self) -> LocalTrainer | None:
        """The model and its players, while the run plays."""
        return self._trainer if self._source is not None and not self._ending else None

    @property
    def is_begun(self) -> bool:
        """Whether it was started and hasn't ended."""
        return self._main is not None and not self._ended.is_set()

    @contextlib.contextmanager
    def record(self) -> Iterator[Store]:
        """The record, also when the run is over."""
        if self._ended.is_set():
            with Store.open(self.folder) as store:
                yield store
        else:
            yield self._store

    # The main loop

    async def _run(self) -> None:
        try:
            self._begun = True  # a task cancelled before this would never reach its own ending
            if self._stopping:
                raise asyncio.CancelledError
            await self._prepare()
            await self._train()
            await self._insist(lambda: self._save("final"))
            self._become(RunState.FINISHED)
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
        is_whole = not (self._is_torn or isinstance(fault, EngineError | FloatingPointError))
        try:
            if is_whole and self._source and not self._keeper.has(self.step, self._source.waiting):
                await self._save("auto", anew=True)  # also rollouts finished since the step was kept
        except (Exception, asyncio.CancelledError) as error:
            fault = fault or self._fault or error
        if fault is None:
            self._become(RunState.STOPPED)
        else:
            self._fail(fault)

    async def _close(self) -> None:
        self._ending = True
        self._stop_clock()
        if self.state is RunState.FINISHED:
            await self.table.finish()  # what a person began is played to its end
        await self.table.close()
        if self._source:
            await self._source.close()
        async with self._saving:
            self._over = True
            if self._trainer:
                await self._trainer.close()
        with contextlib.suppress(storage.StoreError):
            self._store.record_state(self.state, self.reason)
        self._store.close()

    async def _prepare(self) -> None:
        await self.table.close()  # it may have loaded the model, and one is enough
        self._trainer = await LocalTrainer.open(self.config, on_error=self._engine_failed)
        check_biases(self.config, self._trainer.tokenizer)
        await self._trainer.device.call(self._task.prepare)  # which may download for minutes
        self._arena.connect(self._trainer.client)
        if self._origin:
            await self._trainer.restore(self._origin)
            await self._past.restore(self._trainer)
        elif self.config.lora.start:
            await self._trainer.begin_from(Path(self.config.lora.start))
        for problem in self._keeper.refused:
            self._notice(f"{problem}; the one before it is used", "warning")
        self._warn_of_distortions()
        waiting = self._keeper.rollouts(self._origin)
        self._source = RolloutSource(self._arena, self._play, ahead=self.config.run.max_staleness, waiting=waiting)
        self._become(RunState.RUNNING)
        self._clock = time.monotonic()

    async def _train(self) -> None:
        while True:
            if self._evaluation_is_due() and await self._evaluate():
                await self._insist(lambda: self._save("best"))
            elif not self._keeper.has(self.step) and self.step % self.config.checkpoint.every == 0:
                await self._insist(lambda: self._save("auto"))
            if self.step >= self.config.run.steps:
                return
            if self._hold_at is not None and self.step >= self._hold_at:
                self.pause()
            await self._going.wait()
            await self._insist(self._remember)
            await self._step()

    def _evaluation_is_due(self) -> bool:
        """Before, after and every so many steps; also where a stop came between a step and its evaluation."""
        every, last = self.config.eval.every, self.step >= self.config.run.steps
        due = self.step == 0 or last or (every > 0 and self.step % every == 0)
        return due and self.evaluations.step != self.step

    async def _remember(self) -> None:
        assert self._trainer is not None
        await self._past.keep_up(self._trainer, self.step, self.config.past)

    async def _play(self) -> list[GenerateResult]:
        requests = self._task.requests(self._arena, self.config.run.episodes_per_step)
        results = await self._arena.generate_rollouts(self._past.seated(requests, self._arena, self.config))
        self._failures.add(results)
        return results

    async def _step(self) -> None:
        assert self._trainer is not None
        assert self._source is not None
        began = time.monotonic()
        taken = await self._source.take()
        played = time.monotonic()
        async with self._learning:
            self._is_torn = True
            lessons = self.table.lessons()
            results = [*taken, *lessons]
            version, credited = self._trainer.learner.version, self._arena.records(results)
            records, stale = split_stale(credited, version, self.config.run.max_staleness, lessons)
            self._emit(CreditAssigned(self.step + 1, results))
            metrics = await self._trainer.train(records)
            keep_learnt(results, credited, version)
            learnt = time.monotonic()
            metrics |= past.metrics(results)
            metrics |= step_metrics(results, records, stale, played - began, learnt - played)
            self.step += 1
            self.totals.add_step(metrics)
            self._rates = (metrics["generation_rate"], metrics["training_rate"])
            skipped = why_skipped(results, metrics)
            row = (self.step, self._trainer.learner.version, learnt - began, metrics, taken, skipped, lessons)
            await self._insist(lambda: self._recorded(self._store.record_step, *row))
            self._source.done()
            self._is_torn = False
        self._emit(StepFinished(self.step, metrics, skipped))
        if self._finite.add_step(metrics, self._keeper.newest):
            raise FloatingPointError(
                f"{guards.IN_A_ROW} steps in a row, to step {self.step}, had no finite loss or gradient"
            )

    async def _evaluate(self) -> bool:
        """Measure the policy, and the average of its weights; returns whether it is the best so far."""
        await self._going.wait()
        assert self._trainer is not None
        metrics, played = await measure(self._task, self._arena, self._trainer, self.config, self.step)
        self._failures.add(played)
        best = self.evaluations.add(self.step, metrics)
        self.totals.add_evaluation(played)
        event = EvaluationFinished(self.step, metrics, best)
        await self._insist(lambda: self._recorded(self._store.record_evaluation, event, played))
        self._emit(event)
        return best

    # Keeping

    async def _insist(self, write: Callable[[], Awaitable[T]]) -> T:
        """Writes. Where the disk doesn't take it and a person is there, pauses, and tries again when it is resumed.

        Nobody there would mend a disk: then, and when the run is to stop, the error ends it.
        """
        while True:
            try:
                return await write()
            except EngineError as error:
                if self._stopping or not self.attended or not patience.may_pass(error):
                    raise
                self.pause(f"{error}")
                await self._going.wait()

    async def _recorded(self, record: Callable[..., None], *row: Any) -> None:
        record(*row)

    async def _save(self, reason: str, *, anew: bool = False) -> Path:
        """Keep the step just finished, once; a further reason to keep it is added to what is there.

        With `anew` also what has come since, such as rollouts that wait for the next one.
        """
        async with self._saving:
            if self._keeper.has(self.step) and not anew:
                self._keeper.mark(reason)
            elif self._over or self._is_torn or self._trainer is None or self._source is None:
                raise RunError(f"run {self.name} is not playing: there is nothing new to save")
            else:
                state, waiting = self._snapshot(), self._source.waiting
                await self._trainer.device.call(self._store.sync)  # a checkpoint never knows more than the record
                await self._keeper.write(self._trainer, self.step, state, waiting, reason)
            self._keeper.tidy(reason, self.config.checkpoint.keep, self._finite.sound)
            path = self._keeper.newest
            assert path is not None
            saved = CheckpointSaved(self.step, str(path), reason)
            if not self._over:
                self._store.record_checkpoint(saved)
            self._emit(saved)
            return path

    def _keep_good(self) -> str:
        """Have resuming go on from the last sound checkpoint, kept for good; what to say of it."""
        path = self._finite.sound or self._keeper.newest
        if path is not None:
            try:
                saved = CheckpointSaved(self._keeper.go_on_from(path), str(path), "good")
                self._store.record_checkpoint(saved)
            except EngineError as error:
                return f"{error}"
            self._emit(saved)
        return guards.advice(path and path.relative_to(self.folder), self.config.train)

    def _snapshot(self) -> dict[str, Any]:
        assert self._source is not None
        position = self._source.position
        return {
            "step": self.step,
            "played": position.played,
            "stores": position.stores,
            "credit": self._arena.credit.state(),
            "edits": self._steering.edits,
            "mixture": self._task.state(),
            "past": self._past.state(),
            "totals": self.totals.state() | {"seconds": self._seconds()},
            "evaluations": self.evaluations.state(),
            "finite": self._finite.state(),
        }

    def _go_back(self) -> None:
        """To the newest good checkpoint, or to the beginning if there was none yet."""
        self._origin = found = self._keeper.latest()
        if found is None:
            self._check_is_new()
            return
        state = found.state
        self.step = state["step"]
        try:
            Position(state["played"], state["stores"]).restore(self._arena)
            self._arena.credit.load_state(state["credit"])
            if "mixture" in state:
                self._task.load_state(state["mixture"])
            self._past.load_state(state.get("past", ()))
        except ValueError as error:
            raise RunError(f"{found.path} was made with another task or [credit]: {error}") from error
        self.totals.load_state(state["totals"])
        self.evaluations.load_state(state["evaluations"])
        if "finite" in state:
            self._finite.load_state(state["finite"], self._keeper.root)

    def _check_is_new(self) -> None:
        """A record of steps without a checkpoint to go on from is not thrown away."""
        refused = self._keeper.refused
        if refused or self._store.last_step():
            why = "; ".join(refused) or f"there is none in {self._keeper.root}"
            raise RunError(
                f"run {self.name} has no checkpoint to go on from: {why}. Put back one that is whole, or start a "
                f"new run; the record stays as it is"
            )

    def _check_edits(self) -> None:
        """Those in force at the checkpoint are in the record, or it isn't the record of this checkpoint."""
        made_under, known = self._origin.state.get("edits", 0) if self._origin else 0, self._steering.edits
        if self._origin and known < made_under:
            raise RunError(
                f"{self._origin.path} was made under edit {made_under}, but the record knows only {known}: "
                f"put back the {storage.FILE} that belongs to it, or remove the checkpoint"
            )

    # Telling

    def _listen(self) -> None:
        self._arena.on_event = self._emit if any(stream.live for stream in self._streams) else None

    def _emit(self, event: Event) -> None:
        for stream in self._streams:
            stream.put(event)

    def _notice(self, text: str, severity: str) -> None:
        notice = Notice(text, severity)
        self._store.record_notice(self.step, notice)
        self._emit(notice)

    def _nobody_there(self) -> None:
        self._notice(
            "episodes ask a person, and nobody is there to answer: what depends on it has no reward. "
            "Questions are answered in the app",
            "warning",
        )

    def _warn_of_distortions(self) -> None:
        """Once for each way in which a role's sampling biases what is learnt."""
        for text in distortions(self._arena):
            if text not in self._warned:
                self._warned.add(text)
                self._notice(text, "warning")

    def _become(self, state: RunState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self._emit(StateChanged(state, reason))

    def _fail(self, error: BaseException) -> None:
        reason = guards.told(error)
        if isinstance(error, FloatingPointError) or isinstance(error.__cause__, FloatingPointError):
            reason = f"{reason}. {self._keep_good()}"
        self._become(RunState.FAILED, reason)

    def _engine_failed(self, error: BaseException) -> None:
        """The device thread died: whatever the main loop waits for will never come."""
        self._fault = error
        if self._main is not None and not self._ending:
            self._main.cancel()

    def _seconds(self) -> float:
        return self.totals.seconds + (time.monotonic() - self._clock if self._clock is not None else 0.0)

    def _stop_clock(self) -> None:
        self.totals.seconds, self._clock = self._seconds(), None
