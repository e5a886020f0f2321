"""A run without a screen: progress on stderr, the result on stdout, signals that stop it cleanly."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shlex
import shutil
import signal
from typing import TYPE_CHECKING, Any, TextIO

from engine.events import CheckpointSaved, EvaluationFinished, Event, Notice, RunState, StateChanged, StepFinished
from engine.progress import role_means
from tui import words
from tui.text import one_line

if TYPE_CHECKING:
    from engine.run import Run

GLANCE = 0.2
"""Seconds between two looks at what the run did."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def drive(run: Run, progress: Progress) -> int:
    """Start a run and see it through; returns the exit code.

    0 finished, or stopped without a signal; 1 failed; 128 + the signal's number if one stopped it. The first signal
    stops it cleanly, with its state saved; the second ends the process at once, which costs the step in flight and
    nothing else.
    """
    loop = asyncio.get_running_loop()
    received: list[int] = []
    stopping: list[asyncio.Task[None]] = []

    def stop(number: int) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        progress.say("stopping after the step at hand; once more ends at once")
        stopping.append(loop.create_task(run.stop()))

    playing = loop.create_task(run.start())
    caught = [number for number in SIGNALS if not _hang_up_is_ignored(number)]
    for number in caught:
        loop.add_signal_handler(number, stop, number)
    stream = run.watch(live=False)
    try:
        while not playing.done():
            await asyncio.wait({playing}, timeout=GLANCE)
            progress.show(run, stream.drain())
        playing.result()
        await asyncio.gather(*stopping)
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
        run.unwatch(stream)
        progress.close()
    if run.state is RunState.STOPPED and received:
        return 128 + received[0]
    return 0 if run.state in (RunState.FINISHED, RunState.STOPPED) else 1


def _hang_up_is_ignored(number: int) -> bool:
    """`nohup` asked for it."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


class Progress:
    """Says on `out` how a run is getting on: one line kept up to date on a terminal, else a line for each fact."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._updating = out.isatty()
        self._line = ""
        self._gone = False

    def show(self, run: Run, events: list[Event]) -> None:
        for event in events:
            self._tell(run, event)
        if self._updating:
            self._update(glance(run))

    def say(self, text: str) -> None:
        """A line of its own."""
        kept, self._line = self._line, ""
        self._write((CLEAR if kept else "") + text + "\n" + kept)
        self._line = kept

    def close(self) -> None:
        """End the line being updated."""
        if self._line:
            self._write("\n")
            self._line = ""

    def _tell(self, run: Run, event: Event) -> None:
        match event:
            case EvaluationFinished():
                self.say(evaluation_line(event))
            case StepFinished() if not self._updating:
                self.say(step_line(event, run.status().steps))
            case StepFinished() if event.skipped:
                self.say(f"step {event.step} skipped: {event.skipped}")
            case Notice():
                self.say(f"{event.severity}: {one_line(event.text)}")
            case CheckpointSaved() if event.reason in ("best", "manual", "final"):
                self.say(f"checkpoint ({event.reason}): {event.path}")
            case StateChanged() if event.state is RunState.FAILED:
                self.say(f"failed: {one_line(event.reason, 2000)}")

    def _update(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        if text != self._line:
            self._write(CLEAR + text)
            self._line = text

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except OSError:
            self._gone = True  # the terminal was closed; the run goes on, or stops by its SIGHUP


CLEAR = "\r\x1b[2K"


def glance(run: Run) -> str:
    """A run in one line."""
    status = run.status()
    parts = [
        f"{status.state.value}: step {status.step}/{status.steps}",
        f"{words.count(status.generation_rate)} tokens/s",
        words.elapsed(status.seconds),
    ]
    metric = run.config.eval.metric
    if metric in run.evaluations.latest:
        parts.insert(1, f"{words.label(metric)} {words.number(run.evaluations.latest[metric])}")
    if status.live:
        parts.append(f"{words.plural(status.live, 'episode')} in play")
    return "  ".join(parts)


def step_line(event: StepFinished, steps: int) -> str:
    metrics = event.metrics
    parts = [f"step {event.step}/{steps}"]
    if event.skipped:
        parts.append(f"skipped: {event.skipped}")
    parts += [f"{name.removeprefix('reward/')} {words.signed(metrics[name])}" for name in role_means(metrics)]
    parts += [f"{name} {words.number(metrics[name], 4)}" for name in ("loss", "kl", "entropy") if name in metrics]
    if "generation_rate" in metrics:
        parts.append(f"{words.count(metrics['generation_rate'])} tokens/s")
    return "  ".join(parts)


def evaluation_line(event: EvaluationFinished) -> str:
    measured = ", ".join(f"{words.label(name)} {words.number(value)}" for name, value in event.metrics.items())
    return f"evaluation after step {event.step}: {measured}{' (best so far)' if event.is_best else ''}"


def result(run: Run) -> dict[str, Any]:
    """What a run came to, as `--json` prints it. Numbers JSON has no word for are null."""
    status = run.status()
    checkpoint = run.checkpoint_path
    return {
        "run_dir": str(run.folder),
        "steps": status.step,
        "seconds": round(status.seconds, 3),
        "tokens_generated": status.tokens_generated,
        "tokens_trained": status.tokens_trained,
        "policy_version": status.version,
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "eval_start": _finite(run.evaluations.first),
        "eval_end": _finite(run.evaluations.latest),
        "eval_best": _finite(run.evaluations.best),
        "stale": status.stale,
        "illegal": status.illegal,
        "failed": status.failed,
        "skipped": status.skipped,
    }


def result_json(run: Run) -> str:
    return json.dumps(result(run), allow_nan=False)


def result_text(run: Run, name: str) -> str:
    """What a run came to, for a person; `name` is what `resume` finds it by."""
    status, metric = run.status(), run.config.eval.metric
    lines = [
        f"{run.name}: {run.state.value} after {words.plural(status.step, 'step')}, {words.elapsed(status.seconds)}"
    ]
    evaluations = run.evaluations
    if metric in evaluations.first:
        first, last, best = (e[metric] for e in (evaluations.first, evaluations.latest, evaluations.best))
        lines.append(
            f"{words.label(metric)}: {words.number(first)} at the start, {words.number(last)} at the end, "
            f"{words.number(best)} at best"
        )
    lines.append(f"kept in {run.folder}")
    if run.state is not RunState.FINISHED:
        otherwise = " (with other settings: --set KEY=VALUE)" if run.state is RunState.FAILED else ""
        lines.append(f"go on with: selfplay-tui resume {shlex.quote(name)}{otherwise}")
    return "\n".join(lines)


def done_text(run: Run, name: str) -> str:
    """What is said of a run that has no steps left before it is gone on with; empty for another."""
    status = run.status()
    if status.step < status.steps:
        return ""
    return (
        f"it is finished, at step {status.step} of {status.steps}; "
        f"to go on: selfplay-tui resume {shlex.quote(name)} --steps M, with M above {status.steps}"
    )


def _finite(metrics: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
