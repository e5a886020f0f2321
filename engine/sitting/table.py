"""Where a person sits down with the players of a run: at work, in a pause, or when it is over.

Beside a run at work the person's episode has a batcher of its own on the device thread, so the run's batches are
those that they would have been, to the last bit; what it costs is the time of its forward passes, and the memory
for a few rows. Where a run isn't at work its model is loaded for the table, as the newest checkpoint left it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.config import ModelConfig
from engine.course import Course
from engine.keeping import Keeper
from engine.mixture import task_of
from engine.rollouts import Position
from engine.sitting import company
from engine.sitting.company import Opponent, Place
from engine.sitting.game import Sitting, seated
from engine.store import Store
from engine.training import checkpoints
from engine.training.trainer import LocalTrainer
from engine.types import AVERAGE, POLICY, EngineError, GenerateResult, RunError

if TYPE_CHECKING:
    from engine.inference.clients import LocalClient

ROWS, PREFIX_MB = 8, 64
"""What the table's batcher has beside the run's."""


class Host(Protocol):
    """The run that the table belongs to, as far as it is at work."""

    @property
    def playing(self) -> LocalTrainer | None:
        """The model and its players, while the run plays."""
        ...

    @property
    def is_under_way(self) -> bool:
        """Whether it was started and hasn't ended."""
        ...

    def record(self) -> AbstractContextManager[Store]:
        """The record, also when the run is over."""
        ...


