"""The wall: every episode in one widget, a row each, so that hundreds of streams cost a repaint of a few lines."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tui.state import Store
from tui.theme import style
from tui.views import EpisodeView
from tui.wall.filter import WallFilter
from tui.wall.line import MARK, row
from tui.wall.rows import Rows
from tui.widgets.painted import BLANK, CURSOR, Line, LineView, cut, strip
from tui.words import plural

FRESH = 0.6
"""Seconds an ended episode stays bright."""


class Wall(LineView, can_focus=True):
    """Rows of episodes; the cursor's row is the one in focus.

    Episodes stand under the one that spawned them, unless it is folded. `Selected` tells that a person chose a row,
    by keys or mouse.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR,
        Binding("enter", "open", "Read it", show=False),
    ]

    class Selected(Message):
        """An episode was chosen; `opened` where it was asked for with enter or a second click."""

        def __init__(self, rollout_id: str, opened: bool = False) -> None:
            super().__init__()
            self.rollout_id = rollout_id
            self.opened = opened

    def __init__(self, store: Store, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.store = store
        self.rows = Rows()
        self.focused_id = ""
        self.filter = WallFilter()
        self._painted: dict[int, tuple[object, ...]] = {}

    # What is shown

    def update(self) -> None:
        """Seats new episodes and repaints the rows in sight that changed."""
        self._seat()
        self.set_line_count(len(self.rows))
        top, size, theme = self.scroll_offset.y, self.size, self.app.theme
        for y in range(top, top + size.height):
            key = self._key(y, size.width, theme)
            if self._painted.get(y) != key:
                self._painted[y] = key
                self.refresh_line(y)

    def only(self, wanted: WallFilter) -> None:
        """Shows the episodes that meet a filter; all in play, where it is empty."""
        self.filter = wanted
        self.rows.clear()
        self.scroll_to(y=0, animate=False)
        self.update()

    @property
    def told(self) -> str:
        """What isn't shown, in words; empty where that is nothing."""
        parts = [] if self.filter.is_empty else [f"{self.rows.found:,} found"]
        return ", ".join(parts + ([f"{self.rows.away:,} folded"] if self.rows.away else []))

    def _seat(self) -> None:
        if self.filter.is_empty:
            self.rows.update(self.store, (self.focused_id,) if self.focused_id else ())
        else:
            self.rows.update(self.store, (), lambda episode: self.filter.matches(episode, self.store))
            self.filter.forget(self.store)

    def on_resize(self) -> None:
        row = self.rows.row(self.focused_id)
        if row is not None:
            self._reveal(row)

    def focus_on(self, rollout_id: str, reveal: bool = True) -> None:
        """Moves the cursor to an episode, without a message."""
        before, self.focused_id = self.focused_id, rollout_id
        for changed in (before, rollout_id):
            if (row := self.rows.row(changed)) is not None:
                self.refresh_line(row)
        row = self.rows.row(rollout_id)
        if reveal and row is not None:
            self._reveal(row)

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        episode = self._episode(y)
        if episode is None:
            return strip(self._nothing(y), self.across, self.ground)
        colours = self.colours
        chosen = episode.id == self.focused_id
        phase = 2 if episode.id in self.rows.context else self._phase(episode)
        line = row(episode, self.store, self.across, colours, chosen, phase, *self._stands(episode))
        ground = self.ground + Style(bgcolor=colours.cursor) if chosen else self.ground
        return strip(line, self.across, ground)

    def _nothing(self, y: int) -> Line:
        if y or len(self.rows) or self.filter.is_empty:
            return BLANK
        known = plural(len(self.store.episodes), "episode")
        return cut(((f" None of {known} in memory meets it.", style(self.colours.soft)),), self.size.width)

    def _episode(self, y: int) -> EpisodeView | None:
        return self.store.episodes.get(self.rows.ids[y]) if y < len(self.rows) else None

    def _stands(self, episode: EpisodeView) -> tuple[int | None, bool]:
        """How many are folded away under it, None where it has no children; whether it stands under its parent."""
        rows, folded = self.rows, None
        if rows.opens(episode.id):
            folded = len(rows.forest.below(episode.id)) if episode.id in rows.folded else 0
        return folded, episode.id in rows.forest.root

    def _phase(self, episode: EpisodeView) -> int:
        """0 in play, 1 just ended, 2 settled. What was looked for stays bright."""
        if episode.ended is None:
            return 0
        return 1 if not self.filter.is_empty or self.store.clock() - episode.ended < FRESH else 2

    def _key(self, y: int, width: int, theme: str) -> tuple[object, ...]:
        """What the look of a row depends on."""
        episode = self._episode(y)
        if episode is None:
            return (self.filter.text, len(self.store.episodes)) if not (y or self.filter.is_empty) else ()
        chosen = episode.id == self.focused_id
        return (
            episode.id,
            episode.revision,
            self._phase(episode),
            chosen,
            width,
            theme,
            self._stands(episode),
            episode.id in self.rows.context,
        )

    def in_sight(self) -> list[str]:
        """The episodes whose rows can be seen, from the top."""
        top = self.scroll_offset.y
        return self.rows.ids[top : top + self.size.height]

    # What is chosen

    def action_move(self, by: int) -> None:
        if not len(self.rows):
            return
        here = self.rows.row(self.focused_id)
        there = max(0, min(len(self.rows) - 1, (here if here is not None else self.scroll_offset.y - by) + by))
        self._choose(there)

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(self.size.height - 1, 1))

    def action_open(self) -> None:
        if self.focused_id:
            self.post_message(self.Selected(self.focused_id, opened=True))

    def fold(self) -> None:
        """Folds the tree at the cursor by a level; the cursor goes to what is folded."""
        there = self.rows.fold(self.focused_id)
        self.update()
        if there != self.focused_id and (y := self.rows.row(there)) is not None:
            self._choose(y)

    def unfold(self) -> None:
        """Shows what the cursor's episode spawned, as much of it as there is room for."""
        self.rows.unfold(self.focused_id)
        self.update()
        if (y := self.rows.row(self.focused_id)) is not None:
            below = self.rows.forest.below(self.focused_id)
            self._reveal(y + sum(self.rows.row(episode.id) is not None for episode in below))
            self._reveal(y)

    def fold_all(self) -> None:
        """Folds all trees, or unfolds them."""
        self.rows.fold_all()
        self.update()
        root = self.rows.forest.root.get(self.focused_id)
        if self.rows.all_folded and root is not None and (y := self.rows.row(root)) is not None:
            self._choose(y)
        elif (y := self.rows.row(self.focused_id)) is not None:
            self._reveal(y)  # rows above it have come or gone

    def on_click(self, event: events.Click) -> None:
        y = event.y + self.scroll_offset.y
        episode = self._episode(y)
        if episode is not None and event.x in MARK and self.rows.opens(episode.id):
            (self.rows.unfold if episode.id in self.rows.folded else self.rows.fold)(episode.id)
            self.update()
        elif y < len(self.rows):
            self._choose(y, opened=event.chain > 1)

    def _choose(self, y: int, opened: bool = False) -> None:
        rollout_id = self.rows.ids[y]
        self.focus_on(rollout_id)
        self.post_message(self.Selected(rollout_id, opened))

    def _reveal(self, y: int) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if y < top:
            self.scroll_to(y=y, animate=False)
        elif height and y >= top + height:
            self.scroll_to(y=y - height + 1, animate=False)
