"""Draws how evaluations went: runs' folders in, one SVG out, and on stdout a table of the same in Markdown.

    uv run python docs/curves.py docs/curves/nim.svg --metric win_vs_random RUNS/nim-1 RUNS/nim-2 RUNS/nim-3

A colour a metric, a line a run, a dash of its own for each seed. `--level 0.1` draws a goal across.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from engine import config
from engine.store import Store
from tui.drawing.scales import ticks

WIDTH, HEIGHT = 640, 336
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 62, 40
COLOURS = ("#1f6fb4", "#d1651c", "#2d8a4e", "#8a4fa3", "#8c6d1f", "#5b6470")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 4")


@dataclass(frozen=True, slots=True)
class Curve:
    """One run."""

    seed: int
    seconds: float
    """Spent in steps: playing and learning, without evaluations."""
    steps: list[int]
    """After which it was evaluated."""
    values: dict[str, list[float]]
    """Metric → its value after each of these steps; only those it measured every time."""


def read(folder: Path) -> Curve:
    """Raises `StoreError` or `ConfigError` if it isn't a run's folder."""
    with Store.open(folder, read_only=True) as store:
        evaluations, seconds = store.evaluations(), store.seconds()
    names = [name for name in evaluations[0].metrics if all(name in e.metrics for e in evaluations)]
    values = {name: [e.metrics[name] for e in evaluations] for name in names}
    seed = config.load(folder / "config.toml").run.seed
    return Curve(seed, seconds, [e.step for e in evaluations], values)


def svg(curves: Sequence[Curve], metrics: Sequence[str], title: str = "", levels: Sequence[float] = ()) -> str:
    """A picture: `curves` by step. Raises ValueError for a metric that one of them hasn't measured."""
    for curve in curves:
        for metric in metrics:
            if metric not in curve.values:
                raise ValueError(f"no metric {metric!r} in every evaluation; there are: {', '.join(curve.values)}")
    shown = [value for curve in curves for metric in metrics for value in curve.values[metric]]
    low, high = min(*shown, *levels), max(*shown, *levels)
    ys = ticks(low, high if high > low else low + 1.0)
    xs = ticks(0, max(1, *(step for curve in curves for step in curve.steps)))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(step: float) -> str:
        return f"{LEFT + (right - LEFT) * step / xs[-1]:.1f}"

    def y(value: float) -> str:
        return f"{bottom - (bottom - TOP) * (value - ys[0]) / (ys[-1] - ys[0]):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="11" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="16" font-size="13">{escape(title)}</text>',
    ]
    for value in ys:
        parts.append(f'<path d="M{LEFT} {y(value)}H{right}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value)}" dy="4" text-anchor="end">{value:g}</text>')
    parts += [f'<text x="{x(step)}" y="{bottom + 16}" text-anchor="middle">{step:g}</text>' for step in xs]
    parts.append(f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">step</text>')
    parts += [f'<path d="M{LEFT} {y(level)}H{right}" stroke="#333" stroke-dasharray="1 3"/>' for level in levels]
    colours, dashes = _repeated(COLOURS, len(metrics)), _repeated(DASHES, len(curves))
    for metric, colour in zip(metrics, colours, strict=True):
        for curve, dash in zip(curves, dashes, strict=True):
            points = " ".join(f"{x(s)},{y(v)}" for s, v in zip(curve.steps, curve.values[metric], strict=True))
            line = f'stroke="{colour}" stroke-width="1.4" stroke-dasharray="{dash}"'
            parts.append(f'<polyline points="{points}" fill="none" {line}/>')
    names = [(metric.replace("_", " "), colour, "") for metric, colour in zip(metrics, colours, strict=True)]
    seeds = [(f"seed {curve.seed}", "#333", dash) for curve, dash in zip(curves, dashes, strict=True)]
    for entries, line in ((names, 32), (seeds, 48)):
        at = LEFT
        for name, colour, dash in entries:
            parts.append(
                f'<path d="M{at} {line}h22" stroke="{colour}" stroke-width="1.4" stroke-dasharray="{dash}"/>'
            )
            parts.append(f'<text x="{at + 26}" y="{line + 4}">{escape(name)}</text>')
            at += 44 + 6 * len(name)
    return "\n".join([*parts, "</svg>"]) + "\n"


def table(curves: Sequence[Curve], metrics: Sequence[str]) -> str:
    """First, last, lowest and highest value of each metric in each run, as a table in Markdown."""
    lines = ["| seed | steps | seconds | metric | first | last | lowest | highest |", "|" + "---|" * 8]
    for curve in curves:
        for metric in metrics:
            values = curve.values[metric]
            extremes = " | ".join(
                f"{value:.3f} (step {curve.steps[values.index(value)]})" for value in (min(values), max(values))
            )
            run = f"{curve.seed} | {curve.steps[-1]} | {curve.seconds:.0f}"
            lines.append(f"| {run} | `{metric}` | {values[0]:.3f} | {values[-1]:.3f} | {extremes} |")
    return "\n".join(lines)


def _repeated(items: Sequence[str], count: int) -> list[str]:
    return [items[i % len(items)] for i in range(count)]


def main() -> None:
    summary, *_, example = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(description=summary, epilog=example)
    parser.add_argument("svg", type=Path, help="the file to write")
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder")
    parser.add_argument("--metric", action="append", required=True, help="of the evaluations; repeatable")
    parser.add_argument("--level", action="append", type=float, default=[], help="a line across; repeatable")
    parser.add_argument("--title", default="", help="what stands above")
    asked = parser.parse_args()
    curves = sorted(map(read, asked.runs), key=lambda curve: curve.seed)
    asked.svg.parent.mkdir(parents=True, exist_ok=True)
    asked.svg.write_text(svg(curves, asked.metric, asked.title, asked.level), encoding="utf-8")
    print(table(curves, asked.metric))


if __name__ == "__main__":
    main()
