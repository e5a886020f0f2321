"""What each command does. What only one of them needs is imported there."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import presets
from engine.summaries import summaries
from tui import catalogue, words
from tui.cli import beginning, showing
from tui.cli.places import find_run, short_name
from tui.cli.refusal import USAGE_ERROR, UsageError, refuse


def home(args: argparse.Namespace) -> int:
    if not showing.has_terminal():
        raise UsageError(
            "there is no terminal to open the app in; `selfplay-tui run PRESET` runs without one, "
            "`selfplay-tui --help` tells what else there is"
        )
    return showing.open_app(args, None)


def run(args: argparse.Namespace) -> int:
    config = beginning.configured(args.preset, args)
    return showing.start(args, lambda: beginning.create(config, args.runs_dir, args.name))


def resume(args: argparse.Namespace) -> int:
    folder = find_run(args.run, args.runs_dir)
    return showing.start(args, lambda: beginning.reopen(folder, args.steps, args.set))


def fork(args: argparse.Namespace) -> int:
    from engine.run import RunError
    from engine.steering.forking import fork as forked
    from engine.task import TaskError

    source = find_run(args.run, args.runs_dir)
    if args.step is not None and not args.step.isdecimal():
        raise UsageError(f"--step: wants the step of a checkpoint, a whole number, not {args.step!r}")
    step = None if args.step is None else int(args.step)
    try:
        made = forked(source, args.runs_dir, step=step, changes=args.set, name=args.name)
    except (RunError, TaskError) as error:
        return refuse(error)
    print(f"run {made.name} in {made}; it begins with: selfplay-tui resume {short_name(made)}")
    return 0


def export(args: argparse.Namespace) -> int:
    from tui import export as exporting

    source = find_run(args.source, args.runs_dir)
    try:
        return exporting.main(source, args.folder, args.format)
    except exporting.ExportError as error:
        return refuse(error)


def list_presets(args: argparse.Namespace) -> int:
    infos = catalogue.preset_infos()
    wide = max((len(info.name) for info in infos), default=0)
    for info in infos:
        print(f"{info.name:<{wide}}  {info.source:<8}  {info.problem or info.title}")
        if info.teaches:
            print(f"{'':<{wide}}  {'':<8}  {info.teaches}")
    print(f"\nYours go into {presets.user_folder()}", file=sys.stderr)
    return 0


def list_runs(args: argparse.Namespace) -> int:
    found = summaries(args.runs_dir)
    wide = max([20, *(len(item.name) for item in found)])
    for item in found:
        info = catalogue.run_info(item)
        if info.problem:
            print(f"{info.name:<{wide}} damaged      {info.problem}")
            continue
        title = f"{info.title} (from {item.origin})" if item.origin else info.title
        measured = f"{words.label(info.metric)} {words.number(info.value)}" if info.value is not None else ""
        steps = f"{info.step}/{info.steps}"
        print(f"{info.name:<{wide}} {info.state:<12} {steps:>9}  {measured:<27} {title}  {info.when}".rstrip())
    if not found:
        print(f"no runs in {args.runs_dir}", file=sys.stderr)
    return 0


def list_models(args: argparse.Namespace) -> int:
    from tui import models

    return models.list_all(args.json)


def show_model(args: argparse.Namespace) -> int:
    from tui import models

    return models.show(args.source, args.json)


def fetch_model(args: argparse.Namespace) -> int:
    from tui import models

    return models.fetch(args.id)


def new_task(args: argparse.Namespace) -> int:
    from tui import new_task as writing

    try:
        return writing.main(args.name, args.folder, "game" if args.game else "episode")
    except writing.NewTaskError as error:
        return refuse(error)


def show_keys(args: argparse.Namespace) -> int:
    from tui import keymap

    made = keymap.read(keymap.path())
    print(keymap.to_toml(made.keys), end="")
    print(f"\nYours go into {keymap.path()}", file=sys.stderr)
    for problem in made.problems:
        print(f"selfplay-tui: {problem}", file=sys.stderr)
    return USAGE_ERROR if made.problems else 0


def doctor(args: argparse.Namespace) -> int:
    from tui import doctor as checks

    return checks.main(args.runs_dir)


def opens_app(args: argparse.Namespace) -> bool:
    if args.command not in (home, run, resume) or not showing.has_terminal():
        return False
    return not any(getattr(args, flag, False) for flag in ("headless", "json", "plain"))


def folders(args: argparse.Namespace) -> list[Path]:
    """Where the runs are that the app may have been at."""
    runs_dir: Path = args.runs_dir
    named = [Path(args.run).expanduser()] if args.command is resume else []
    return named + (list(runs_dir.iterdir()) if runs_dir.is_dir() else [])
