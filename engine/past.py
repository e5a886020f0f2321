"""Earlier selves as opponents: part of the episodes is played against snapshots of the policy.

Who only ever meets itself may forget how to beat what it once was, and go round in circles. Fictitious self-play
(Heinrich et al. 2015) has it meet what it was before, too. Here a share of the top-level episodes has one role
played by the live policy, drawn anew each time, and every other role by one of the newest snapshots; only the live
policy's turns train. What such an episode spawns is played by the live policy alone.

A snapshot is a player, and an adapter in `past/` in the run's folder, which checkpoints name and don't repeat.
Kept are those that are drawn from, and those that some checkpoint names: who goes on from there meets them again.
None is written over: after going back the policy of a step is another one, and a checkpoint that was undone still
names the first.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.arena import Arena
from engine.config import Config, PastConfig
from engine.rows import to_json
from engine.training import checkpoint, durable
from engine.training.trainer import LocalTrainer
from engine.types import POLICY, EpisodeRequest, GenerateResult, RunError

ROOT = "past"
"""The folder of a run in which snapshots lie."""
PLAYER = "past-"
NAMED = re.compile(r"step-\d{6,}(\.\d+)?")
"""What a snapshot's folder is called."""


class Snapshot(NamedTuple):
    """The policy as it was after a step."""

    step: int
    version: int
    folder: str
    """Its name in `past/`."""


class Past:
    """The snapshots of a run, and who is seated against them."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / ROOT
        self._taken: list[Snapshot] = []
        """Those that are drawn from, the oldest first."""
        self._met: set[str] = set()
        """Those that the batch in play may meet."""

    @property
    def players(self) -> dict[str, tuple[Path, int]]:
        """Folder and version of each that is drawn from, the oldest first."""
        return {player(taken.step): (self.root / taken.folder, taken.version) for taken in self._taken}

    def state(self) -> list[list[Any]]:
        return [list(taken) for taken in self._taken]

    def load_state(self, state: Iterable[Sequence[Any]]) -> None:
        self._taken = _snapshots(state)

    async def restore(self, trainer: LocalTrainer) -> None:
        """Make players of the snapshots there are. Raises `RunError` for one that can't be read."""
        for name, (folder, version) in self.players.items():
            try:
                await trainer.load_player(name, folder, version)
            except (OSError, ValueError) as error:
                raise RunError(f"{folder}: the earlier self kept there can't be read: {error}") from error

    async def keep_up(
        self, trainer: LocalTrainer, step: int, config: PastConfig, guests: Callable[[], Collection[str]] = tuple
    ) -> None:
        """Take a snapshot if one is due: as soon as there is a share, then every so many steps.

        Those no longer drawn from go, as players and from disk, where nothing needs them: neither a checkpoint, nor
        the batch in play, nor a person who sits with `guests`.
        """
        if config.share and (not self._taken or step - self._taken[-1].step >= config.every):
            folder = durable.free(checkpoint.folder(self.root, step))
            version = await trainer.save_player(player(step), folder)
            taken = [*self._taken, Snapshot(step, version, folder.name)]
            self._taken = taken[-config.keep :]
            # asked only now: somebody may have sat down while the snapshot was written
            await trainer.device.call(_dismiss, trainer, {*self.players, *self._met, *guests()})
            # a checkpoint that is being written may still name who has left just now
            await asyncio.to_thread(_delete, self.root, {snapshot.folder for snapshot in taken})

    def seated(self, requests: list[EpisodeRequest], arena: Arena, config: Config) -> list[EpisodeRequest]:
        """The requests, a share of them against earlier selves; which ones depends on the seed and their numbers.

        Episodes that GRPO compares are all against the same one. Those that seat a player themselves stay as they
        are.
        """
        if not config.past.share or not self._taken:
            return requests
        past = [player(taken.step) for taken in self._taken[-config.past.keep :]]
        self._met = set(past)  # the batch before is over: there is one at a time
        seated: list[EpisodeRequest] = []
        for number, request in enumerate(requests, arena.played):
            compared = number if config.credit.kind != "grpo" else f"{arena.played}:{_compared(request)}"
            rng = random.Random(f"{arena.seed}:past:{compared}")
            roles = _roles(arena, request.task)
            meets = rng.random() < config.past.share
            mine, opponent = (rng.choice(roles), rng.choice(past)) if len(roles) > 1 else ("", "")
            if meets and opponent and request.is_trainable and not request.players:
                request = replace(request, players={role: opponent for role in roles if role != mine})
            seated.append(request)
        return seated


def player(step: int) -> str:
    """What the policy of a step is called as a player."""
    return f"{PLAYER}{step:06d}"


def _snapshots(state: Iterable[Sequence[Any]]) -> list[Snapshot]:
    """From a checkpoint; one of before folders were named in it has a snapshot's step and version alone.

    Raises `RunError` for a name that isn't a snapshot's: a run may be another's, and a name lead out of its folder.
    """
    found = [Snapshot(step, version, *(name or [f"step-{step:06d}"])) for step, version, *name in state]
    for snapshot in found:
        if not NAMED.fullmatch(snapshot.folder):
            raise RunError(f"a checkpoint names an earlier self {snapshot.folder!r}, not such as 'step-000040'")
    return found


def _dismiss(trainer: LocalTrainer, spared: Collection[str]) -> None:
    """On the device thread."""
    for name in trainer.adapters.players:
        if name.startswith(PLAYER) and name not in spared:
            trainer.adapters.drop(name)


def _delete(root: Path, spared: Collection[str]) -> None:
    """Folders that neither are spared nor named by a checkpoint. What can't be deleted is left for the next time.

    A checkpoint that can't be read may name any: then all stay.
    """
    try:
        states = [json.loads(file.read_text("utf-8")) for file in root.parent.glob(f"*/step-*/{checkpoint.STATE}")]
        named = {snapshot.folder for state in states for snapshot in _snapshots(state.get("past", ()))}
    except (OSError, ValueError, RunError):
        return
    for folder in root.glob("step-*"):
        if folder.name not in named.union(spared):
            shutil.rmtree(folder, ignore_errors=True)


def copy(folder: Path, other: Path, state: dict[str, Any]) -> None:
    """Take the snapshots that a checkpoint's state names into another run's folder; `RunError` as above."""
    for snapshot in _snapshots(state.get("past", ())):
        shutil.copytree(folder / ROOT / snapshot.folder, other / ROOT / snapshot.folder)


def metrics(results: Iterable[GenerateResult]) -> dict[str, float]:
    """How many episodes were against earlier selves, and what the live policy's roles got in them."""
    met = [r.rollout for r in results if any(name.startswith(PLAYER) for name in r.rollout.players.values())]
    if not met:
        return {}
    won = [
        reward for rollout in met for role, reward in rollout.rewards.items() if rollout.players.get(role) == POLICY
    ]
    found = {"past_episodes": float(len(met))}
    return found | ({"reward_vs_past": sum(won) / len(won)} if won else {})


def _compared(request: EpisodeRequest) -> str:
    return f"{request.task}:{request.group if request.group is not None else to_json(request.artifact)}"


def _roles(arena: Arena, task: str) -> list[str]:
    """The roles of a task that the policy plays, by the task's own names."""
    return [
        name
        for name, role in sorted(arena.within(task).roles.items())
        if role.player == POLICY and (task or "/" not in name)
    ]
