"""Puts a screen together from its widgets' lines, without those that others hide or that are to stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import cast

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip


class FrontFirst(Compositor):
    """Asks a widget only for lines with a piece that is to be painted and that nothing before it fills.

    Textual has all widgets painted that have a part in a line of which anything is to be painted, and everything
    behind them: containers, the screen itself. That takes half of a frame.
    """

    def render_partial_update(self) -> ChopsUpdate | None:
        if not self._dirty_regions:
            return None
        spans = list(self._regions_to_spans(self._dirty_regions))
        self._dirty_regions.clear()
        return ChopsUpdate(self._pieces(spans), spans, [cuts[1:] for cuts in self.cuts])

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        left, right = crop.column_span
        return self._pieces((y, left, right) for y in crop.line_range if is_rendered_line(y))

    def _pieces(self, spans: Iterable[tuple[int, int, int]]) -> Sequence[Mapping[int, Strip]]:
        """For each line of the screen, the pieces between its cuts; None for those outside of the spans.

        A span is a line and the columns that it begins and ends before.
        """
        cuts = self.cuts
        pieces: list[dict[int, Strip | None]] = [dict.fromkeys(line[:-1]) for line in cuts]
        missing: list[set[int]] = [set() for _ in cuts]
        for y, first, end in spans:
            missing[y].update(cut for cut, after in pairwise(cuts[y]) if cut < end and after > first)
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            left, right = seen.column_span
            lines = [y for y in seen.line_range if any(left <= cut < right for cut in missing[y])]
            if not lines:
                continue
            part = Region(seen.x - region.x, lines[0] - region.y, seen.width, lines[-1] - lines[0] + 1)
            for y, strip in enumerate(widget.render_lines(part), lines[0]):
                places = [cut for cut in cuts[y] if left <= cut <= right]
                for place, piece in zip(places, strip.divide([cut - left for cut in places[1:]]), strict=False):
                    if place in missing[y]:
                        pieces[y][place] = piece
                        missing[y].remove(place)
        return cast("Sequence[Mapping[int, Strip]]", pieces)
