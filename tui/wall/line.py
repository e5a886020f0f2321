"""An episode as one line: which it is, what was said in it, and what came of it."""

from __future__ import annotations

from rich.style import Style

from tui.state import Store
from tui.text import clean, fit, one_line, tail, width
from tui.theme import Palette, sign, style
from tui.views import TAIL, EpisodeView
from tui.widgets.painted import Line, span
from tui.words import signed

SHORT = 8
"""Cells of a reply that stands close to its sign."""

MARK = range(0, 3)
"""Cells in which a click folds or unfolds."""


def row(
    episode: EpisodeView,
    store: Store,
    cells: int,
    colours: Palette,
    chosen: bool,
    phase: int,
    folded: int | None = None,
    under: bool = False,
    mark: str = "",
) -> Line:
    """One episode in one line: `› 17     t4 ●[2] ○[3] ●[1] ○[2]      ●+1.00 ○−1.00`.

    `phase` is 0 in play, 1 just ended, 2 settled; `folded` how many episodes are folded away under it, None
    where it spawned none; `under` whether its parent stands above it; `mark` a sign of one
    cell behind its name.
    """
    settled = phase == 2
    soft = style(colours.faint if settled else colours.soft)
    evaluation = episode.is_evaluation and not settled
    identity = _identity(episode, folded, under)
    spoken = f"t{episode.turns[-1].index + 1}" if episode.turns else ""
    named = style(colours.accent, italic=True) if evaluation else soft
    left: Line = (
        ("›" if chosen else " ", style(colours.accent, bold=True)),
        (fit(one_line(identity), 6) + ("" if mark else " "), named),
        (mark, style(colours.accent, bold=True)),
        (f"+{folded} " if folded else "", style(colours.accent)),
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


def _identity(episode: EpisodeView, folded: int | None, under: bool) -> str:
    """`17`, `▾17` with what it spawned beneath it, `▸17` with that folded away; a child beneath is `└.0`."""
    name = "." + episode.id.rpartition(".")[2] if under else _short_id(episode.id)
    mark = "└" if folded is None and episode.depth else "" if folded is None else "▸" if folded else "▾"
    return " " * (episode.depth - 1 if under else 0) + mark + name


def _short_id(rollout_id: str) -> str:
    """`"eval-40/random/3"` is `"e3"`: that it is an evaluation matters, and which of them."""
    head, _, number = rollout_id.rpartition("/")
    return "e" + number if head.startswith("eval") else rollout_id
