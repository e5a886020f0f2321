"""The documentation keeps up with what it documents."""

from __future__ import annotations

import importlib.util
import itertools
import pkgutil
import re
import tomllib
from pathlib import Path

import presets
import tasks
from engine import Arena, GameTask, GRPOCredit
from engine.assembly import arena_of
from engine.config import parse
from engine.inference.scripted import ScriptedClient
from engine.mixture import task_of
from engine.task import load_task
from tests.scripted_run import ScriptedRun
from tui.actions import ACTIONS, key_name
from tui.cli.arguments import parser
from tui.headless import result

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


TASKS = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
RECIPES = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")


def code_blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_table_of_configuration_keys_is_that_of_the_schema():
    path = ROOT / "docs" / "configuration.py"
    spec = importlib.util.spec_from_file_location("configuration", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run: uv run python docs/configuration.py"


def test_the_readmes_preset_is_right():
    [text] = code_blocks("toml")
    config = parse(tomllib.loads(text), "README.md")
    task = task_of(config).parts[""].task
    assert isinstance(task, GameTask)
    assert set(config.roles) <= set(task.game.seats)


def test_the_readmes_task_is_the_one_that_new_task_writes():
    [text] = code_blocks("python")
    assert text == (ROOT / "tui" / "new_task" / "episode" / "signals.py").read_text(encoding="utf-8")


async def test_the_proposer_in_the_documentation_is_paid_for_half_solved_sums(tmp_path: Path):
    [text] = [block for block in code_blocks("python", TASKS) if "class Sums(" in block]
    (tmp_path / "sums.py").write_text(text)
    answers = itertools.cycle(["42", "41"])
    client = ScriptedClient(
        lambda messages, player, rng: "17 25" if "Two" in messages[-1]["content"] else next(answers)
    )
    arena = Arena(client, credit=GRPOCredit())
    task = load_task("./sums.py:Sums", {}, folder=tmp_path)
    task.setup(arena)
    [result] = await arena.generate_rollouts(task.requests(arena, 1))
    assert result.rollout.error is None
    assert result.rewards == {"Proposer": 1.0}
    assert [child.rewards["Solver"] for child in result.children] == [1.0, 0.0, 1.0, 0.0]
    assert {record.role for record in arena.records([result])} == {"Solver"}
    assert (await task.evaluate(arena, 4, "eval-0")).keys() == {"solved"}


def test_every_preset_is_in_the_documentation():
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \|", README, re.MULTILINE)) >= set(presets.FIRST)
    assert set(re.findall(r"`([a-z0-9_]+-(?:pocket|smollm2|qwen))`", TASKS)) == set(presets.BUILT_IN)


def test_every_task_has_a_section():
    headings = set(re.findall(r"^## `([a-z0-9_]+)`$", TASKS, re.MULTILINE))
    assert headings == {module.name for module in pkgutil.iter_modules(tasks.__path__) if not module.ispkg}


def test_the_keys_in_the_readme_are_the_apps():
    table = README.split("## Keys")[1].split("##")[0]
    shown = {key for row in table.splitlines() for key in re.findall(r"`([^`]+)`", row) if key != "…"}
    known = {key_name(key) for action in ACTIONS for key in action.keys.split(",")}
    known |= {key for action in ACTIONS for key in action.keys.split(",")}
    assert shown <= known


def test_the_json_keys_in_the_readme_are_those_printed(tmp_path: Path):
    sentence = README.split("one JSON object: ")[1].split(".\n")[0].split(". ")[0]
    assert re.findall(r"`(\w+)`", sentence) == list(result(ScriptedRun(tmp_path / "r")))


def test_the_recipes_are_right():
    blocks = code_blocks("toml", RECIPES)
    assert len(blocks) > 8
    for block in blocks:
        config = parse(tomllib.loads(f'task.name = "nim"\n{block}'), "recipes.md")
        arena_of(config, task_of(config))


def test_every_command_line_in_the_readme_and_the_recipes_parses():
    lines = [line for block in code_blocks("sh") for line in block.splitlines() if " selfplay-tui" in line]
    assert len(lines) > 4
    lines += [line for block in code_blocks("sh", RECIPES) for line in block.splitlines()]
    for line in lines:
        words = [word.strip('"') for word in line.split("selfplay-tui", 1)[1].split()]
        parser().parse_args(words)
