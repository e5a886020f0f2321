"""Rewards, health, status and verdict as lines to paint: from the store's numbers to aligned words."""

from __future__ import annotations

import math

from rich.style import Style

from engine.events import RunState
from tui.health import Finding
from tui.interface import StatusLike
from tui.state import Store
from tui.text import fit, one_line, wrap
from tui.theme import Palette, sign, style
from tui.views import EpisodeView
from tui.widgets.painted import BLANK, Line, span
from tui.words import count, elapsed, label, memory, number, plural, signed, sparkline

STATES = {
    RunState.LOADING: ("…", "loading"),
    RunState.RUNNING: ("▸", "running"),
    RunState.PAUSED: ("‖", "paused"),
    RunState.STOPPED: ("■", "stopped"),
    RunState.FINISHED: ("✓", "finished"),
    RunState.FAILED: ("✗", "failed"),
}

LEVELS = {"good": "✓", "watch": "!", "bad": "✗", "none": "·"}


def rewards(store: Store, cells: int, colours: Palette) -> list[Line]:
    """A table: each role's reward and its functions, this step, the last one, the mean of ten, the course."""
    soft, faint, plain = style(colours.soft), style(colours.faint), style(colours.text)
    if not store.ledgers:
        return [((" Nothing rewarded yet.", soft),)]
    name_cells = max(12, min(22, cells - 34))
    trend_cells = max(0, min(20, cells - name_cells - 30))
    headings = fit("", name_cells + 3) + "".join(fit(text, 8, "right") for text in ("now", "last", "mean 10"))
    lines: list[Line] = [((headings, faint),)]
    for place, role in enumerate(store.roles):
        functions = [name for name, whose in store.ledgers if whose == role]
        parts = [name for name in functions if name]
        for name in ["", *parts] if len(parts) > 1 else [""]:
            ledger = store.ledgers.get((name, role))
            if ledger is None:
                continue
            last = ledger.closed[-1].value if ledger.closed else math.nan
            if name:
                head: Line = (("     " + fit(one_line(name, 40), name_cells - 2), soft),)
            else:
                head = ((f" {sign(place)} {fit(one_line(role, 40), name_cells)}", colours.role(place)),)
            look = soft if name else plain
            values = (ledger.now.value, last, ledger.running())
            trend = sparkline([mean.value for mean in ledger.closed], trend_cells)
            lines.append(
                (*head, *((fit(signed(v), 8, "right"), look) for v in values), ("  " + trend, colours.role(place)))
            )
    return lines


def health(found: list[Finding], cells: int, colours: Palette) -> list[Line]:
    """A line each, and what to do beneath those that ask for it."""
    looks = {
        "good": style(colours.good),
        "watch": style(colours.watch, bold=True),
        "bad": style(colours.bad, bold=True),
        "none": style(colours.faint),
    }
    lines: list[Line] = []
    for finding in found:
        calm = finding.level in ("good", "none")
        words = wrap(one_line(finding.words), cells - 13)
        look = style(colours.soft if calm else colours.text)
        lines.append(
            (
                (f" {LEVELS[finding.level]} ", looks[finding.level]),
                (fit(finding.name, 9) + " ", style(colours.soft)),
                (words[0], look),
            )
        )
        lines += [((" " * 13 + more, look),) for more in words[1:]]
        if finding.advice and not calm:
            told = wrap(one_line(finding.advice), cells - 15)
            lines += [
                ((" " * 13 + ("→ " if i == 0 else "  ") + more, style(colours.soft)),)
                for i, more in enumerate(told)
            ]
    return lines


def gists(
    store: Store, shown: EpisodeView | None, follow: bool, found: list[Finding], cells: int, colours: Palette
) -> list[Line]:
    """What each pane's title says: episodes (in `cells` cells), transcript, rewards, plots, health."""
    soft = style(colours.soft)
    live = store.live()
    testing = sum(episode.is_evaluation for episode in live)
    over = store.run_state in (RunState.FAILED, RunState.STOPPED) and live
    words = f"{len(live):,} {'cut short' if over else 'in play'}" + (f", {testing:,} eval" if testing else "")
    episodes: Line = ((words, soft),)
    signs = legend(store, colours)
    if span(signs) + span(episodes) + 22 < cells:
        episodes = (*signs, ("   ", None), *episodes)
    transcript: Line = BLANK
    if shown is not None:
        state = "following" if follow else "here to stay" if shown.live else "ended"
        transcript = ((f"{one_line(shown.id, 20)} · {state}", soft),)
    rewarded: Line = ((f"step {store.step}, {count(store.finished)} played", soft),) if store.step else BLANK
    edited: Line = ((plural(len(store.edits), "edit"), style(colours.watch)),) if store.edits else BLANK
    return [episodes, transcript, rewarded, edited, gist(found, colours)]


