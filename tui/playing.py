"""What a person at the table sees: what their role is told, what others say, which replies are legal.

Plain values, folded from a sitting's own events and tested without a terminal.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from engine.events import EpisodeStarted, TokensSampled, TurnFinished, TurnStarted
from engine.types import Message
from tui.interface import SittingLike
from tui.state import Store
from tui.text import clean, fit, one_line, width, wrap
from tui.theme import Palette, sign, style
from tui.views import EpisodeView, TurnView
from tui.widgets.painted import BLANK, Line
from tui.words import plural, signed

SYSTEM_LINES = 14
"""Lines of a system prompt that are shown once it isn't what the person is asked now."""

BAR = 12
"""Cells of a bar that stands for certainty."""

SHORT = 16
"""Tokens of a reply of which it is worth saying how likely it was."""


class Menu:
    """The legal replies, to be chosen by what they say or, unless that are numbers, by their number in the list."""

    def __init__(self, legal: Sequence[str]) -> None:
        self.legal = list(legal)
        self._names = [_bare(reply) for reply in legal]
        self.numbered = not any(name.isdigit() for name in self._names)

    def find(self, typed: str) -> str | None:
        """The one reply that was typed: as it is, without its brackets, or by its number."""
        if typed.strip() in self.legal:
            return typed.strip()
        if self.numbered and typed.strip().isdigit() and 0 < int(typed) <= len(self.legal):
            return self.legal[int(typed) - 1]
        meant = [reply for reply, name in zip(self.legal, self._names, strict=True) if name == _bare(typed)]
        return meant[0] if len(meant) == 1 else None

    def place(self, typed: str) -> int | None:
        """Where in the list what is being typed points to."""
        found = self.find(typed)
        if found is not None:
            return self.legal.index(found)
        begun = [i for i, name in enumerate(self._names) if name.startswith(_bare(typed))]
        return begun[0] if begun and typed.strip() else None

    def labels(self, odds: dict[str, dict[str, float]]) -> list[str]:
        """The lines of the list, with the probabilities of each player where they are known."""
        broad = min(max((width(one_line(reply, 200)) for reply in self.legal), default=0), 60)
        return [self._label(place, reply, broad, odds) for place, reply in enumerate(self.legal)]

    def _label(self, place: int, reply: str, broad: int, odds: dict[str, dict[str, float]]) -> str:
        number = f"{place + 1:>3}  " if self.numbered else "  "
        if not odds:
            return number + one_line(reply, 200)
        shares = [f"{share(table.get(reply, 0.0))} {one_line(player, 12)}" for player, table in odds.items()]
        return f"{number}{fit(one_line(reply, 200), broad)}  " + "   ".join(shares)


def share(probability: float) -> str:
    """`██████       50%`."""
    full = round(BAR * min(max(probability, 0.0), 1.0))
    return "█" * full + "·" * (BAR - full) + f"{probability:5.0%}"


def others(odds: dict[str, float]) -> float:
    """The probability of a reply that isn't legal."""
    return max(0.0, 1.0 - sum(odds.values()))


def hint(sitting: SittingLike, menu: Menu, odds: dict[str, dict[str, float]]) -> str:
    """What to do now, or what the odds leave out."""
    asked = sitting.asked
    if asked is None:
        return "The others speak …"
    who = f"You are {one_line(asked.role, 30)}"
    if asked.rollout_id != f"{sitting.id}/0":
        who += f" in {one_line(asked.rollout_id, 30)}"
    if not asked.legal:
        return f"{who}: say anything · ⏎ sends, ^j is a new line"
    if odds:
        rest = ", ".join(f"{one_line(player, 16)} {others(table):.0%}" for player, table in odds.items())
        return f"{who} · anything that isn't legal: {rest}"
    return f"{who}: {'a number, ' if menu.numbered else ''}a move, or ↑ ↓, then ⏎"


