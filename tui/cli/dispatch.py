"""From what was written on the command line to an exit code."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence

import presets
from engine.config import ConfigError
from engine.store import StoreError
from tui.cli import commands
from tui.cli.arguments import parser
from tui.cli.places import default_runs_dir
from tui.cli.refusal import UsageError, refuse
from tui.supervisor import supervised


def dispatch(argv: Sequence[str] | None) -> int:
    """Runs the command, in a child of its own where the app opens; returns the exit code."""
    unless_told = argparse.Namespace(command=commands.home, runs_dir=default_runs_dir(), fps=10)
    args = parser().parse_args(argv, unless_told)
    try:
        if commands.opens_app(args):
            return supervised(lambda: args.command(args), lambda: commands.folders(args))
        gc.enable()  # the app does it after its first frame
        return args.command(args)
    except (UsageError, presets.PresetError, ConfigError, StoreError) as error:
        return refuse(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be written to it, not even by Python's own exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
