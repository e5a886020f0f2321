"""What the app costs, in a real pseudo-terminal with the real engine under it.

`python -m tests.bench.app [MEASURE …] [--preset nim-pocket] [--rounds N]` prints a JSON object a measure:

    latency      key press to repaint at 160×45, 64 episodes in play at whatever speed the engine has
    first        from the command to the first frame, at Home and on a run
    idle         CPU of the app at Home, and on a paused run
    throughput   tokens a second under the app against `--headless`, sides in turn, the ratio of each round
    memory       of the process over 100,000 episodes, and what a frame takes at the end (scripted run, no engine)
    day          the same over a day of steps, one every ten seconds (scripted)

Two cores shared with others give other figures than two cores: say so beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.tui.pseudo import Terminal

APP = [sys.executable, "-m", "tui.cli"]

SIZE = (160, 45)

KEYS = ((b"4", "Plots"), (b"5", "Health"))
"""Keys, and what is only painted again because of them: the title of the pane they go to."""

EPISODES = 100_000

DAY = 8640
"""Steps of a day, one every ten seconds."""


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread_of(milliseconds: list[float]) -> dict[str, float]:
    return {
        "p50_ms": round(percentile(milliseconds, 0.5), 1),
        "p95_ms": round(percentile(milliseconds, 0.95), 1),
        "max_ms": round(max(milliseconds), 1),
    }


# With the engine


def run_command(folder: Path, preset: str, *more: str) -> list[str]:
    return [*APP, "--runs-dir", str(folder), "run", preset, "--name", "measured", *more]


def recorded(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """The steps so far."""
    file = folder / "measured" / "run.sqlite"
    if not file.exists():
        return []
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as record:
        found = record.execute("SELECT step, metrics FROM steps ORDER BY step").fetchall()
    return [(step, json.loads(metrics)) for step, metrics in found]


def wait_for(terminal: Terminal, condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > deadline:
            raise AssertionError(f"not within {seconds} s; on the screen: {bytes(terminal.output[-2000:])!r}")
        terminal.drain(0.2)


def latency(folder: Path, preset: str, keys: int) -> dict[str, object]:
    command = run_command(folder, preset, "--set", "run.episodes_per_step=64", "--set", "run.steps=100000")
    terminal = Terminal(command, *SIZE)
    wait_for(terminal, lambda: len(recorded(folder)) >= 2, 120.0)
    rng = random.Random(0)
    before, since = cpu_seconds(terminal.pid), time.perf_counter()
    first, times, missed = recorded(folder)[-1][0], [], 0
    for index in range(keys):
        terminal.drain(rng.uniform(0.1, 0.5))
        key, shows = KEYS[index % 2]
        terminal.key(key)
        taken = terminal.until(shows, 2.0)
        if taken is None:
            missed += 1
        else:
            times.append(1000 * taken)
    steps = recorded(folder)
    busy = (cpu_seconds(terminal.pid) - before) / (time.perf_counter() - since)
    terminal.send(signal.SIGTERM)
    code = terminal.end(60.0)
    rates = [metrics["generation_rate"] for step, metrics in steps if step > first]
    return {
        "preset": preset,
        "keys": len(times),
        "missed": missed,
        **spread_of(times),
        "tokens_a_second": round(statistics.median(rates)) if rates else None,
        "steps": len(rates),
        "cores_used": round(busy, 2),
        "exit_code": code,
    }


def first(folder: Path, preset: str, rounds: int) -> dict[str, object]:
    """The least is what the machine can do, the median what it did beside others."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # people's second start finds the modules compiled
    times: dict[str, list[float]] = {"home": [], "run": [], "python": []}
    for number in range(rounds):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times["python"].append(1000 * (time.perf_counter() - began))
        here = folder / str(number)
        for name, command, shows in (
            ("home", [*APP, "--runs-dir", str(here)], "Presets"),
            ("run", run_command(here, preset), "Episodes"),
        ):
            terminal = Terminal(command, *SIZE)
            taken = terminal.until(shows, 20.0)
            assert taken is not None, bytes(terminal.output)
            times[name].append(1000 * taken)
            terminal.drain(0.5)
            terminal.send(signal.SIGTERM)
            terminal.end(60.0)
    return {
        name: {"least_ms": round(min(taken)), "median_ms": round(statistics.median(taken))}
        for name, taken in times.items()
    }


def idle(folder: Path, preset: str, seconds: float) -> dict[str, object]:
    at_home = Terminal([*APP, "--runs-dir", str(folder)], *SIZE)
    assert at_home.until("Presets", 20.0) is not None
    at_home.drain(3.0)
    shares = {"home": share_of_a_core(at_home, seconds)}
    at_home.send(signal.SIGTERM)
    at_home.end(30.0)
    paused = Terminal(run_command(folder, preset), *SIZE)
    wait_for(paused, lambda: len(recorded(folder)) >= 1, 120.0)
    paused.key(b" ")
    assert paused.until("paused", 20.0) is not None
    paused.drain(5.0)
    shares["paused"] = share_of_a_core(paused, seconds)
    paused.send(signal.SIGTERM)
    paused.end(60.0)
    return {name: f"{100 * share:.1f}%" for name, share in shares.items()}


