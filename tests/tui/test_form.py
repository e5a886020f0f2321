"""A preset as a form: its fields, what is wrong with them, what comes of them. No terminal."""

from __future__ import annotations

import random

import pytest

import presets
from engine.config import KEYS, Config, ModelConfig, RewardConfig, RunConfig, TaskConfig, load
from engine.steering import tables
from tui.form.fields import TaskFacts, fields
from tui.form.form import Form
from tui.form.lines import about, columns, row_line
from tui.form.tasks import ask
from tui.text import width
from tui.theme import DUSK
from tui.widgets.painted import Line, span

NIM = Config(
    title="Nim",
    task=TaskConfig(name="nim", options={"openings": 3}),
    model=ModelConfig(context=256),
    run=RunConfig(steps=80),
)


def nim() -> Form:
    return Form(NIM, ask(NIM))


def text(lines: list[Line]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def test_every_key_of_the_schema_that_has_no_table_missing_is_a_field():
    names = {f.name for f in fields(NIM, TaskFacts())}
    plain = {key.name for key in KEYS if "*" not in key.name}
    assert plain <= names
    assert "task.options.openings" in names


def test_the_tasks_own_options_and_roles_are_fields_with_their_bounds_and_help():
    form = nim()
    openings = form.field("task.options.openings")
    assert (openings.text, openings.default) == ("3", "0")
    assert openings.key.wants == "a whole number from 0 to 1000"
    assert "random moves" in openings.key.description
    assert form.field("task.options.notation").choices == ("compact", "words")
    assert "Nim" in form.field("roles.First.prompt").own


@pytest.mark.parametrize("name", [n for n in presets.BUILT_IN if n.endswith("pocket")])
def test_a_form_that_was_not_touched_is_the_configuration_it_was_opened_with(name):
    config = load(presets.find(name))
    form = Form(config, ask(config))
    assert form.facts.problem == ""
    assert (form.config, form.changed, form.problems) == (config, 0, {})


def test_what_is_typed_is_marked_and_what_is_taken_back_is_not():
    form = nim()
    form.set("run.steps", "7")
    assert form.config is not None
    assert form.config.run.steps == 7
    assert [f.name for f in form.fields if f.is_changed] == ["run.steps"]
    assert form.groups["run"].changed == 1
    form.reset("run.steps")
    assert (form.config, form.changed) == (NIM, 0)
    form.reset("run.steps", to_default=True)
    assert form.field("run.steps").text == "100"


def test_what_is_wrong_stands_at_its_field_while_the_others_are_read():
    form = nim()
    form.set("run.steps", "-1")
    form.set("task.options.openings", "many")
    form.set("train.kl", "0.5")
    assert form.config is None
    assert form.problems == {
        "task.options.openings": "wants a whole number from 0 to 1000, not 'many'",
        "run.steps": "wants a whole number of at least 1, not -1",
    }
    form.set("run.steps", "5")
    form.set("task.options.openings", "4")
    assert form.config is not None
    assert (form.config.train.kl, form.config.run.steps) == (0.5, 5)


def test_a_required_key_cannot_be_left_out():
    form = nim()
    form.reset("task.name", to_default=True)
    assert form.field("task.name").text == "nim"


def test_what_is_wrong_between_keys_is_told_though_it_is_of_no_field():
    config = Config.model_validate({"tasks": {"nim": {"weight": 1.0}}})
    form = Form(config)
    form.set("tasks.nim.weight", "0")
    assert form.problems == {"tasks": "wants a weight above 0 for one of them at least, or nothing is trained on"}
    assert "weight above 0" in text(about(form, None, 60, DUSK))


def test_another_task_brings_its_own_options_and_says_which_of_the_old_it_has_not():
    form = nim()
    form.set("task.name", "proof")
    form.learn(ask(form.latest))
    assert "level" in form.field("task.options.level").key.description
    assert "no option 'openings'" in form.problems["task.options.openings"]
    form.reset("task.options.openings", to_default=True)
    form.learn(ask(form.latest))
    assert form.problems == {}
    assert form.config is not None
    assert form.config.task == TaskConfig(name="proof")


def test_what_was_typed_outlasts_what_the_tasks_tell_later():
    form = Form(NIM)
    form.set("roles.First.max_tokens", "9") if "roles.First.max_tokens" in form._fields else None
    form.set("run.steps", "x")
    form.learn(ask(NIM))
    assert form.field("run.steps").text == "x"
    assert form.field("run.steps").problem


def test_a_task_there_is_not_is_told_and_what_was_known_stays():
    form = nim()
    form.set("task.name", "nym")
    form.learn(ask(form.latest))
    assert "nearest: nim" in form.facts.problem
    assert form.field("roles.First.prompt").own


def test_the_filter_finds_names_help_and_what_was_changed():
    form = nim()
    found = {row.field.name for row in form.rows("learning rate") if row.field}
    assert {"train.learning_rate", "train.warmup", "train.schedule"} <= found
    assert "run.steps" not in found
    form.set("run.seed", "x")
    assert [row.id for row in form.rows("*")] == ["[run]", "run.seed"]
    assert [row.id for row in form.rows("!")] == ["[run]", "run.seed"]
    assert form.rows("no such thing") == []


def test_a_folded_group_is_only_its_heading():
    form = nim()
    form.fold("run", False)
    names = [row.id for row in form.rows()]
    assert "[run]" in names
    assert "run.steps" not in names
    form.learn(ask(NIM))
    assert "run.steps" not in [row.id for row in form.rows()]


@pytest.mark.parametrize("cells", [20, 46, 78, 114])
def test_a_row_is_no_longer_than_its_line_whatever_is_in_it(cells):
    form = nim()
    hostile = "\x1b[2J[b]漢字 \u202e" + "\U0001f469\u200d\U0001f469" * 9 + "\nnext"
    form.set("title", hostile)
    form.set("run.steps", hostile)
    form.set("roles.First.prompt", hostile)
    for row in form.rows("*"):
        line = row_line(form, row, cells, DUSK, is_here=True)
        assert span(line) <= cells
        assert "\x1b" not in text([line])
        for told in about(form, row, max(cells, 30), DUSK):
            assert span(told) <= max(cells, 30)
            assert "\x1b" not in text([told])


def test_what_is_wrong_and_what_changed_are_told_without_colour():
    form = nim()
    form.set("run.steps", "0")
    form.set("run.seed", "4")
    shown = text([row_line(form, row, 110, DUSK, is_here=False) for row in form.rows("*")])
    assert "✗ steps" in shown
    assert "wants a whole number of at least 1, not 0" in shown
    assert "● seed" in shown
    assert "2 changed" in shown
    assert "1 wrong" in shown


def test_help_tells_bounds_default_and_what_it_was():
    form = nim()
    form.set("run.steps", "7")
    row = next(row for row in form.rows() if row.id == "run.steps")
    told = text(about(form, row, 60, DUSK))
    for words in (
        "Optimiser steps until the run stops",
        "wants    a whole number of at least 1",
        "100",
        "was      80",
    ):
        assert words in told


def test_values_begin_in_one_column():
    for cells in (40, 78, 110):
        start, room = columns(cells)
        form = nim()
        form.set("run.steps", "123")
        row = next(row for row in form.rows() if row.id == "run.steps")
        line = text([row_line(form, row, cells, DUSK, is_here=False)])
        assert line[start:].startswith("123 ")
        assert width(line[:start]) == start
        assert start + room <= cells


def test_a_reward_that_is_put_in_has_the_options_of_its_function_and_says_what_it_lacks():
    form = nim()
    form.put(*tables.reward("length", form.latest))
    form.learn(ask(form.latest))
    assert (form.changed, form.groups["rewards.length"].is_new) == (1, True)
    most = form.field("rewards.length.options.most")
    assert most.key.wants == "a whole number from 1 to 100000"
    assert "units" in most.key.description
    assert form.field("rewards.length.options.unit").choices == ("words", "characters", "tokens")
    assert form.problems == {"rewards.length.options.most": "is missing: it wants a whole number from 1 to 100000"}
    form.set("rewards.length.options.most", "0")
    assert "from 1 to 100000, not 0" in form.problems["rewards.length.options.most"]
    form.set("rewards.length.options.most", "3")
    form.set("rewards.length.weight", "-0.5")
    assert form.config is not None
    assert form.config.rewards == {"length": RewardConfig(weight=-0.5, options={"most": 3})}


def test_another_function_in_a_table_brings_its_own_options():
    form = nim()
    form.put(*tables.reward("length", form.latest))
    form.set("rewards.length.function", "regex")
    form.learn(ask(form.latest))
    assert "rewards.length.options.pattern" in form.problems


def test_a_table_that_was_taken_out_can_be_put_back_as_it_was():
    config = load(presets.find("games-pocket"))
    form = Form(config, ask(config))
    form.set("tasks.kuhn.weight", "3")
    form.take_out("tasks.kuhn")
    assert form.config is not None
    assert "kuhn" not in form.config.tasks
    assert (form.changed, form.taken_out) == (1, {"tasks.kuhn"})
    assert "taken out" in text([row_line(form, row, 80, DUSK, is_here=False) for row in form.rows("*")])
    form.put_back("tasks.kuhn")
    assert form.config.tasks["kuhn"].weight == 3.0
    form.reset("tasks.kuhn.weight")
    assert (form.config, form.changed) == (config, 0)


def test_one_that_was_put_in_is_gone_without_a_trace_when_it_is_taken_out():
    form = nim()
    form.put("rewards.length", RewardConfig())
    form.take_out("rewards.length")
    assert (form.config, form.changed) == (NIM, 0)
    assert "rewards.length" not in form.groups


def test_without_any_task_it_says_so():
    config = Config.model_validate({"tasks": {"nim": {}}})
    form = Form(config)
    form.take_out("tasks.nim")
    assert "task.name" in form.problems
    assert form.config is None


def test_a_role_that_only_another_task_had_can_be_taken_out():
    config = load(presets.find("nim-pocket"))
    form = Form(config, ask(config))
    assert not form.can_be_out("roles.First")
    form.set("task.name", "tictactoe")
    form.set("task.options.openings", "0")
    form.learn(ask(form.latest))
    assert "has no such role" in form.facts.problem
    for role in config.roles:
        assert form.can_be_out(f"roles.{role}")
        form.take_out(f"roles.{role}")
    form.learn(ask(form.latest))
    assert form.facts.problem == ""


def test_a_task_beside_the_one_there_is_shares_the_episodes():
    form = nim()
    form.set("task.options.openings", "5")
    form.mix()
    form.put(*tables.part("kuhn_poker", form.latest))
    form.learn(ask(form.latest))
    assert form.config is not None
    assert (form.problems, form.facts.problem) == ({}, "")
    assert form.config.task is None
    assert form.config.tasks["nim"].options == {"openings": 5}
    assert form.field("tasks.nim.options.openings").is_changed
    assert "roles.kuhn_poker/First.prompt" in {f.name for f in form.fields}
    form.reset("tasks.nim.options.openings")
    assert form.config.tasks["nim"].options == {"openings": 3}


NASTY = [
    "\ud800", "9" * 5000, "1e999", "nan", "[", "{ a = ", "[[[[" * 300, '"', "'''", "\x00", "a = 1\nb = 2",
    "1979-05-27", "true", "[1, 'a']", "{ a = { b = [1] } }", "x" * 10_000, "-0", "0x10", "١٢", "\N{MINUS SIGN}1",
    "./no.py:X",
]  # fmt: skip


@pytest.mark.parametrize("name", ["proof-qwen", "games-pocket"])
def test_whatever_is_typed_is_right_or_told_to_be_wrong(name):
    config = load(presets.find(name))
    facts = ask(config)
    rng = random.Random(name)
    form = Form(config, facts)
    names = [f.name for f in form.fields]
    for _ in range(150):
        form.set(rng.choice(names), rng.choice(NASTY))
        assert (form.config is None) == bool(form.problems)
        if rng.random() < 0.3:
            form.reset(rng.choice(names), to_default=rng.random() < 0.5)
        if rng.random() < 0.05:
            form.learn(facts)
    for each in names:
        form.reset(each)
    assert (form.config, form.problems) == (config, {})
