"""Of what there is to say, as much as there is room for."""

from __future__ import annotations

from collections.abc import Sequence

from tui.widgets.painted import Line, span


def roomy(parts: Sequence[tuple[int, Line]], cells: int) -> Line:
    """Those parts of a line, in their order, that `cells` cells have room for.

    Each comes with a rank. The part of rank 0 always stays; of the others those of the lowest ranks, each of them
    whole or not at all.
    """
    kept: set[int] = set()
    for rank, part in sorted(parts, key=lambda ranked: ranked[0]):
        if not rank or span(part) <= cells:
            kept.add(rank)
            cells -= span(part)
    return tuple(piece for rank, part in parts if rank in kept for piece in part)
