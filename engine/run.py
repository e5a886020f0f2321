"""A run: configure it, drive it, steer it, watch it, keep it.

What the app, the command line and a test drive. Its folder is the truth: configuration, a database of all that
happened, and checkpoints. A step is played, credited, learnt from, stored, and only then announced; killed at any
moment, a run resumes from its last checkpoint and drops from its record what came after.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import resource
import sys
import time
from pathlib import Path
from typing import Any

from engine import config as configuration
from engine import guards
from engine import store as storage
from engine.assembly import PROMPT, apply_edit, arena_of, check_biases, distortions
from engine.config import Config
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
from engine.guards import FiniteGuard
from engine.progress import Evaluations, Totals, step_metrics, why_skipped
from engine.rollouts import RolloutSource, split_stale
from engine.status import Status
from engine.store import Store
from engine.task import Task, load_task
from engine.training import checkpoint
from engine.training.checkpoint import Checkpoint
from engine.training.trainer import LocalTrainer
from engine.types import AVERAGE, EngineError, GenerateResult, Role

FAILURES_IN_A_ROW = 10
"""So many failed episodes with none between that worked stop the run."""

CHANGEABLE = ("train.", "roles.", "eval.", "checkpoint.", "run.steps", "run.episodes_per_step", "credit.discount")
"""What `Run.set` may change while the run goes on."""
FIXED = {"train.optimiser": "the moments of one optimiser mean nothing to the other"}
"""What it may not for all that, and why."""


class RunError(Exception):
    """A run that can't be made, opened, steered or continued: says why, and what would help."""


