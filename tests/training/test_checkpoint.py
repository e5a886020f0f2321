"""Checkpoints: whole or not there, and any damage is named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.training import checkpoint, checkpoints
from engine.training.checkpoint import CheckpointError
from engine.types import AVERAGE, GenerateResult, Rollout
from tests.training.conftest import Tiny, finish, kept

STATE = {"baselines": {"game/First": 0.1 + 0.2}, "rng": [2**127 + 3, 5], "queue": [], "note": "ünïcode"}


def save(
    root: Path, step: int, reason: str = "auto", value: float = 1.0, average=None, rollouts=(), **state
) -> Path:
    return kept(
        root,
        step,
        reason,
        adapters={"model.layers.0.self_attn.q_proj.lora_a": mx.full((4, 2), value)},
        adapter_config={"fine_tune_type": "lora"},
        learner={"version": mx.array(np.array(7, np.uint64)), "m.x": mx.arange(3) * value},
        state={**STATE, **state},
        average=average,
        rollouts=rollouts,
    )


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path):
    path = save(tmp_path, 40, "manual", value=0.1)
    assert path == tmp_path / "step-000040"
    found = checkpoint.load(path)
    assert (found.step, found.reasons, found.state) == (40, ("manual",), STATE)
    assert found.adapter_config == {"fine_tune_type": "lora"}
    [(name, array)] = found.adapters().items()
    assert name == "model.layers.0.self_attn.q_proj.lora_a"
    np.testing.assert_array_equal(np.array(array), np.full((4, 2), 0.1, np.float32))
    learner = found.learner()
    assert learner["version"].item() == 7
    assert learner["version"].dtype == mx.uint64


def test_a_learner_saved_and_loaded_goes_on_bit_for_bit(tiny: Tiny, tmp_path: Path):
    one, other = tiny.learner(seed=1), tiny.learner(seed=2)
    finish(one, tiny.records(5))
    path = kept(
        tmp_path,
        1,
        adapters=one.parameters,
        adapter_config=tiny.adapters.config(),
        learner=one.state(),
        state={},
        reason="auto",
    )
    other.load_state(checkpoint.load(path).learner())
    for learner in (one, other):
        finish(learner, tiny.records(5, seed=3))
    assert all(np.array_equal(np.array(a), np.array(other.state()[name])) for name, a in one.state().items())


def test_mlx_lm_loads_the_folder_as_an_adapter(tiny: Tiny, tmp_path: Path):
    from mlx_lm.utils import load as load_mlx

    parameters = tiny.moved()
    path = kept(
        tmp_path,
        40,
        adapters=parameters,
        adapter_config=tiny.adapters.config(),
        learner={"x": mx.zeros(1)},
        state={},
        reason="final",
    )
    model = load_mlx(str(tiny.folder), adapter_path=str(path))[0]
    tokens = [5, 100, 7, 42, 250, 9]
    loaded = np.array(model(mx.array([tokens])))[0]
    np.testing.assert_allclose(loaded, tiny.logits(tokens, parameters), rtol=1e-4, atol=1e-4)
    assert np.abs(loaded - tiny.logits(tokens)).max() > 0.1


EVERY_FILE = (
    *checkpoint.FILES,
    f"{AVERAGE}/{checkpoint.ADAPTERS}",
    f"{AVERAGE}/{checkpoint.ADAPTER_CONFIG}",
    checkpoint.ROLLOUTS,
    checkpoint.MANIFEST,
)


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """One bit; not of the white space between JSON's words, which may be any of four characters."""
    places = [place for place, byte in enumerate(content) if byte not in b" \n\t\r"]
    changed = bytearray(content)
    changed[int(rng.choice(places))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


DAMAGES = {
    "missing": lambda content, before, rng: None,
    "empty": lambda content, before, rng: b"",
    "truncated": lambda content, before, rng: content[: int(rng.integers(1, len(content)))],
    "longer": lambda content, before, rng: content + b"x",
    "one bit flipped": lambda content, before, rng: flipped(content, rng),
    "one page of zeros": lambda content, before, rng: bytes(min(4096, len(content))) + content[4096:],
    "of the step before": lambda content, before, rng: before,
}
"""What becomes of a file's content, given that of the same file one step before."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_damage_to_any_file_is_refused_by_name_and_the_one_before_is_used(tmp_path: Path, damage: str):
    rng = np.random.default_rng(0)
    rollouts = [[GenerateResult(Rollout("7", "nim", rewards={"First": 1.0}))]]
    for step in (1, 2):
        average = {"model.layers.0.self_attn.q_proj.lora_a": mx.full((4, 2), step)}
        save(tmp_path, step, value=float(step), average=average, rollouts=rollouts[: step - 1] or [[]])
    assert {path.relative_to(tmp_path / "step-000002").as_posix() for path in files(tmp_path / "step-000002")} == {
        *EVERY_FILE
    }
    for name in EVERY_FILE:
        file, before = (tmp_path / f"step-00000{step}" / name for step in (2, 1))
        content = file.read_bytes()
        for _ in range(5):
            damaged = DAMAGES[damage](content, before.read_bytes(), rng)
            if damaged == content:  # both steps have the same settings of an adapter
                continue
            file.unlink()
            if damaged is not None:
                file.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=f"step-000002/{name}: "):
                checkpoint.load(tmp_path / "step-000002")
            found, refused = checkpoints.latest(tmp_path)
            assert found is not None
            assert found.step == 1
            assert [f"step-000002/{name}: " in text for text in refused] == [True]
            file.write_bytes(content)
    found, refused = checkpoints.latest(tmp_path)
    assert found is not None
    assert (found.step, refused, found.rollouts()) == (2, [], rollouts)


def test_every_single_bit_of_a_small_checkpoint_counts(tmp_path: Path):
    path = save(tmp_path, 3)
    rng = np.random.default_rng(0)
    for name in (*checkpoint.FILES, checkpoint.MANIFEST):
        content = (path / name).read_bytes()
        for position in rng.integers(0, len(content), 40):
            flipped = bytearray(content)
            flipped[position] ^= 1 << int(rng.integers(8))
            (path / name).write_bytes(flipped)
            try:
                found = checkpoint.load(path)
            except CheckpointError:
                pass
            else:  # only white space of the manifest may differ without a trace
                assert (name, found.step, found.reasons) == (checkpoint.MANIFEST, 3, ("auto",))
        (path / name).write_bytes(content)
    assert checkpoint.load(path).step == 3


def test_a_renamed_folder_is_refused(tmp_path: Path):
    path = save(tmp_path, 3).rename(tmp_path / "step-000009")
    with pytest.raises(CheckpointError, match="is of step 3, not of the folder's 9"):
        checkpoint.load(path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match="step-000001: there is no such checkpoint folder"):
        checkpoint.load(tmp_path / "step-000001")


def test_latest_of_nothing_is_none(tmp_path: Path):
    assert checkpoints.latest(tmp_path) == (None, [])
    assert checkpoints.latest(tmp_path / "nowhere") == (None, [])


def test_steps_are_compared_as_numbers(tmp_path: Path):
    for step in (999_999, 1_000_000):
        save(tmp_path, step)
    found, _ = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.step == 1_000_000


def test_a_draft_left_by_a_killed_process_is_ignored_and_later_removed(tmp_path: Path):
    save(tmp_path, 1)
    draft = tmp_path / "step-000002.tmp-0a1b2c3d"
    shutil.copytree(tmp_path / "step-000001", draft)
    found, refused = checkpoints.latest(tmp_path)
    assert found is not None
    assert (found.step, refused) == (1, [])
    assert draft.exists()  # reading changes nothing: it may be another process at work
    save(tmp_path, 3)
    assert names(tmp_path) == ["step-000001", "step-000003"]


def test_a_checkpoint_set_aside_by_a_killed_process_still_counts(tmp_path: Path):
    save(tmp_path, 1)
    save(tmp_path, 2, "best").rename(tmp_path / "step-000002.old-0a1b2c3d")
    found, refused = checkpoints.latest(tmp_path)
    assert found is not None
    assert (found.step, found.reasons, refused) == (2, ("best",), [])
    save(tmp_path, 3)
    assert names(tmp_path) == ["step-000001", "step-000002", "step-000003"]


def test_saving_a_step_again_replaces_it_and_keeps_its_reasons(tmp_path: Path):
    save(tmp_path, 5, "best")
    save(tmp_path, 5, "auto", edits=3)
    found = checkpoint.load(save(tmp_path, 5, "manual", edits=4))
    assert found.reasons == ("best", "auto", "manual")
    assert found.state["edits"] == 4
    assert names(tmp_path) == ["step-000005"]


def test_what_is_saved_over_an_unsound_checkpoint_has_reasons_of_its_own(tmp_path: Path):
    """Its numbers are others: they are neither what was best nor what a person wanted to keep."""
    checkpoints.mark(save(tmp_path, 5, "best"), checkpoints.UNSOUND)
    assert checkpoint.load(save(tmp_path, 5, "auto")).reasons == ("auto",)


@pytest.mark.parametrize("name", [checkpoint.STATE, checkpoint.MANIFEST])
def test_saving_over_a_damaged_checkpoint_makes_it_good(tmp_path: Path, name: str):
    (save(tmp_path, 5) / name).write_text("{")
    assert "manual" in checkpoint.load(save(tmp_path, 5, "manual")).reasons
    assert names(tmp_path) == ["step-000005"]


def test_there_is_only_one_best(tmp_path: Path):
    for step, reason in ((1, "best"), (2, "manual"), (3, "auto")):
        save(tmp_path, step, reason)
    for step in (2, 3):
        path = checkpoint.folder(tmp_path, step)
        checkpoints.mark(path, "best")
        checkpoints.only(path, "best")
    reasons = [checkpoint.load(checkpoint.folder(tmp_path, step)).reasons for step in (1, 2, 3)]
    assert reasons == [("auto",), ("manual",), ("auto", "best")]


def test_marks_accumulate(tmp_path: Path):
    path = save(tmp_path, 5)
    checkpoints.mark(path, "best")
    checkpoints.mark(path, "best")
    assert checkpoint.load(path).reasons == ("auto", "best")
    assert names(path) == sorted([*checkpoint.FILES, checkpoint.MANIFEST])


def test_marking_what_is_damaged_is_refused(tmp_path: Path):
    path = save(tmp_path, 5)
    (path / checkpoint.MANIFEST).write_text("{")
    with pytest.raises(CheckpointError, match=r"manifest\.json: is not JSON"):
        checkpoints.mark(path, "best")


def test_prune_keeps_the_newest_automatic_ones_and_all_others(tmp_path: Path):
    for step in range(1, 7):
        save(tmp_path, step)
    save(tmp_path, 7, "final")
    checkpoints.mark(tmp_path / "step-000002", "best")
    deleted = checkpoints.prune(tmp_path, keep=2)
    assert sorted(path.name for path in deleted) == ["step-000001", "step-000003", "step-000004"]
    assert names(tmp_path) == ["step-000002", "step-000005", "step-000006", "step-000007"]
    assert checkpoints.prune(tmp_path, keep=2) == []


def test_prune_leaves_those_spared_and_need_not_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    paths = [save(tmp_path, step) for step in range(1, 5)]
    monkeypatch.setattr(checkpoint.manifest, "verify", lambda file, expected: pytest.fail(f"{file} was read"))
    assert checkpoints.prune(tmp_path, 1, (paths[3], paths[0], None)) == [paths[2], paths[1]]
    assert names(tmp_path) == ["step-000001", "step-000004"]


def test_prune_never_deletes_the_newest_good_one(tmp_path: Path):
    for step in range(1, 5):
        save(tmp_path, step)
    for step in (3, 4):
        (tmp_path / f"step-00000{step}" / checkpoint.LEARNER).write_bytes(b"")
    checkpoints.prune(tmp_path, keep=1)
    found, refused = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.step == 2
    assert len(refused) == 1


def test_prune_leaves_what_it_cannot_read_to_a_person(tmp_path: Path):
    for step in range(1, 4):
        save(tmp_path, step)
    (tmp_path / "step-000001" / checkpoint.MANIFEST).unlink()
    checkpoints.prune(tmp_path, keep=1)
    assert names(tmp_path) == ["step-000001", "step-000003"]


@pytest.mark.parametrize("number", range(1, 9))
def test_a_disk_that_fails_at_any_moment_leaves_no_half_checkpoint(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
):
    save(tmp_path, 1, "best")
    calls, real = 0, os.fsync

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    complaint = ""
    try:
        save(tmp_path, 1, value=2.0)
    except CheckpointError as error:
        complaint = str(error)
    assert bool(complaint) == (number <= calls)
    assert not complaint or "step-000001: could not be written: No space left on device" in complaint
    found, refused = checkpoints.latest(tmp_path)
    assert found is not None
    assert refused == []
    assert found.reasons[0] == "best"
    assert not any(".tmp" in name for name in names(tmp_path))


def test_a_file_that_can_not_grow_is_reported_and_cleaned_up(tmp_path: Path):
    """A real refusal by the kernel, in a process of its own: MLX's writer meets it, not Python's."""
    program = textwrap.dedent(
        """
        import resource, sys
        from pathlib import Path
        from engine.inference import blas
        blas.load()
        import mlx.core as mx
        from engine.training import checkpoint
        from tests.training.conftest import kept
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            kept(Path(sys.argv[1]), 1, adapters={"a": mx.zeros(1_000_000)}, adapter_config={},
                 learner={"b": mx.zeros(1)}, state={})
        except checkpoint.CheckpointError as error:
            print(error)
        """
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert "step-000001: could not be written" in result.stdout
    assert names(tmp_path) == []


KILLED = """
import sys
from pathlib import Path
from engine.training import checkpoint, checkpoints

root, step = Path(sys.argv[1]), int(sys.argv[2])
while True:
    def write(folder, content=f'{{"step": {step}}}'):
        for name in checkpoint.FILES:
            (folder / name).write_text(content + " " * 200_000)

    checkpoints.commit(root, step, write, "auto")
    checkpoints.commit(root, step, write, "manual" if step % 3 == 0 else "auto")
    checkpoints.prune(root, keep=2)
    print(step, flush=True)
    step += 1
"""


def test_a_process_killed_at_any_moment_loses_at_most_the_checkpoint_in_hand(tmp_path: Path):
    rng = np.random.default_rng(0)
    step = 1
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), str(step)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        last = int(process.stdout.readline())
        time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        last = max([last, *map(int, process.stdout.read().split())])
        process.wait()
        found, refused = checkpoints.latest(tmp_path)
        assert refused == []
        assert found is not None
        assert found.step in (last, last + 1)
        assert found.state == {"step": found.step}
        step = found.step + 1


@pytest.mark.parametrize("bad", [float("nan"), {1, 2}])
def test_a_state_that_is_not_json_is_refused_and_leaves_nothing(tmp_path: Path, bad: object):
    with pytest.raises((TypeError, ValueError)):
        save(tmp_path, 1, bad=bad)
    assert names(tmp_path) == []


def test_reading_checkpoints_needs_no_mlx(tmp_path: Path):
    save(tmp_path, 4, "manual")
    program = (
        "import sys; from pathlib import Path; from engine.training import checkpoints; "
        "print(checkpoints.latest(Path(sys.argv[1]))[0].step, 'mlx.core' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["4", "False"]


def test_the_manifest_lists_every_other_file(tmp_path: Path):
    path = save(tmp_path, 1)
    manifest = json.loads((path / checkpoint.MANIFEST).read_text())
    assert {*manifest["files"], checkpoint.MANIFEST} == set(names(path))
    assert all(entry["size"] == (path / name).stat().st_size for name, entry in manifest["files"].items())
