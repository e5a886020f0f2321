"""A user's own keys, from a TOML file: a table a screen, an action a line.

    [run]
    pause = "f9"
    prompts = "p,e"

`selfplay-tui keys` prints the whole table in this form. What is wrong is told with the file, the action's name and
the nearest one there is, and the keys of that action stay as they were; the rest of the file counts.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tui.actions import ACTIONS, SCOPES, Action, actions

FILE = "keys.toml"

MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")


@dataclass(slots=True)
class Keymap:
    """What a file says."""

    keys: dict[str, str] = field(default_factory=dict)
    """Action's id → keys, as Textual writes them, separated by commas."""
    problems: list[str] = field(default_factory=list)
    """A sentence each."""


def path() -> Path:
    """The user's file. It need not exist."""
    from platformdirs import user_config_path

    return user_config_path("selfplay-tui") / FILE


def read(file: Path) -> Keymap:
    """The keymap in a file; an empty one where there is no file."""
    try:
        text = file.read_text()
    except FileNotFoundError:
        return Keymap()
    except (OSError, UnicodeDecodeError) as error:
        return Keymap(problems=[f"{file}: {getattr(error, 'strerror', None) or error}"])
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Keymap(problems=[f"{file}: {error}"])
    made = parse(tables)
    made.problems = [f"{file}: {problem}" for problem in made.problems]
    return made


def parse(tables: Mapping[str, object]) -> Keymap:
    """The keymap that tables of scope → action → keys say."""
    made = Keymap()
    for scope, table in tables.items():
        if scope not in SCOPES:
            made.problems.append(f"there is no table [{scope}]{_nearest(scope, SCOPES)}")
        elif not isinstance(table, dict):
            made.problems.append(f"{scope} wants to be a table of actions: [{scope}]")
        else:
            _read_table(scope, table, made)
    _refuse_clashes(made)
    return made


def in_force(app: object) -> Mapping[str, str]:
    """The keys that the user of an app gave to actions."""
    keymap = getattr(app, "keys", None)
    return keymap.keys if isinstance(keymap, Keymap) else {}


def to_toml(keymap: Mapping[str, str] | None = None) -> str:
    """The whole table as such a file, with what each action does."""
    lines = []
    for scope, title in SCOPES.items():
        table = [(f"{a.name} = {json.dumps(a.keys_in(keymap or {}))}", a.help) for a in actions(scope)]
        wide = max((len(entry) for entry, _ in table), default=0)
        lines += [f"[{scope}]  # {title}", *(f"{entry:<{wide}}  # {words}" for entry, words in table), ""]
    return "\n".join(lines)


def _read_table(scope: str, table: dict[str, object], made: Keymap) -> None:
    known = {action.name: action for action in ACTIONS if action.scope == scope}
    for name, keys in table.items():
        action = known.get(name)
        if action is None:
            made.problems.append(f"[{scope}] has no action {name}{_nearest(name, known)}")
            continue
        if not isinstance(keys, str) or not keys.strip():
            made.problems.append(f'{action.id} wants keys as text, such as "{action.keys}", not {keys!r}')
            continue
        each = [_long(key.strip()) for key in keys.split(",")]
        wrong = [key for key in each if not _is_key(key)]
        for key in wrong:
            made.problems.append(f'{action.id}: there is no key "{key}"{_nearest(key, _names())}')
        if not wrong:
            made.keys[action.id] = ",".join(each)


def _refuse_clashes(made: Keymap) -> None:
    """Takes back what would give one key two meanings in one place."""
    while clash := next(_clashes(made.keys), None):
        key, one, other = clash
        loser = one if one.id in made.keys else other
        winner = other if loser is one else one
        made.problems.append(
            f'{loser.id}: "{key}" is the key of {winner.id} already; give that one another key too'
        )
        del made.keys[loser.id]


def _clashes(keys: Mapping[str, str]) -> Iterator[tuple[str, Action, Action]]:
    taken: defaultdict[str, list[Action]] = defaultdict(list)
    for action in ACTIONS:
        for key in action.keys_in(keys).split(","):
            for before in taken[key]:
                meet = before.scope == action.scope or "app" in (before.scope, action.scope)
                ours = key in before.keys.split(",") and key in action.keys.split(",")  # a screen's goes first
                if meet and not ours:
                    yield key, action, before
            taken[key].append(action)


def _long(key: str) -> str:
    """`"?"` and `"ctrl+/"` as Textual calls them."""
    from textual.keys import _character_to_key

    *modifiers, last = key.split("+") if not key.endswith("+") else [*key[:-1].rstrip("+").split("+"), "+"]
    last = _character_to_key(last) if len(last) == 1 else last.lower()
    return "+".join([*(m.lower() for m in modifiers if m), last])


def _is_key(key: str) -> bool:
    *modifiers, last = key.split("+")
    named = (len(last) == 1 and last.isprintable()) or last in _names()
    return named and len(set(modifiers)) == len(modifiers) and all(modifier in MODIFIERS for modifier in modifiers)


@cache
def _names() -> frozenset[str]:
    """Names of keys that aren't letters or digits."""
    from textual.keys import Keys, _character_to_key

    signs = {_character_to_key(chr(code)) for code in range(0x20, 0x7F)}
    special = {key.value for key in Keys if not key.value.startswith("<") and "+" not in key.value}
    return frozenset(name for name in signs | special if len(name) > 1)


def _nearest(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(found)}?" if found else ""