class Board:
    """A sitting as it is shown."""

    def __init__(
        self,
        sitting: SittingLike,
        decode: Callable[[list[int]], str],
        roles: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`roles` are the run's, in its order, which gives each its sign."""
        self.sitting = sitting
        self.store = Store(decode, clock)
        for role in roles:
            self.store.sign_of(role)
        self.revision = 0
        """Grows with everything that happens."""
        self.likely: dict[tuple[str, int], float] = {}
        """(episode, turn) → log-probability of what was sampled in it so far."""
        self._latest = ""

    def drain(self) -> bool:
        """Takes in what happened since the last time; whether anything did."""
        events = self.sitting.stream.drain()
        for event in events:
            if isinstance(event, TokensSampled):
                key = event.rollout_id, event.turn
                self.likely[key] = self.likely.get(key, 0.0) + sum(event.logprobs)
            elif isinstance(event, TurnFinished) and event.logprobs:
                self.likely[event.rollout_id, event.turn] = sum(event.logprobs)
            elif isinstance(event, EpisodeStarted | TurnStarted):
                self._latest = event.rollout_id
        self.store.fold(events)
        self.revision += bool(events)
        return bool(events)

    @property
    def episode(self) -> EpisodeView | None:
        """Where the person is asked, or whoever was last; at the end, what began it all if anyone spoke there."""
        asked, root = self.sitting.asked, self.store.episodes.get(f"{self.sitting.id}/0")
        if self.sitting.over and root is not None and root.turns:
            return root
        return self.store.episodes.get(asked.rollout_id if asked else self._latest)

    def is_open(self, episode: EpisodeView) -> bool:
        """Whether the person hears what others say in it."""
        return self.sitting.over or self.sitting.hears(episode.type)

    def lines(self, cells: int, colours: Palette, *, uncovered: bool = False, odds: bool = False) -> list[Line]:
        """The episode from the person's place: nothing that they wouldn't know, unless it is `uncovered`.

        With `odds`, also how likely short replies of others were.
        """
        episode = self.episode
        if episode is None:
            return []
        lines: list[Line] = []
        met: set[str] = set()
        for turn in sorted(episode.turns, key=lambda turn: turn.index):
            if turn.role in self.sitting.roles:
                lines += self._mine(turn, turn.role not in met, cells, colours)
            else:
                hidden = not (uncovered or self.is_open(episode))
                lines += self._theirs(episode, turn, hidden, odds, cells, colours)
            met.add(turn.role)
        return lines + self._end(episode, cells, colours)

    def _mine(self, turn: TurnView, first: bool, cells: int, colours: Palette) -> list[Line]:
        place = self.store.sign_of(turn.role)
        look, now = colours.role(place), turn.text is None
        lines: list[Line] = [
            ((f" {sign(place)} {one_line(turn.role, 40)}, you", style(colours.colour(place), bold=True)),)
        ]
        for message in told(turn.messages, first):
            if message["role"] == "assistant":
                lines += _barred(message["content"], look, style(colours.soft), cells)
                continue
            system = message["role"] == "system"
            rows = wrap(clean(message["content"]), cells - 5)
            limit = len(rows) if now or not system else SYSTEM_LINES
            ink = style(colours.soft, italic=True) if system else style(colours.text)
            lines += [(("   ", None), (row, ink)) for row in rows[:limit]]
            if len(rows) > limit:
                lines.append(((f"   … {len(rows) - limit:,} more lines", style(colours.faint)),))
        if now:
            return [*lines, BLANK]
        lines += _barred(turn.text or "", look, style(colours.text, bold=True), cells)
        if turn.illegal:
            lines.append(((" ▌ ", look), ("✗ ruled out by the task", style(colours.bad))))
        return [*lines, BLANK]

    def _theirs(
        self, episode: EpisodeView, turn: TurnView, hidden: bool, odds: bool, cells: int, colours: Palette
    ) -> list[Line]:
        place = self.store.sign_of(turn.role)
        look = colours.role(place)
        version = f" v{turn.version}" if turn.version else ""
        about = f"  {one_line(turn.player, 30)}{version}"
        likely = self.likely.get((episode.id, turn.index))
        short = len(turn.tokens) <= SHORT and len(turn.text or "") <= 4 * SHORT
        if odds and likely is not None and turn.text is not None and short and not hidden:
            about += f" · said with probability {math.exp(min(likely, 0.0)):.0%}"
        name = (f" {sign(place)} {one_line(turn.role, 40)}", style(colours.colour(place), bold=True))
        lines: list[Line] = [(name, (about, style(colours.soft)))]
        if hidden:
            much = plural(len(turn.tokens), "token") if turn.text is None else "has spoken"
            words = f"{much}: you hear of it as far as you are told"
            return [*lines, ((" ▌ ", look), (words, style(colours.faint, italic=True))), BLANK]
        text = turn.shown(self.store.decode) + ("▍" if turn.text is None else "")
        lines += _barred(text, look, style(colours.text), cells)
        if turn.illegal:
            lines.append(((" ▌ ", look), ("✗ ruled out by the task", style(colours.bad))))
        return [*lines, BLANK]

    def _end(self, episode: EpisodeView, cells: int, colours: Palette) -> list[Line]:
        sitting = self.sitting
        if not sitting.over:
            return []
        faint, bad = style(colours.faint), style(colours.bad)
        lines: list[Line] = [((" ── over " + "─" * max(cells - 10, 0), style(colours.rule)),)]
        for text in filter(None, (sitting.error, episode.error)):
            lines += [((f" {row}", bad),) for row in wrap(f"✗ {clean(text, 2000)}", cells - 3)]
        broad = max((width(one_line(role, 24)) for role in episode.rewards), default=0)
        for role, reward in episode.rewards.items():
            place = self.store.sign_of(role)
            colour = colours.good if reward > 0 else colours.bad if reward < 0 else colours.text
            parts = [
                f"{one_line(name, 30)} {signed(values[role])}"
                for name, values in episode.breakdown.items()
                if role in values and len(episode.breakdown) > 1
            ]
            whose = "you" if role in sitting.roles else one_line(episode.roles.get(role, ""), 20)
            lines.append(
                (
                    (f" {sign(place)} {fit(one_line(role, 24), broad)} ", colours.role(place)),
                    (f"{signed(reward):>7}", style(colour, bold=True)),
                    (f"  {whose}", style(colours.soft)),
                    (f"  {' · '.join(parts)}" if parts else "", faint),
                )
            )
        if sitting.result is not None and not sitting.error:
            lesson = "the run learns from it in its next step" if sitting.learnt else "nothing is learnt from it"
            lines += [
                ((f"   {row}", faint),) for row in wrap(f"In the record as {sitting.id}/0; {lesson}.", cells - 5)
            ]
        return lines


def told(messages: Sequence[Message], first: bool) -> list[Message]:
    """What a role hasn't been told before: all of it the first time, later what came since it last spoke."""
    if first:
        return list(messages)
    spoken = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    since = messages[spoken[-1] + 1 :] if spoken else messages
    return [message for message in since if message["role"] != "system"]


def _barred(text: str, look: object, ink: object, cells: int) -> list[Line]:
    """Behind a bar, so that no text can pass for the app's own words."""
    return [((" ▌ ", look), (row, ink)) for row in wrap(clean(text), cells - 5)]  # type: ignore[misc]


def _bare(reply: str) -> str:
    return reply.strip().removeprefix("[").removesuffix("]").strip().casefold()
