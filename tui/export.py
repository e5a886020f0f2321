"""`selfplay-tui export`: an adapter that a run has learnt, as other programs load it."""

from __future__ import annotations

import sys
from pathlib import Path

from engine import config as configuration
from engine.config import ConfigError
from engine.summaries import CONFIG
from engine.training import checkpoint, checkpoints
from engine.training.checkpoint import CheckpointError


class ExportError(Exception):
    """What can't be exported: one sentence for stderr."""


def main(source: Path, target: Path, form: str) -> int:
    """Write the adapter of a run's newest checkpoint, of a checkpoint, or of a folder with one, in a format.

    Raises `ExportError`.
    """
    from engine.inference import adapter_folders

    try:
        folder, what = _adapter_of(source)
        parameters, config = adapter_folders.read(folder)
        if form == "peft" and config.get("fine_tune_type") == "full":
            raise ExportError(
                f"{what} has whole weights (lora.kind is 'full'): --format mlx writes them, PEFT has none"
            )
        adapter_folders.write(target, parameters, config, form, _model_of(folder))
    except (CheckpointError, adapter_folders.AdapterError) as error:
        raise ExportError(f"{error}") from error
    print(f"{what} is in {target}, in {form}'s format")
    return 0


def _adapter_of(source: Path) -> tuple[Path, str]:
    """Where the adapter lies, every file of its checkpoint checked, and what to call it."""
    root = source / checkpoints.ROOT
    if root.is_dir() or (source / CONFIG).is_file():
        found, refused = checkpoints.latest(root)
        for problem in refused:
            print(f"{problem}; the one before it is used", file=sys.stderr)
        if found is None:
            raise ExportError(f"{source}: the run has no checkpoint yet")
        return found.path, f"step {found.step} of {source.name}"
    if (source / checkpoint.MANIFEST).exists():
        found = checkpoint.load(source)
        return found.path, f"step {found.step}"
    return source, f"{source}"


def _model_of(folder: Path) -> str:
    """The model of the run that a checkpoint belongs to; empty for a folder outside of one."""
    for parent in folder.absolute().parents[:3]:
        if (parent / CONFIG).is_file():
            try:
                return configuration.load(parent / CONFIG).model.source
            except ConfigError:
                return ""
    return ""
