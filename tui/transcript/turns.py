"""A turn as lines and as text to copy: who spoke under what, what it was asked, what it said."""

from __future__ import annotations

from rich.style import Style

from engine.types import Fate
from engine.types import Message as ChatMessage
from tui.state import Store
from tui.text import clean, fit, one_line, wrap
from tui.theme import Palette, sign, style
from tui.views import EpisodeView, TurnView
from tui.widgets.painted import BLANK, Line, cut, spread
from tui.words import number, signed

PROMPT_LINES = 8
"""Lines of one message shown of what a role was asked."""

SYSTEM_LINES = 4

CURSOR = "▸"
"""Before the turn that keys are about."""

STOPPED = {
    "length": "cut off: the most tokens a reply may have",
    "context": "cut off: the model's window is full",
    "deadline": "cut off: its time was over",
    "cancelled": "withdrawn",
}

LEFT_OUT = {
    Fate.STALE: "stale: not learnt from",
    Fate.GREEDY: "temperature 0: not learnt from",
    Fate.NONFINITE: "its update was not finite",
}


def spoke(turn: TurnView, edits: dict[str, int]) -> str:
    """Which policy version and which prompt spoke: `v12 · prompt 2`, `v12→13` where new weights came meanwhile."""
    told = []
    if turn.version is not None:
        changed = turn.since not in (None, turn.version)
        told.append(f"v{turn.since}→{turn.version}" if changed else f"v{turn.version}")
    if turn.role in edits:
        told.append(f"prompt {edits[turn.role]}")
    return " · ".join(told)


def heading(episode: EpisodeView, store: Store, colours: Palette) -> list[Line]:
    """Who sits in the episode, and under which edits."""
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


def turn_lines(
    turn: TurnView,
    store: Store,
    cells: int,
    colours: Palette,
    first: bool,
    *,
    edits: dict[str, int] | None = None,
    chosen: bool = False,
    reply: list[Line] | None = None,
) -> list[Line]:
    """A turn: its speaker, what it was asked, what it says.

    `first` where the role speaks for the first time, `chosen` under the cursor; `reply` stands for its text.
    """
    place = store.sign_of(turn.role)
    bar = colours.role(place)
    lines = [_speaker(turn, place, cells, colours, edits or {}, chosen)]
    for message, limit in _asked(turn, first):
        lines += _quoted(message["content"], message["role"] == "system", limit, cells, colours)
    if reply is None:
        text = clean(turn.shown(store.decode)) + ("▍" if turn.text is None else "")
        reply = [((line, style(colours.text)),) for line in wrap(text, cells - 5)]
    lines += [((" ▌ ", bar), *line) for line in reply]
    if turn.illegal:
        lines.append(((" ▌ ", bar), ("✗ ruled out by the task", style(colours.bad))))
    if (stopped := STOPPED.get(turn.stop_reason)) is not None:
        lines.append(((" ▌ ", bar), (f"… {stopped}"[: max(cells - 4, 1)], style(colours.watch))))
    return [*lines, BLANK]


def _speaker(turn: TurnView, place: int, cells: int, colours: Palette, edits: dict[str, int], chosen: bool) -> Line:
    about = " · ".join(filter(None, (f" turn {turn.index + 1}", spoke(turn, edits))))
    worth: list[tuple[str, Style | None]] = []
    if turn.learnt is not None and turn.learnt.clipped:
        worth.append((f"{turn.learnt.clipped} clipped  ", style(colours.watch)))
    if turn.learnt is not None and turn.learnt.fate in LEFT_OUT:
        worth.append((f"{LEFT_OUT[turn.learnt.fate].partition(':')[0]}  ", style(colours.watch)))
    if turn.credit is not None:
        gain = turn.credit.advantage
        colour = colours.good if gain > 0 else colours.bad if gain < 0 else colours.soft
        worth += [("adv ", style(colours.soft)), (signed(gain) + " ", style(colour))]
    ground = colours.cursor if chosen else None
    name: Line = (
        (CURSOR if chosen else " ", style(colours.accent, bold=True, ground=ground)),
        (f"{sign(place)} {one_line(turn.role, 40)}", style(colours.colour(place), bold=True, ground=ground)),
        (about, style(colours.soft, ground=ground)),
    )
    if ground is not None:
        worth = [(text, (look or Style()) + Style(bgcolor=ground)) for text, look in worth]
    return cut(spread(name, tuple(worth), cells, style=style(colours.soft, ground=ground)), cells)


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


def outcome(episode: EpisodeView, store: Store, cells: int, colours: Palette) -> list[Line]:
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
            told = " · ".join(
                f"{one_line(name, 40)} {_weighed(value, episode.weights.get(name, {}).get(role, 1.0))}"
                for name, value in parts
            )
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


def _weighed(value: float, weight: float) -> str:
    return signed(value) if weight == 1.0 else f"{number(weight)} × {signed(value)}"


def plain_turn(turn: TurnView, episode: EpisodeView, store: Store) -> str:
    """A turn as text to copy."""
    about = ", ".join(filter(None, (f"turn {turn.index + 1}", turn.player, spoke(turn, episode.edits))))
    parts = [f"{turn.role} ({about})"]
    if turn.messages and (asked := turn.messages[-1]["content"]):
        parts.append("\n".join(f"> {line}" for line in clean(asked).split("\n")))
    parts.append(turn.shown(store.decode))
    return "\n\n".join(clean(part) for part in parts)


def plain(episode: EpisodeView, store: Store) -> str:
    """The episode as text to copy."""
    parts = [clean(f"episode {episode.id} · {episode.type}")]
    parts += [plain_turn(turn, episode, store) for turn in episode.turns]
    parts += [clean(f"{role}: {signed(reward)}") for role, reward in episode.rewards.items()]
    return "\n\n".join(parts) + "\n"
