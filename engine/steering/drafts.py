"""A configuration being written: keys changed as text, what is wrong with each, what to keep in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tomli_w
from pydantic import ValidationError

from engine.config import Config, inline, key, problem_of, read_value
from engine.keys import Key


def edited(
    config: Config, changes: Mapping[str, str | None], kinds: Mapping[str, Key] | None = None
) -> tuple[Config | None, dict[str, str]]:
    """The configuration with keys changed, and what is wrong by key: one of them is None or empty.

    A text is read as `set_value` does, and None leaves the key out. `kinds` has the keys that the schema leaves
    open, such as a task's options.
    """
    values = config.model_dump(exclude_unset=True)
    problems: dict[str, str] = {}
    for name, text in changes.items():
        try:
            _change(values, name, text, (kinds or {}).get(name) or key(name))
        except ValueError as error:
            problems[name] = f"{error}"
    try:
        made = Config.model_validate(values)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            name, _, problem = problem_of(detail).partition(": ")
            problems.setdefault(name, problem)
        return None, problems
    return (None, problems) if problems else (made, {})


def _change(values: dict[str, Any], name: str, text: str | None, target: Key) -> None:
    *sections, last = name.split(".")
    inner = values
    for section in sections:
        inner = inner.setdefault(section, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{section} is a value, not a table")
    if text is None:
        inner.pop(last, None)
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("wants text in UTF-8") from None
    inner[last] = read_value(target, text)


def brief(config: Config) -> str:
    """As TOML, only what differs from the defaults: `parse` gives the same configuration back."""
    values = config.model_dump(exclude_defaults=True)
    return tomli_w.dumps(values, multiline_strings="\\r" not in repr(values))


def text_of(value: Any, kind: type) -> str:
    """A value as `edited` would read it back for a key of that kind; empty where there is none."""
    if value is None:
        return ""
    return value if kind is str and isinstance(value, str) else inline(value)


def differences(configs: Sequence[Config]) -> dict[str, list[str]]:
    """The keys that aren't the same in all of these, and each one's value as TOML; empty where it has none."""
    flat = [dict(_leaves(config.model_dump(exclude_none=True), "")) for config in configs]
    names = dict.fromkeys(name for values in flat for name in values)
    texts = {name: [inline(values[name]) if name in values else "" for values in flat] for name in names}
    return {name: values for name, values in texts.items() if len(set(values)) > 1}


def _leaves(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        elif value != {}:
            yield f"{prefix}{name}", value
