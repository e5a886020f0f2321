"""Artifacts: what episodes start from, kept in bounded stores and drawn by weight.

A store closes the loop of a curriculum: one episode adds what it made (a question, a document), later
batches draw from it.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Artifact:
    """Something to start an episode from. `data` must be JSON-like if the run is to be resumed."""

    id: int
    data: Any
    weight: float = 1.0


class ArtifactStore:
    """A bounded collection with weighted sampling; when full, the oldest artifact makes room.

    Raises `ValueError` on a negative weight, or when sampling from a store whose weights sum to 0.
    """

    def __init__(self, items: Iterable[Any] = (), *, capacity: int = 10_000, seed: int = 0) -> None:
        if capacity < 1:
            raise ValueError(f"an artifact store needs a capacity of at least 1, not {capacity}")
        self.capacity = capacity
        self._artifacts: OrderedDict[int, Artifact] = OrderedDict()
        self._next = 0
        self._rng = random.Random(seed)
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._artifacts)

    def __iter__(self):
        return iter(self._artifacts.values())

    def add(self, data: Any, weight: float = 1.0) -> Artifact:
        artifact = Artifact(self._next, data, _checked(weight))
        self._next += 1
        self._artifacts[artifact.id] = artifact
        if len(self._artifacts) > self.capacity:
            self._artifacts.popitem(last=False)
        return artifact

    def update_weight(self, artifact_id: int, weight: float) -> None:
        """Change how often an artifact is drawn; one that has made room already is ignored."""
        artifact = self._artifacts.get(artifact_id)
        if artifact is not None:
            artifact.weight = _checked(weight)

    def sample(self, k: int = 1) -> list[Artifact]:
        """Draw `k` artifacts by weight, with replacement."""
        if not self._artifacts:
            raise ValueError("cannot sample from an empty artifact store: add something first")
        artifacts = list(self._artifacts.values())
        return self._rng.choices(artifacts, [artifact.weight for artifact in artifacts], k=k)

    def state(self) -> dict[str, Any]:
        """Everything needed to go on as if never stopped, as JSON."""
        version, internal, gauss = self._rng.getstate()
        return {
            "next": self._next,
            "rng": [version, list(internal), gauss],
            "artifacts": [[a.id, a.data, a.weight] for a in self._artifacts.values()],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        version, internal, gauss = state["rng"]
        self._rng.setstate((version, tuple(internal), gauss))
        self._next = state["next"]
        self._artifacts = OrderedDict((i, Artifact(i, data, weight)) for i, data, weight in state["artifacts"])


def _checked(weight: float) -> float:
    if weight < 0:
        raise ValueError(f"an artifact's weight cannot be negative: {weight}")
    return weight
