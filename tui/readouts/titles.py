"""What stands above panes and screen: the gist of each pane, how strength went, which sign is whose."""

from __future__ import annotations

from rich.style import Style

from engine.events import RunState
from tui.health import Finding
from tui.readouts.roomy import roomy
from tui.readouts.wellbeing import gist
from tui.state import Store
from tui.text import one_line
from tui.theme import Palette, sign, style
from tui.views import EpisodeView
from tui.widgets.painted import BLANK, Line, span
from tui.words import count, label, number, plural

GAP = 5
"""Cells of the rule, or of nothing, that stay free where signs are explained too."""


def gists(
    store: Store,
    shown: EpisodeView | None,
    follow: bool,
    found: list[Finding],
    cells: int,
    colours: Palette,
    hidden: str = "",
) -> list[Line]:
    """What each pane's title says: episodes, transcript, rewards, plots, health.

    `cells` is the room for what is said of the episodes. `hidden` says which of them aren't shown,
    the most telling first, separated by commas.
    """
    soft = style(colours.soft)
    episodes = _episodes(store, hidden, cells, colours)
    signs = legend(store, colours)
    if span(signs) + span(episodes) + GAP < cells:
        episodes = (*signs, ("   ", None), *episodes)
    transcript: Line = BLANK
    if shown is not None:
        state = "following" if follow else "here to stay" if shown.live else "ended"
        transcript = ((one_line(shown.id, 20), soft), (f" · {state}", soft))
    seen = f", {count(store.finished)} {'seen' if store.opened_at else 'played'}" if store.finished else ""
    rewarded: Line = ((f"step {store.step}{seen}", soft),) if store.step else BLANK
    edited: Line = ((plural(len(store.edits), "edit"), style(colours.watch)),) if store.edits else BLANK
    return [episodes, transcript, rewarded, edited, gist(found, colours)]


def _episodes(store: Store, hidden: str, cells: int, colours: Palette) -> Line:
    """How many are in play; then, while there is room, which aren't shown, and how many of them evaluate."""
    soft = style(colours.soft)
    live = store.live()
    testing = sum(episode.is_evaluation for episode in live)
    over = store.run_state in (RunState.FAILED, RunState.STOPPED) and live
    some = testing and testing < len(live)
    words = f"{len(live):,}{' eval' if testing and not some else ''} {'cut short' if over else 'in play'}"
    unseen = hidden.split(", ") if hidden else []
    parts: list[tuple[int, Line]] = [(0, ((words, soft),))]
    if some:
        parts.append((len(unseen) + 1, ((f", {testing:,} eval", soft),)))
    parts += [(rank, ((f", {told}", style(colours.watch)),)) for rank, told in enumerate(unseen, 1)]
    return roomy(parts, cells)


def verdict(store: Store, colours: Palette, brief: bool = False) -> Line:
    """`win vs random 0.51 → 0.87  best 0.89`."""
    found = store.verdict
    if found is None:
        return (("not evaluated yet", style(colours.faint)),)
    better = found.latest >= found.first if store.goal == "max" else found.latest <= found.first
    look = style(colours.good if better else colours.watch, bold=True)
    name = one_line(label(found.metric), 24)
    line: list[tuple[str, Style | None]] = [(f"{name} ", style(colours.soft))]
    if found.count > 1:
        line.append((f"{number(found.first)} → ", style(colours.soft)))
    line.append((number(found.latest), look))
    if found.count > 1 and not brief:
        line.append((f"  best {number(found.best)}", style(colours.soft)))
    return tuple(line)


def legend(store: Store, colours: Palette) -> Line:
    """Every role's sign, name and colour."""
    pieces: list[tuple[str, Style | None]] = []
    for place, role in enumerate(store.roles[:4]):
        pieces.append((("  " if place else "") + f"{sign(place)} {one_line(role, 14)}", colours.role(place)))
    return tuple(pieces)