def share_of_a_core(terminal: Terminal, seconds: float) -> float:
    before = cpu_seconds(terminal.pid)
    terminal.drain(seconds)
    return (cpu_seconds(terminal.pid) - before) / seconds


def cpu_seconds(process: int) -> float:
    """What a process and its children have computed. From /proc, so on Linux only."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(folder.name) == process or int(fields[1]) == process:
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def throughput(folder: Path, preset: str, rounds: int, steps: int) -> dict[str, object]:
    """Seconds from the first step's end to the last one's, as both sides record them, evaluations left out."""
    ratios, pairs = [], []
    for number in range(rounds):
        sides = {}
        for side in ("app", "headless") if number % 2 else ("headless", "app"):
            here = folder / f"{number}-{side}"
            settings = ("--steps", str(steps), "--set", "eval.every=0")
            if side == "headless":
                command = [*run_command(here, preset, *settings), "--headless"]
                subprocess.run(command, check=True, capture_output=True)
            else:
                terminal = Terminal(run_command(here, preset, *settings), *SIZE)
                wait_for(terminal, lambda here=here: len(recorded(here)) >= steps, 600.0)
                terminal.send(signal.SIGTERM)
                terminal.end(60.0)
            with sqlite3.connect(here / "measured" / "run.sqlite") as record:
                rows = record.execute("SELECT seconds, metrics FROM steps WHERE step > 1").fetchall()
            tokens = sum(json.loads(metrics).get("tokens_generated", 0.0) for _, metrics in rows)
            sides[side] = (tokens or len(rows)) / sum(seconds for seconds, _ in rows)
        ratios.append(sides["app"] / sides["headless"])
        pairs.append({side: round(value, 1) for side, value in sides.items()})
    return {"preset": preset, "steps": steps, "rounds": pairs, "ratio_median": round(statistics.median(ratios), 3)}


# With a scripted run


def resident() -> int:
    """Bytes of this process that are in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def memory(episodes: int, batch: int, steps: int | None = None) -> dict[str, object]:
    """Plays on until so many episodes, or steps, were shown, each tick folded, a frame drawn now and then."""
    from tests.tui.look import still, until, watching
    from tui.screens.run import RunScreen

    run = still(episodes=batch, steps=10**9, tokens_per_tick=1000)
    app = watching(run)
    samples: list[dict[str, float]] = []
    frames: list[float] = []
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.session is not None and run.state.value == "running")
        session = app.session
        assert session is not None

        def done() -> float:
            return run.status().step / steps if steps else session.store.finished / episodes

        while done() < 1:
            for _ in range(10):
                run.advance()
                session.drain()
            if isinstance(app.screen, RunScreen):
                began = time.perf_counter()
                await app.screen.draw(True)
                frames.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(0)
            if done() >= len(samples) / 10:
                samples.append({"episodes": session.store.finished, "steps": run.status().step,
                                "mb": round(resident() / 1e6, 1)})  # fmt: skip
    tenth = max(len(frames) // 10, 1)
    half = samples[len(samples) // 2]["mb"]
    return {
        "samples": samples,
        "growth_second_half_mb": round(samples[-1]["mb"] - half, 1),
        "whole_frame_first_tenth": spread_of(frames[:tenth]),
        "whole_frame_last_tenth": spread_of(frames[-tenth:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("measures", nargs="*", default=["latency", "first", "idle", "throughput", "memory", "day"])
    parser.add_argument("--preset", default="nim-pocket")
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    chosen = parser.parse_args()
    for name in chosen.measures:
        folder = Path(tempfile.mkdtemp(prefix="bench-app-"))
        began, load = time.perf_counter(), os.getloadavg()[0]
        try:
            made: dict[str, object]
            if name == "latency":
                made = latency(folder, chosen.preset, chosen.keys)
            elif name == "first":
                made = first(folder, chosen.preset, chosen.rounds)
            elif name == "idle":
                made = idle(folder, chosen.preset, 10.0)
            elif name == "throughput":
                made = throughput(folder, chosen.preset, chosen.rounds, chosen.steps)
            elif name == "memory":
                made = asyncio.run(memory(EPISODES, 256))
            elif name == "day":
                made = asyncio.run(memory(0, 8, DAY))
            else:
                parser.error(f"no measure {name!r}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        about = {"load_before": round(load, 1), "took_s": round(time.perf_counter() - began)}
        print(json.dumps({"measure": name, **made, **about}), flush=True)


if __name__ == "__main__":
    main()
