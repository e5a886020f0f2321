"""A run: configure it, drive it, steer it, watch it, keep it.

What the app, the command line and a test drive. Its folder is the truth: configuration, a database of all that
happened, and checkpoints. A step is played, credited, learnt from, stored, and only then announced; killed at any
moment, a run resumes from its last checkpoint and drops from its record what came after.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine import config as configuration
from engine.arena import Arena
from engine.assembly import PROMPT, arena_of, distortions
from engine.config import Config
from engine.course import Course
from engine.events import EditApplied, Event, EventStream, RunState, StepFinished
from engine.folders import FolderError, new_folder
from engine.keeping import Keeper, Kept
from engine.life import Life
from engine.mixture import Mixture, task_of
from engine.pace import Pace
from engine.patience import insist
from engine.progress import Evaluations, Totals
from engine.reading import tracing
from engine.reading.tracing import Trace
from engine.resuming import go_back
from engine.status import Status, glance
from engine.steering.edits import Setting, before
from engine.store import Store
from engine.training.checkpoint import Checkpoint
from engine.training.trainer import LocalTrainer
from engine.types import Question, Role, RunError
from engine.watching import Watchers


class Run:
    """Made by `create` or `open`; then `await start()`. Everything here is called on one event loop."""

    def __init__(self, folder: Path, config: Config, store: Store, task: Mixture) -> None:
        self.folder, self.name = folder, folder.name
        self.origin = store.meta("origin") or ""
        """The run it was forked from, and where: empty for one that wasn't."""
        self._store = store
        self._course = Course(config, task, folder)
        self._watchers = Watchers(self.arena, store)
        self._pace = Pace(self.totals, self.arena.humans, self._watchers.tell)
        self._keeper = Keeper(self._course, store, self._watchers.tell)
        self._life = Life(self._course, self._pace, self._keeper, store, self._watchers)
        self.table = self._life.table
        """Where a person plays along."""
        self._goes_on_from: Checkpoint | None = None
        self._standing = store.standing()
        """Of the record, when it was opened."""
        self._history: list[Event] = []
        self.arena.humans.on_absent = self._nobody_there

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
        """A run as it was left, to go on with. Raises `RunError` or `StoreError`.

        One that has finished is only read until it is started or changed; until then others may go on with it.
        """
        if not folder.is_dir():
            raise RunError(f"no run at {folder}; `selfplay-tui runs` lists those there are")
        with Store.open(folder, read_only=True) as record:
            ended = record.state()
        is_done = ended is not None and ended.state is RunState.FINISHED
        store = Store.open(folder, read_only=is_done)
        try:
            config = configuration.load(folder / "config.toml")
            run = cls(folder, config, store, task_of(config))
            run._goes_on_from = go_back(run._course, run._keeper, store)
            if store.writes:
                run._rewind()  # a run that can't be opened is left as it is
            run._history = store.history()
        except BaseException:
            store.close()
            raise
        return run

    def _take_up(self) -> None:
        """Have to oneself what was only read so far.

        Raises `StoreError` where another process has the run, or had it since it was opened.
        """
        if not self._store.writes and not self._keeper.closed:
            self._store.take_up(self._standing)
            self._rewind()
            self._history = self._store.history()

    def _rewind(self) -> None:
        """Drop from the record what came after the checkpoint that the run goes on from."""
        self._store.rewind(self._goes_on_from.step if self._goes_on_from else -1)

    # The main loop

    async def _work(self) -> None:
        """Evaluate and keep what is due; play, credit, learn, publish and record a step; until all are done."""
        course, keeper = self._course, self._keeper
        stepper = await self._life.load(self._goes_on_from)
        while True:
            if course.evaluation_is_due and await stepper.evaluate():
                await self._keep("best")
            elif course.checkpoint_is_due and not keeper.has():
                await self._keep("auto")
            if self.step >= self.config.run.steps:
                break
            await self._pace.after(self.step)
            step = await stepper.play(lambda: self.table.guests)
            async with self._life.learning:
                stepper.credit(step, self.table.lessons())
                await stepper.learn_and_publish(step)
                await stepper.record(step)
            self._watchers.tell(StepFinished(self.step, step.metrics, step.skipped))
            course.finite.add_step(self.step, step.metrics, keeper.newest)
        await self._keep("final")

    async def _keep(self, reason: str) -> None:
        await insist(lambda: self._keeper.save(reason, self._life.stepper), self._pace)

    # Driving

    async def start(self) -> None:
        """Load, play and learn until the steps are done, the run is stopped, or it fails; `state` tells which.

        Raises `StoreError` where it was only read so far, and another process has it or had it meanwhile.
        """
        self._take_up()
        await self._life.start(self._work)

    def pause(self, reason: str = "") -> None:
        """Hold everything within one tick of the device. `reason` is for whoever wonders why."""
        self._pace.pause(reason)

    def resume(self) -> None:
        """Go on exactly where `pause` held."""
        self._pace.resume()

    def step_once(self) -> None:
        """Go on from a pause for one optimiser step, its evaluation and checkpoint if due, and pause again.

        A step that was held half way is the one. Raises `RunError` where the run isn't paused.
        """
        if self.state is not RunState.PAUSED:
            raise RunError(f"run {self.name} is {self.state}, not paused: pause it to go on by single steps")
        self._pace.resume(until=self.step + 1)

    async def stop(self) -> None:
        """End now, keeping the last finished step. A step being learnt, or written, is finished first."""
        await self._life.stop()

    async def checkpoint(self) -> Path:
        """Keep the last finished step for good; returns its folder. Raises `RunError` if there is none yet."""
        if self._keeper.has():
            return await self._keeper.save("manual", self._life.stepper)
        async with self._life.learning:  # until the step being learnt is done: in a pause, that is after it
            return await self._keeper.save("manual", self._life.stepper)

    # Steering

    async def edit_role(self, role: str, prompt: str) -> int:
        """Give a role another prompt, from the next episode on; returns the edit's number."""
        return self._edit(self._course.steering.prompt(role, prompt, self.step))

    async def set(self, key: str, value: str) -> int:
        """Change a key of the configuration, from the next episode or step on; returns the edit's number."""
        trainer, steering = self._life.trainer, self._course.steering
        tokenizer = trainer.tokenizer if trainer else None
        edit = steering.value(key, value, self.step, tokenizer)
        if tokenizer is None and self._life.begun and "logit_bias" in key:
            raise RunError(f"{key} names tokens of a model that isn't loaded yet: set it once the run goes on")
        return self._edit(edit)

    async def undo(self, number: int) -> int:
        """Have what an edit changed be again what it was before: a new edit, whose number is returned."""
        self._check_is_open("undo an edit")
        edit = next((edit for edit in self._store.edits() if edit.number == number), None)
        if edit is None:
            raise RunError(f"run {self.name} has no edit {number}; it has {self._course.steering.edits}")
        if edit.target.startswith(PROMPT):
            return await self.edit_role(edit.target.removeprefix(PROMPT), before(edit))
        return await self.set(edit.target, before(edit))

    def _edit(self, edit: EditApplied) -> int:
        self._check_is_open(f"go on with another {edit.target}")
        self._take_up()
        self._store.record_edit(edit)
        self._course.apply(edit)
        if self._life.trainer:
            self._life.trainer.reconfigure(self.config.train, self.config.run.steps)
        self._course.steering.reweigh()
        self._watchers.tell(edit)
        self._watchers.warn_once(self.step, distortions(self.arena))
        return edit.number

    def _check_is_open(self, purpose: str) -> None:
        if self._keeper.closed:
            raise RunError(f"run {self.name} is over: resume it to {purpose}")

    def settings(self) -> list[Setting]:
        """What `set` can change while the run is at work, and what it is now."""
        return self._course.steering.settings()

    # Watching

    @property
    def config(self) -> Config:
        """The configuration as it is in force now."""
        return self._course.config

    @property
    def arena(self) -> Arena:
        """Roles, edits and artifact stores as they are now: to read, for what is played here counts."""
        return self._course.arena

    @property
    def trainer(self) -> LocalTrainer | None:
        """The model and its players, while the run plays."""
        return self._life.playing

    @property
    def roles(self) -> dict[str, Role]:
        """The roles as they are in force now."""
        return dict(self.arena.roles)

    @property
    def state(self) -> RunState:
        return self._pace.state

    @property
    def reason(self) -> str:
        """Why it failed, or is held; empty where it wasn't."""
        return self._pace.reason

    @property
    def step(self) -> int:
        """The last finished one."""
        return self._course.step

    @property
    def totals(self) -> Totals:
        return self._course.totals

    @property
    def evaluations(self) -> Evaluations:
        return self._course.evaluations

    def status(self) -> Status:
        return glance(self._course, self._pace, self._life)

    def watch(self, *, live: bool = True) -> EventStream:
        """A stream of events from now on; without `live` only facts, which costs nothing while playing."""
        return self._watchers.add(live=live)

    def unwatch(self, stream: EventStream) -> None:
        self._watchers.remove(stream)

    def decode(self, tokens: list[int]) -> str:
        """Tokens of an event as text."""
        return self._life.trainer.tokenizer.decode(tokens) if self._life.trainer else ""

    async def trace(self, rollout_id: str) -> Trace | None:
        """An episode that is over, with all that its rewards were compared with; None while it isn't known.

        Of a batch still in play none is. Raises `StoreError` where the record can't be read.
        """
        stepper = self._life.stepper
        waiting = tracing.of(stepper.source.waiting, rollout_id, self.step + 1) if stepper else None
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

    # A person

    @property
    def attended(self) -> bool:
        """Whether somebody is there to answer `questions`. Until it is set, they go unanswered at once."""
        return self.arena.humans.attended

    @attended.setter
    def attended(self, is_there: bool) -> None:
        self.arena.humans.attended = is_there

    @property
    def questions(self) -> list[Question]:
        """What episodes ask the person and is not yet answered, the oldest first; as many as one can bear."""
        return self.arena.humans.questions

    def answer(self, question: int, text: str | None) -> None:
        """Answer a question by its id, or skip it with None.

        Raises `RunError` if it is over by now, or takes no such answer.
        """
        try:
            self.arena.humans.answer(question, text)
        except (KeyError, ValueError) as error:
            raise RunError(f"{error.args[0]}") from error

    def _nobody_there(self) -> None:
        self._watchers.warn(
            self.step,
            "episodes ask a person, and nobody is there to answer: what depends on it has no reward. "
            "Questions are answered in the app",
        )
