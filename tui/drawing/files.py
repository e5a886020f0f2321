"""Charts and their numbers, put into the folder `exports/` of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tui.drawing.model import ChartModel
from tui.drawing.svg import svg
from tui.drawing.table import written

FOLDER = "exports"
SCALE = 2.0
"""Pixels of a PNG for each unit of the SVG it is made from."""


class DrawingError(Exception):
    """It can't be written: says why, and what would help."""


def save_svg(run: Path, models: Sequence[ChartModel]) -> list[Path]:
    """A picture of each chart."""
    return [_save(run, model, "svg", svg(model).encode()) for model in models]


def save_png(run: Path, models: Sequence[ChartModel]) -> list[Path]:
    """The same as pixels, light. Needs the extra `png`."""
    try:
        import resvg_py
    except ImportError as error:
        raise DrawingError(
            "PNG needs resvg, which isn't installed: pip install 'selfplay-tui[png]'; SVG needs nothing"
        ) from error
    return [_save(run, m, "png", bytes(resvg_py.svg_to_bytes(svg_string=svg(m), zoom=SCALE))) for m in models]


def save_csv(run: Path, models: Sequence[ChartModel]) -> list[Path]:
    """All numbers in sight in one table."""
    titled = models[0] if len(models) == 1 else ChartModel("metrics", (), x_range=models[0].x_range)
    return [_save(run, titled, "csv", written(models, ",").encode())]


def _save(run: Path, model: ChartModel, suffix: str, content: bytes) -> Path:
    """Writes beside what is there: a name that is taken gets a number."""
    folder = run / FOLDER
    stem = re.sub(r"[^a-z0-9]+", "-", model.title.casefold()).strip("-")[:60] or "chart"
    stem += f"-to-step-{model.x_range[1]:.0f}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for place in range(1, 1000):
            path = folder / f"{stem}{f'-{place}' if place > 1 else ''}.{suffix}"
            try:
                file = path.open("xb")
            except FileExistsError:
                continue
            try:
                with file:
                    file.write(content)
            except OSError:
                path.unlink(missing_ok=True)  # a full disk takes the name and not the content
                raise
            return path
    except OSError as error:
        raise DrawingError(f"{folder}: {error.strerror or error}; nothing was written") from error
    raise DrawingError(f"{folder}: a thousand files {stem}.{suffix} are there already; wants some taken away")
