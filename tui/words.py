"""Numbers and names as people read them: aligned, short, with a real minus."""

from __future__ import annotations

import math

MINUS = "−"


def signed(value: float, decimals: int = 2) -> str:
    """`+1.00`, `−0.50`; a dash where there is no number."""
    if not math.isfinite(value):
        return "–"
    return f"{round(value, decimals) + 0.0:+.{decimals}f}".replace("-", MINUS)  # + 0.0: no minus before a zero


def number(value: float, decimals: int = 2) -> str:
    """`0.51`, `−0.50`, `1.2e−05` where plain decimals would say nothing."""
    if not math.isfinite(value):
        return "–"
    if value and (abs(value) < 0.5 * 10**-decimals or abs(value) >= 1e6):
        return f"{value:.1e}".replace("-", MINUS)
    return f"{value:.{decimals}f}".replace("-", MINUS)


def exact(value: float) -> str:
    """`0.133`, `0.0008`, `805`, `2,000`: three digits that tell something, whatever is measured."""
    if not math.isfinite(value):
        return "–"
    if value == round(value) or abs(value) >= 100:
        return f"{value:,.0f}".replace("-", MINUS)
    return number(value, 3) if abs(value) >= 0.1 else f"{value:.3g}".replace("-", MINUS)


def count(value: float) -> str:
    """`812`, `5.1k`, `2.3M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def memory(size: float) -> str:
    """Bytes as `4 kB`, `812 MB`, `1.2 GB`."""
    for unit, step, decimals in (("GB", 1e9, 1), ("MB", 1e6, 0)):
        if size >= step:
            return f"{size / step:.{decimals}f} {unit}"
    return f"{size / 1e3:.0f} kB"


def elapsed(seconds: float) -> str:
    """`0:03:12`."""
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}"


def label(name: str) -> str:
    """A metric's name as words: `"win_vs_random"` is `"win vs random"`."""
    return name.removeprefix("eval/").replace("_", " ").replace("/", " · ")


def plural(many: int, one: str) -> str:
    return f"{many:,} {one}" + ("" if many == 1 else "s")


BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: list[float], cells: int) -> str:
    """The last `cells` values as bars between their lowest and highest."""
    values = [value for value in values if math.isfinite(value)][-cells:]
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    if high == low:
        return BARS[3] * len(values)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in values)
