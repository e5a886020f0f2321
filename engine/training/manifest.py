"""The manifest of a checkpoint: what its files were when they were written, and whether they still are.

`manifest.json` holds the step, the reasons why the checkpoint is kept, size and SHA-256 of every other file, and a
digest of itself.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from engine.types import EngineError

MANIFEST = "manifest.json"


class CheckpointError(EngineError):
    """A checkpoint that can't be written or trusted: which file, what is wrong with it."""


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint: "step", "reasons" and "files", by name.

    Raises:
        CheckpointError: there is none, or its own digest doesn't fit.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: there is no such checkpoint folder")
    file = folder / MANIFEST
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


def text(step: int, reasons: list[str], files: dict[str, dict[str, Any]]) -> str:
    """What `read` reads. `files` holds the `fingerprint` of each."""
    manifest = {"step": step, "reasons": reasons, "files": files}
    return dumps({**manifest, "digest": _digest(manifest)})


def fingerprint(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        return {"size": file.stat().st_size, "sha256": hashlib.file_digest(stream, "sha256").hexdigest()}


def verify(file: Path, expected: dict[str, Any]) -> None:
    """Raises CheckpointError if a file isn't the one of which this is the fingerprint."""
    try:
        found = fingerprint(file)
    except FileNotFoundError:
        raise CheckpointError(f"{file}: is missing") from None
    except OSError as error:
        raise CheckpointError(f"{file}: can't be read: {error.strerror}") from error
    if found["size"] != expected["size"]:
        raise CheckpointError(f"{file}: has {found['size']} bytes, not {expected['size']}")
    if found["sha256"] != expected["sha256"]:
        raise CheckpointError(f"{file}: is not what was written: its SHA-256 doesn't fit")


def dumps(value: Any) -> str:
    return json.dumps(value, indent=1, allow_nan=False)


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