class Table:
    """One person's, with one episode at a time. All on the run's event loop."""

    def __init__(self, course: Course, keeper: Keeper, host: Host) -> None:
        self._course, self._keeper, self._host = course, keeper, host
        self.sitting: Sitting | None = None
        """The latest, under way or over."""
        self._own: LocalTrainer | None = None
        """The model, where it was loaded for the table."""
        self._client: LocalClient | None = None
        self._at: LocalTrainer | None = None
        """Whose client it is."""
        self._guest = ""
        """The player brought to the model for the latest sitting."""
        self._opponent = ""
        self._number = 0
        self._lessons: list[GenerateResult] = []
        self._busy = asyncio.Lock()
        self._coming: asyncio.Task[Sitting] | None = None
        """Who sits down now: loads the model, brings the opponent."""

    @property
    def is_ready(self) -> bool:
        """Whether the model is in memory, so that sitting down takes no time."""
        return self._host.playing is not None or self._own is not None

    @property
    def guests(self) -> set[str]:
        """Players that have to stay for who sits here, or is about to."""
        return {self._guest, self._opponent}

    def decode(self, tokens: list[int]) -> str:
        """Tokens of a sitting's events as text."""
        trainer = self._at or self._host.playing
        return trainer.tokenizer.decode(tokens) if trainer else ""

    def places(self) -> list[Place]:
        """The tasks of the run, each with its roles."""
        return company.places(self._course)

    def opponents(self) -> list[Opponent]:
        """Who can speak in the policy's place, the policy first."""
        return company.opponents(self._course, self._keeper.kept(), self._host.playing, self._guest)

    @property
    def no_lesson(self) -> str:
        """Why the run can't learn from what is played here now; empty where it can."""
        if self._host.playing is None:
            return "the run isn't at work, so nothing is learnt"
        if self._course.config.credit.kind == "grpo":
            return "credit.kind is grpo, which compares episodes of a group: one alone teaches nothing"
        return ""

    async def sit(
        self, *, roles: Collection[str], task: str = "", opponent: str = POLICY, learn: bool = False
    ) -> Sitting:
        """Begin an episode of a task in which the person speaks for `roles`, and `opponent` as the policy would.

        Loads the model first where it isn't; cancelling gives that up. With `learn` the policy's turns are learnt
        from in the next step after the episode is over, however old they are by then; a run in which that happens
        can't be repeated bit for bit.

        Raises `RunError` where that isn't possible, or the table is closed meanwhile, and whatever loading raises.
        """
        place = next((place for place in self.places() if place.task == task), None)
        if place is None:
            raise RunError(f"this run has no task {task!r}; it has: {', '.join(self._course.config.parts)}")
        if not roles or set(roles) - set(place.roles):
            raise RunError(f"choose one or more roles of {place.name}: {', '.join(place.roles)}")
        if learn and (why := self.no_lesson or _no_lesson(opponent)):
            raise RunError(why)
        async with self._busy:
            await self.leave()
            coming = self._coming = asyncio.create_task(self._seat(roles, task, opponent, learn))
            try:
                return await coming
            except asyncio.CancelledError:
                if (sitter := asyncio.current_task()) is not None and sitter.cancelling():
                    raise
                raise RunError("the run began, ended or failed meanwhile: sit down again") from None

    async def _seat(self, roles: Collection[str], task: str, opponent: str, learn: bool) -> Sitting:
        trainer, client = await self._players()
        self._opponent = opponent
        await self._invite(trainer, opponent)
        course = self._course
        with self._host.record() as store:
            self._number = max(self._number, store.last_sitting()) + 1
        self.sitting = await seated(
            course.config,
            task_of(course.config),
            Position.of(course.arena),
            client,
            trainer.tokenizer,
            number=self._number,
            task=task,
            roles=roles,
            opponent=self._guest or opponent,
            learnt=learn,
            edits=dict(course.arena.edits),
        )
        self.sitting.begin(self._record)
        return self.sitting

    def lessons(self) -> list[GenerateResult]:
        """What the run is to learn from, and hasn't been given yet."""
        given, self._lessons = self._lessons, []
        return given

    async def finish(self) -> None:
        """Wait until what is played is over."""
        if self.sitting is not None:
            await self.sitting.wait()

    async def leave(self) -> None:
        """End what is played, if anything is: then nothing of it is kept."""
        if self.sitting is not None:
            await self.sitting.leave()

    async def close(self) -> None:
        """Leave, have whoever sits down give that up, and let go of the model if it was loaded for the table."""
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait([self._coming])
        await self.leave()
        own, self._own, self._client, self._at, self._guest = self._own, None, None, None, ""
        if own is not None:
            await own.close()

    # Players

    async def _players(self) -> tuple[LocalTrainer, LocalClient]:
        trainer = self._host.playing or self._own
        if trainer is None:
            if self._host.is_under_way:
                raise RunError("the run is loading its model, or ending: sit down when that is done")
            trainer = self._own = await self._load()
        if self._client is None or self._at is not trainer:
            self._client, self._at, self._guest = await _client(trainer, self._course.config.model), trainer, ""
        return trainer, self._client

    async def _load(self) -> LocalTrainer:
        config = self._course.config
        trainer = await LocalTrainer.open(config, on_error=self._failed)
        try:
            found, _ = await asyncio.to_thread(checkpoints.latest, self._course.folder / checkpoints.ROOT)
            if found is not None:
                await trainer.restore(found)
            elif config.lora.start:
                await trainer.begin_from(Path(config.lora.start))
        except BaseException:
            await trainer.close()
            raise
        return trainer

    def _failed(self, error: BaseException) -> None:
        """The table's device died; what waits for it is cancelled."""
        self._own = self._client = self._at = None

    async def _invite(self, trainer: LocalTrainer, opponent: str) -> None:
        """Have the opponent among the model's players, and the last guest no longer."""
        if self._guest:
            await trainer.device.call(trainer.adapters.drop, self._guest)
            self._guest = ""
        there = await trainer.device.call(lambda: trainer.adapters.players)
        if opponent in there and opponent != AVERAGE:
            return
        # the average is a player of its own here, for the run measures what it has by that name
        name = f"{AVERAGE}-{self._course.step}" if opponent == AVERAGE else opponent
        try:
            if opponent == AVERAGE:
                await trainer.device.call(_publish_average, trainer, name)
            else:
                await trainer.load_player(name, *self._kept(opponent))
        except (OSError, ValueError, EngineError) as error:
            raise RunError(f"{opponent} can't play: {error}") from error
        self._guest = name

    def _kept(self, opponent: str) -> tuple[Path, int]:
        found = company.kept(self._course, opponent)
        if found is None:
            known = ", ".join(found.player for found in self.opponents())
            raise RunError(f"this run has no player {opponent!r}; it has: {known}")
        return found

    def _record(self, sitting: Sitting, result: GenerateResult) -> None:
        with self._host.record() as store:
            store.record_sitting(self._course.step, result)
        if sitting.learnt and self._host.playing is not None:
            self._lessons.append(result)


async def _client(trainer: LocalTrainer, config: ModelConfig) -> LocalClient:
    from engine.inference.batcher import Batcher
    from engine.inference.clients import LocalClient

    small = {"rows": min(ROWS, config.rows), "prefix_mb": min(PREFIX_MB, config.prefix_mb)}
    make: Callable[..., Any] = Batcher.configured
    batcher = await trainer.device.call(
        make, trainer.model, trainer.adapters, trainer.tokenizer, config.model_copy(update=small)
    )
    return LocalClient(trainer.device, batcher, trainer.tokenizer, queue=config.queue, aside=True)


def _publish_average(trainer: LocalTrainer, name: str) -> None:
    averaged = trainer.learner.averaged
    if averaged is None:
        raise ValueError("no step has been made yet whose weights could be averaged")
    trainer.adapters.publish(name, averaged, trainer.learner.version)


def _no_lesson(opponent: str) -> str:
    return "" if opponent == POLICY else f"only what {POLICY} says is learnt from, and {opponent} plays"
