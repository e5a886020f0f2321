"""The command line. Imports Textual only when a screen opens, and MLX only when a model is needed."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import presets
from engine import config as configuration
from engine.config import Config, ConfigError
from engine.store import StoreError
from engine.summaries import RunSummary, summaries, summary
from tui import weights, words
from tui.interface import PresetInfo, RunInfo
from tui.supervisor import supervised

if TYPE_CHECKING:
    from engine.run import Run
    from tui.app import SelfPlayApp

USAGE_ERROR = 2
RUNS_DIR_VARIABLE = "SELFPLAY_RUNS_DIR"


class UsageError(Exception):
    """What was asked can't be done as asked: one sentence for stderr."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    unless_told = argparse.Namespace(command=home, runs_dir=_default_runs_dir(), fps=10)
    args = _parser().parse_args(argv, unless_told)
    try:
        if _opens_app(args):
            return supervised(lambda: args.command(args), lambda: _folders(args))
        return args.command(args)
    except (UsageError, presets.PresetError, ConfigError, StoreError) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left; nothing more can be written to it, not even by Python's own exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _refuse(error: Exception) -> int:
    print(f"selfplay-tui: {error}", file=sys.stderr)
    return USAGE_ERROR


# Commands


def home(args: argparse.Namespace) -> int:
    if not _has_terminal():
        raise UsageError(
            "there is no terminal to open the app in; `selfplay-tui run PRESET` runs without one, "
            "`selfplay-tui --help` tells what else there is"
        )
    return _open_app(args, None)


def run(args: argparse.Namespace) -> int:
    config = _configured(args.preset, args)
    return _start(args, lambda: _create(config, args.runs_dir, args.name))


def resume(args: argparse.Namespace) -> int:
    folder = _find_run(args.run, args.runs_dir)
    return _start(args, lambda: _reopen(folder, args.steps, args.set))


def fork(args: argparse.Namespace) -> int:
    from engine.run import RunError
    from engine.steering.forking import fork as forked
    from engine.task import TaskError

    source = _find_run(args.run, args.runs_dir)
    if args.step is not None and not args.step.isdecimal():
        raise UsageError(f"--step: wants the step of a checkpoint, a whole number, not {args.step!r}")
    step = None if args.step is None else int(args.step)
    try:
        made = forked(source, args.runs_dir, step=step, changes=args.set, name=args.name)
    except (RunError, TaskError) as error:
        return _refuse(error)
    name = made.name if args.runs_dir == _default_runs_dir() else made
    print(f"run {made.name} in {made}; it begins with: selfplay-tui resume {name}")
    return 0


def export(args: argparse.Namespace) -> int:
    from tui import export as exporting

    source = _find_run(args.source, args.runs_dir)
    try:
        return exporting.main(source, args.folder, args.format)
    except exporting.ExportError as error:
        return _refuse(error)


def list_presets(args: argparse.Namespace) -> int:
    infos = preset_infos()
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
        info = run_info(item)
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
        return _refuse(error)


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


# Runs


def _start(args: argparse.Namespace, make: Callable[[], Run]) -> int:
    """Makes the run, so that what is wrong with it is said before a screen opens, then shows or drives it."""
    from engine.run import RunError
    from engine.task import TaskError

    try:
        made = make()
    except (RunError, TaskError) as error:
        return _refuse(error)
    if args.plain:
        return _drive_plainly(made, args)
    if args.headless or args.json or not _has_terminal():
        return _drive(made, args)
    return _open_app(args, made)


def _drive(made: Run, args: argparse.Namespace) -> int:
    from tui import headless

    progress = headless.Progress(sys.stderr)
    progress.say(f"run {made.name} in {made.folder}")
    code = asyncio.run(headless.drive(made, progress))
    name = made.name if args.runs_dir == _default_runs_dir() else str(made.folder)
    print(headless.result_json(made) if args.json else headless.result_text(made, name), flush=True)
    return code


def _drive_plainly(made: Run, args: argparse.Namespace) -> int:
    from tui import headless, plain

    print(f"run {made.name} in {made.folder}; type help for what you can do", flush=True)
    code = asyncio.run(plain.drive(made, sys.stdout, sys.stdin))
    name = made.name if args.runs_dir == _default_runs_dir() else str(made.folder)
    print(headless.result_text(made, name), flush=True)
    return code


