"""What one can sit down to in a run, and with whom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.course import Course
from engine.keeping import Kept
from engine.training import checkpoint, checkpoints
from engine.training.trainer import LocalTrainer
from engine.types import AVERAGE, BASE, POLICY

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


def places(course: Course) -> list[Place]:
    """The tasks of a run, each with its roles."""
    parts, roles = course.config.parts, course.arena.roles
    named = tuple(f"{name}/" for name in parts if name)

    def own(name: str) -> tuple[str, ...]:
        return tuple(
            role for role in roles if (role.startswith(f"{name}/") if name else not role.startswith(named))
        )

    return [Place(name, part.name, own(name)) for name, part in parts.items()]


def opponents(course: Course, kept: Iterable[Kept], trainer: LocalTrainer | None, guest: str) -> list[Opponent]:
    """Who can speak in the policy's place, the policy first.

    `trainer` has the players of a run at work; one may be a `guest`, there for the table only.
    """
    found = [Opponent(POLICY, "as it learns" if trainer else "as the run left it")]
    if course.config.train.average:
        found.append(Opponent(AVERAGE, "the mean of its weights so far"))
    found += [Opponent(f"{KEPT}{of.step}", f"checkpoint: {', '.join(of.reasons)}") for of in kept]
    found += [Opponent(player, "an earlier self it plays against") for player in reversed(course.past.players)]
    if trainer is not None:
        told = {opponent.player for opponent in found} | {BASE, AVERAGE, guest}
        others = [player for player in trainer.adapters.players if player not in told]
        found += [Opponent(player, "a player of the run") for player in others]
    return [*found, Opponent(BASE, "the bare model")]


def kept(course: Course, opponent: str) -> tuple[Path, int] | None:
    """Where the adapter of a player lies in the run's folder, and its version; None for one not kept there."""
    step = opponent.removeprefix(KEPT)
    if opponent.startswith(KEPT) and step.isdigit():
        return checkpoint.folder(course.folder / checkpoints.ROOT, int(step)), int(step)
    return course.past.players.get(opponent)
