"""Configuration: what is accepted, what is refused, and how well a refusal explains itself."""

import tomllib
from pathlib import Path

import pytest

from engine.config import KEYS, Config, ConfigError, dump, key, load, override, parse, save, set_value, value_text

NIM = {"task": {"name": "nim"}}


def refusal(mapping: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(mapping, "my.toml")
    return str(caught.value)


def test_a_preset_needs_no_more_than_a_task():
    config = parse(NIM, "my.toml")
    assert config.task.name == "nim"
    assert config.train.learning_rate == 1e-3


def test_an_unknown_key_is_refused_with_file_key_and_the_nearest_right_one():
    assert refusal({**NIM, "train": {"learning_rat": 1e-3}}) == (
        "my.toml: train.learning_rat: no such key; did you mean train.learning_rate?"
    )


def test_an_unknown_section_names_the_nearest_section():
    assert refusal({**NIM, "trian": {"kl": 0.1}}) == "my.toml: trian: no such key; did you mean train?"


def test_a_key_without_its_section_finds_its_section():
    assert "did you mean train.learning_rate?" in refusal({**NIM, "learning_rate": 0.1})


def test_a_misspelt_key_of_a_role_is_answered_for_that_role():
    assert "did you mean roles.First.temperature?" in refusal({**NIM, "roles": {"First": {"temprature": 1.0}}})


def test_a_quoted_number_is_a_wrong_type():
    assert refusal({**NIM, "train": {"learning_rate": "1.0"}}) == (
        "my.toml: train.learning_rate: wants a number above 0 and at most 1, not '1.0'"
    )


@pytest.mark.parametrize(
    ("section", "name", "value", "wants"),
    [
        ("run", "steps", 10.0, "a whole number of at least 1"),
        ("run", "steps", 0, "a whole number of at least 1"),
        ("run", "seed", True, "a whole number from 0 to 4294967295"),
        ("train", "learning_rate", 0.0, "a number above 0 and at most 1"),
        ("train", "learning_rate", float("nan"), "a number above 0 and at most 1"),
        ("train", "kl", float("inf"), "a number of at least 0"),
        ("train", "normaliser", "mean", "one of dapo, grpo, dr_grpo"),
        ("train", "betas", [0.9], "2 numbers of at least 0 and below 1"),
        ("train", "betas", [0.9, 1.0], "2 numbers of at least 0 and below 1"),
        ("credit", "normalise", 1, "true or false"),
        ("lora", "layers", [1], "a list of texts"),
        ("eval", "metric", 3, "text"),
        ("roles", "First", {"logit_bias": 2.0}, "a table of numbers"),
        ("roles", "First", {"logit_bias": {"yes": "much"}}, "a table of numbers"),
        ("roles", "First", {"logit_bias": {"a.b": None}}, "a table of numbers"),
        ("roles", "First", {"stop": "\n"}, "a list of texts"),
        ("roles", "First", {"seconds": 0.0}, "a number above 0"),
        ("roles", "First", {"repetition_penalty": 0.5}, "a number from 1 to 10"),
        ("roles", "First", {"constrained": "yes"}, "true or false"),
    ],
)
def test_a_wrong_value_says_what_would_be_right(section, name, value, wants):
    found = refusal({**NIM, section: {name: value}})
    if section == "roles":
        name = f"{name}.{next(iter(value))}"
    assert f"my.toml: {section}.{name}: wants {wants}, not " in found


def test_a_value_where_a_section_belongs_is_explained():
    assert refusal({"task": "nim"}) == "my.toml: task: wants a table of keys, [task], not 'nim'"
    assert "[roles.First]" in refusal({**NIM, "roles": {"First": "Nim."}})


def test_a_missing_task_is_named_as_missing():
    assert refusal({}).startswith("my.toml: task.name: missing, wants text")
    assert refusal({"task": {}}) == refusal({})


def test_every_problem_has_one_line():
    lines = refusal({**NIM, "run": {"steps": 0, "sede": 1}, "train": {"kl": -1.0}}).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("my.toml: ") for line in lines)


def test_a_syntax_error_gives_file_and_line(tmp_path: Path):
    path = tmp_path / "broken.toml"
    path.write_text('[task]\nname = "nim"\n[run\n')
    with pytest.raises(ConfigError, match=r"broken\.toml: not valid TOML: .*line 3"):
        load(path)