def _create(config: Config, runs_dir: Path, name: str | None) -> Run:
    from engine.run import Run

    return Run.create(config, runs_dir, name)


def _reopen(folder: Path, steps: str | None, changes: Sequence[str] = ()) -> Run:
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


def _configured(preset: str, args: argparse.Namespace) -> Config:
    config = configuration.load(presets.find(preset))
    config = configuration.override(config, args.set)
    for flag, key in (("steps", "run.steps"), ("seed", "run.seed")):
        text = getattr(args, flag)
        if text is not None:
            config = configuration.set_value(config, key, text, f"--{flag}")
    return configuration.anchored(config, Path.cwd())


def _find_run(name: str, runs_dir: Path) -> Path:
    for folder in (runs_dir / name, Path(name).expanduser()):
        if folder.is_dir():
            return folder
    names = [item.name for item in runs_dir.iterdir() if item.is_dir()] if runs_dir.is_dir() else []
    nearest = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
    raise UsageError(f"{name}: no such run in {runs_dir}{hint}")


# The app


def _has_terminal() -> bool:
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))  # Textual draws on stderr


def _opens_app(args: argparse.Namespace) -> bool:
    if args.command not in (home, run, resume) or not _has_terminal():
        return False
    return not any(getattr(args, flag, False) for flag in ("headless", "json", "plain"))


def _folders(args: argparse.Namespace) -> list[Path]:
    """Where the runs are that the app may have been at."""
    runs_dir: Path = args.runs_dir
    named = [Path(args.run).expanduser()] if args.command is resume else []
    return named + (list(runs_dir.iterdir()) if runs_dir.is_dir() else [])


def app_of(runs_dir: Path, fps: int = 10, start: Run | None = None) -> SelfPlayApp:
    """The app over the presets there are and the runs in a folder."""
    from tui import keymap, memory
    from tui.app import SelfPlayApp

    return SelfPlayApp(
        presets=preset_infos,
        runs=lambda: [run_info(item) for item in summaries(runs_dir)],
        create=lambda name: _create(configuration.load(presets.find(name)), runs_dir, None),
        resume=lambda folder: _reopen(folder, None),
        start=start,
        fps=fps,
        keymap=keymap.read(keymap.path()),
        memory=memory.Memory(memory.path()),
        configure=lambda config: _create(config, runs_dir, None),
        judge=weights.verdict,
    )


def _open_app(args: argparse.Namespace, start: Run | None) -> int:
    app = app_of(args.runs_dir, args.fps, start)
    app.run()
    return app.return_code or 0


def preset_infos() -> list[PresetInfo]:
    return [_preset_info(preset) for preset in presets.available().values()]


def _preset_info(preset: presets.Preset) -> PresetInfo:
    try:
        config = configuration.load(preset.path)
    except ConfigError as error:
        return PresetInfo(preset.name, source=preset.source, problem=str(error).splitlines()[0])
    return PresetInfo(
        name=preset.name,
        title=config.title or preset.name,
        teaches=config.teaches,
        model=config.model.source,
        source=preset.source,
    )


def run_info(item: RunSummary) -> RunInfo:
    config = item.config
    metric = config.eval.metric if config else ""
    return RunInfo(
        name=item.name,
        folder=item.folder,
        state=item.state,
        title=config.title or config.played if config else "",
        step=item.step,
        steps=item.steps,
        metric=metric,
        value=item.last.get(metric),
        when=_ago(time.time() - item.updated) if item.updated else "",
        updated=item.updated,
        reason=item.reason,
        problem=item.problem or None,
    )


