"""A league as lines to paint: ratings with their intervals, a row of payoffs, a game; and as a table."""

from __future__ import annotations

from rich.style import Style

from engine.ratings import Rating
from tui.league.standings import Cell, League, Played, Player, left_out
from tui.text import fit, one_line, wrap
from tui.theme import Palette, style
from tui.widgets.painted import Line
from tui.words import MINUS, plural, signed

NAME = 14
"""Cells of a player's name."""

COLUMN = 13
"""Cells of a column of the matrix, its gap included."""


def ratings(league: League, cells: int, colours: Palette, untold: int = 0) -> list[Line]:
    """The strongest first: `policy 30–40  1240 ±62  ──●──  n 48`, on one axis, and what is `left_out`."""
    faint, soft = style(colours.faint), style(colours.soft)
    found = league.ratings.values()
    low, high = min(rating.low for rating in found), max(rating.high for rating in found)
    axis = cells - NAME - 22
    lines: list[Line] = [
        ((f" {fit('', NAME)}{'rating':>7} {'±95%':>5}{'games':>7}", faint),),
    ]
    for player in league.ranked():
        rating = league.ratings[player]
        reach = (rating.high - rating.low) / 2
        look = style(colours.text, bold=True) if player.learns else style(colours.text)
        line: Line = (
            (f" {fit(one_line(player.label, 60), NAME)}", look),
            (f"{rating.value:7,.0f} ".replace("-", MINUS), look),
            (f"{'±' + format(reach, '.0f'):>5}{league.met(player):>7,}", soft),
        )
        if axis >= 8:
            line = (*line, ("  ", None), *_interval(rating, low, high, axis, colours))
        lines.append(line)
    about = [*ABOUT, *wrap(left_out(untold), max(cells - 2, 20))] if untold else ABOUT
    return [*lines, (), *(((f" {words}", faint),) for words in about)]


ABOUT = ("Bradley–Terry, the mean is 1000;", "400 points are odds of 10 to 1.")


def _interval(rating: Rating, least: float, most: float, cells: int, colours: Palette) -> Line:
    """An interval and what it is about, on an axis from `least` to `most`."""

    def at(number: float) -> int:
        return round((number - least) / ((most - least) or 1.0) * (cells - 1))

    start, middle, end = at(rating.low), at(rating.value), at(rating.high)
    rule, knob = style(colours.rule), style(colours.accent, bold=True)
    before, after = "─" * (middle - start), "─" * (end - middle)
    return ((" " * start + before, rule), ("●", knob), (after, rule))


def heading(columns: list[Player], colours: Palette, chosen: int) -> Line:
    """Names above the matrix."""
    pieces: list[tuple[str, Style | None]] = [(fit(" row gets …", NAME + 1), style(colours.faint))]
    for place, player in enumerate(columns):
        look = style(colours.accent, bold=True) if place == chosen else style(colours.soft)
        pieces.append((fit(one_line(player.label, 60), COLUMN - 1, "right") + " ", look))
    return tuple(pieces)


def payoffs(league: League, row: Player, columns: list[Player], chosen: int | None, colours: Palette) -> Line:
    """What `row` got on average against each of `columns`, and in how many games: `+0.45·48`."""
    mark = "›" if chosen is not None else " "
    pieces: list[tuple[str, Style | None]] = [
        (mark, style(colours.accent, bold=True)),
        (fit(one_line(row.label, 60), NAME), style(colours.text)),
    ]
    for place, column in enumerate(columns):
        words = fit(told(league.cells.get((row, column))), COLUMN - 1, "right")
        if place == chosen:
            pieces += [(words, style(colours.text, bold=True, ground=colours.cursor)), ("‹", style(colours.accent))]
        else:
            pieces.append((words + " ", style(colours.text if (row, column) in league.cells else colours.faint)))
    return tuple(pieces)


def told(cell: Cell | None) -> str:
    return "–" if cell is None else f"{signed(cell.mean)} ·{cell.n:,}"


def game(played: Played, cells: int, colours: Palette, chosen: bool) -> Line:
    """`› step 40  eval-40/random/3   +1.00 : −1.00`."""
    got = f"{signed(played.first)} : {signed(played.second)} "
    room = max(cells - len(got) - 12, 4)
    return (
        ("› " if chosen else "  ", style(colours.accent, bold=True)),
        (f"{'step ' + str(played.step):<10}", style(colours.soft)),
        (fit(one_line(played.id, 60), room), style(colours.text)),
        (got, style(colours.text, bold=True)),
    )


def pair(row: Player, column: Player, cell: Cell | None) -> str:
    """Of whom the games are."""
    shown = len(cell.games) if cell is not None else 0
    many = plural(cell.n, "game") if cell is not None else "no game"
    newest = f", the newest {shown}" if cell is not None and shown < cell.n else ""
    return f"{one_line(row.label, 24)} : {one_line(column.label, 24)} · {many}{newest}"


def table(league: League) -> str:
    """Ratings and payoffs, tab between, as a spreadsheet takes them."""
    rows = [["player", "rating", "low", "high", "games"]]
    for player in league.ranked():
        rating = league.ratings[player]
        numbers = [f"{number:.1f}" for number in (rating.value, rating.low, rating.high)]
        rows.append([one_line(player.label), *numbers, f"{league.met(player)}"])
    rows += [[], ["row", "column", "mean reward of row", "games"]]
    for (row, column), cell in league.cells.items():
        rows.append([one_line(row.label), one_line(column.label), f"{cell.mean:.4f}", f"{cell.n}"])
    return "\n".join("\t".join(row) for row in rows) + "\n"
