"""The app over a scripted run, to be looked at: `python -m tests.tui.demo [--run] [--talk] [--episodes N]`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.tui.fake import FakeRun, nim_reply, talk
from tui.app import SelfPlayApp
from tui.interface import PresetInfo, RunInfo, RunLike
from tui.keymap import Keymap
from tui.memory import Memory

PRESETS = [
    PresetInfo(
        "nim-pocket",
        "Nim",
        "A tiny model finds out, in about a minute, that one must leave a multiple of four.",
        "pocket",
        memory="0.4 GB · fits",
    ),
    PresetInfo(
        "kuhn-pocket",
        "Kuhn poker",
        "Bluffing: the best play is random, and how far from it one is can be computed.",
        "pocket",
        memory="0.4 GB · fits",
    ),
    PresetInfo(
        "tictactoe-pocket",
        "Tic-tac-toe",
        "Self-play reaches a draw, against itself and against perfect play.",
        "pocket",
        memory="0.4 GB · fits",
    ),
    PresetInfo(
        "tictactoe-qwen",
        "Tic-tac-toe in words",
        "A model that thinks aloud learns to look for the fork.",
        "Qwen/Qwen3-0.6B",
        memory="5.1 GB · tight",
    ),
    PresetInfo(
        "haggle",
        "Haggling",
        "Two traders who value wood and gold differently learn what to ask for.",
        "Qwen/Qwen3-1.7B",
        source="yours",
        memory="12 GB · too big",
        problem="haggle.toml, line 7: run.steps must be at least 1, not 0.",
    ),
]
# fmt: off
RUNS = [
    RunInfo(
        "nim-2", Path("runs/nim-2"), "finished", "Nim", 80, 80, "win_vs_random", 0.91, "2 h ago",
        course=(0.52, 0.55, 0.71, 0.70, 0.83, 0.88, 0.86, 0.90, 0.91),
    ),
    RunInfo(
        "kuhn-1", Path("runs/kuhn-1"), "stopped", "Kuhn poker", 34, 200, "exploitability", 0.21, "yesterday",
        course=(0.44, 0.46, 0.31, 0.21),
    ),
    RunInfo(
        "nim-1", Path("runs/nim-1"), "failed", "Nim", 12, 80, "win_vs_random", 0.55, "3 days ago",
        course=(0.51, 0.55),
    ),
    RunInfo("odd", Path("runs/odd"), problem="runs/odd: the record run.sqlite is damaged."),
]
# fmt: on


def app(
    *,
    start: RunLike | None = None,
    make: Callable[[], RunLike] = FakeRun,
    fps: int = 10,
    empty: bool = False,
    clock: Callable[[], float] = time.monotonic,
    keymap: Keymap | None = None,
    memory: Memory | None = None,
) -> SelfPlayApp:
    return SelfPlayApp(
        presets=lambda: [] if empty else list(PRESETS),
        runs=lambda: [] if empty else list(RUNS),
        create=lambda _: make(),
        resume=lambda _: make(),
        start=start,
        fps=fps,
        clock=clock,
        keymap=keymap,
        memory=memory,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--talk", action="store_true")
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--episodes", type=int, default=48)
    parser.add_argument("--tick", type=float, default=0.05)
    parser.add_argument("--fps", type=int, default=10)
    parser.add_argument("--fails-at", type=int, default=None)
    parser.add_argument("--log", type=Path, default=None)
    chosen = parser.parse_args()
    made: list[FakeRun] = []

    def make() -> FakeRun:
        run = FakeRun(
            episodes=chosen.episodes,
            seconds_per_tick=chosen.tick,
            reply=talk if chosen.talk else nim_reply,
            fails_at=chosen.fails_at,
        )
        made.append(run)
        return run

    demo = app(start=make() if chosen.run else None, make=make, fps=chosen.fps, empty=chosen.empty)
    demo.run()
    if chosen.log is not None:
        chosen.log.write_text(json.dumps({"calls": [run.calls for run in made], "code": demo.return_code}))
    sys.exit(demo.return_code)


if __name__ == "__main__":
    main()
