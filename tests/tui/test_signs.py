"""A role's sign and colour, which are the same on all screens of a run."""

from __future__ import annotations

from pathlib import Path

from engine import config as configuration
from engine.store import Store
from engine.types import GenerateResult, Rollout
from tests.tui.played import CONFIG
from tui.replay.record import Record


def test_in_a_record_roles_have_their_places_in_the_task_however_their_metrics_are_sorted(tmp_path: Path) -> None:
    with Store.create(tmp_path / "refine-1") as store:
        configuration.save(CONFIG, tmp_path / "refine-1" / "config.toml")
        rollout = Rollout("0", "refine", rewards={"Critic": 1.0, "Writer": 0.5})
        rollout.edits = {"Writer": 0, "Critic": 0, "Refiner": 0}
        metrics = {"reward/Critic": 1.0, "reward/Refiner": 0.0, "reward/Writer": 0.5}
        store.record_step(1, 1, 1.0, metrics, [GenerateResult(rollout)])
    record = Record(tmp_path / "refine-1")
    try:
        assert record.facts().state.roles == ["Writer", "Critic", "Refiner"]
    finally:
        record.close()