class Run:
    """Made by `create` or `open`; then `await start()`. Everything here is called on one event loop."""

    def __init__(self, folder: Path, config: Config, store: Store, task: Task) -> None:
        self.folder, self.name = folder, folder.name
        self.config = config
        self.state = RunState.LOADING
        self.reason = ""
        self.step = 0
        self.totals = Totals()
        self.evaluations = Evaluations(config.eval.metric, config.eval.goal)
        self.checkpoint_path: Path | None = None
        self._store, self._task = store, task
        self._arena = arena_of(config, task)
        self._arena.on_labelled = self._keep_evaluation
        self._evaluated: list[GenerateResult] = []
        self._edits = 0
        self._kept = 0
        """Batches of rollouts in the newest checkpoint."""
        self._history: list[Event] = []
        self._origin: Checkpoint | None = None
        """Where a resumed run goes on from."""
        self._refused: list[str] = []
        """Damaged checkpoints passed over."""
        self._warned: set[str] = set()
        self._failed_in_a_row = 0
        self._finite = FiniteGuard()
        self._streams: list[EventStream] = []
        self._trainer: LocalTrainer | None = None
        self._source: RolloutSource | None = None
        self._main: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._going = asyncio.Event()
        self._going.set()
        self._learning = asyncio.Lock()
        """Held while weights and record are those of no finished step."""
        self._saving = asyncio.Lock()
        self._begun = self._stopping = self._over = False
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
        task = load_task(config.task.name, config.task.options)
        arena_of(config, task)  # a configuration that doesn't fit the task leaves no folder behind

        def fill(folder: Path) -> None:
            configuration.save(config, folder / "config.toml")
            Store.create(folder).close()

        try:
            folder = new_folder(runs_dir, Path(config.task.name.partition(":")[0]).stem, name, fill)
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
            run = cls(folder, config, store, load_task(config.task.name, config.task.options))
            run._go_back()
            for edit in store.edits():
                run._apply(edit)
            run._check_edits()
            run._history = store.history()
        except BaseException:
            store.close()
            raise
        return run

    # Watching

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

    def history(self) -> list[Event]:
        """The facts of before it was opened: steps, evaluations, edits, checkpoints."""
        return list(self._history)

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

    def pause(self) -> None:
        """Hold everything within one tick of the device."""
        if self.state is RunState.RUNNING:
            self._going.clear()
            self._stop_clock()
            if self._trainer:
                self._trainer.device.pause()
            self._become(RunState.PAUSED)

    def resume(self) -> None:
        """Go on exactly where `pause` held."""
        if self.state is RunState.PAUSED:
            self._become(RunState.RUNNING)
            self._clock = time.monotonic()
            if self._trainer:
                self._trainer.device.resume()
            self._going.set()

    async def stop(self) -> None:
        """End now, keeping the last finished step. A step being learnt is finished first."""
        if self._main is None or self._main.done():
            self._store.close()
            return
        self._stopping = True
        self.resume()
        async with self._learning:
            if self._begun:
                self._main.cancel()
        await self._ended.wait()

    async def checkpoint(self) -> Path:
        """Keep the last finished step for good; returns its folder. Raises `RunError` if there is none yet."""
        if self._is_saved():
            return await self._save("manual")
        async with self._learning:  # until the step being learnt is done: in a pause, that is after it
            return await self._save("manual")

    async def edit_role(self, role: str, prompt: str) -> int:
        """Give a role another prompt, from the next episode on; returns the edit's number."""
        if role not in self._arena.roles:
            raise RunError(f"no role {role!r}; this run has: {', '.join(self._arena.roles)}")
        return self._edit(f"{PROMPT}{role}", self._arena.roles[role].system_prompt, prompt)

    async def set(self, key: str, value: str) -> int:
        """Change a key of the configuration, from the next episode or step on; returns the edit's number."""
        if not key.startswith(CHANGEABLE):
            raise RunError(f"{key} cannot change while a run goes on; these can: {', '.join(CHANGEABLE)}")
        after = configuration.set_value(self.config, key, value)
        if key in FIXED and configuration.value_text(after, key) != configuration.value_text(self.config, key):
            raise RunError(f"{key} cannot change while a run goes on: {FIXED[key]}. Start a new run with it")
        if self._trainer:
            check_biases(after, self._trainer.tokenizer)
        elif self._begun and "logit_bias" in key:
            raise RunError(f"{key} names tokens of a model that isn't loaded yet: set it once the run goes on")
        return self._edit(key, configuration.value_text(self.config, key), configuration.value_text(after, key))

    def _edit(self, target: str, before: str, after: str) -> int:
        if self._over:
            raise RunError(f"run {self.name} is over: resume it to go on with another {target}")
        edit = EditApplied(self._edits + 1, self.step, target, before, after)
        self._store.record_edit(edit)
        self._apply(edit)
        self._emit(edit)
        self._warn_of_distortions()
        return edit.number

    def _apply(self, edit: EditApplied) -> None:
        self._edits = edit.number
        self.config = apply_edit(edit, self.config, self._arena)
        if self._trainer:
            self._trainer.reconfigure(self.config.train, self.config.run.steps)

    # The main loop

    async def _run(self) -> None:
        try:
            self._begun = True  # a task cancelled before this would never reach its own ending
            if self._stopping:
                raise asyncio.CancelledError
            await self._prepare()
            await self._train()
            await self._save("final")
            self._become(RunState.FINISHED)
        except asyncio.CancelledError:
            if self._fault is not None:
                self._fail(self._fault)
            else:
                await self._leave()
        except Exception as error:
            self._fail(error)
        finally:
            self._stop_clock()
            if self._source:
                await self._source.close()
            async with self._saving:
                if self._trainer:
                    await self._trainer.close()
                self._over = True
            with contextlib.suppress(storage.StoreError):
                self._store.record_state(self.state, self.reason)
            self._store.close()
            self._ended.set()

    async def _leave(self) -> None:
        """Stopped by hand: keep what there is, also rollouts finished since the step was kept."""
        try:
            if self._source is not None and not (self._is_saved() and self._kept == len(self._source.waiting)):
                await self._save("auto", anew=True)
        except Exception as error:
            self._fail(error)
        else:
            self._become(RunState.STOPPED)

    async def _prepare(self) -> None:
        self._trainer = await LocalTrainer.open(self.config, on_error=self._engine_failed)
        check_biases(self.config, self._trainer.tokenizer)
        self._arena.connect(self._trainer.client)
        if self._origin:
            await self._trainer.restore(self._origin)
        elif self.config.lora.start:
            await self._trainer.begin_from(Path(self.config.lora.start))
        for problem in self._refused:
            self._notice(f"{problem}; the one before it is used", "warning")
        self._warn_of_distortions()
        waiting = self._origin.rollouts() if self._origin else []
        self._source = RolloutSource(self._arena, self._play, ahead=self.config.run.max_staleness, waiting=waiting)
        self._kept = len(waiting)
        self._become(RunState.RUNNING)
        self._clock = time.monotonic()
        if not self._going.is_set():
            self._trainer.device.pause()

    async def _train(self) -> None:
        while True:
            if self._evaluation_is_due() and await self._evaluate():
                await self._save("best")
            elif not self._is_saved() and self.step % self.config.checkpoint.every == 0:
                await self._save("auto")
            if self.step >= self.config.run.steps:
                return
            await self._going.wait()
            await self._step()

    def _evaluation_is_due(self) -> bool:
        """Before, after and every so many steps; also where a stop came between a step and its evaluation."""
        every, last = self.config.eval.every, self.step >= self.config.run.steps
        due = self.step == 0 or last or (every > 0 and self.step % every == 0)
        return due and self.evaluations.step != self.step

    async def _play(self) -> list[GenerateResult]:
        results = await self._arena.generate_rollouts(
            self._task.requests(self._arena, self.config.run.episodes_per_step)
        )
        self._guard_failures(results)
        return results

    async def _step(self) -> None:
        assert self._trainer is not None
        assert self._source is not None
        began = time.monotonic()
        results = await self._source.take()
        played = time.monotonic()
        async with self._learning:
            records, stale = split_stale(
                self._arena.records(results), self._trainer.learner.version, self.config.run.max_staleness
            )
            self._emit(CreditAssigned(self.step + 1, results))
            metrics = await self._trainer.train(records)
            learnt = time.monotonic()
            metrics |= step_metrics(results, records, stale, played - began, learnt - played)
            self.step += 1
            self.totals.add_step(metrics)
            self._rates = (metrics["generation_rate"], metrics["training_rate"])
            skipped = why_skipped(results, metrics)
            self._store.record_step(
                self.step, self._trainer.learner.version, learnt - began, metrics, results, skipped=skipped
            )
            self._source.done()
        self._emit(StepFinished(self.step, metrics, skipped))
        if self._finite.add_step(metrics, self.checkpoint_path):
            raise FloatingPointError(
                f"{guards.IN_A_ROW} steps in a row, to step {self.step}, had no finite loss or gradient"
            )

    async def _evaluate(self) -> bool:
        """Measure the policy, and the average of its weights; returns whether it is the best so far."""
        await self._going.wait()
        self._evaluated = []
        metrics = await self._measured()
        if self.config.eval.metric and self.config.eval.metric not in metrics:
            off = "" if self.config.train.average else " (train.average is 0: no average is kept)"
            raise RunError(
                f"eval.metric is {self.config.eval.metric!r}, which this task does not measure; "
                f"it measures: {', '.join(metrics)}{off}"
            )
        odd = [name for name, value in metrics.items() if not math.isfinite(value)]
        if odd:
            raise RunError(f"the task's evaluation gave no finite number for {', '.join(odd)}")
        best = self.evaluations.add(self.step, metrics)
        self.totals.add_evaluation(self._evaluated)
        self._guard_failures(self._evaluated)
        event = EvaluationFinished(self.step, metrics, best)
        self._store.record_evaluation(event, self._evaluated)
        self._emit(event)
        return best

    async def _measured(self) -> dict[str, float]:
        """What the task measures of the policy, and under `average_…` the same of its average."""
        assert self._trainer is not None
        label, n = f"eval-{self.step}", self.config.eval.episodes
        metrics = await self._task.evaluate(self._arena, n, label)
        if self.config.train.average:
            await self._trainer.publish_average()
            with self._arena.standing_in(AVERAGE):
                averaged = await self._task.evaluate(self._arena, n, f"{label}/{AVERAGE}")
            metrics = metrics | {f"{AVERAGE}_{name}": value for name, value in averaged.items()}
        return metrics

    def _keep_evaluation(self, results: list[GenerateResult]) -> None:
        self._evaluated += results

    def _guard_failures(self, results: list[GenerateResult]) -> None:
        for node in (node for result in results for node in result.walk()):
            self._failed_in_a_row = self._failed_in_a_row + 1 if node.rollout.error else 0
            if self._failed_in_a_row >= FAILURES_IN_A_ROW:
                raise RunError(
                    f"{FAILURES_IN_A_ROW} episodes in a row failed; the last, {node.rollout.id}, with "
                    f"{node.rollout.error}. The last finished step is kept: mend the task, then resume"
                )

    # Keeping

    @property
    def _checkpoints(self) -> Path:
        return self.folder / checkpoint.ROOT

    def _is_saved(self) -> bool:
        """Whether the step just finished has its checkpoint."""
        return self.checkpoint_path == checkpoint.folder(self._checkpoints, self.step)

    async def _save(self, reason: str, *, anew: bool = False) -> Path:
        """Keep the step just finished, once; a further reason to keep it is added to what is there.

        With `anew` also what has come since, such as rollouts that wait for the next one.
        """
        async with self._saving:
            if self._is_saved() and not anew:
                path = checkpoint.folder(self._checkpoints, self.step)
                checkpoint.mark(path, reason)
            elif self._over or self._trainer is None or self._source is None:
                raise RunError(f"run {self.name} is not playing: there is nothing new to save")
            else:  # also over a damaged one of the same step, refused before
                state, waiting = self._snapshot(), self._source.waiting
                await self._trainer.device.call(self._store.sync)  # a checkpoint never knows more than the record
                path = await self._trainer.save(self._checkpoints, self.step, state, waiting, reason)
                self._kept = len(waiting)
            if reason == "best":
                checkpoint.only(path, "best")
            checkpoint.prune(self._checkpoints, self.config.checkpoint.keep, self._finite.sound)
            self.checkpoint_path = path
            saved = CheckpointSaved(self.step, str(path), reason)
            if not self._over:
                self._store.record_checkpoint(saved)
            self._emit(saved)
            return path

    def _keep_good(self) -> str:
        """Keep the last sound checkpoint for good, and have resuming go on from it; what to say of it."""
        path = self._finite.sound or self.checkpoint_path
        if path is not None:
            try:
                checkpoint.mark(path, "good")
                checkpoint.condemn(path)
                saved = CheckpointSaved(int(path.name.removeprefix("step-")), str(path), "good")
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
            "edits": self._edits,
            "totals": self.totals.state() | {"seconds": self._seconds()},
            "evaluations": self.evaluations.state(),
            "finite": self._finite.state(),
        }

    def _go_back(self) -> None:
        """To the newest good checkpoint, or to the beginning; forget what came after it."""
        found, self._refused = checkpoint.latest(self._checkpoints)
        self._store.rewind(found.step if found else -1)
        if found is None:
            return
        self._origin = found
        state = found.state
        self.step, self._arena.played = state["step"], state["played"]
        self._arena.credit.load_state(state["credit"])
        for name, kept in state["stores"].items():
            self._arena.stores[name].load_state(kept)
        self.totals.load_state(state["totals"])
        self.evaluations.load_state(state["evaluations"])
        if "finite" in state:
            self._finite.load_state(state["finite"], self._checkpoints)
        self.checkpoint_path = found.path

    def _check_edits(self) -> None:
        """Those in force at the checkpoint are in the record, or it isn't the record of this checkpoint."""
        made_under = self._origin.state.get("edits", 0) if self._origin else 0
        if self._origin and self._edits < made_under:
            raise RunError(
                f"{self._origin.path} was made under edit {made_under}, but the record knows only {self._edits}: "
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
        reason = f"{error}" or type(error).__name__
        if isinstance(error, FloatingPointError) or isinstance(error.__cause__, FloatingPointError):
            reason = f"{reason}. {self._keep_good()}"
        self._become(RunState.FAILED, reason)

    def _engine_failed(self, error: BaseException) -> None:
        """The device thread died: whatever the main loop waits for will never come."""
        self._fault = error
        if self._main is not None:
            self._main.cancel()

    def _seconds(self) -> float:
        return self.totals.seconds + (time.monotonic() - self._clock if self._clock is not None else 0.0)

    def _stop_clock(self) -> None:
        self.totals.seconds, self._clock = self._seconds(), None
