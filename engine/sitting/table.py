"""Where a person sits down with the players of a run: at work, in a pause, or when it is over.

Beside a run at work the person's episode has a batcher of its own on the device thread, so the run's batches are
those that they would have been, to the last bit; what it costs is the time of its forward passes, and the memory
for a few rows. Where a run isn't at work its model is loaded for the table, as the newest checkpoint left it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import past
from engine.mixture import task_of
from engine.rollouts import Position
from engine.sitting.game import Sitting, seated
from engine.training import checkpoint
from engine.training.trainer import LocalTrainer
from engine.types import AVERAGE, BASE, POLICY, EngineError, GenerateResult, RunError

if TYPE_CHECKING:
    from engine.inference.clients import LocalClient
    from engine.run import Run

ROWS, PREFIX_MB = 8, 64
"""What the table's batcher has beside the run's."""

KEPT = "step-"
"""How players begin that are a checkpoint of the run: `step-40`."""


@dataclass(frozen=True, slots=True)
class Place:
    """A task of the run that one can sit down to."""

    task: str
    """What its names begin with in the run; empty where the run has one task."""
    name: str
    roles: tuple[str, ...]
    """As the run names them."""


@dataclass(frozen=True, slots=True)
class Opponent:
    """A player of the run to sit down with."""

    player: str
    about: str


class Table:
    """One person's, with one episode at a time. All on the run's event loop."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.sitting: Sitting | None = None
        """The latest, under way or over."""
        self._own: LocalTrainer | None = None
        """The model, where it was loaded for the table."""
        self._client: LocalClient | None = None
        self._at: LocalTrainer | None = None
        """Whose client it is."""
        self._guest = ""
        """The player brought to the model for the latest sitting."""
        self._number = 0
        self._lessons: list[GenerateResult] = []
        self._busy = asyncio.Lock()

    @property
    def is_ready(self) -> bool:
        """Whether the model is in memory, so that sitting down takes no time."""
        return self._run.trainer is not None or self._own is not None

    def decode(self, tokens: list[int]) -> str:
        """Tokens of a sitting's events as text."""
        trainer = self._at or self._run.trainer
        return trainer.tokenizer.decode(tokens) if trainer else ""

    def places(self) -> list[Place]:
        """The tasks of the run, each with its roles."""
        run, parts = self._run, self._run.config.parts
        named = tuple(f"{name}/" for name in parts if name)
        return [
            Place(
                name,
                part.name,
                tuple(
                    role for role in run.roles
                    if (role.startswith(f"{name}/") if name else not role.startswith(named))
                ),
            )
            for name, part in parts.items()
        ]  # fmt: skip

    def opponents(self) -> list[Opponent]:
        """Who can speak in the policy's place, the policy first."""
        run = self._run
        trainer = run.trainer
        found = [Opponent(POLICY, "as it learns" if trainer else "as the run left it")]
        if run.config.train.average:
            found.append(Opponent(AVERAGE, "the mean of its weights so far"))
        found += [
            Opponent(f"{KEPT}{kept.step}", f"checkpoint: {', '.join(kept.reasons)}") for kept in run.checkpoints()
        ]
        selves = sorted((run.folder / past.ROOT).glob("step-*"), reverse=True)
        found += [
            Opponent(past.player(checkpoint.step_of(path)), "an earlier self it plays against") for path in selves
        ]
        if trainer is not None:
            told = {opponent.player for opponent in found} | {BASE, AVERAGE, self._guest}
            others = [player for player in trainer.adapters.players if player not in told]
            found += [Opponent(player, "a player of the run") for player in others]
        return [*found, Opponent(BASE, "the bare model")]

    @property
    def no_lesson(self) -> str:
        """Why the run can't learn from what is played here now; empty where it can."""
        if self._run.trainer is None:
            return "the run isn't at work, so nothing is learnt"
        if self._run.config.credit.kind == "grpo":
            return "credit.kind is grpo, which compares episodes of a group: one alone teaches nothing"
        return ""

    async def sit(
        self, *, roles: Collection[str], task: str = "", opponent: str = POLICY, learn: bool = False
    ) -> Sitting:
        """Begin an episode of a task in which the person speaks for `roles`, and `opponent` as the policy would.

        Loads the model first where it isn't; cancelling gives that up. With `learn` the policy's turns are learnt
        from in the next step after the episode is over, however old they are by then; a run in which that happens
        can't be repeated bit for bit.

        Raises `RunError` where that isn't possible, and whatever loading raises.
        """
        place = next((place for place in self.places() if place.task == task), None)
        if place is None:
            raise RunError(f"this run has no task {task!r}; it has: {', '.join(self._run.config.parts)}")
        if not roles or set(roles) - set(place.roles):
            raise RunError(f"choose one or more roles of {place.name}: {', '.join(place.roles)}")
        if learn and (why := self.no_lesson or _no_lesson(opponent)):
            raise RunError(why)
        async with self._busy:
            await self.leave()
            trainer, client = await self._players()
            await self._invite(trainer, opponent)
            run = self._run
            with run.record() as store:
                self._number = max(self._number, store.last_sitting()) + 1
            self.sitting = await seated(
                run.config,
                task_of(run.config),
                Position.of(run.arena),
                client,
                trainer.tokenizer,
                number=self._number,
                task=task,
                roles=roles,
                opponent=self._guest or opponent,
                learnt=learn,
                edits=dict(run.arena.edits),
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
        """Leave, and let go of the model if it was loaded for the table."""
        await self.leave()
        own, self._own, self._client, self._at, self._guest = self._own, None, None, None, ""
        if own is not None:
            await own.close()

    # Players

    async def _players(self) -> tuple[LocalTrainer, LocalClient]:
        trainer = self._run.trainer or self._own
        if trainer is None:
            if self._run.is_begun:
                raise RunError("the run is loading its model, or ending: sit down when that is done")
            trainer = self._own = await self._load()
        if self._client is None or self._at is not trainer:
            self._client, self._at, self._guest = await _client(trainer, self._run), trainer, ""
        return trainer, self._client

    async def _load(self) -> LocalTrainer:
        config = self._run.config
        trainer = await LocalTrainer.open(config, on_error=self._failed)
        try:
            found, _ = await asyncio.to_thread(checkpoint.latest, self._run.folder / checkpoint.ROOT)
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
        name = f"{AVERAGE}-{self._run.step}" if opponent == AVERAGE else opponent
        try:
            if opponent == AVERAGE:
                await trainer.device.call(_publish_average, trainer, name)
            else:
                await trainer.load_player(name, *self._kept(opponent))
        except (OSError, ValueError, EngineError) as error:
            raise RunError(f"{opponent} can't play: {error}") from error
        self._guest = name

    def _kept(self, opponent: str) -> tuple[Path, int]:
        """Where a player's adapter lies, and the step it is of."""
        folder = self._run.folder
        for prefix, place, root in (
            (KEPT, checkpoint.folder, checkpoint.ROOT),
            (past.PLAYER, past.place, past.ROOT),
        ):
            step = opponent.removeprefix(prefix)
            if opponent.startswith(prefix) and step.isdigit():
                return place(folder / root, int(step)), int(step)
        known = ", ".join(found.player for found in self.opponents())
        raise RunError(f"this run has no player {opponent!r}; it has: {known}")

    def _record(self, sitting: Sitting, result: GenerateResult) -> None:
        with self._run.record() as store:
            store.record_sitting(self._run.step, result)
        if sitting.learnt and self._run.trainer is not None:
            self._lessons.append(result)


async def _client(trainer: LocalTrainer, run: Run) -> LocalClient:
    from engine.inference.batcher import Batcher
    from engine.inference.clients import LocalClient

    config = run.config.model
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
