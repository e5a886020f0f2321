"""Which curves are worth drawing, in which order: the metric that counts, rewards by role, loss, the rest."""

from __future__ import annotations

from dataclasses import dataclass

from tui.series import Array
from tui.state import Store
from tui.views import Mark
from tui.words import label, number

MOST = 12
"""Charts offered at most."""

PREFERRED = ("loss", "entropy", "kl", "mismatch", "clipped", "grad_norm", "learning_rate")
"""Step metrics, by the beginning of their names, the telling ones first."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One line of a chart."""

    label: str
    xs: Array
    ys: Array
    role: int | None = None
    """The place of the role it is about, for its colour and sign."""


@dataclass(frozen=True, slots=True, eq=False)
class ChartModel:
    """What one chart shows."""

    title: str
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...]
    x_range: tuple[float, float]
    note: str = ""
    """What stands at the right of the title, in words."""


def charts(store: Store) -> list[ChartModel]:
    """The charts of a run so far, most telling first; a series without two points waits."""
    xs = [series.xs for series in store.series.values() if series.xs]
    if not xs:
        return []
    low = min(x[0] for x in xs)
    bounds = (low, max(*(x[-1] for x in xs), low + 1.0))
    marks = tuple(store.marks)

    def single(name: str, title: str, note: str = "") -> ChartModel:
        series = store.series[name]
        return ChartModel(title, (Curve(title, *series.arrays()),), marks, bounds, note or number(series.last, 3))

    models: list[ChartModel] = []
    verdict = store.verdict
    if verdict is not None:
        note = f"{number(verdict.first)} → {number(verdict.latest)}"
        models.append(single(f"eval/{verdict.metric}", label(verdict.metric), note))
    by_role = [(role, store.series[f"reward/{role}"]) for role in store.roles if f"reward/{role}" in store.series]
    if by_role:
        curves = tuple(Curve(role, *series.arrays(), store.sign_of(role)) for role, series in by_role)
        models.append(ChartModel("mean reward", curves, marks, bounds))
    chosen = f"eval/{verdict.metric}" if verdict is not None else ""
    rest = [name for name in store.series if name != chosen and not name.startswith("reward/")]
    models += [single(name, label(name)) for name in sorted(rest, key=_rank)]
    return models[:MOST]


def _rank(name: str) -> tuple[int, str]:
    if name.startswith("eval/"):
        return 1, name  # the other things an evaluation measured come right after the loss
    for place, beginning in enumerate(PREFERRED):
        if name.startswith(beginning):
            return 2 * place, name
    return 2 * len(PREFERRED), name
