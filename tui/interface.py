"""What the app needs from outside, and nothing more: lists to choose from, and a run to drive and watch.

The app is given functions that return these, so that it opens without a model library and is tested with a
scripted run. `engine.run.Run` is the real `RunLike`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.events import Event, EventStream, RunState
from engine.types import GenerateResult, Question, Role

if TYPE_CHECKING:
    from engine.config import Config
    from engine.keeping import Kept
    from engine.reading.tracing import Trace
    from engine.sitting.company import Opponent, Place
    from engine.sitting.seats import Ask
    from engine.steering.edits import Setting


@dataclass(frozen=True, slots=True)
class PresetInfo:
    """A line of Home's first list."""

    name: str
    title: str = ""
    teaches: str = ""
    model: str = ""
    source: str = "built-in"
    """`"built-in"` or `"yours"`."""
    memory: str = ""
    """Such as `"0.4 GB · fits"`."""
    problem: str | None = None
    """Why it can't be started, in a sentence."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A line of Home's second list."""

    name: str
    folder: Path
    state: str = ""
    title: str = ""
    """The preset's title or name."""
    step: int = 0
    steps: int = 0
    metric: str = ""
    value: float | None = None
    when: str = ""
    """Such as `"2 h ago"`."""
    problem: str | None = None
    """Why it can't be opened, in a sentence."""
    reason: str = ""
    """Why it failed, in a sentence; empty where it didn't."""
    updated: float = 0.0
    """When its record was last written, in seconds since 1970."""
    course: tuple[float, ...] = ()
    """The metric, evaluation by evaluation: Home reads it once the lists are shown."""


class StatusLike(Protocol):
    """The numbers of `engine.run.Status` that are shown. Rates are tokens a second, `memory` bytes."""

    step: int
    steps: int
    version: int
    tokens_generated: int
    tokens_trained: int
    generation_rate: float
    training_rate: float
    memory: int
    stale: int
    queued: int
    illegal: int
    failed: int
    skipped: int
    seconds: float
    live: int


class SittingLike(Protocol):
    """An episode in which the person plays: the part of `engine.sitting.game.Sitting` that is shown."""

    @property
    def id(self) -> str: ...
    @property
    def roles(self) -> Sequence[str]: ...
    @property
    def opponent(self) -> str: ...
    @property
    def learnt(self) -> bool: ...
    @property
    def stream(self) -> EventStream: ...
    @property
    def asked(self) -> Ask | None: ...
    @property
    def over(self) -> bool: ...
    @property
    def result(self) -> GenerateResult | None: ...
    @property
    def error(self) -> str: ...
    def answer(self, text: str, *, anyway: bool = ...) -> None: ...
    async def odds(self, player: str = ...) -> dict[str, float]: ...
    def hears(self, episode_type: str) -> bool: ...
    async def leave(self) -> None: ...


class TableLike(Protocol):
    """Where a person sits down with the run's players: the part of `engine.sitting.table.Table` that is used."""

    @property
    def is_ready(self) -> bool: ...
    @property
    def no_lesson(self) -> str: ...
    def places(self) -> Sequence[Place]: ...
    def opponents(self) -> Sequence[Opponent]: ...
    def decode(self, tokens: list[int]) -> str: ...
    async def sit(
        self, *, roles: Collection[str], task: str = ..., opponent: str = ..., learn: bool = ...
    ) -> SittingLike: ...
    async def close(self) -> None: ...


class RunLike(Protocol):
    """The part of a run that the app drives and watches."""

    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def config(self) -> Config: ...
    @property
    def state(self) -> RunState: ...
    @property
    def reason(self) -> str:
        """Why it failed, in a sentence; empty where it didn't."""
        ...

    @property
    def roles(self) -> dict[str, Role]:
        """With the prompts now in force."""
        ...

    @property
    def questions(self) -> Sequence[Question]:
        """What episodes ask the person and is not yet answered."""
        ...

    @property
    def attended(self) -> bool:
        """Whether somebody is there to answer."""
        ...

    @attended.setter
    def attended(self, is_there: bool) -> None: ...
    def answer(self, question: int, text: str | None) -> None: ...

    @property
    def table(self) -> TableLike: ...

    def history(self) -> Sequence[Event]:
        """Steps, evaluations, edits and checkpoints of before it was opened."""
        ...

    async def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def step_once(self) -> None:
        """From a pause: one optimiser step, then paused again."""
        ...

    async def stop(self) -> None: ...
    async def checkpoint(self) -> Path: ...
    async def edit_role(self, role: str, prompt: str) -> int: ...
    async def set(self, key: str, value: str) -> int: ...
    async def undo(self, number: int) -> int: ...
    def settings(self) -> Sequence[Setting]:
        """What `set` can change, and what it is now."""
        ...

    def checkpoints(self) -> Sequence[Kept]:
        """The newest first. On any thread."""
        ...

    @property
    def origin(self) -> str:
        """The run it was forked from, and where; empty for one that wasn't."""
        ...

    def watch(self) -> EventStream: ...
    def unwatch(self, stream: EventStream) -> None: ...
    def decode(self, tokens: list[int]) -> str: ...
    async def trace(self, rollout_id: str) -> Trace | None:
        """An episode that is over, with all that its rewards were compared with; None while it isn't known."""
        ...

    def status(self) -> StatusLike: ...


def _roll_back(folder: Path, step: int, keep_edits: bool) -> None:
    from engine.steering.forking import roll_back

    roll_back(folder, step, keep_edits=keep_edits)


def _fork(folder: Path, step: int, name: str | None, changes: Sequence[str]) -> Path:
    from engine.steering.forking import fork

    return fork(folder, folder.absolute().parent, step=step, name=name, changes=changes)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the app gets its lists and its runs from."""

    presets: Callable[[], list[PresetInfo]]
    runs: Callable[[], list[RunInfo]]
    create: Callable[[str], RunLike]
    resume: Callable[[Path], RunLike]
    roll_back: Callable[[Path, int, bool], None] = _roll_back
    """Of a run that isn't at work: to the checkpoint of a step, and whether edits since then stay."""
    fork: Callable[[Path, int, str | None, Sequence[str]], Path] = _fork
    """Of a run, at a step, under a name, with changes of its configuration; its folder."""
    configure: Callable[[Config], RunLike] | None = None
    """Makes a run of a configuration that is no preset, such as an edited one."""
    judge: Callable[[Config], str] | None = None
    """How much memory a run of it takes: `"0.4 GB · fits"`. May read files, so it is asked in a thread."""
