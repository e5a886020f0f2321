from __future__ import annotations

import json
from collections import Counter

import pytest

from engine import ArtifactStore


def test_artifacts_are_drawn_in_proportion_to_their_weights():
    store = ArtifactStore(seed=1)
    store.add("rare", weight=1.0)
    store.add("common", weight=3.0)
    drawn = Counter(artifact.data for artifact in store.sample(k=4_000))
    assert drawn["common"] / 4_000 == pytest.approx(0.75, abs=0.03)


def test_the_oldest_artifact_makes_room():
    store = ArtifactStore(range(5), capacity=3)
    assert [artifact.data for artifact in store] == [2, 3, 4]


def test_a_weight_of_zero_is_never_drawn():
    store = ArtifactStore(["a", "b"])
    store.update_weight(0, 0.0)
    assert {artifact.data for artifact in store.sample(k=100)} == {"b"}


def test_a_store_goes_on_from_its_saved_state():
    store = ArtifactStore(range(10), seed=3)
    store.sample(5)
    other = ArtifactStore()
    other.load_state(json.loads(json.dumps(store.state())))
    assert [a.data for a in store.sample(20)] == [a.data for a in other.sample(20)]
    assert store.add("new").id == other.add("new").id == 10


def test_sampling_from_nothing_says_so():
    with pytest.raises(ValueError, match="empty artifact store"):
        ArtifactStore().sample()


def test_a_negative_weight_is_refused():
    with pytest.raises(ValueError, match="negative"):
        ArtifactStore().add("x", weight=-1.0)
