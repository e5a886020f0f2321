"""What the app costs the engine: the same run under the app in a pseudo-terminal and headless, in turn.

`python -m tests.bench.throughput [--preset nim-pocket] [--steps 12] [--rounds 3] [--size 160x45]` prints JSON: for
each side the seconds its steps took (playing and learning, loading and evaluations left out) and tokens generated
a second, medians over the rounds; and how much of headless throughput the app reaches.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.events import RunState
from engine.store import Store
from tests.tui.pseudo import Terminal


def command(preset: str, steps: int, seed: int, runs_dir: Path, name: str) -> list[str]:
    options = f"--steps {steps} --seed {seed} --runs-dir {runs_dir} --name {name} --set eval.every=0".split()
    return [sys.executable, "-m", "tui.cli", "run", preset, *options, "--set", "eval.episodes=20"]


def headless(preset: str, steps: int, seed: int, runs_dir: Path) -> Path:
    subprocess.run(
        [*command(preset, steps, seed, runs_dir, f"headless-{seed}"), "--headless"],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return runs_dir / f"headless-{seed}"


def in_the_app(preset: str, steps: int, seed: int, runs_dir: Path, size: tuple[int, int], fps: int) -> Path:
    folder = runs_dir / f"app-{seed}"
    terminal = Terminal([*command(preset, steps, seed, runs_dir, folder.name), "--fps", f"{fps}"], *size)
    while not finished(folder):
        terminal.drain(0.5)
    terminal.send(signal.SIGTERM)
    terminal.end()
    return folder


def finished(folder: Path) -> bool:
    if not (folder / "run.sqlite").exists():
        return False
    with Store.open(folder, read_only=True) as store:
        state = store.state()
    if state is not None and state.state is RunState.FAILED:
        raise RuntimeError(f"the run in {folder} failed: {state.reason}")
    return state is not None and state.state is RunState.FINISHED


def measured(folder: Path) -> tuple[float, float]:
    """(seconds of all steps but the first, tokens generated a second in them)."""
    with Store.open(folder, read_only=True) as store:
        steps = store.steps()[1:]  # the first one compiles and fills caches
    seconds = sum(step.seconds for step in steps)
    return seconds, sum(step.metrics["tokens_generated"] for step in steps) / seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="nim-pocket")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", default="160x45")
    parser.add_argument("--fps", type=int, default=10)
    chosen = parser.parse_args()
    columns, lines = (int(number) for number in chosen.size.split("x"))
    sides: dict[str, list[tuple[float, float]]] = {"headless": [], "app": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(chosen.rounds):
            sides["headless"].append(measured(headless(chosen.preset, chosen.steps, seed, Path(folder))))
            app = in_the_app(chosen.preset, chosen.steps, seed, Path(folder), (columns, lines), chosen.fps)
            sides["app"].append(measured(app))
    medians = {
        side: {
            "seconds": round(statistics.median(seconds for seconds, _ in values), 2),
            "tokens_per_second": round(statistics.median(rate for _, rate in values)),
        }
        for side, values in sides.items()
    }
    ratios = [app[1] / plain[1] for app, plain in zip(sides["app"], sides["headless"], strict=True)]
    print(
        json.dumps(
            {
                "preset": chosen.preset,
                "size": chosen.size,
                **medians,
                "app_over_headless": round(statistics.median(ratios), 3),
                "each_round": [round(ratio, 3) for ratio in ratios],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
