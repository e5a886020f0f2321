"""Checkpoints: folders that are either whole or not there.

    step-000040/   adapters.safetensors + adapter_config.json   the policy, as mlx-lm loads it (`adapter_path`)
                   learner.safetensors                           parameters, AdamW's moments, counters
                   state.json                                    everything else a run needs to go on
                   manifest.json                                 why it was kept; size and SHA-256 of every file

A checkpoint is written beside its place and renamed into it, after everything in it has reached the disk. Only
`save`, `Checkpoint.adapters` and `Checkpoint.learner` touch MLX, and run on the device thread; the rest is files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from engine.types import EngineError

if TYPE_CHECKING:
    import mlx.core as mx

ADAPTERS = "adapters.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
LEARNER = "learner.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
FILES = (ADAPTERS, ADAPTER_CONFIG, LEARNER, STATE)
AUTO = "auto"
"""The reason of a checkpoint made by the clock: what `prune` may delete."""

_NAME = re.compile(r"step-(\d{6,})")
_DRAFT = re.compile(r"step-\d{6,}\.tmp-[0-9a-f]+")
_SET_ASIDE = re.compile(r"step-(\d{6,})\.old-[0-9a-f]+")


class CheckpointError(EngineError):
    """A checkpoint that can't be written or trusted: which file, what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose files were all found to be what was written."""

    path: Path
    step: int
    reasons: tuple[str, ...]
    """Why it is kept: "auto", "best", "manual", "final". Never empty."""
    adapter_config: dict[str, Any]
    state: dict[str, Any]

    def adapters(self) -> dict[str, mx.array]:
        """The policy's adapter. On the device thread."""
        return _arrays(self.path / ADAPTERS)

    def learner(self) -> dict[str, mx.array]:
        """What `Learner.load_state` takes. On the device thread."""
        return _arrays(self.path / LEARNER)


def folder(root: Path, step: int) -> Path:
    """Where the checkpoint of a step lies, or would."""
    return root / f"step-{step:06d}"


def save(
    root: Path,
    step: int,
    *,
    adapters: dict[str, mx.array],
    adapter_config: dict[str, Any],
    learner: dict[str, mx.array],
    state: dict[str, Any],
    reason: str,
) -> Path:
    """Write `root/step-NNNNNN` and return it. Runs on the device thread.

    A checkpoint of the same step is replaced, and its reasons stay. `state` must be JSON: tuples come back as
    lists, and keys as strings.

    Raises:
        CheckpointError: it could not be written, such as on a full disk. Nothing is left of it, and what was there
            before still is.
        TypeError, ValueError: `state` is not JSON; non-finite numbers are not.
    """
    import mlx.core as mx

    def write(folder: Path) -> None:
        mx.save_safetensors(str(folder / ADAPTERS), adapters, metadata={"format": "mlx"})
        mx.save_safetensors(str(folder / LEARNER), learner, metadata={"format": "mlx"})
        (folder / ADAPTER_CONFIG).write_text(_dumps(adapter_config), encoding="utf-8")
        (folder / STATE).write_text(_dumps(state), encoding="utf-8")

    return commit(root, step, write, reason)


def commit(root: Path, step: int, write: Callable[[Path], None], reason: str) -> Path:
    """Have `write` fill an empty folder with `FILES`, make it durable, and rename it into place. See `save`."""
    target = folder(root, step)
    mark = uuid.uuid4().hex[:8]
    draft = target.with_name(f"{target.name}.tmp-{mark}")
    replaced = target.with_name(f"{target.name}.old-{mark}")
    with _failure_of(target):
        try:
            _tidy(root)
            draft.mkdir(parents=True)
            write(draft)
            reasons = _joined(_reasons(target), reason)
            manifest = _manifest_text(step, reasons, {name: _fingerprint(draft / name) for name in FILES})
            (draft / MANIFEST).write_text(manifest, encoding="utf-8")
            for name in (*FILES, MANIFEST):
                _sync(draft / name)
            _sync(draft)
            if target.exists():
                target.rename(replaced)
            draft.rename(target)
            _sync(root)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            if replaced.exists() and not target.exists():
                replaced.rename(target)
            raise
    shutil.rmtree(replaced, ignore_errors=True)
    return target


def load(path: Path) -> Checkpoint:
    """Check every file against the manifest and read what isn't arrays.

    Raises:
        CheckpointError: the folder or a file is missing, cut short, or not what was written. It names the file.
    """
    manifest = _manifest(path)
    for name in FILES:
        expected = manifest["files"].get(name)
        if expected is None:
            raise CheckpointError(f"{path / MANIFEST}: does not list {name}")
        _verify(path / name, expected)
    found = _NAME.fullmatch(path.name)
    if found and int(found[1]) != manifest["step"]:
        raise CheckpointError(
            f"{path / MANIFEST}: is of step {manifest['step']}, not of the folder's {int(found[1])}"
        )
    return Checkpoint(
        path=path,
        step=manifest["step"],
        reasons=tuple(manifest["reasons"]),
        adapter_config=json.loads((path / ADAPTER_CONFIG).read_text(encoding="utf-8")),
        state=json.loads((path / STATE).read_text(encoding="utf-8")),
    )


