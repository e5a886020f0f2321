"""Lines of styled text, painted one by one: only those that changed, and only those in sight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from tui.text import fit, width
from tui.theme import Palette, palette
from tui.widgets.linecache import LineCache

Line = tuple[tuple[str, Style | None], ...]
"""Cleaned text and its style, left to right; no newline anywhere."""

BLANK: Line = ()

CURSOR = (
    Binding("up,k", "move(-1)", "Up", show=False),
    Binding("down,j", "move(1)", "Down", show=False),
    Binding("pageup", "page(-1)", "Page up", show=False),
    Binding("pagedown", "page(1)", "Page down", show=False),
    Binding("home", "move(-1000000)", "First", show=False),
    Binding("end", "move(1000000)", "Last", show=False),
)
"""What moves a cursor through lines, in every list alike; it has `action_move` and `action_page`."""


def span(line: Line) -> int:
    """How many cells a line takes."""
    return sum(width(text) for text, _ in line)


def spread(left: Line, right: Line, cells: int, fill: str = " ", style: Style | None = None) -> Line:
    """`left` and `right` at the ends of a line of `cells` cells; where both don't fit, left alone."""
    gap = cells - span(left) - span(right)
    if gap < 1:
        return left
    return (*left, (fill * gap, style), *right)


def cut(line: Line, cells: int) -> Line:
    """The line's beginning in at most `cells` cells, ended by an ellipsis where it was cut."""
    kept: list[tuple[str, Style | None]] = []
    for text, look in line:
        if width(text) > cells:
            kept.append((fit(text, cells), look))
            break
        kept.append((text, look))
        cells -= width(text)
    return tuple(kept)


def strip(line: Line, cells: int, ground: Style) -> Strip:
    """A line as Textual takes it, in exactly `cells` cells over the style `ground`."""
    segments = [Segment(text, ground + style if style else ground) for text, style in line if text]
    gap = cells - span(line)
    if gap > 0:
        segments.append(Segment(" " * gap, ground))
    # one strip where four would do as well: a screen has a hundred lines, and each strip takes 10 µs to make
    return Strip(segments, cells) if gap >= 0 else Strip(segments, cells - gap).crop(0, cells)


class LineWidget(Widget):
    """A widget that paints its own lines over its background."""

    _ground: tuple[str, Style] | None = None

    across = 0
    """Cells of a line while lines are rendered: `size` is worked out anew each time, from the screen's layout."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._styles_cache = LineCache(self)

    def render_lines(self, crop: Region) -> list[Strip]:
        self.across = self.size.width
        return super().render_lines(crop)

    @property
    def colours(self) -> Palette:
        return palette(self.app.theme)

    @property
    def ground(self) -> Style:
        """The style beneath every line; worked out once a theme, not once a line."""
        theme = self.app.theme
        if self._ground is None or self._ground[0] != theme:
            self._ground = (theme, self.rich_style)
        return self._ground[1]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._ground = None


class LineView(ScrollView, LineWidget):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Lines that scroll."""

    DEFAULT_CSS = """
    LineView {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """

    @property
    def cells(self) -> int:
        """Cells of a line."""
        return max(self.scrollable_content_region.width, 1)

    @property
    def at_end(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y

    def refresh_line(self, y: int) -> None:
        # Without the scrollbar, which takes as long to paint as the lines. Without one, its place is a line's.
        wide = self.cells if self.show_vertical_scrollbar else self.size.width
        self.refresh(Region(0, y - self.scroll_offset.y, wide, 1))

    def set_line_count(self, lines: int) -> None:
        """Says how many lines there are.

        Assigned plainly, `virtual_size` lays out the whole screen again (some 15 ms); only a scrollbar that
        comes or goes needs that, and asks for it by itself.
        """
        size = Size(0, lines)
        if size != self.virtual_size:
            self.set_reactive(cast("Reactive[Size]", Widget.virtual_size), size)
            self._scroll_update(size)


class Painted(LineView, can_focus=True):
    """A list of lines. `show` replaces them and repaints what differs."""

    def __init__(self, *, id: str | None = None, focusable: bool = True) -> None:
        super().__init__(id=id)
        self.can_focus = focusable
        self.lines: list[Line] = []

    def show(self, lines: Sequence[Line]) -> None:
        before, self.lines = self.lines, list(lines)
        self.set_line_count(len(self.lines))
        top = self.scroll_offset.y
        for y in range(top, top + self.size.height):
            old = before[y] if y < len(before) else None
            new = self.lines[y] if y < len(self.lines) else None
            if old != new:
                self.refresh_line(y)

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        return strip(self.lines[y] if y < len(self.lines) else BLANK, self.across, self.ground)


class OneLine(LineWidget):
    """A single painted line."""

    DEFAULT_CSS = """
    OneLine { height: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.line: Line = BLANK

    def show(self, line: Line) -> None:
        if line != self.line:
            self.line = line
            self.refresh()

    def render_line(self, y: int) -> Strip:
        return strip(self.line, self.across, self.ground)
