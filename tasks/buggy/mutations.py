"""Edits that change one token, as mutation testing has them: what a constrained role chooses among.

Each can be undone by another, so that a bug made of one can be repaired by one.
"""

from __future__ import annotations

import ast
import io
import random
import tokenize
from collections.abc import Iterator
from functools import lru_cache

from tasks.buggy import HELD_OUT, MODULES, SOURCES, edited

PAIRS = (
    ("+", "-"), ("*", "//"), ("<", "<="), (">", ">="), ("<", ">"), ("<=", ">="), ("==", "!="), ("and", "or"),
    ("min", "max"), ("True", "False"), ("+=", "-="), ("continue", "break"),
)  # fmt: skip
"""Tokens that take each other's place."""
FUNCTIONS = {module: [f.name for f in ast.parse(SOURCES[module]).body if isinstance(f, ast.FunctionDef)]
             for module in MODULES}  # fmt: skip
DRAWN = 12
"""Mutations that repairs are measured by."""


def part(source: str, function: str) -> str:
    """The lines of one function; of all, where none is named or the module has none of that name any more."""
    if function:
        found = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
        for node in found:
            if node.name == function:
                return "".join(source.splitlines(keepends=True)[node.lineno - 1 : node.end_lineno])
    return source


@lru_cache(maxsize=256)  # all who repair one bug ask for the same
def mutations(source: str, function: str = "") -> list[str]:
    """The edits of a module, or of one of its functions, that change one token and fit: as replies."""
    return [
        edit
        for edit, back in _edits(part(source, function))
        if (after := edited(source, edit)) and edited(after, back) == source and _is_python(after)
    ]


def drawn() -> list[tuple[str, str, str]]:
    """(module, function, source) of mutations, always the same, every second one of a module held out."""
    rng, made = random.Random("mutations 1"), []  # a seed of which every one is a bug: some change nothing
    while len(made) < DRAWN:
        among = HELD_OUT if len(made) % 2 else [module for module in MODULES if module not in HELD_OUT]
        module = rng.choice(among)
        function = rng.choice(FUNCTIONS[module])
        edits = mutations(SOURCES[module], function)
        source = edited(SOURCES[module], rng.choice(edits)) if edits else None
        if source and (module, function, source) not in made:
            made.append((module, function, source))
    return made


def _edits(source: str) -> Iterator[tuple[str, str]]:
    """Each edit with the one that undoes it."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        for other in _others(token):
            line = token.line
            changed = line[:column] + other + line[column + len(token.string) :]
            if token.end[0] == row and "\n" not in line[:-1]:
                yield _edit(line, changed), _edit(changed, line)


def _others(token: tokenize.TokenInfo) -> list[str]:
    if token.type == tokenize.NUMBER and token.string.isdigit():
        number = int(token.string)
        return [str(other) for other in (number - 1, number + 1) if other >= 0]
    if token.type in (tokenize.OP, tokenize.NAME):
        return [b if a == token.string else a for a, b in PAIRS if token.string in (a, b)]
    return []


def _is_python(source: str) -> bool:
    """False for `f(//args)`: not every star is a product."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _edit(old: str, new: str) -> str:
    return f"<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE"
