"""What is known of one step, in lines: its figures, who is how strong, what was done, what was noted."""

from __future__ import annotations

from tui.replay.record import Facts
from tui.replay.strength import Ratings
from tui.text import fit, one_line, wrap
from tui.theme import Palette, sign, style
from tui.widgets.painted import BLANK, Line
from tui.words import MINUS, elapsed, exact, label, signed

NAME = 24
"""Cells of a metric's name."""


def lines(facts: Facts, step: int, ratings: Ratings, cells: int, colours: Palette) -> list[Line]:
    """The step as the right-hand pane shows it; figures beside those of the run's last step."""
    told = [*_done(facts, step, cells, colours), *_measured(facts, step, cells, colours)]
    told += _ratings(ratings, cells, colours)
    told += _rewards(facts, step, cells, colours)
    told += _metrics(facts, step, cells, colours)
    if not told:
        return [((" Nothing is recorded of this step.", style(colours.soft)),)]
    return told


def _done(facts: Facts, step: int, cells: int, colours: Palette) -> list[Line]:
    """Edits, checkpoints, notices, and why nothing was learnt."""
    told = [
        ("✎", f"edit {edit.number}, {edit.target}: {edit.after}", colours.watch)
        for edit in facts.edits
        if edit.step == step
    ]
    told += [
        ("◆" if saved.reason == "manual" else "★", f"checkpoint: {saved.reason}", colours.good)
        for saved in facts.checkpoints
        if saved.step == step and saved.reason in ("manual", "best")
    ]
    told += [("!", notice.text, colours.watch) for at, notice in facts.notices if at == step]
    record = facts.records.get(step)
    if record is not None and record.skipped:
        told.append(("!", f"nothing was learnt: {record.skipped}", colours.watch))
    made: list[Line] = []
    for mark, words, colour in told:
        first, *more = wrap(one_line(words, 300), cells - 4)
        made.append(((f" {mark} ", style(colour, bold=True)), (first, style(colours.text))))
        made += [((f"   {line}", style(colours.text)),) for line in more[:3]]
    return [*made, BLANK] if made else []


def _measured(facts: Facts, step: int, cells: int, colours: Palette) -> list[Line]:
    found = facts.evaluated(step)
    if found is None:
        return []
    last = facts.evaluations[max(facts.evaluations)]
    title = f"evaluation {found.step}" + (" ★" if found.is_best else "")
    head = _heading(title, "here", "last", cells, colours)
    rows = [
        _row(label(name), value, last.metrics.get(name), cells, colours) for name, value in found.metrics.items()
    ]
    return [head, *rows, BLANK]


def _ratings(ratings: Ratings, cells: int, colours: Palette) -> list[Line]:
    """Learners as they then were in bold, among what they had been."""
    made: list[Line] = []
    for kind, players in ratings.items():
        of = f" in {one_line(kind, 20)}" if len(ratings) > 1 else ""
        made.append(((fit(f" ratings{of} by then, 95% interval", cells), style(colours.faint)),))
        newest = {player.name: player.last for player in sorted(players, key=lambda player: player.last)}
        for player, rating in sorted(players.items(), key=lambda entry: -entry[1].value):
            reach = f"{rating.value:.0f}  {rating.low:.0f} … {rating.high:.0f}".replace("-", MINUS)
            name = fit(one_line(player.label, 40), max(min(NAME, cells - 24), 6))
            is_now = player.learns and player.last == newest[player.name]
            look = style(colours.text, bold=is_now)
            reach = fit(reach, cells - len(name) - 2, "right")
            made.append(((f" {name}", look), (reach, look if is_now else None)))
        made.append(BLANK)
    return made


def _rewards(facts: Facts, step: int, cells: int, colours: Palette) -> list[Line]:
    record = facts.records.get(step)
    if record is None:
        return []
    rows: list[Line] = []
    for place, role in enumerate(facts.state.roles):
        value = record.metrics.get(f"reward/{role}")
        if value is not None:
            name = fit(f"{sign(place)} {one_line(role, 40)}", max(min(NAME, cells - 12), 6))
            rows.append(((f" {name}", colours.role(place)), (fit(signed(value), 9, "right"), style(colours.text))))
    return [((" mean reward", style(colours.faint)),), *rows, BLANK] if rows else []


def _metrics(facts: Facts, step: int, cells: int, colours: Palette) -> list[Line]:
    record = facts.records.get(step)
    if record is None:
        return []
    last = facts.records[max(facts.records)]
    title = f"learnt in {elapsed(record.seconds)}"
    rows = [
        _row(label(name), value, last.metrics.get(name), cells, colours)
        for name, value in record.metrics.items()
        if not name.startswith("reward/")
    ]
    return [_heading(title, "here", "last", cells, colours), *rows]


def _heading(title: str, here: str, last: str, cells: int, colours: Palette) -> Line:
    room = max(cells - 21, 6)
    return ((f" {fit(title, room)}{fit(here, 9, 'right')}{fit(last, 9, 'right')}", style(colours.faint)),)


def _row(name: str, here: float, last: float | None, cells: int, colours: Palette) -> Line:
    room = max(cells - 21, 6)
    return (
        (f" {fit(one_line(name, 60), room)}", style(colours.soft)),
        (fit(exact(here), 9, "right"), style(colours.text)),
        (fit("" if last is None else exact(last), 9, "right"), style(colours.faint)),
    )
