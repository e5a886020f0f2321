"""Imports go one way: the app knows the engine and not the other way round, and no two modules need each other."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import engine

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "tasks", "presets", "tui")


def modules() -> dict[str, Path]:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    dotted = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def imported(statements: list[ast.stmt], known: dict[str, Path]) -> Iterator[str]:
    """What is imported when a module is, of what is `known`: not what only a type checker or a function imports."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names if alias.name in known)
        elif isinstance(statement, ast.ImportFrom):
            below = [f"{statement.module}.{alias.name}" for alias in statement.names]
            yield from (name if name in known else statement.module or "" for name in below)


def graph() -> dict[str, set[str]]:
    known = modules()
    return {
        name: set(imported(ast.parse(path.read_text(encoding="utf-8")).body, known)) & known.keys() - {name}
        for name, path in known.items()
    }


def test_no_two_modules_need_each_other():
    assert list(TopologicalSorter(graph()).static_order())


def test_the_engine_knows_neither_app_nor_tasks_nor_presets():
    for name, path in modules().items():
        if name.partition(".")[0] == "engine":
            tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            names = [
                found
                for node in tree
                if isinstance(node, ast.Import | ast.ImportFrom)
                for found in (
                    [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                )
            ]
            assert not {found.partition(".")[0] for found in names} & {"tui", "tasks", "presets"}, name


def test_nothing_that_the_engine_exports_is_hidden_by_a_module_of_that_name():
    assert not {module.name for module in pkgutil.iter_modules(engine.__path__)} & set(engine.__all__)