def test_a_missing_or_unreadable_file_is_one_sentence(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: can't be read: No such file"):
        load(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigError, match=r"can't be read: Is a directory"):
        load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'title = "caf\xe9"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(tmp_path / "latin.toml")


def test_paths_in_a_file_are_meant_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "mine.toml"
    path.write_text('[task]\nname = "./games/my_game.py:MyGame"\n[model]\nsource = "../model"\n')
    monkeypatch.chdir("/")
    config = load(path)
    assert config.task.name == f"{tmp_path}/games/my_game.py:MyGame"
    assert config.model.source == f"{tmp_path.parent}/model"


def test_hub_ids_and_task_names_are_left_as_they_are(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text('[task]\nname = "nim"\n[model]\nsource = "org/model"\n')
    assert load(path).model.source == "org/model"
    assert load(path).task.name == "nim"


@pytest.mark.parametrize(
    ("assignment", "section", "name", "value"),
    [
        ("train.learning_rate=3e-4", "train", "learning_rate", 3e-4),
        ("train.kl = 1", "train", "kl", 1.0),
        ("run.steps=1e2", "run", "steps", 100),
        ("credit.normalise=True", "credit", "normalise", True),
        ("train.normaliser=grpo", "train", "normaliser", "grpo"),
        ("train.betas=[0.8, 0.95]", "train", "betas", (0.8, 0.95)),
        ("lora.layers=q_proj, v_proj", "lora", "layers", ["q_proj", "v_proj"]),
        ('lora.layers=["q_proj"]', "lora", "layers", ["q_proj"]),
        ("lora.layers=", "lora", "layers", []),
        ("model.source=123", "model", "source", "123"),
        ("eval.metric=", "eval", "metric", ""),
    ],
)
def test_set_reads_text_as_the_keys_type(assignment, section, name, value):
    found = getattr(getattr(override(parse(NIM, ""), [assignment]), section), name)
    assert found == value
    assert type(found) is type(value)


def test_set_reaches_roles_and_task_options():
    assignments = ["roles.First.prompt=a = b", "task.options.openings=3", "task.options.notation=words"]
    config = override(parse(NIM, ""), assignments)
    assert config.roles["First"].prompt == "a = b"
    assert config.task.options == {"openings": 3, "notation": "words"}


def test_an_empty_text_leaves_an_optional_key_to_its_default():
    config = set_value(parse({**NIM, "roles": {"First": {"temperature": 0.5}}}, ""), "roles.First.temperature", "")
    assert config.roles["First"].temperature is None


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        (
            "train.learning_rate=fast",
            "--set: train.learning_rate: wants a number above 0 and at most 1, not 'fast'",
        ),
        ("train.learning_rate=2", "--set: train.learning_rate: wants a number above 0 and at most 1, not 2"),
        ("train.lr=1", "--set: train.lr: no such key"),
        ("learning_rate=1", "--set: learning_rate: no such key; did you mean train.learning_rate?"),
        ("run.steps=1.5", "--set: run.steps: wants a whole number of at least 1, not 1.5"),
        ("run.steps=", "--set: run.steps: wants a whole number of at least 1, not ''"),
        ("roles.First.logit_bias=yes", "--set: roles.First.logit_bias: wants a table of numbers, not 'yes'"),
        ("roles.First.logit_bias={yes='a'}", "--set: roles.First.logit_bias: wants a table of numbers, not 'a'"),
        ("roles.First.logit_bias.yes=1", "--set: roles.First.logit_bias.yes: no such key"),
        ("roles.First.stop=3", "--set: roles.First.stop: wants a list of texts, not 3"),
        ("run=1", "--set: run: is a section; its keys are run.steps, run.seed"),
        ("roles.First=1", "--set: roles.First: is a section"),
        ("roles..prompt=x", "--set: roles..prompt: no such key"),
        ("steps", "--set steps: wants key=value"),
        ("task.options.openings.deep=1", "--set: task.options.openings.deep: openings is a value, not a table"),
        ("roles.First.prompt=\udcff", "--set: roles.First.prompt: wants text in UTF-8"),
    ],
)
def test_a_wrong_override_is_explained(assignment, message):
    base = parse({"task": {"name": "nim", "options": {"openings": 3}}}, "")
    with pytest.raises(ConfigError) as caught:
        override(base, [assignment])
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ("train.learning_rate=3e-4", "0.0003"),
        ("train.betas=[0.8, 0.95]", "[0.8, 0.95]"),
        ("lora.layers=q_proj,v_proj", '["q_proj", "v_proj"]'),
        ("lora.layers=", "[]"),
        ("credit.normalise=true", "true"),
        ("run.steps=5", "5"),
        ("eval.metric=", ""),
        ("roles.First.prompt=a\nb", "a\nb"),
        ("roles.First.temperature=", ""),
        ("roles.First.logit_bias={yes=2.0, ' a.b'=-1}", '{ "yes" = 2.0, " a.b" = -1.0 }'),
        ("roles.First.logit_bias={}", "{}"),
        ("roles.First.logit_bias=", ""),
        ('roles.First.stop=["\\n", "a, b"]', '["\\n", "a, b"]'),
        ("roles.First.stop=END, STOP", '["END", "STOP"]'),
        ("roles.First.stop=[]", "[]"),
        ("roles.First.seconds=2.5", "2.5"),
        ("roles.First.constrained=true", "true"),
        ("task.options.notation=words", '"words"'),
    ],
)
def test_a_value_as_text_is_read_back_the_same(assignment, text):
    name = assignment.partition("=")[0]
    config = override(parse(NIM, ""), [assignment])
    assert value_text(config, name) == text
    assert set_value(config, name, text) == config


