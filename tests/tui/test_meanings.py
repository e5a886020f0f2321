"""Every metric that a run emits has a sentence."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import presets
from engine import config, matches, progress
from engine.training import learner, measures
from tui.metrics.meanings import FAMILIES, OWN, TABLE, is_known, meaning

ROOT = Path(__file__).parents[2]


NOT_METRICS = {"debate": {"motion", "opens"}, "elo_arena": {"ratings"}, "red_blue": {"Defender"}}
"""Keys in an evaluation that are of something else, by task."""


def names_written(source: str) -> set[str]:
    """The names of metrics in the source of what makes them: keys of dictionaries, and keys that are assigned."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(textwrap.dedent(source))):
        if isinstance(node, ast.Dict):
            found |= {text for key in node.keys if (text := written(key))}
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and (text := written(target.slice)):
                    found.add(text)
    return found


def written(node: ast.expr | None) -> str:
    """A string, with `x` for what is put into it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
    return ""


def evaluations() -> Iterator[tuple[str, str]]:
    """(module, source) of each function `evaluate` of the built-in tasks."""
    for path in sorted([*(ROOT / "tasks").glob("*.py"), ROOT / "engine" / "task.py"]):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.AsyncFunctionDef) and node.name == "evaluate":
                yield path.stem, ast.get_source_segment(source, node) or ""


@pytest.mark.parametrize(
    "made_by",
    [measures.Measures.metrics, learner.Learner.step, progress.step_metrics],
)
def test_every_metric_of_a_step_has_a_meaning(made_by: Callable[..., object]) -> None:
    found = names_written(inspect.getsource(made_by)) - {"ratio", "entropies", "mismatch"}
    assert found
    assert {name for name in found if not is_known(name)} == set()


def test_what_tells_that_anything_was_learnt_has_a_meaning() -> None:
    found = re.findall(r'"(\w+_norm)"', inspect.getsource(learner.Learner._norm_of_learnt))
    assert len(found) == 2  # of an adapter, and of whole weights
    assert all(map(is_known, found))


def test_metrics_that_are_summed_have_a_meaning() -> None:
    assert all(is_known(name) for name in measures.SUMMED)


@pytest.mark.parametrize(("task", "source"), [*evaluations()], ids=lambda value: value if "\n" not in value else "")
def test_every_metric_of_a_built_in_evaluation_has_a_meaning(task: str, source: str) -> None:
    found = {name for name in names_written(source) if name.isidentifier()}
    unknown = {name for name in found if not is_known(f"eval/{name}")}
    assert unknown <= NOT_METRICS.get(task, set())


def test_standings_have_a_meaning() -> None:
    assert all(is_known(f"eval/{name}") for name in matches.standing([], "random"))


def test_the_metric_that_counts_has_a_meaning_in_every_preset() -> None:
    counted = {
        config.load(presets.find(path.stem)).eval.metric for path in sorted((ROOT / "presets").glob("*.toml"))
    }
    assert len(counted) > 5
    assert {name for name in counted if name and not is_known(f"eval/{name}")} == set()


def test_sentences_are_short_and_begin_large() -> None:
    for family, table in TABLE.items():
        assert family in FAMILIES
        for name, words in table.items():
            assert words[0].isupper() or words[0].isdecimal(), name
            assert not words.endswith("."), name
            assert len(words) < 100, name


def test_what_is_measured_of_one_task_or_of_the_average_is_said_so() -> None:
    plain = meaning("eval/nash_conv").words
    assert meaning("eval/kuhn/average_nash_conv").words == f"{plain}; of the policy's average; task kuhn"
    assert meaning("eval/something_new").words == OWN
    assert not is_known("eval/kuhn/something_new")


def test_roles_of_several_tasks_are_told_from_functions() -> None:
    assert meaning("reward/First/outcome").words.startswith("What outcome gave First")
    roles = ("kuhn/First", "nim/First")
    assert meaning("reward/kuhn/First", roles).words.startswith("Mean reward of kuhn · First")
    assert meaning("reward/kuhn/First/outcome", roles).words.startswith("What outcome gave kuhn · First")


def test_an_unknown_metric_is_listed_without_a_claim() -> None:
    assert meaning("something_new").words == "Recorded by the run under this name"
