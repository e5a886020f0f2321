"""Widgets of which every line is the same, as of a container that shows nothing but its colour."""

from __future__ import annotations

from textual.containers import Vertical
from textual.geometry import Region
from textual.strip import Strip


class Ground:
    """Put before the class of a widget that has neither border nor padding: one of its lines is painted for all.

    Containers lie behind everything, one in the other: where a screen is laid out anew, painting all their lines
    takes half the time.
    """

    def render_lines(self, crop: Region) -> list[Strip]:
        line = Region(crop.x, crop.y, crop.width, min(crop.height, 1))
        return super().render_lines(line) * crop.height  # type: ignore[misc]


class Column(Ground, Vertical):
    """What it holds, one above the other."""