def test_a_table_with_quotes_and_line_breaks_is_read_back_the_same():
    config = parse({**NIM, "roles": {"First": {"logit_bias": {'"\n': 1e-3, "": -2.0}, "stop": ["\r\n", "'"]}}}, "")
    for name in ("roles.First.logit_bias", "roles.First.stop"):
        text = value_text(config, name)
        assert "\n" not in text
        assert set_value(parse(NIM, ""), name, text).roles["First"].model_dump(exclude_none=True) == {
            name.rpartition(".")[2]: getattr(config.roles["First"], name.rpartition(".")[2])
        }
    assert parse(tomllib.loads(dump(config)), "") == _resolved(config)


def test_a_key_that_was_never_set_has_an_empty_text():
    assert value_text(parse(NIM, ""), "roles.First.temperature") == ""
    with pytest.raises(ConfigError, match="no such key"):
        value_text(parse(NIM, ""), "roles.First.temprature")


def test_an_override_leaves_the_original_as_it_was():
    base = parse({"task": {"name": "nim", "options": {"openings": 3}}}, "")
    override(base, ["task.options.openings=5", "run.steps=7"])
    assert base.task.options == {"openings": 3}
    assert base.run.steps == 100


@pytest.mark.parametrize(
    "prompt", ["", "two\nlines\n", 'quotes """ and \\ and \'', "tab\t\r\nreturn", "\x1b[2J né 🂡"]
)
def test_a_dumped_configuration_is_read_back_the_same(prompt):
    config = override(parse(NIM, ""), ["train.betas=[0.5, 0.6]", "task.options.openings=3", "train.kl=1e-9"])
    config = set_value(config, "roles.First.prompt", prompt)
    assert parse(tomllib.loads(dump(config)), "") == _resolved(config)


def _resolved(config: Config) -> Config:
    """An empty optional key is the same as none."""
    return Config.model_validate(config.model_dump(exclude_none=True))


def test_a_saved_file_is_whole_and_leaves_nothing_beside_it(tmp_path: Path):
    config = parse(NIM, "")
    save(config, tmp_path / "deep" / "mine.toml")
    save(override(config, ["run.steps=5"]), tmp_path / "deep" / "mine.toml")
    assert load(tmp_path / "deep" / "mine.toml").run.steps == 5
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["mine.toml"]


def test_every_key_has_a_sentence_and_a_right_default():
    assert len(KEYS) > 40
    assert all(k.description.endswith(".") for k in KEYS)
    for k in KEYS:
        assert key(k.name.replace("*", "any")) == k
        if k.choices:
            assert k.default in k.choices


def test_the_engine_is_configured_without_loading_a_model_library():
    import subprocess
    import sys

    code = "import sys, engine.config, engine.store; print({'mlx', 'transformers', 'textual'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"
