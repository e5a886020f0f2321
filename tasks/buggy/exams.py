"""What repairs are measured by: bugs that no role is trained on."""

from __future__ import annotations

from tasks.buggy import SOURCES, code_of
from tasks.buggy.bugs import BUGS
from tasks.buggy.mutations import FUNCTIONS, drawn, part


def _function_of(module: str, line: str) -> str:
    """The function in which a line of a module stands."""
    return next(name for name in FUNCTIONS[module] if line in part(SOURCES[module], name))


EXAMS: dict[str, list[tuple[str, str, str]]] = {
    "written": [
        (module, _function_of(module, right), SOURCES[module].replace(right, wrong))
        for module, right, wrong in BUGS
    ],
    "mutations": drawn(),
}
"""Module, function and source of each bug; every second one in a module that training never shows."""
ANSWERS = frozenset(code_of(source) for bugs in EXAMS.values() for _, _, source in bugs)
"""All of them, however they are spaced: a role that comes upon one by itself isn't trained on it."""
