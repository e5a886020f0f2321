"""Presets: the built-in ones are sound, and a user's own come first."""

from pathlib import Path

import pytest

import presets
from engine.assembly import arena_of
from engine.config import load
from engine.mixture import task_of
from engine.task import GameTask


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of presets, empty."""
    monkeypatch.setattr(presets, "user_folder", lambda: tmp_path)
    return tmp_path


def test_the_first_preset_is_the_one_to_start_with(own):
    assert next(iter(presets.available())) == "nim-pocket"


def test_presets_of_smaller_models_come_first(own):
    models = [name.rpartition("-")[2] for name in presets.BUILT_IN]
    assert models == sorted(models, key=["pocket", "smollm2", "qwen"].index)


@pytest.mark.parametrize("name", presets.BUILT_IN)
def test_a_built_in_preset_fits_the_schema_and_its_task(name, own):
    config = load(presets.find(name))
    assert config.title
    assert config.teaches.endswith(".")
    arena = arena_of(config, task_of(config))
    assert set(config.roles) <= set(arena.roles)
    assert config.eval.metric


@pytest.mark.parametrize("name", presets.FIRST)
def test_the_embedded_model_is_asked_in_the_words_it_was_trained_on(name, own):
    config = load(presets.find(name))
    task = task_of(config).parts[""].task
    assert isinstance(task, GameTask)
    assert {role.prompt for role in config.roles.values()} == {task.game.prompt}
    assert config.model.context == 256


def test_a_users_preset_is_listed_after_ours(own):
    (own / "alpha.toml").write_text('[task]\nname = "nim"\n')
    assert list(presets.available()) == [*presets.BUILT_IN, "alpha"]
    assert presets.available()["alpha"].source == "yours"


def test_a_users_preset_of_the_same_name_takes_the_place_of_ours(own):
    (own / "nim-pocket.toml").write_text('[task]\nname = "nim"\n')
    assert presets.find("nim-pocket") == own / "nim-pocket.toml"
    assert next(iter(presets.available())) == "nim-pocket"


def test_a_path_is_a_preset_too(own, tmp_path_factory):
    path = tmp_path_factory.mktemp("elsewhere") / "mine.toml"
    path.write_text("")
    assert presets.find(str(path)) == path


def test_a_file_beside_us_does_not_hide_a_preset_of_its_name(own, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("work")
    (folder / "nim-pocket").mkdir()
    monkeypatch.chdir(folder)
    assert presets.find("nim-pocket").parent == presets.PACKAGE


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("nim-poket", "nim-poket: no such preset; did you mean nim-pocket"),
        ("zzz", "zzz: no such preset; there are nim-pocket, kuhn-pocket"),
        ("./gone.toml", "./gone.toml: no such file"),
        ("gone.toml", "gone.toml: no such file"),
    ],
)
def test_an_unknown_preset_names_the_nearest(own, asked, message):
    with pytest.raises(presets.PresetError) as caught:
        presets.find(asked)
    assert str(caught.value).startswith(message)


# A user's own


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """The user's folder, which isn't there yet."""
    monkeypatch.setattr(presets, "user_folder", lambda: tmp_path / "presets")
    return tmp_path / "presets"


def test_a_preset_is_saved_and_found_and_another_of_its_name_is_not_lost(shelf):
    path = presets.save("mine", "title = 'one'")
    assert presets.find("mine") == path == shelf / "mine.toml"
    with pytest.raises(presets.TakenError, match="a preset mine of yours already"):
        presets.save("mine", "title = 'two'")
    assert path.read_text() == "title = 'one'"
    presets.save("mine", "title = 'two'", replace=True)
    assert path.read_text() == "title = 'two'"
    assert [file.name for file in shelf.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize("name", ["", "..", "a/b", ".x", "-x", "_x", "a b", "a\n", "x" * 81, "a.toml"])
def test_a_name_that_is_no_file_s_is_refused(shelf, name):
    with pytest.raises(presets.KeepError, match="letters, digits"):
        presets.save(name, "")
    assert not shelf.exists()


def test_a_folder_that_cannot_be_made_is_told(shelf):
    shelf.write_text("in the way")
    with pytest.raises(presets.KeepError, match="can't be written"):
        presets.save("mine", "")


def test_only_a_users_own_are_deleted(shelf):
    path = presets.save("nim-pocket", "title = 'mine'")
    presets.delete("nim-pocket")
    assert not path.exists()
    with pytest.raises(presets.KeepError, match="nim-pocket is not a preset of yours"):
        presets.delete("nim-pocket")
    assert presets.find("nim-pocket").exists()
