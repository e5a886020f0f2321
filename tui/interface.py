"""What the app needs from outside, and nothing more: lists to choose from, and a run to drive and watch.

The app is given functions that return these, so that it opens without a model library and is tested with a
scripted run. `engine.run.Run` is the real `RunLike`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine.events import Event, EventStream, RunState
from engine.types import Question, Role

if TYPE_CHECKING:
    from engine.config import Config


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

    def history(self) -> Sequence[Event]:
        """Steps, evaluations, edits and checkpoints of before it was opened."""
        ...

    async def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    async def stop(self) -> None: ...
    async def checkpoint(self) -> Path: ...
    async def edit_role(self, role: str, prompt: str) -> int: ...
    def watch(self) -> EventStream: ...
    def unwatch(self, stream: EventStream) -> None: ...
    def decode(self, tokens: list[int]) -> str: ...
    def status(self) -> StatusLike: ...


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the app gets its lists and its runs from."""

    presets: Callable[[], list[PresetInfo]]
    runs: Callable[[], list[RunInfo]]
    create: Callable[[str], RunLike]
    resume: Callable[[Path], RunLike]
