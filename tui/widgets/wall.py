"""The wall: every episode in one widget, a row each, so that hundreds of streams cost a repaint of a few lines."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tui.rows import Rows
from tui.state import Store
from tui.text import clean, fit, one_line, tail, width
from tui.theme import Palette, sign, style
from tui.views import TAIL, EpisodeView
from tui.widgets.painted import BLANK, Line, LineView, span, strip
from tui.words import signed

SHORT = 8
"""Cells of a reply that stands close to its sign."""

FRESH = 0.6
"""Seconds an ended episode stays bright."""


class Wall(LineView, can_focus=True):
    """Rows of episodes; the cursor's row is the one in focus.

    `Selected` tells that a person chose a row, by keys or mouse.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-100000)", "First", show=False),
        Binding("end", "move(100000)", "Last", show=False),
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
        self._painted: dict[int, tuple[object, ...]] = {}

    # What is shown

    def update(self) -> None:
        """Seats new episodes and repaints the rows in sight that changed."""
        self.rows.update(self.store, (self.focused_id,) if self.focused_id else ())
        self.set_line_count(len(self.rows))
        top = self.scroll_offset.y
        for y in range(top, top + self.size.height):
            if self._painted.get(y) != self._key(y):
                self.refresh_line(y)

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
        self._painted[y] = self._key(y)
        episode = self._episode(y)
        if episode is None:
            return strip(BLANK, self.size.width, self.ground)
        colours = self.colours
        chosen = episode.id == self.focused_id
        line = row(episode, self.store, self.size.width, colours, chosen, self._phase(episode))
        ground = self.ground + Style(bgcolor=colours.cursor) if chosen else self.ground
        return strip(line, self.size.width, ground)

    def _episode(self, y: int) -> EpisodeView | None:
        return self.store.episodes.get(self.rows.ids[y]) if y < len(self.rows) else None

    def _phase(self, episode: EpisodeView) -> int:
        """0 in play, 1 just ended, 2 settled."""
        if episode.ended is None:
            return 0
        return 1 if self.store.clock() - episode.ended < FRESH else 2

    def _key(self, y: int) -> tuple[object, ...]:
        """What the look of a row depends on."""
        episode = self._episode(y)
        if episode is None:
            return ()
        chosen = episode.id == self.focused_id
        return episode.id, episode.revision, self._phase(episode), chosen, self.size.width, self.app.theme

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

    def on_click(self, event: events.Click) -> None:
        y = event.y + self.scroll_offset.y
        if y < len(self.rows):
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


def row(episode: EpisodeView, store: Store, cells: int, colours: Palette, chosen: bool, phase: int) -> Line:
    """One episode in one line: `› 17     t4 ●[2] ○[3] ●[1] ○[2]      ●+1.00 ○−1.00`."""
    settled = phase == 2
    soft = style(colours.faint if settled else colours.soft)
    evaluation = episode.is_evaluation and not settled
    identity = ("└" if episode.depth else "") + _short_id(episode.id)
    spoken = f"t{episode.turns[-1].index + 1}" if episode.turns else ""
    left: Line = (
        ("›" if chosen else " ", style(colours.accent, bold=True)),
        (fit(one_line(identity), 6) + " ", style(colours.accent, italic=True) if evaluation else soft),
        (fit(spoken, 3, "right") + " ", soft),
    )
    right = _ending(episode, store, colours, settled)
    room = cells - span(left) - span(right)
    middle = _ticker(episode, store, room, colours, settled)
    return (*left, *middle, (" " * (room - span(middle)), None), *right)


def _ending(episode: EpisodeView, store: Store, colours: Palette, settled: bool) -> Line:
    """What came of it."""
    if episode.live:
        return ()
    if episode.error is not None:
        return ((" ✗ failed ", style(colours.bad)),)
    rewards = [(store.sign_of(role), reward) for role, reward in episode.rewards.items()]
    return (
        *(
            (f" {sign(place)}{signed(reward)}", style(colours.faint) if settled else colours.role(place))
            for place, reward in rewards
        ),
        (" ", None),
    )


def _ticker(episode: EpisodeView, store: Store, room: int, colours: Palette, settled: bool) -> Line:
    """What was said, each turn behind its speaker's sign, as far back as there is room."""
    parts: list[tuple[str, Style | None]] = []
    for turn in reversed(episode.turns):
        if room < 4:
            break
        latest = not parts
        text = " ".join(clean(turn.shown(store.decode, TAIL)[-4 * room :]).split())
        if turn.illegal:
            text = "✗" + text
        place = store.sign_of(turn.role)
        if not latest and width(text) > room - 4:
            parts.append(("… ", style(colours.faint)))
            break
        text = tail(text, room - 4)
        if width(text) > SHORT:
            text = " " + text
        dim = settled or not latest
        parts += [
            (text + " ", style(colours.faint if settled else colours.soft if dim else colours.text)),
            (sign(place), style(colours.faint) if settled else colours.role(place)),
        ]
        room -= width(text) + 2
    return tuple(reversed(parts))


def _short_id(rollout_id: str) -> str:
    """`"eval-40/random/3"` is `"e3"`: that it is an evaluation matters, and which of them."""
    head, _, number = rollout_id.rpartition("/")
    return "e" + number if head.startswith("eval") else rollout_id
