"""How a run is shown: in the app, on a line that is kept up to date, or as plain lines."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import presets
from engine import config as configuration
from tui import catalogue, weights
from tui.cli import beginning
from tui.cli.places import short_name
from tui.cli.refusal import refuse

if TYPE_CHECKING:
    from engine.run import Run
    from tui.app import SelfPlayApp


def start(args: argparse.Namespace, make: Callable[[], Run]) -> int:
    """Makes the run, so that what is wrong with it is said before a screen opens, then shows or drives it."""
    from engine.run import RunError
    from engine.task import TaskError

    try:
        made = make()
    except (RunError, TaskError) as error:
        return refuse(error)
    if args.plain:
        return _drive_plainly(made)
    if args.headless or args.json or not has_terminal():
        return _drive(made, args)
    return open_app(args, made)


def _drive(made: Run, args: argparse.Namespace) -> int:
    from tui import headless

    progress = headless.Progress(sys.stderr)
    progress.say(f"run {made.name} in {made.folder}")
    if done := headless.done_text(made, short_name(made.folder)):
        progress.say(done)
    code = asyncio.run(headless.drive(made, progress))
    text = headless.result_text(made, short_name(made.folder))
    print(headless.result_json(made) if args.json else text, flush=True)
    return code


def _drive_plainly(made: Run) -> int:
    from tui import headless, plain

    print(f"run {made.name} in {made.folder}; type help for what you can do", flush=True)
    if done := headless.done_text(made, short_name(made.folder)):
        print(done, flush=True)
    code = asyncio.run(plain.drive(made, sys.stdout, sys.stdin))
    print(headless.result_text(made, short_name(made.folder)), flush=True)
    return code


def has_terminal() -> bool:
    streams = (sys.stdin, sys.stdout, sys.stderr)  # Textual draws on stderr; one that is closed is None
    return all(stream is not None and stream.isatty() for stream in streams)


def app_of(runs_dir: Path, fps: int = 10, start: Run | None = None) -> SelfPlayApp:
    """The app over the presets there are and the runs in a folder."""
    from tui import keymap, memory
    from tui.app import SelfPlayApp

    return SelfPlayApp(
        presets=catalogue.preset_infos,
        runs=lambda: catalogue.run_infos(runs_dir),
        create=lambda name: beginning.create(configuration.load(presets.find(name)), runs_dir, None),
        resume=lambda folder: beginning.reopen(folder, None),
        start=start,
        fps=fps,
        keymap=keymap.read(keymap.path()),
        memory=memory.Memory(memory.path()),
        configure=lambda config: beginning.create(config, runs_dir, None),
        judge=weights.verdict,
    )


def open_app(args: argparse.Namespace, start: Run | None) -> int:
    app = app_of(args.runs_dir, args.fps, start)
    app.run()
    return app.return_code or 0
