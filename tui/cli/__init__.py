"""The command line. Imports Textual only when a screen opens, and MLX only when a model is needed."""

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


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    unless_told = argparse.Namespace(command=commands.home, runs_dir=default_runs_dir(), fps=10)
    args = parser().parse_args(argv, unless_told)
    try:
        if commands.opens_app(args):
            return supervised(lambda: _in_app(args), lambda: commands.folders(args))
        return args.command(args)
    except (UsageError, presets.PresetError, ConfigError, StoreError) as error:
        return refuse(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be written to it, not even by Python's own exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _in_app(args: argparse.Namespace) -> int:
    gc.disable()  # until the first frame, for which nothing is made that could go
    return args.command(args)