def latest(root: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be trusted, and why each newer one can't. `None` if there is none.

    Drafts of an interrupted `save` don't count; a checkpoint it had set aside, and put nothing in its place, does.
    """
    refused: list[str] = []
    for path in _newest_first(root):
        try:
            return load(path), refused
        except CheckpointError as error:
            refused.append(str(error))
    return None, refused


def mark(path: Path, reason: str) -> None:
    """Add a reason to a checkpoint, such as "best", so that `prune` leaves it.

    Raises:
        CheckpointError: its manifest can't be read or written.
    """
    _write_reasons(path, _joined(_manifest(path)["reasons"], reason))


def _write_reasons(path: Path, reasons: list[str]) -> None:
    manifest = _manifest(path)
    with _failure_of(path / MANIFEST):
        draft = path / f"{MANIFEST}.tmp"
        try:
            draft.write_text(_manifest_text(manifest["step"], reasons, manifest["files"]), encoding="utf-8")
            _sync(draft)
            draft.replace(path / MANIFEST)
            _sync(path)
        finally:
            draft.unlink(missing_ok=True)


def only(path: Path, reason: str) -> None:
    """Take a reason from every other checkpoint beside this one: there is one "best"."""
    for other in _newest_first(path.parent):
        reasons = _reasons(other)
        if other != path and reason in reasons:
            _write_reasons(other, [kept for kept in reasons if kept != reason] or [AUTO])


def prune(root: Path, keep: int) -> list[Path]:
    """Delete automatic checkpoints but the newest `keep`, and return those deleted.

    Never one with another reason, never the newest that can be trusted, never one whose manifest can't be read:
    that one is for a person to look at.
    """
    automatic = [path for path in _newest_first(root) if _reasons(path) == [AUTO]]
    surplus = automatic[keep:]
    if surplus:
        good = next((path for path in _newest_first(root) if _is_good(path)), None)
        surplus = [path for path in surplus if path != good]
    for path in surplus:
        # Renamed first: one half deleted must not look like one that is damaged.
        doomed = path.with_name(f"{path.name}.tmp-{uuid.uuid4().hex[:8]}")
        path.rename(doomed)
        shutil.rmtree(doomed)
    return surplus


def _newest_first(root: Path) -> list[Path]:
    found: dict[int, Path] = {}
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        match = _NAME.fullmatch(path.name) or _SET_ASIDE.fullmatch(path.name)
        if match:  # "step-000040" sorts before "step-000040.old-…", and wins
            found.setdefault(int(match[1]), path)
    return [found[step] for step in sorted(found, reverse=True)]


def _tidy(root: Path) -> None:
    """Finish what an interrupted `commit` left. Only for who writes here: to others, a draft may be under way."""
    for path in list(root.iterdir()) if root.is_dir() else []:
        aside = _SET_ASIDE.fullmatch(path.name)
        if aside and not (root / f"step-{aside[1]}").exists():
            path.rename(root / f"step-{aside[1]}")
        elif aside or _DRAFT.fullmatch(path.name):
            shutil.rmtree(path)


def _is_good(path: Path) -> bool:
    try:
        load(path)
    except CheckpointError:
        return False
    return True


def _reasons(path: Path) -> list[str]:
    """Why a checkpoint is kept; nothing if it isn't there or can't tell."""
    try:
        return _manifest(path)["reasons"]
    except CheckpointError:
        return []


def _joined(reasons: list[str], reason: str) -> list[str]:
    return list(dict.fromkeys([*reasons, reason]))


def _manifest(path: Path) -> dict[str, Any]:
    """The manifest, once its own digest fits."""
    if not path.is_dir():
        raise CheckpointError(f"{path}: there is no such checkpoint folder")
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{file}: is missing, so the checkpoint was never finished") from None
    except OSError as error:
        raise CheckpointError(f"{file}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{file}: is not JSON: {error}") from error
    if not isinstance(manifest, dict) or manifest.pop("digest", None) != _digest(manifest):
        raise CheckpointError(f"{file}: is not what was written: its digest doesn't fit")
    return manifest


def _manifest_text(step: int, reasons: list[str], files: dict[str, dict[str, Any]]) -> str:
    manifest = {"step": step, "reasons": reasons, "files": files}
    return _dumps({**manifest, "digest": _digest(manifest)})


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _fingerprint(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        return {"size": file.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def _verify(file: Path, expected: dict[str, Any]) -> None:
    try:
        found = _fingerprint(file)
    except FileNotFoundError:
        raise CheckpointError(f"{file}: is missing") from None
    except OSError as error:
        raise CheckpointError(f"{file}: can't be read: {error.strerror}") from error
    if found["size"] != expected["size"]:
        raise CheckpointError(f"{file}: has {found['size']} bytes, not {expected['size']}")
    if found["sha256"] != expected["sha256"]:
        raise CheckpointError(f"{file}: is not what was written: its SHA-256 doesn't fit")


@contextmanager
def _failure_of(path: Path) -> Iterator[None]:
    """Say what could not be written. MLX reports failed writes as RuntimeError."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        anchor = next(parent for parent in path.absolute().parents if parent.exists())
        free = shutil.disk_usage(anchor).free
        raise CheckpointError(
            f"{path}: could not be written: {error} ({free / 1e6:.0f} MB are free there now)"
        ) from error


def _arrays(file: Path) -> dict[str, mx.array]:
    import mlx.core as mx

    return cast("dict[str, mx.array]", mx.load(str(file)))


def _dumps(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
