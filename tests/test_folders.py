"""A run's folder: how big it is, and that deleting it takes all of it or nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.folders import FolderError, delete, size
from engine.store import Store
from tests.tui.recorded import record


def test_its_size_is_that_of_all_its_files(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x" * 1000)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b").write_bytes(b"x" * 234)
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert 1234 <= size(tmp_path) < 1234 + 100
    assert size(tmp_path / "gone") == 0


def test_a_run_is_deleted_with_all_that_is_in_it(tmp_path: Path):
    run = record(tmp_path / "nim-1", [0.5])
    (run.folder / "checkpoints").mkdir()
    (run.folder / "checkpoints" / "weights").write_bytes(b"x")
    delete(run.folder)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_run_is_deleted_too(tmp_path: Path):
    run = record(tmp_path / "nim-1", [0.5])
    (run.folder / "run.sqlite").write_bytes(b"no database")
    delete(run.folder)
    assert not run.folder.exists()


def test_a_run_at_work_stays_as_it_is(tmp_path: Path):
    run = record(tmp_path / "nim-1", [0.5])
    with Store.open(run.folder) as store:
        with pytest.raises(FolderError, match="is running this run: stop it first"):
            delete(run.folder)
        assert len(store.evaluations()) == 1
    assert (run.folder / "config.toml").is_file()


def test_what_is_no_run_is_not_deleted(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(FolderError, match="not a run's own folder"):
        delete(tmp_path / "mine")
    run = record(tmp_path / "nim-1", [0.5])
    (tmp_path / "link").symlink_to(run.folder)
    with pytest.raises(FolderError, match="link"):
        delete(tmp_path / "link")
    assert (tmp_path / "mine" / "thesis.txt").exists()
    assert (run.folder / "config.toml").exists()


def test_a_folder_that_may_not_be_changed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = record(tmp_path / "nim-1", [0.5])

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(FolderError, match="can't be deleted: Permission denied"):
        delete(run.folder)
    assert (run.folder / "config.toml").exists()
