"""One episode, read in full: who said what, streaming, and what it was worth."""

from __future__ import annotations

from rich.style import Style
from textual.message import Message

from engine.types import Message as ChatMessage
from tui.state import Store
from tui.text import clean, fit, one_line, wrap
from tui.theme import Palette, sign, style
from tui.views import EpisodeView, TurnView
from tui.widgets.painted import BLANK, Line, Painted, spread
from tui.words import number, signed

PROMPT_LINES = 8
"""Lines of one message shown of what a role was asked."""

SYSTEM_LINES = 4

LATEST = 200
"""Turns shown; the first ones of a longer episode are left out, and said to be."""

STOPPED = {
    "length": "cut off: the most tokens a reply may have",
    "context": "cut off: the model's window is full",
    "cancelled": "withdrawn",
}


class Transcript(Painted):
    """The focused episode. Follows its end while the reader is there, and never pulls back one who scrolled up."""

    class ScrolledUp(Message):
        """The reader left the end."""

    def __init__(self, store: Store, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.store = store
        self.rollout_id = ""
        self._episode: EpisodeView | None = None
        self._shown: tuple[object, ...] = ()
        self._blocks: dict[int, tuple[tuple[object, ...], list[Line]]] = {}
        self._sticks = True

    @property
    def episode(self) -> EpisodeView | None:
        """What is being read: held on to, so that it stays though the store forgets it."""
        self._episode = self.store.episodes.get(self.rollout_id, self._episode)
        return self._episode

    def focus_on(self, rollout_id: str) -> None:
        if rollout_id != self.rollout_id:
            self.rollout_id = rollout_id
            self._episode = None
            self._blocks.clear()
            self._sticks = True
            self.update()

    def follow_end(self) -> None:
        self._sticks = True
        self.scroll_to(y=self.max_scroll_y, animate=False)

    def update(self) -> None:
        """Repaints what changed since the last time."""
        episode = self.episode
        key = (
            self.rollout_id,
            -1 if episode is None else episode.revision,
            episode is not None and episode.live,
            self.cells,
            self.app.theme,
        )
        if key == self._shown:
            return
        self._shown = key
        self.show(self._lines(episode))
        if self._sticks:
            self.scroll_to(y=self.max_scroll_y, animate=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value and new_value < self.max_scroll_y:
            if self._sticks and self.is_mounted:
                self.post_message(self.ScrolledUp())
            self._sticks = False
        elif new_value >= self.max_scroll_y:
            self._sticks = True

    def _lines(self, episode: EpisodeView | None) -> list[Line]:
        if episode is None:
            return self._nothing()
        colours = self.colours
        lines = [*_heading(episode, self.store, self.cells, colours)]
        turns = episode.turns
        if len(turns) > LATEST:
            lines.append(((f"  … {len(turns) - LATEST:,} turns before these", style(colours.faint)),))
            turns = turns[-LATEST:]
        met: set[str] = (
            {turn.role for turn in episode.turns[: -LATEST or None]} if len(episode.turns) > LATEST else set()
        )
        for turn in turns:
            first = turn.role not in met
            met.add(turn.role)
            key = (turn.revision, self.cells, colours.name, first)
            known = self._blocks.get(turn.index)
            if known is None or known[0] != key:
                known = (key, turn_lines(turn, self.store, self.cells, colours, first))
                self._blocks[turn.index] = known
            lines += known[1]
        lines += _outcome(episode, self.store, self.cells, colours)
        return lines

    def _nothing(self) -> list[Line]:
        words = "No episode is in play yet."
        return [BLANK, *(((f"  {line}", style(self.colours.soft)),) for line in wrap(words, self.cells - 4))]


def plain(episode: EpisodeView, store: Store) -> str:
    """The episode as text to copy."""
    parts = [f"episode {episode.id} · {episode.type}"]
    for turn in episode.turns:
        asked = turn.messages[-1]["content"] if turn.messages else ""
        parts.append(f"{turn.role} (turn {turn.index + 1}, {turn.player} v{turn.version or 0})")
        if asked:
            parts.append("\n".join(f"> {line}" for line in clean(asked).split("\n")))
        parts.append(clean(turn.shown(store.decode)))
    parts += [f"{role}: {signed(reward)}" for role, reward in episode.rewards.items()]
    return "\n\n".join(clean(part) for part in parts) + "\n"


def _heading(episode: EpisodeView, store: Store, cells: int, colours: Palette) -> list[Line]:
    seats: list[tuple[str, Style | None]] = [(" ", None)]
    for role, player in episode.roles.items():
        place = store.sign_of(role)
        seats.append((f"{sign(place)} {one_line(role, 40)} ", colours.role(place)))
        seats.append((f"{one_line(player, 40)}   ", style(colours.soft)))
    notes = [f"{role} under edit {edit}" for role, edit in episode.edits.items() if edit]
    lines: list[Line] = [tuple(seats)]
    if notes:
        lines.append(((f" ✎ {one_line(' · '.join(notes))}", style(colours.watch)),))
    return [*lines, BLANK]


def turn_lines(turn: TurnView, store: Store, cells: int, colours: Palette, first: bool) -> list[Line]:
    """A turn: its speaker, what it was asked, what it says; `first` where the role speaks for the first time."""
    place = store.sign_of(turn.role)
    look = colours.role(place)
    bold = style(colours.colour(place), bold=True)
    about = f" turn {turn.index + 1}"
    if turn.version is not None:
        about += f" · v{turn.version}"
    credit: Line = ()
    if turn.credit is not None:
        worth = turn.credit.advantage
        colour = colours.good if worth > 0 else colours.bad if worth < 0 else colours.soft
        credit = (("adv ", style(colours.soft)), (signed(worth) + " ", style(colour)))
    name: Line = ((f" {sign(place)} {one_line(turn.role, 40)}", bold), (about, style(colours.soft)))
    lines: list[Line] = [spread(name, credit, cells)]
    for message, limit in _asked(turn, first):
        lines += _quoted(message["content"], message["role"] == "system", limit, cells, colours)
    text = clean(turn.shown(store.decode))
    streaming = turn.text is None
    reply = wrap(text + ("▍" if streaming else ""), cells - 5)
    lines += [((" ▌ ", look), (line, style(colours.text))) for line in reply]
    if turn.illegal:
        lines.append(((" ▌ ", look), ("✗ ruled out by the task", style(colours.bad))))
    if (stopped := STOPPED.get(turn.stop_reason)) is not None:
        lines.append(((" ▌ ", look), (f"… {stopped}"[: max(cells - 4, 1)], style(colours.watch))))
    return [*lines, BLANK]


def _asked(turn: TurnView, first: bool) -> list[tuple[ChatMessage, int]]:
    """The messages worth showing: the last one, and before a role's first turn its system prompt."""
    if not turn.messages:
        return []
    shown = [(turn.messages[-1], PROMPT_LINES)]
    opening = turn.messages[0]
    if first and opening["role"] == "system" and len(turn.messages) > 1:
        shown.insert(0, (opening, SYSTEM_LINES))
    return shown


def _quoted(text: str, system: bool, limit: int, cells: int, colours: Palette) -> list[Line]:
    if not text.strip():
        return []
    wrapped = wrap(clean(text), cells - 5)
    look = style(colours.soft, italic=system)
    lines: list[Line] = [(("   ", None), (line, look)) for line in wrapped[:limit]]
    if len(wrapped) > limit:
        lines.append((("   ", None), (f"… {len(wrapped) - limit:,} more lines", style(colours.faint))))
    return lines


def _outcome(episode: EpisodeView, store: Store, cells: int, colours: Palette) -> list[Line]:
    """Rewards by role and function, and what they were compared with."""
    if episode.live:
        return []
    if episode.error is not None:
        told = wrap(f"✗ failed: {clean(episode.error, 2000)}", cells - 3)
        return [*(((f" {line}", style(colours.bad)),) for line in told), BLANK]
    if not episode.rewards:
        return []
    faint, soft = style(colours.faint), style(colours.soft)
    lines: list[Line] = [(((" ── reward ") + "─" * max(cells - 12, 0), faint),)]
    broad = max(len(one_line(role, 16)) for role in episode.rewards)
    for role, reward in episode.rewards.items():
        place = store.sign_of(role)
        colour = colours.good if reward > 0 else colours.bad if reward < 0 else colours.text
        lines.append(
            (
                (f" {sign(place)} {fit(one_line(role, 40), broad)} ", colours.role(place)),
                (fit(signed(reward), 7, "right"), style(colour, bold=True)),
            )
        )
        parts = [(name, values[role]) for name, values in episode.breakdown.items() if role in values]
        if len(parts) > 1 or (parts and parts[0][1] != reward):
            told = " · ".join(f"{one_line(name, 40)} {signed(value)}" for name, value in parts)
            lines += [((f"     {line}", soft),) for line in wrap(told, cells - 6)]
        credit = next((turn.credit for turn in episode.turns if turn.role == role and turn.credit), None)
        if credit is not None:
            compared = f"against {number(credit.baseline)}"
            if credit.group_size > 1:
                compared += f", the mean of {credit.group_size}"
            told = f"{compared} → advantage {signed(credit.advantage)}"
            lines += [((f"     {line}", soft),) for line in wrap(told, cells - 6)]
    if not episode.is_trainable:
        words = "evaluation" if episode.is_evaluation else "played outside training"
        lines.append(((f"   {words}: nothing is learnt from it", faint),))
    return [*lines, BLANK]
