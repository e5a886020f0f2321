"""What roles were given, function by function: folded from episodes as they end, and from the record of before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from engine.progress import role_means
from engine.types import Rollout
from tui.series import RECENT, Ledger, Mean

Name = tuple[str, str]
"""(reward function, role); the function `""` is the role's whole reward."""


class Rewards:
    """`seen` hears of every role, in the order in which they come."""

    def __init__(self, seen: Callable[[str], object]) -> None:
        self.ledgers: dict[Name, Ledger] = {}
        self.weights: dict[Name, float] = {}
        """What a function's value was multiplied by, in the latest episode."""
        self._seen = seen

    def add(self, rollout: Rollout) -> None:
        """An episode that ended, and is learnt from."""
        for name, value, weight in _given(rollout):
            self._ledger(name).add(value)
            self.weights[name] = weight

    def close(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """A step is over: each role's mean in it, by the metric's name.

        Where none of its episodes was seen, as of a step of before, the means are those of its metrics.
        """
        means: dict[str, float] = {}
        for name, mean in _means(metrics).items():
            ledger = self._ledger(name)
            if not ledger.now.count:
                many = max(round(metrics.get("episodes", 1)), 1)
                ledger.now = Mean(mean * many, many)
        for (function, role), ledger in self.ledgers.items():
            mean = ledger.close()
            if not function and not math.isnan(mean):
                means[f"reward/{role}"] = metrics.get(f"reward/{role}", mean)
        return means

    def recall(self, rollouts: Iterable[Rollout]) -> None:
        """Episodes of before, the newest first: how their rewards are spread and weighed.

        They stand before whatever came since, as far as there is room.
        """
        for rollout in rollouts:
            for name, value, weight in _given(rollout):
                ledger = self._ledger(name)
                if len(ledger.recent) < RECENT:
                    ledger.recent.appendleft(value)
                self.weights.setdefault(name, weight)

    def _ledger(self, name: Name) -> Ledger:
        found = self.ledgers.get(name)
        if found is None:
            self._seen(name[1])
            found = self.ledgers[name] = Ledger()
        return found


def latest(folder: Path, step: int) -> list[Rollout]:
    """Episodes that were learnt from up to a step, the newest first, as many as a ledger shows the spread of.

    Raises `StoreError` where the record can't be read.
    """
    from engine.store import Store

    found: list[Rollout] = []
    with Store.open(folder, read_only=True) as store:
        while step > 0 and len(found) < RECENT:
            episodes = store.episodes(step=step, evaluation=False)
            found += [e.rollout for e in reversed(episodes) if e.trainable and e.rollout.error is None]
            step -= 1
    return found


def _given(rollout: Rollout) -> Iterable[tuple[Name, float, float]]:
    """Name, value and weight of all that an episode gave."""
    for role, reward in rollout.rewards.items():
        yield ("", role), reward, 1.0
    for function, values in rollout.breakdown.items():
        for role, value in values.items():
            yield (function, role), value, rollout.weights.get(function, {}).get(role, 1.0)


def _means(metrics: Mapping[str, float]) -> dict[Name, float]:
    """Of a step's metrics those that are mean rewards: `reward/<role>`, and `reward/<role>/<function>`."""
    whole = set(role_means(metrics))
    found: dict[Name, float] = {}
    for metric, mean in metrics.items():
        if metric in whole:
            found["", metric.removeprefix("reward/")] = mean
        elif (role := metric.rpartition("/")[0]) in whole:
            found[metric.rpartition("/")[2], role.removeprefix("reward/")] = mean
    return found
