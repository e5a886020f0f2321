"""A checkpoint: a folder with all that a run needs to go on.

    step-000040/   adapters.safetensors + adapter_config.json   the policy, as mlx-lm loads it (`adapter_path`)
                   average/                                      both of its running mean, if one is kept
                   learner.safetensors                           parameters, the optimiser's moments, counters
                   state.json                                    everything else a run needs to go on
                   rollouts.sqlite                               those that wait for the learner, where some do
                   manifest.json                                 why it was kept; size and SHA-256 of every file

Those of a run, which of them stay and which can be trusted: `checkpoints`. Only what takes or gives arrays touches
MLX, and runs on the device thread; the rest is files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine import batches
from engine.training import durable, manifest
from engine.training.manifest import MANIFEST, CheckpointError
from engine.types import AVERAGE, GenerateResult

if TYPE_CHECKING:
    import mlx.core as mx

ADAPTERS = "adapters.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
LEARNER = "learner.safetensors"
STATE = "state.json"
ROLLOUTS = "rollouts.sqlite"
FILES = (ADAPTERS, ADAPTER_CONFIG, LEARNER, STATE)
"""What every checkpoint has, beside its manifest."""

NAME = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose files were all found to be what was written."""

    path: Path
    step: int
    reasons: tuple[str, ...]
    """Why it is kept: "auto", "best", "manual", "final", "good"; and "unsound". Never empty."""
    adapter_config: dict[str, Any]
    state: dict[str, Any]

    def adapters(self) -> dict[str, mx.array]:
        """The policy's adapter. On the device thread."""
        return _arrays(self.path / ADAPTERS)

    def learner(self) -> dict[str, mx.array]:
        """What `Learner.load_state` takes. On the device thread."""
        return _arrays(self.path / LEARNER)

    def rollouts(self) -> list[list[GenerateResult]]:
        """Batches that were finished and not learnt from, the oldest first."""
        file = self.path / ROLLOUTS
        return batches.read(file) if file.exists() else []


def folder(root: Path, step: int) -> Path:
    """Where the checkpoint of a step lies, or would."""
    return root / f"step-{step:06d}"


def step_of(path: Path) -> int:
    """The step of a checkpoint's folder, also of one set aside."""
    return int(path.name.removeprefix("step-").partition(".")[0])


def fill(
    folder: Path,
    *,
    adapters: dict[str, mx.array],
    adapter_config: dict[str, Any],
    learner: dict[str, mx.array],
    state: dict[str, Any],
    average: dict[str, mx.array] | None = None,
    rollouts: Sequence[Sequence[GenerateResult]] = (),
) -> None:
    """Write all but the manifest into an empty folder. `state` must be JSON: tuples come back as lists, and keys as
    strings.

    Raises TypeError or ValueError where it isn't; non-finite numbers are not.
    """
    import mlx.core as mx

    for player, parameters in ((folder, adapters), (folder / AVERAGE, average)):
        if parameters is not None:
            _write_player(player, parameters, adapter_config)
    mx.save_safetensors(str(folder / LEARNER), learner, metadata={"format": "mlx"})
    (folder / STATE).write_text(manifest.dumps(state), encoding="utf-8")
    if rollouts:
        batches.write(folder / ROLLOUTS, rollouts)


def save_player(folder: Path, adapters: dict[str, mx.array], adapter_config: dict[str, Any]) -> None:
    """Write an adapter alone, into a new folder. On the device thread.

    Raises `CheckpointError` where it can't be written, such as on a full disk.
    """
    with durable.drafted(folder) as draft:
        _write_player(draft, adapters, adapter_config)
        durable.sync_all(draft)
        draft.rename(folder)
        durable.sync(folder.parent)


def _write_player(folder: Path, adapters: dict[str, mx.array], adapter_config: dict[str, Any]) -> None:
    import mlx.core as mx

    folder.mkdir(exist_ok=True)
    mx.save_safetensors(str(folder / ADAPTERS), adapters, metadata={"format": "mlx"})
    (folder / ADAPTER_CONFIG).write_text(manifest.dumps(adapter_config), encoding="utf-8")


def load(path: Path) -> Checkpoint:
    """Check every file against the manifest and read what isn't arrays.

    Raises:
        CheckpointError: the folder or a file is missing, cut short, or not what was written. It names the file.
    """
    kept = manifest.read(path)
    named = NAME.fullmatch(path.name)
    if named and int(named[1]) != kept["step"]:
        raise CheckpointError(f"{path / MANIFEST}: is of step {kept['step']}, not of the folder's {int(named[1])}")
    for name in FILES:
        if name not in kept["files"]:
            raise CheckpointError(f"{path / MANIFEST}: does not list {name}")
    for name, expected in kept["files"].items():
        manifest.verify(path / name, expected)
    return Checkpoint(
        path=path,
        step=kept["step"],
        reasons=tuple(kept["reasons"]),
        adapter_config=json.loads((path / ADAPTER_CONFIG).read_text(encoding="utf-8")),
        state=json.loads((path / STATE).read_text(encoding="utf-8")),
    )


def _arrays(file: Path) -> dict[str, mx.array]:
    import mlx.core as mx

    return cast("dict[str, mx.array]", mx.load(str(file)))
