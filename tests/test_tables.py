"""Tables of a configuration being written: put in, taken out, and a task that becomes one of several."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

import presets
import tasks
from engine.assembly import arena_of
from engine.config import Config, PartConfig, RewardConfig, load, parse
from engine.mixture import task_of
from engine.rewards import named
from engine.steering.drafts import brief
from engine.steering.tables import as_one_of_several, free, part, put, reward, tables, take_out
from engine.task import built_in

NIM = load(presets.find("nim-pocket"))


def again(config: Config) -> Config:
    """As a file would give it back, checked."""
    return parse(tomllib.loads(brief(config)), "test")


def test_a_table_is_put_in_and_taken_out_again():
    place, table = reward("length", NIM)
    more = put(NIM, place, table)
    assert again(more).rewards == {"length": RewardConfig()}
    assert take_out(more, place) == NIM
    assert "rewards.length" in tables(more)
    assert "roles.First" in tables(more)


def test_a_second_table_of_one_function_has_a_name_of_its_own_and_says_which_it_is():
    config = put(NIM, *reward("length", NIM))
    assert reward("length", config) == ("rewards.length_2", RewardConfig(function="length"))
    assert reward("./mine.py:short", config) == ("rewards.short", RewardConfig(function="./mine.py:short"))
    assert part("./games/my.game.py", config) == ("tasks.my_game", PartConfig(name="./games/my.game.py"))
    assert free("nim", ["nim", "nim_2"]) == "nim_3"


@pytest.mark.parametrize("name", ["nim-pocket", "kuhn-pocket", "dataset-pocket", "proposer_solver-pocket"])
def test_a_task_that_becomes_one_of_several_can_still_be_played_under_its_configuration(name):
    config = load(presets.find(name))
    mixed = again(as_one_of_several(config))
    assert config.task is not None
    assert mixed.task is None
    (mine, table), *others = mixed.tasks.items()
    assert not others
    assert (table.name or mine, table.options) == (config.task.name, config.task.options)
    assert set(mixed.roles) == {f"{mine}/{role}" for role in config.roles}
    assert arena_of(mixed, task_of(mixed)).roles.keys() >= mixed.roles.keys()
    assert mixed.eval.metric == (config.eval.metric and f"{mine}/{config.eval.metric}")


def test_what_names_roles_and_episodes_of_the_task_names_them_as_they_are_called_then():
    config = parse(
        {
            "task": {"name": "nim"},
            "tasks": {"kuhn_poker": {"weight": 0.0}},
            "roles": {"First": {"max_tokens": 8}, "kuhn_poker/First": {"max_tokens": 4}},
            "rewards": {
                "length": {"options": {"most": 3}, "roles": ["First", "kuhn_poker/First"], "episodes": ["nim"]}
            },
            "eval": {"metric": "kuhn_poker/nash_conv"},
        },
        "test",
    )
    mixed = again(as_one_of_several(config))
    assert list(mixed.tasks) == ["nim", "kuhn_poker"]
    assert set(mixed.roles) == {"nim/First", "kuhn_poker/First"}
    assert mixed.rewards["length"].roles == ["nim/First", "kuhn_poker/First"]
    assert mixed.rewards["length"].episodes == ["nim/nim"]
    assert mixed.eval.metric == "kuhn_poker/nash_conv"
    arena_of(mixed, task_of(mixed))
    assert as_one_of_several(mixed) == mixed


def test_every_reward_function_there_is_says_what_it_does_and_what_each_of_its_options_means():
    for name, told in named.built_in().items():
        assert told, name
        for key in named.options_of(name).keys:
            assert key.description, f"{name}.{key.name}"


def test_every_task_there_is_is_told_by_the_first_line_of_its_module():
    folder = Path(tasks.__file__).parent
    found = {file.stem: ast.get_docstring(ast.parse(file.read_text("utf-8"))) for file in folder.glob("[!_]*.py")}
    assert found
    assert built_in() == {name: (text or "").splitlines()[0] for name, text in found.items()}


def test_options_of_a_function_of_ones_own_are_what_it_takes_behind_rollout_and_arena(tmp_path):
    (tmp_path / "mine.py").write_text("def short(rollout, arena, *, most: int = 3): ...\ndef bad(): ...\n")
    (key,) = named.options_of("./mine.py:short", folder=tmp_path).keys
    assert (key.name, key.default, key.wants) == ("most", 3, "a whole number")
    with pytest.raises(ValueError, match=r"has to take \(rollout, arena\) first"):
        named.options_of("./mine.py:bad", folder=tmp_path)
    with pytest.raises(ValueError, match="did you mean 'length'"):
        named.options_of("lenght")
