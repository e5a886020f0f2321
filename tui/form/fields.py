"""The fields of a form: every key of the schema that a configuration has or may have, with its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.config import KEYS, Config
from engine.keys import Key
from engine.options import Options
from engine.steering.drafts import text_of
from engine.types import Role

GENERAL = "general"
"""The group of the keys that are in no section."""

SECTIONS = (GENERAL, *dict.fromkeys(key.name.partition(".")[0] for key in KEYS if "." in key.name))
"""All sections, in the order of the schema."""

YES_NO = ("false", "true")

LONG = "roles.*.prompt"
"""Keys whose texts have lines."""


@dataclass(slots=True)
class Field:
    """One key: what it is, what it was when the form was opened, and its text now."""

    name: str
    """Dotted, such as `"roles.First.max_tokens"`."""
    group: str
    """The section it stands in, such as `"roles.First"`."""
    key: Key
    start: str
    """Its text when the form was opened."""
    default: str
    """The schema's, or the task's for its options; empty where there is none."""
    own: str = ""
    """What is in force where it is left out, if that isn't the default: the task's own prompt."""
    text: str = ""
    problem: str = ""
    """What is wrong with the text, and would be right."""
    is_long: bool = False
    choices: tuple[str, ...] = field(default=())

    @property
    def label(self) -> str:
        return self.name.removeprefix(f"{self.group}.")

    @property
    def is_changed(self) -> bool:
        return self.text != self.start


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What only the tasks themselves can tell of a configuration."""

    options: Mapping[str, Options] = field(default_factory=dict)
    """What each part takes, by its name; the part of `[task]` has none."""
    rewards: Mapping[str, Options] = field(default_factory=dict)
    """What the function of each table in `[rewards]` takes, where it is no function of the task's own."""
    functions: tuple[str, ...] = ()
    """The names of the tasks' own reward functions."""
    roles: Mapping[str, Role] = field(default_factory=dict)
    """Its roles, as the task has them where the configuration says nothing."""
    problem: str = ""
    """Why the configuration can't be played, in a sentence."""


def fields(config: Config, facts: TaskFacts) -> list[Field]:
    """The fields of a configuration, in the order of the schema."""
    values = config.model_dump(exclude_none=True)
    found: list[Field] = []
    for section, keys in _sections().items():
        for name in _names(section, config, facts):
            place = f"{section}.{name}" if name else section
            for key in keys:
                rest = key.name.removeprefix(f"{section}.").removeprefix("*.")
                if rest == "options.*":
                    taker = facts.rewards.get(name) if section == "rewards" else facts.options.get(name)
                    found += _options(place, values, taker, key)
                else:
                    found.append(
                        _field(f"{place}.{rest}" if section != GENERAL else rest, place, key, values, facts)
                    )
    return found


def _sections() -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key in KEYS:
        section, dot, _ = key.name.partition(".")
        found.setdefault(section if dot else GENERAL, []).append(key)
    return found


def _names(section: str, config: Config, facts: TaskFacts) -> list[str]:
    """The tables there are in a section of tables, or one without a name. With a dot it can't be part of a key."""
    match section:
        case "task":
            return [""] if config.task is not None else []
        case "tasks":
            names = list(config.tasks)
        case "roles":
            names = list(dict.fromkeys([*facts.roles, *config.roles]))
        case "rewards":
            names = list(config.rewards)
        case _:
            return [""]
    return [name for name in names if name and "." not in name]


def _field(name: str, group: str, key: Key, values: Mapping[str, Any], facts: TaskFacts) -> Field:
    text = text_of(_at(values, name), key.kind)
    made = Field(name, group, key, text, text_of(key.default, key.kind), text=text)
    made.is_long = key.name == LONG
    made.choices = YES_NO if key.kind is bool and not key.optional else key.choices
    if key.optional and (key.kind is bool or key.choices):
        made.choices = ("", *(YES_NO if key.kind is bool else key.choices))
    role = facts.roles.get(group.removeprefix("roles.")) if group.startswith("roles.") else None
    if role is not None:
        made.own = _own(role, "system_prompt" if made.is_long else made.label, key.kind)
    return made


def _own(role: Role, name: str, kind: type) -> str:
    value = getattr(role, name, None)
    if isinstance(value, tuple):
        value = (dict(value) if kind is dict else list(value)) or None
    return text_of(value, kind)


def _options(place: str, values: Mapping[str, Any], schema: Options | None, any_key: Key) -> Iterator[Field]:
    """Those that their taker names, and those that are there without a name of its."""
    keys = {key.name: key for key in schema.keys} if schema else {}
    there = _at(values, f"{place}.options") or {}
    for name in dict.fromkeys([*keys, *there]):
        if "." in name:
            continue
        key = keys.get(name) or replace(any_key, description="")
        text = text_of(there.get(name, key.default), key.kind)
        made = Field(f"{place}.options.{name}", place, key, text, text_of(key.default, key.kind), text=text)
        made.choices = YES_NO if key.kind is bool else key.choices
        yield made


def _at(values: Any, name: str) -> Any:
    for part in name.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values
