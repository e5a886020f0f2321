"""Key press to repaint, in a real pseudo-terminal, while 128 episodes stream at some 5,000 tokens a second.

`python -m tests.bench.app [--keys N] [--episodes N] [--size 160x45]` prints JSON: milliseconds to the first frame,
and from a key to the bytes that show what it did, at the median and the 95th percentile.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import random
import resource
import select
import signal
import struct
import sys
import termios
import time

TOKENS_A_SECOND = 5_000

KEYS = ((b"4", "Plots"), (b"5", "Health"))
"""Keys, and what is only painted again because of them: the title of the pane they go to."""


class Terminal:
    """A child on a pseudo-terminal of a size, and what it has written."""

    def __init__(self, command: list[str], columns: int, lines: int) -> None:
        self.began = time.perf_counter()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.execvp(command[0], command)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.written = 0

    def read(self, seconds: float) -> bytes:
        """What comes within `seconds`, as soon as something does."""
        ready, _, _ = select.select([self.master], [], [], max(seconds, 0.0))
        if not ready:
            return b""
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:
            return b""
        self.written += len(data)
        return data

    def until(self, text: str, seconds: float) -> float | None:
        """Seconds until `text` is written; None where it isn't in time."""
        began, kept, wanted = time.perf_counter(), b"", text.encode()
        while (left := seconds - (time.perf_counter() - began)) > 0:
            kept = kept[-200:] + self.read(left)
            if wanted in kept:
                return time.perf_counter() - began
        return None

    def drain(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self.read(left)

    def key(self, data: bytes) -> None:
        os.write(self.master, data)

    def end(self) -> int:
        """Asks it to quit; its exit status."""
        os.kill(self.pid, signal.SIGTERM)
        self.drain(1.0)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.master)
        return os.waitstatus_to_exitcode(status)


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
