"""How a run comes to be at the command line: made of a preset and options, or opened where it was left."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import presets
from engine import config as configuration
from engine.config import Config
from engine.summaries import summary
from tui.cli.refusal import UsageError

if TYPE_CHECKING:
    from engine.run import Run


def configured(preset: str, args: argparse.Namespace) -> Config:
    config = configuration.load(presets.find(preset))
    config = configuration.override(config, args.set)
    for flag, key in (("steps", "run.steps"), ("seed", "run.seed")):
        text = getattr(args, flag)
        if text is not None:
            config = configuration.set_value(config, key, text, f"--{flag}")
    return configuration.anchored(config, Path.cwd())


def create(config: Config, runs_dir: Path, name: str | None) -> Run:
    from engine.run import Run

    return Run.create(config, runs_dir, name)


def reopen(folder: Path, steps: str | None, changes: Sequence[str] = ()) -> Run:
    from engine.run import Run

    if steps is not None:
        done = summary(folder).step
        if steps.isdecimal() and int(steps) <= done:
            raise UsageError(f"--steps: {folder.name} has done {done} already; wants a number above that")
    made = Run.open(folder)
    config = configuration.override(made.config, changes)  # all of them are looked at before one is put in force
    if steps is not None:
        configuration.set_value(config, "run.steps", steps, "--steps")
        changes = [*changes, f"run.steps={steps}"]
    if changes:  # the app opens runs too, in a loop of its own
        asyncio.run(_change(made, changes))
    return made


async def _change(made: Run, changes: Sequence[str]) -> None:
    for change in changes:
        key, _, value = change.partition("=")
        await made.set(key.strip(), value.strip())
