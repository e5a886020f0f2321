"""What can be written on the command line: each command with its options, and the function that does it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tui.cli import commands
from tui.cli.places import RUNS_DIR_VARIABLE, default_runs_dir
from tui.cli.usage import Parser


def parser() -> Parser:
    where, rate = _where(), _rate()
    made = Parser(
        prog="selfplay-tui",
        description="Watch a language model improve by playing itself. Without a command, the app opens.",
        parents=[where, rate],
    )
    made.add_argument("--version", action="version", version=_version())
    group: Any = made.add_subparsers(title="commands", metavar="COMMAND")
    add = partial(_add, group)
    shown = (where, rate, _display())
    _run(add("run", commands.run, "Start a run from a preset.", *shown))
    _resume(add("resume", commands.resume, "Go on with a run that was stopped or killed.", *shown))
    _fork(add("fork", commands.fork, "Make a new run that begins from a checkpoint of another.", where))
    text = "Write the adapter that a run has learnt into a folder, for other programs."
    _export(add("export", commands.export, text, where))
    text = "Write a small working task, with its test and its preset, to make your own."
    _new_task(add("new-task", commands.new_task, text, where))
    add("presets", commands.list_presets, "List the presets.", where)
    add("runs", commands.list_runs, "List the runs, the latest first.", where)
    _models(add("models", commands.list_models, "List the models at hand and what they need.", where))
    add("keys", commands.show_keys, "Print what every key does, as a file of your own keys would have it.", where)
    add("doctor", commands.doctor, "Check what a run needs of this machine.", where)
    return made


def _add(
    group: Any, name: str, command: Callable[[argparse.Namespace], int], text: str, *parents: Parser
) -> Parser:
    made = group.add_parser(name, help=text, description=text, parents=parents)
    made.set_defaults(command=command)
    return made


# What several commands take. A default here would be put over what was said before the command.


def _where() -> Parser:
    made = Parser(add_help=False)
    made.add_argument(
        "--runs-dir",
        type=_path,
        default=argparse.SUPPRESS,
        metavar="DIR",
        help=f"where runs are kept (or ${RUNS_DIR_VARIABLE}; now {default_runs_dir()})",
    )
    return made


def _rate() -> Parser:
    made = Parser(add_help=False)
    made.add_argument(
        "--fps",
        type=_redraws,
        default=argparse.SUPPRESS,
        help="most redraws a second (default 10); low for a slow line",
    )
    return made


def _display() -> Parser:
    made = Parser(add_help=False)
    made.add_argument("--headless", action="store_true", help="no screen, even in a terminal")
    made.add_argument("--plain", action="store_true", help="plain lines, for a screen reader")
    made.add_argument("--json", action="store_true", help="no screen; end with one JSON object on stdout")
    return made


def _changes(made: Parser, text: str) -> None:
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=f"{text}; repeatable")


# The commands


def _run(made: Parser) -> None:
    made.add_argument("preset", metavar="PRESET", help="a preset's name, or a TOML file")
    made.add_argument("--steps", metavar="N", help="optimiser steps to do")
    made.add_argument("--seed", metavar="N", help="fixes deals, openings and every sampled token")
    made.add_argument("--name", metavar="NAME", help="the run's name, which is its folder's")
    _changes(made, "change a key of the preset")


def _resume(made: Parser) -> None:
    made.add_argument("run", metavar="RUN", help="a run's name, or its folder")
    made.add_argument("--steps", metavar="N", help="go on until this many steps in all")
    _changes(made, "change a key from here on, such as train.learning_rate")


def _fork(made: Parser) -> None:
    made.add_argument("run", metavar="RUN", help="a run's name, or its folder; it may be at work")
    made.add_argument("--step", metavar="N", help="the checkpoint's step (default: the newest)")
    _changes(made, "change a key in the new run")
    made.add_argument("--name", metavar="NAME", help="the new run's name, which is its folder's")


def _export(made: Parser) -> None:
    made.add_argument(
        "source", metavar="RUN", help="a run, for its newest checkpoint, or the folder of a checkpoint"
    )
    made.add_argument("folder", metavar="FOLDER", type=_path, help="new or empty")
    made.add_argument(
        "--format", choices=("peft", "mlx"), default="peft", help="of Hugging Face's peft (default), or of mlx-lm"
    )


def _new_task(made: Parser) -> None:
    made.add_argument("name", metavar="NAME", help="of the task and its files, such as my_task")
    made.add_argument("--folder", metavar="DIR", type=_path, default=Path(), help="default: here")
    made.add_argument("--game", action="store_true", help="a two-player game, which is only rules")


def _models(made: Parser) -> None:
    """`models`, `models show SOURCE`, `models fetch ID`."""
    json: dict[str, Any] = {"action": "store_true", "help": "one JSON object on stdout, sizes in bytes"}
    made.add_argument("--json", **json)
    add = partial(_add, made.add_subparsers(title="more", metavar="COMMAND"))
    unless_told = Parser(add_help=False)
    unless_told.add_argument("--json", default=argparse.SUPPRESS, **json)
    showing = add("show", commands.show_model, "Tell what a model's files say, without loading it.", unless_told)
    showing.add_argument("source", metavar="SOURCE", help="'pocket', a folder, a .gguf file, or a hub id")
    fetching = add("fetch", commands.fetch_model, "Download a model from the hub into its cache.")
    fetching.add_argument("id", metavar="ID", help="such as mlx-community/Qwen2.5-1.5B-Instruct-4bit")


# Values


def _path(text: str) -> Path:
    return Path(text).expanduser()


def _redraws(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 60:
        raise argparse.ArgumentTypeError(f"wants a whole number from 1 to 60, not {text!r}")
    return int(text)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"selfplay-tui {version('selfplay-tui')}"
    except PackageNotFoundError:  # run from a folder where it isn't installed
        return "selfplay-tui, not installed"
