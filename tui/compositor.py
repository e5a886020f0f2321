"""Puts a screen together from its widgets' lines, without those that others hide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from textual._compositor import Compositor
from textual.geometry import Region
from textual.strip import Strip


class FrontFirst(Compositor):
    """Textual's, which also has everything behind a line painted and cut up: containers, the screen itself.

    That takes a third of a frame. Here a widget is asked only for lines that are to be painted and that nothing
    before it fills.
    """

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        cuts = self.cuts
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(line[:-1]) for line in cuts]
        missing = [len(chop) if is_rendered_line(y) else 0 for y, chop in enumerate(chops)]
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            if not (seen and crop.overlaps(seen)):
                continue
            lines = [y for y in seen.line_range if missing[y]]
            if not lines:
                continue
            first, last = lines[0], lines[-1]
            part = Region(seen.x - region.x, first - region.y, seen.width, last - first + 1)
            left, right = seen.column_span
            for y, strip in enumerate(widget.render_lines(part), first):
                if not missing[y]:
                    continue
                chop = chops[y]
                places = [cut for cut in cuts[y] if left <= cut <= right]
                pieces = strip.divide([cut - left for cut in places[1:]])
                for place, piece in zip(places, pieces, strict=False):
                    if chop[place] is None:
                        chop[place] = piece
                        missing[y] -= 1
        return cast("Sequence[Mapping[int, Strip]]", chops)
