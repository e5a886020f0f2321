"""Panes one under the other, whose titles are the borders between them: dragged, or moved by keys."""

from __future__ import annotations

from itertools import pairwise

from textual.widget import Widget

from tui.widgets.ground import Column
from tui.widgets.pane import Pane, PaneTitle
from tui.widgets.sizes import keep, kept

LEAST = 4
"""Lines that every pane keeps, its title among them."""


HEIGHT = " height"
"""What a height is remembered as, behind the pane's id: it may have a width too."""


class Stack(Column):
    """Gives its panes their heights: what a person chose, else `Pane.fit` or the style; `1fr` takes what is left.

    A height that was chosen is a share of the stack, so it goes along with the terminal's.
    """

    def __init__(self, *children: Widget, id: str) -> None:
        super().__init__(*children, id=id)
        self.shares: dict[str, float] = {}
        """What was chosen, by the id of the child."""
        self.is_standing = True
        """Whether there are borders: where one pane is shown alone its style decides."""

    def on_mount(self) -> None:
        known = kept(self)
        self.shares = {c.id: known[c.id + HEIGHT] for c in self.children if c.id and c.id + HEIGHT in known}
        self.fit()

    def on_resize(self) -> None:
        self.fit()

    def stand(self, is_needed: bool) -> None:
        """Where one pane is shown alone there are no borders, and no heights but the whole."""
        self.is_standing = is_needed
        self.fit()

    def want(self, pane: Pane, lines: int | None) -> None:
        """So many lines are what the pane has use for, if nobody chose; None leaves it to the style."""
        if pane.fixed != lines:
            pane.fixed = lines
            self.fit()

    # Moving a border

    def borders(self) -> list[tuple[Widget, Pane]]:
        """Neighbours in sight, the lower one's title the border between them."""
        shown = [child for child in self.children if child.display] if self.is_standing else []
        return [(a, b) for a, b in pairwise(shown) if isinstance(b, Pane)]

    def move(self, inside: Widget, lines: int) -> bool:
        """Moves the border below the pane that a widget is in, or above the last one; False where there is none."""
        mine = [(a, b) for a, b in self.borders() if a in inside.ancestors_with_self]
        mine += [(a, b) for a, b in self.borders() if b in inside.ancestors_with_self]
        if mine:
            upper, lower = mine[0]
            self._give(upper, lower, lower.region.y + lines)
            self._keep()
        return bool(mine)

    def on_pane_title_dragged(self, message: PaneTitle.Dragged) -> None:
        message.stop()
        for upper, lower in self.borders():
            if lower.title is message.title:
                self._give(upper, lower, message.y)
        if message.is_over:
            self._keep()

    def _give(self, upper: Widget, lower: Pane, y: int) -> None:
        """The border to a line of the screen, by the height of whichever of the two has one of its own."""
        sized = upper if self._natural(lower) is None or self._natural(upper) is not None else lower
        lines = lower.region.bottom - y if sized is lower else y - upper.region.y - upper.styles.margin.bottom
        room = max(self.size.height, 1)
        others = sum(child.display for child in self.children) - 1
        if sized.id is not None:
            self.shares[sized.id] = max(LEAST, min(lines, room - LEAST * others)) / room
        self.fit()

    def _keep(self) -> None:
        keep(self, {name + HEIGHT: share for name, share in self.shares.items()})

    # Heights

    def fit(self) -> None:
        """Heights for all, those that were chosen first; no pane is squeezed to nothing."""
        room, shown = self.size.height, [child for child in self.children if child.display]
        left = room - sum(LEAST + child.styles.margin.height for child in shown)
        for child in sorted(self.children, key=lambda child: child.id not in self.shares):
            lines = self._wanted(child) if self.is_standing and child in shown and room else None
            if lines is not None:
                lines = min(lines, LEAST + max(left, 0))
                left -= max(lines - LEAST, 0)
            own = child.styles.inline
            if (own.height.value if own.height is not None else None) != lines:
                child.styles.height = lines
        edges = [lower for _, lower in self.borders()]
        for pane in self.query(Pane):
            pane.title.part(pane in edges)

    def _wanted(self, child: Widget) -> int | None:
        share = self.shares.get(child.id or "")
        return round(share * self.size.height) if share else self._natural(child)

    def _natural(self, child: Widget) -> int | None:
        """Lines it has where nobody chose, or None if it takes what is left."""
        if isinstance(child, Pane) and child.fixed is not None:
            return child.fixed
        style = child.styles.base.height
        if style is None or style.is_fraction or style.is_auto:
            return None
        return int(style.resolve(self.size, self.app.size))


def stacked(widget: Widget | None) -> Stack | None:
    """The stack that a widget is in."""
    return next((a for a in widget.ancestors if isinstance(a, Stack)), None) if widget is not None else None
