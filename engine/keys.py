"""What a schema says, key by key: for error messages, for a form, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a schema."""

    name: str
    """Dotted, such as `"train.learning_rate"`; `*` stands for any name (`"roles.*.prompt"`)."""
    kind: type
    """`bool`, `int`, `float`, `str`, `list`, `tuple`, `dict`, or `object` where anything goes."""
    wants: str
    """What a right value is, such as `"a number above 0 and at most 1"`."""
    default: Any
    """The default value, or None where there is none."""
    required: bool
    optional: bool
    """Whether it may be left empty."""
    choices: tuple[str, ...]
    description: str

    def matches(self, name: str) -> bool:
        """Whether a dotted name is this key. Below `task.options` any depth of names is."""
        pattern, parts = self.name.split("."), name.split(".")
        if self.kind is object and len(parts) > len(pattern):
            parts = parts[: len(pattern)]
        return len(parts) == len(pattern) and all(
            part and want in ("*", part) for part, want in zip(parts, pattern, strict=True)
        )

    def is_in(self, section: str) -> bool:
        """Whether this key lies in the section of that dotted name."""
        pattern, parts = self.name.split("."), section.split(".")
        return len(parts) < len(pattern) and all(
            part and want in ("*", part) for part, want in zip(parts, pattern, strict=False)
        )


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[Key]:
    """Every key a schema has, in its order."""
    for name, info in section.model_fields.items():
        path = f"{prefix}{name}"
        annotation = info.annotation
        if get_origin(annotation) is UnionType:  # a section that may be left out
            sections = [a for a in get_args(annotation) if isinstance(a, type) and issubclass(a, BaseModel)]
            annotation = sections[0] if sections else annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from keys(annotation, f"{path}.")
        elif get_origin(annotation) is dict:
            value = get_args(annotation)[1]
            if isinstance(value, type) and issubclass(value, BaseModel):
                yield from keys(value, f"{path}.*.")
            else:
                wants = WANTS.get(value, WANTS[object])
                yield Key(f"{path}.*", object, wants, None, False, True, (), info.description or "")
        else:
            yield _key(path, info)


def _key(path: str, info: FieldInfo) -> Key:
    annotation, optional = info.annotation, False
    if get_origin(annotation) in (Union, UnionType):
        annotation, optional = next(a for a in get_args(annotation) if a is not type(None)), True
    choices = tuple(get_args(annotation)) if get_origin(annotation) is Literal else ()
    kind = str if choices else (get_origin(annotation) or annotation)
    if not isinstance(kind, type) or kind not in KINDS:  # Any, say
        kind = object
    if choices:
        wants = "one of " + ", ".join(choices)
    elif kind in (list, dict):
        item = next(reversed(get_args(annotation)), str)
        item = get_args(item)[0] if get_origin(item) is Annotated else item
        wants = f"a {'list' if kind is list else 'table'} of {PLURALS.get(item, 'values')}"
    elif kind is tuple:
        items = get_args(annotation)
        limits = getattr(items[0], "__metadata__", ())
        wants = f"{len(items)} numbers{_bounds(limits[0].metadata if limits else [])}"
    else:
        wants = WANTS[kind] + _bounds(info.metadata)
    required = info.is_required()
    default = None if required else info.get_default(call_default_factory=True)
    return Key(path, kind, wants, default, required, optional, choices, info.description or "")


WANTS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    object: "any TOML value",
}
PLURALS = {str: "texts", int: "whole numbers", float: "numbers", dict: "tables"}
KINDS = (*WANTS, list, tuple, dict)


def _bounds(metadata: list[Any]) -> str:
    limits = {
        sign: f"{limit:g}" if isinstance(limit, float) else f"{limit}"
        for constraint in metadata
        for sign in ("ge", "gt", "le", "lt")
        if (limit := getattr(constraint, sign, None)) is not None
    }
    if limits.keys() == {"ge", "le"}:
        return f" from {limits['ge']} to {limits['le']}"
    words = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
    phrases = [f"{words[sign]} {limit}" for sign, limit in limits.items()]
    return " " + " and ".join(phrases) if phrases else ""