def _ago(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"


# Arguments


def _default_runs_dir() -> Path:
    from platformdirs import user_data_path

    named = os.environ.get(RUNS_DIR_VARIABLE)
    return Path(named).expanduser() if named else user_data_path("selfplay-tui") / "runs"


def _parser() -> argparse.ArgumentParser:
    where = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    where.add_argument(
        "--runs-dir",
        type=lambda text: Path(text).expanduser(),
        default=argparse.SUPPRESS,
        metavar="DIR",
        help=f"where runs are kept (or ${RUNS_DIR_VARIABLE}; now {_default_runs_dir()})",
    )
    rate = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    rate.add_argument(
        "--fps",
        type=_rate,
        default=argparse.SUPPRESS,
        help="most redraws a second (default 10); low for a slow line",
    )
    display = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    display.add_argument("--headless", action="store_true", help="no screen, even in a terminal")
    display.add_argument("--plain", action="store_true", help="plain lines, for a screen reader")
    display.add_argument("--json", action="store_true", help="no screen; end with one JSON object on stdout")

    parser = argparse.ArgumentParser(
        prog="selfplay-tui",
        description="Watch a language model improve by playing itself. Without a command, the app opens.",
        parents=[where, rate],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str, *parents: argparse.ArgumentParser):
        made = commands.add_parser(name, help=text, description=text, parents=[where, *parents], allow_abbrev=False)
        made.set_defaults(command=command)
        return made

    play = add("run", run, "Start a run from a preset.", rate, display)
    play.add_argument("preset", metavar="PRESET", help="a preset's name, or a TOML file")
    play.add_argument("--steps", metavar="N", help="optimiser steps to do")
    play.add_argument("--seed", metavar="N", help="fixes deals, openings and every sampled token")
    play.add_argument("--name", metavar="NAME", help="the run's name, which is its folder's")
    play.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the preset; repeatable"
    )
    again = add("resume", resume, "Go on with a run that was stopped or killed.", rate, display)
    again.add_argument("run", metavar="RUN", help="a run's name, or its folder")
    again.add_argument("--steps", metavar="N", help="go on until this many steps in all")
    again.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a key from here on, such as train.learning_rate; repeatable",
    )
    branch = add("fork", fork, "Make a new run that begins from a checkpoint of another.")
    branch.add_argument("run", metavar="RUN", help="a run's name, or its folder; it may be at work")
    branch.add_argument("--step", metavar="N", help="the checkpoint's step (default: the newest)")
    branch.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a key in the new run; repeatable"
    )
    branch.add_argument("--name", metavar="NAME", help="the new run's name, which is its folder's")
    out = add("export", export, "Write the adapter that a run has learnt into a folder, for other programs.")
    out.add_argument(
        "source", metavar="RUN", help="a run, for its newest checkpoint, or the folder of a checkpoint"
    )
    out.add_argument("folder", metavar="FOLDER", type=lambda text: Path(text).expanduser(), help="new or empty")
    out.add_argument(
        "--format", choices=("peft", "mlx"), default="peft", help="of Hugging Face's peft (default), or of mlx-lm"
    )
    new = add("new-task", new_task, "Write a small working task, with its test and its preset, to make your own.")
    new.add_argument("name", metavar="NAME", help="of the task and its files, such as my_task")
    new.add_argument(
        "--folder", metavar="DIR", type=lambda text: Path(text).expanduser(), default=Path(), help="default: here"
    )
    new.add_argument("--game", action="store_true", help="a two-player game, which is only rules")
    add("presets", list_presets, "List the presets.")
    add("runs", list_runs, "List the runs, the latest first.")
    _add_models(add("models", list_models, "List the models at hand and what they need."))
    add("keys", show_keys, "Print what every key does, as a file of your own keys would have it.")
    add("doctor", doctor, "Check what a run needs of this machine.")
    return parser


def _add_models(listing: argparse.ArgumentParser) -> None:
    """`models`, `models show SOURCE`, `models fetch ID`."""
    unless_told = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    unless_told.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="one JSON object on stdout, sizes in bytes"
    )
    listing.add_argument("--json", action="store_true", help="one JSON object on stdout, sizes in bytes")
    actions = listing.add_subparsers(title="more", metavar="COMMAND")
    text = "Tell what a model's files say, without loading it."
    showing = actions.add_parser("show", help=text, description=text, parents=[unless_told], allow_abbrev=False)
    showing.set_defaults(command=show_model)
    showing.add_argument("source", metavar="SOURCE", help="'pocket', a folder, a .gguf file, or a hub id")
    text = "Download a model from the hub into its cache."
    fetching = actions.add_parser("fetch", help=text, description=text, allow_abbrev=False)
    fetching.set_defaults(command=fetch_model)
    fetching.add_argument("id", metavar="ID", help="such as mlx-community/Qwen2.5-1.5B-Instruct-4bit")


def _rate(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 60:
        raise argparse.ArgumentTypeError(f"wants a whole number from 1 to 60, not {text!r}")
    return int(text)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"selfplay-tui {version('selfplay-tui')}"
    except PackageNotFoundError:  # run from a folder where it isn't installed
        return "selfplay-tui, not installed"


if __name__ == "__main__":
    sys.exit(main())
