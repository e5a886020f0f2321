"""What roles got: each function's mean and course, its weight and share, and how the rewards are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style

from tui.histogram import histogram
from tui.series import Ledger
from tui.state import Store
from tui.text import fit, one_line
from tui.theme import Palette, sign, style
from tui.widgets.painted import BLANK, Line
from tui.words import MINUS, signed, sparkline

MEAN = 10
"""Steps that the last column's mean is of."""


@dataclass(frozen=True, slots=True)
class Row:
    """One role's whole reward, where `function` is empty, or what one function gives it."""

    place: int
    role: str
    function: str
    ledger: Ledger
    weight: float = math.nan
    """What the function's value is multiplied by."""
    share: float = math.nan
    """Of all that the role's functions gave, signs apart."""


def rows(store: Store) -> list[Row]:
    """Every role with its functions, where it has more than one."""
    found: list[Row] = []
    for place, role in enumerate(store.roles):
        whole = store.rewards.ledgers.get(("", role))
        if whole is None:
            continue
        names = sorted(name for name, whose in store.rewards.ledgers if whose == role and name)
        weights = [store.rewards.weights.get((name, role), math.nan) for name in names]
        if len(names) == 1:
            found.append(Row(place, role, "", whole, weights[0], 1.0))
            continue
        found.append(Row(place, role, "", whole))
        ledgers = [store.rewards.ledgers[name, role] for name in names]
        for name, ledger, weight, share in zip(names, ledgers, weights, shares(ledgers, weights), strict=True):
            found.append(Row(place, role, name, ledger, weight, share))
    return found


def shares(ledgers: Sequence[Ledger], weights: Sequence[float]) -> list[float]:
    """Of each function, |weight| times the mean of |value| over that of all; NaN where nobody gave anything."""
    given = [
        abs(weight) * sum(map(abs, ledger.recent)) / len(ledger.recent) if ledger.recent else 0.0
        for ledger, weight in zip(ledgers, weights, strict=True)
    ]
    total = sum(given)
    return [one / total if total else math.nan for one in given]


def rewards(store: Store, cells: int, colours: Palette) -> list[Line]:
    """A table of means, and beneath it one of weights, shares and spreads."""
    found = rows(store)
    if not found:
        return [((" Nothing rewarded since this was opened.", style(colours.soft)),)]
    return [*_means(found, cells, colours), BLANK, *_spreads(found, cells, colours)]


def _means(found: list[Row], cells: int, colours: Palette) -> list[Line]:
    """This step, the last one, the mean of ten, the course of the last sixty."""
    soft, plain = style(colours.soft), style(colours.text)
    name_cells = max(12, min(22, cells - 34))
    trend_cells = max(0, min(20, cells - name_cells - 30))
    headings = fit("", name_cells + 3) + "".join(fit(text, 8, "right") for text in ("now", "last", f"mean {MEAN}"))
    lines: list[Line] = [((headings, style(colours.faint)),)]
    for row in found:
        ledger = row.ledger
        values = (ledger.now.value, ledger.closed[-1].value if ledger.closed else math.nan, ledger.running(MEAN))
        numbers: Line = tuple((fit(signed(v), 8, "right"), soft if row.function else plain) for v in values)
        trend = sparkline([mean.value for mean in ledger.closed], trend_cells)
        lines.append((_head(row, name_cells, colours), *numbers, ("  " + trend, colours.role(row.place))))
    return lines


def _spreads(found: list[Row], cells: int, colours: Palette) -> list[Line]:
    """Weight, share, and how the latest values are spread from the lowest to the highest."""
    soft = style(colours.soft)
    name_cells = max(9, min(22, cells - 44))
    room = max(6, min(32, cells - name_cells - 31))
    many = max(len(row.ledger.recent) for row in found)
    headings = f"{fit('', name_cells + 3)}{'weight':>6}{'share':>6}  {f'last {many:,}'}"
    lines: list[Line] = [((fit(headings, cells), style(colours.faint)),)]
    for row in found:
        spread = histogram(list(row.ledger.recent), room)
        weight = "" if math.isnan(row.weight) else f"×{row.weight:.3g}".replace("-", MINUS)
        share = "" if math.isnan(row.share) else f"{row.share:.0%}"
        lines.append(
            (
                _head(row, name_cells, colours),
                (f"{weight:>6}{share:>6}{signed(spread.low):>7} ", soft),
                (fit(spread.bars(), room), colours.role(row.place)),
                (f" {signed(spread.high)}", soft),
            )
        )
    return lines


def _head(row: Row, cells: int, colours: Palette) -> tuple[str, Style]:
    if row.function:
        return ("     " + fit(one_line(row.function, 40), cells - 2), style(colours.soft))
    return (f" {sign(row.place)} {fit(one_line(row.role, 40), cells)}", colours.role(row.place))
