"""What a client and the batcher say to each other. No MLX here."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.inference.constraints import Choices
from engine.types import Sampling, StopReason


@dataclass(slots=True)
class Request:
    """One completion to make."""

    id: int
    prompt: list[int]
    sampling: Sampling
    player: str
    key: int
    """uint64: what the random numbers of this completion come from, and nothing else."""
    stream: bool = False
    """Whether its tokens are reported as they come, and not only at the end."""
    bias: tuple[tuple[int, float], ...] = ()
    """What is added to the logits of single tokens."""
    stop: tuple[bytes, ...] = ()
    """UTF-8 of the texts that end the reply."""
    choices: Choices | None = None
    """The only token sequences allowed."""
    deadline: float | None = None
    """`time.monotonic()` after which it ends with what it has: a run that comes to it can't be repeated exactly."""

    @property
    def adjusts(self) -> bool:
        """Whether the logits are changed before a token is drawn."""
        return bool(self.bias) or self.choices is not None or self.sampling.repetition_penalty != 1.0


@dataclass(slots=True)
class Finished:
    """A request that is over."""

    id: int
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    allowed: list[list[int]] = field(default_factory=list)
    """The ids each token was chosen among; empty where all were allowed."""
    stop_reason: StopReason = StopReason.CANCELLED
    error: Exception | None = None
    """Why it failed, where it did: it was refused, its player was dropped, or the device failed."""


@dataclass(slots=True)
class Tick:
    """What is reported after a tick: of streaming requests what they said since the last time, and ends."""

    tokens: list[tuple[int, list[int], list[float]]] = field(default_factory=list)
    """Id, tokens and their log-probabilities. What came between the last report and the end is in `Finished`."""
    finished: list[Finished] = field(default_factory=list)
