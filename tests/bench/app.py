"""Key press to repaint, in a real pseudo-terminal, while 128 episodes stream at some 5,000 tokens a second.

`python -m tests.bench.app [--keys N] [--episodes N] [--size 160x45]` prints JSON: milliseconds to the first frame,
and from a key to the bytes that show what it did, at the median and the 95th percentile.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import sys
import time

from tests.tui.pseudo import Terminal

TOKENS_A_SECOND = 5_000

KEYS = ((b"4", "Plots"), (b"5", "Health"))
"""Keys, and what is only painted again because of them: the title of the pane they go to."""


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(keys: int, episodes: int, columns: int, lines: int, seed: int = 0) -> dict[str, object]:
    """Milliseconds, bytes a second and CPU share of the app under load."""
    tick = episodes / TOKENS_A_SECOND
    demo = ["--run", "--talk", "--episodes", str(episodes), "--tick", str(tick)]
    terminal = Terminal([sys.executable, "-m", "tests.tui.demo", *demo], columns, lines)
    first_frame = terminal.until("Episodes", 20.0)
    terminal.drain(3.0)
    rng = random.Random(seed)
    began, before = time.perf_counter(), terminal.written
    times, missed = [], 0
    for index in range(keys):
        terminal.drain(rng.uniform(0.1, 0.5))
        key, shows = KEYS[index % 2]
        terminal.key(key)
        taken = terminal.until(shows, 2.0)
        if taken is None:
            missed += 1
        else:
            times.append(1000 * taken)
    seconds = time.perf_counter() - began
    terminal.send(signal.SIGTERM)
    code = terminal.end()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "episodes": episodes,
        "tokens_per_second": TOKENS_A_SECOND,
        "size": f"{columns}x{lines}",
        "first_frame_ms": round(1000 * first_frame) if first_frame is not None else None,
        "keys": len(times),
        "missed": missed,
        "p50_ms": round(percentile(times, 0.5), 1),
        "p95_ms": round(percentile(times, 0.95), 1),
        "max_ms": round(max(times), 1),
        "bytes_per_second": round((terminal.written - before) / seconds),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "wall_seconds": round(time.perf_counter() - terminal.began, 1),
        "exit_code": code,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--episodes", type=int, default=128)
    parser.add_argument("--size", default="160x45")
    chosen = parser.parse_args()
    columns, lines = (int(number) for number in chosen.size.split("x"))
    print(json.dumps(measure(chosen.keys, chosen.episodes, columns, lines), indent=2))


if __name__ == "__main__":
    main()
