"""Which curves are worth drawing, in which order: the metric that counts, rewards by role, loss, the rest."""

from __future__ import annotations

import numpy as np

from engine.types import AVERAGE, averaged
from tui.drawing.model import ChartModel, Curve
from tui.series import Series
from tui.state import Store
from tui.views import Mark
from tui.words import exact, label, number

__all__ = ["ChartModel", "Curve", "charts", "marks"]

MOST = 16
"""Charts offered at most."""

PREFERRED = (
    "loss", "entropy", "kl", "mismatch_mean", "clip_fraction", "grad_norm", "sft_loss", "dpo_loss", "dpo_accuracy",
    "signal", "flat_groups", "learning_rate",
)  # fmt: skip
"""Step metrics, the telling ones first."""


def charts(store: Store) -> list[ChartModel]:
    """The charts of a run so far, most telling first; a series without two points waits."""
    xs = [series.xs for series in store.series.values() if series.xs]
    if not xs:
        return []
    low = min(x[0] for x in xs)
    bounds = (low, max(*(x[-1] for x in xs), low + 1.0))
    done = marks(store)

    def single(name: str, title: str, note: str = "") -> ChartModel:
        series = store.series[name]
        return ChartModel(
            title, (Curve(title, *series.arrays(), metric=name),), done, bounds, note or exact(series.last)
        )

    def measured(metric: str, note: str = "") -> ChartModel:
        """An evaluation's metric, of the policy and of its average where both were measured."""
        name, twin = f"eval/{metric}", f"eval/{averaged(metric)}"
        if twin not in store.series:
            return single(name, label(name), note)
        curves = (
            Curve("policy", *store.series[name].arrays(), metric=name),
            Curve(AVERAGE, *store.series[twin].arrays(), metric=twin),
        )
        return ChartModel(label(name), curves, done, bounds)

    models: list[ChartModel] = []
    verdict = store.verdict
    chosen = ""
    if verdict is not None:
        chosen = _of_policy(verdict.metric, store)
        models.append(measured(chosen, f"{number(verdict.first)} → {number(verdict.latest)}"))
    by_role = [(role, store.series[f"reward/{role}"]) for role in store.roles if f"reward/{role}" in store.series]
    if by_role:
        curves = tuple(
            Curve(role, *series.arrays(), store.sign_of(role), f"reward/{role}") for role, series in by_role
        )
        models.append(ChartModel("mean reward", curves, done, bounds))
    for name in sorted(store.series, key=lambda name: _rank(name, store.series[name].ys)):
        metric = name.removeprefix("eval/")
        if name.startswith("reward/") or (name != metric and _of_policy(metric, store) != metric):
            continue
        if metric == name:
            models.append(single(name, label(name)))
        elif metric != chosen:
            models.append(measured(metric))
    return models[:MOST]


def marks(store: Store) -> tuple[Mark, ...]:
    """What was done at which step. All steps publish a policy but those that changed nothing: they are marked."""
    skipped = store.series.get("skipped", Series())
    unpublished = [Mark(int(x), "skipped", "") for x, y in zip(skipped.xs, skipped.ys, strict=True) if y]
    return (*store.marks, *unpublished)


def _of_policy(metric: str, store: Store) -> str:
    """The metric of the policy that one of its average belongs to; any other as it is."""
    task, slash, name = metric.rpartition("/")
    own = f"{task}{slash}{name.removeprefix(f'{AVERAGE}_')}"
    return own if f"eval/{own}" in store.series else metric


def _rank(name: str, values: list[float]) -> tuple[bool, int, str]:
    nothing = not np.any(values)  # such as draws where there are none: last
    if name.startswith("eval/"):
        return nothing, 1, name  # the other things an evaluation measured come right after the loss
    place = PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
    return nothing, 2 * place, name
