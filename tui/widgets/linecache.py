"""What a widget that paints its own lines has painted, kept line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual._styles_cache import StylesCache
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from tui.widgets.painted import LineWidget


class LineCache(StylesCache):
    """Takes the lines of a widget as they are, where nothing is drawn around them or over them.

    Textual works out paddings, borders and opacities anew for each line, which takes more time than the lines.
    """

    def __init__(self, painter: LineWidget) -> None:
        super().__init__()
        self._painter = painter

    def render_widget(self, widget: Widget, crop: Region) -> list[Strip]:
        painter = self._painter
        if widget.styles.gutter or widget.opacity != 1.0:
            return super().render_widget(widget, crop)
        wide, kept, dirty = painter.across, self._cache, self._dirty_lines
        if wide != self._width:
            self.clear()
            self._width = wide
        strips = []
        for y in crop.line_range:
            strip = None if y in dirty else kept.get(y)
            if strip is None:
                strip = kept[y] = painter.render_line(y).adjust_cell_length(wide, painter.ground)
            strips.append(strip)
        dirty.difference_update(crop.line_range)
        for line_filter in widget.get_line_filters():
            strips = [strip.apply_filter(line_filter, widget.background_colors[1]) for strip in strips]
        if crop.column_span != (0, wide):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips
