"""A configuration being written: what is wrong is told by key, and only what isn't the default is kept."""

from __future__ import annotations

import tomllib

import pytest

import presets
from engine.config import Config, ConfigError, RunConfig, TaskConfig, load, parse, set_value
from engine.keys import Key
from engine.steering.drafts import brief, differences, edited

NIM = Config(task=TaskConfig(name="nim", options={"openings": 3}), run=RunConfig(steps=80))


@pytest.mark.parametrize("name", presets.BUILT_IN)
def test_what_is_kept_of_a_preset_gives_the_same_configuration_back(name):
    config = load(presets.find(name))
    assert parse(tomllib.loads(brief(config)), name) == config


def test_only_what_differs_from_the_defaults_is_kept():
    assert tomllib.loads(brief(NIM)) == {"task": {"name": "nim", "options": {"openings": 3}}, "run": {"steps": 80}}


def test_several_keys_are_changed_at_once():
    config, problems = edited(NIM, {"run.steps": "7", "train.kl": "0.1", "roles.First.prompt": "Nim."})
    assert not problems
    assert config is not None
    assert (config.run.steps, config.train.kl, config.roles["First"].prompt) == (7, 0.1, "Nim.")
    assert config.task == NIM.task


def test_what_is_left_out_has_its_default_again():
    config, _ = edited(NIM, {"run.steps": None, "task.options.openings": None, "train.kl": None})
    assert config == Config(task=TaskConfig(name="nim"))


@pytest.mark.parametrize("text", ["0", "many", "1.5", "", "[1]"])
def test_each_problem_is_worded_as_the_command_line_words_it(text):
    config, problems = edited(NIM, {"run.steps": text, "train.kl": "-1", "lora.rank": "8"})
    assert config is None
    with pytest.raises(ConfigError) as told:
        set_value(NIM, "run.steps", text)
    assert f"run.steps: {problems['run.steps']}" == str(told.value)
    assert problems.keys() == {"run.steps", "train.kl"}


def test_a_key_that_the_schema_leaves_open_is_read_as_its_taker_wants_it():
    number = Key("x", str, "text", "", False, False, (), "")
    config, _ = edited(NIM, {"task.options.notation": "7"}, {"task.options.notation": number})
    assert config is not None
    assert config.task is not None
    assert config.task.options["notation"] == "7"
    config, _ = edited(NIM, {"task.options.openings": "7"})
    assert config is not None
    assert config.task is not None
    assert config.task.options["openings"] == 7


def test_no_such_key_is_a_problem_of_its_name():
    assert "no such key" in edited(NIM, {"train.nope": "1"})[1]["train.nope"]


def test_half_a_character_is_refused():
    assert "UTF-8" in edited(NIM, {"title": "\ud800"})[1]["title"]


def test_differences_name_the_keys_that_are_not_the_same_in_all():
    other, _ = edited(NIM, {"run.steps": "9", "task.options.openings": "1", "roles.First.prompt": "Nim."})
    assert other is not None
    assert differences([NIM, other, NIM]) == {
        "task.options.openings": ["3", "1", "3"],
        "run.steps": ["80", "9", "80"],
        "roles.First.prompt": ["", '"Nim."', ""],
    }
    assert differences([NIM, NIM]) == {}