def gist(found: list[Finding], colours: Palette) -> Line:
    """Health in three words."""
    bad = sum(finding.level == "bad" for finding in found)
    watch = sum(finding.level == "watch" for finding in found)
    if bad:
        return ((f"✗ {bad} to mend", style(colours.bad)),)
    if watch:
        return ((f"! {watch} to watch", style(colours.watch)),)
    return (("✓ well", style(colours.good)),)


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


def status(state: RunState, step: int, found: StatusLike, cells: int, colours: Palette, questions: int = 0) -> Line:
    """The status line: what fits, the state and the step always, least telling numbers first to go."""
    mark, word = STATES[state]
    good = state in (RunState.RUNNING, RunState.FINISHED)
    look = style(colours.good if good else colours.bad if state is RunState.FAILED else colours.watch, bold=True)
    line: Line = ((f" {mark} {word}", look),)
    if questions:
        line += ((f"  ? {plural(questions, 'question')} for you · press a", style(colours.watch, bold=True)),)
    soft, plain = style(colours.soft), style(colours.text)
    parts: list[tuple[int, Line]] = [
        (0, (("  step ", soft), (f"{step}/{found.steps}", plain))),
        (7, ((" " + _bar(step, found.steps, 12), style(colours.accent)),)),
        (3, (("  policy ", soft), (f"v{found.version}", plain))),
        (1, (("  play ", soft), (count(found.generation_rate), plain), (" tok/s", soft))),
        (2, (("  learn ", soft), (count(found.training_rate), plain), (" tok/s", soft))),
        (8, (("  queue ", soft), (str(found.queued), plain))),
        (6, (("  stale ", soft), (str(found.stale), plain))),
        (5, (("  ", soft), (memory(found.memory), plain))),
        (4, (("  ", soft), (elapsed(found.seconds), plain))),
    ]
    if not found.version and not found.tokens_generated:
        parts = parts[:2]  # not loaded: it has no other numbers yet
    room = cells - span(line)
    kept: set[int] = set()
    for rank, part in sorted(parts, key=lambda ranked: ranked[0]):
        if span(part) <= room:
            kept.add(rank)
            room -= span(part)
    return (*line, *(piece for rank, part in parts if rank in kept for piece in part))


def _bar(done: int, whole: int, cells: int) -> str:
    filled = round(cells * min(done / whole, 1.0)) if whole else 0
    return "━" * filled + "┄" * (cells - filled)


def failure(reason: str, folder: str, kept: int | None, cells: int, colours: Palette) -> list[Line]:
    """Why a run failed and what to do, as a banner. `kept` is the step of its newest sound checkpoint."""
    told = wrap(f"✗ The run failed: {one_line(reason, 600) or 'no reason was given'}", cells - 2)
    begins = "It has no checkpoint yet" if kept is None else f"Step {kept} is kept"
    todo = wrap(
        f"{begins}. Mend the cause, then resume it from Home (esc), or with other settings by "
        f"selfplay-tui resume {one_line(folder)} --set KEY=VALUE",
        cells - 4,
    )
    return [
        *(((f" {line}", style(colours.bad, bold=True)),) for line in told[:5]),
        *(((f"   {line}", style(colours.text)),) for line in todo),
    ]


def legend(store: Store, colours: Palette) -> Line:
    """Every role's sign, name and colour."""
    pieces: list[tuple[str, Style | None]] = []
    for place, role in enumerate(store.roles[:4]):
        pieces.append((("  " if place else "") + f"{sign(place)} {one_line(role, 14)}", colours.role(place)))
    return tuple(pieces)
