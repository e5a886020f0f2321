"""What may be said to whoever takes keyword options, such as a task: their signature, read as a schema.

    def __init__(self, *, samples: Annotated[int, Between(1, 64)] = 8, style: Literal["short", "long"] = "short")

takes a preset's `options` only if they fit; who is made from them need not check them again.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

from annotated_types import Interval

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from engine.keys import Key


def Between(least: float | None = None, most: float | None = None) -> Interval:
    """Bounds of a number in `Annotated[int, Between(1, 64)]`, both included; None leaves a side open."""
    return Interval(ge=least, le=most)


Count = Annotated[int, Between(1, 100_000)]
"""A whole number from 1."""
Share = Annotated[float, Between(0.0, 1.0)]
"""A number from 0 to 1."""

FIELD = "option_"
"""Before the names of pydantic's fields, as it keeps some, such as `json`, for itself."""


class Options:
    """What `taker` can be called with as keywords, read from its signature once."""

    def __init__(self, taker: Callable[..., Any]) -> None:
        from pydantic import ConfigDict, Field, create_model  # 0.2 s, and nothing before needs it

        parameters = inspect.signature(taker).parameters.values()
        self._hints = _hints(taker)
        fields: dict[str, Any] = {
            FIELD + p.name: (
                self._hints.get(p.name, Any),
                Field(... if p.default is p.empty else p.default, alias=p.name),
            )
            for p in parameters
            if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        }
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        strict = ConfigDict(
            strict=True, extra="allow" if takes_any else "forbid", arbitrary_types_allowed=True, allow_inf_nan=False
        )
        self._schema = create_model("Options", __config__=strict, **fields)
        self._help = _help(taker)

    @cached_property
    def keys(self) -> tuple[Key, ...]:
        """Its options as keys of a schema, each with the words on it in the docstring of its taker."""
        from engine.keys import keys

        fields = self._schema.model_fields
        return tuple(_option(key, fields[key.name.partition(".")[0]], self._help) for key in keys(self._schema))

    def problems(self, options: Mapping[str, Any]) -> dict[str, str]:
        """What is wrong with `options` and would be right, by option; of one, the first thing."""
        from pydantic import ValidationError

        try:
            self._schema.model_validate(
                {name: _as_taken(value, self._hints.get(name)) for name, value in options.items()}
            )
        except ValidationError as error:
            wants = {key.name: key.wants for key in self.keys}
            found: dict[str, str] = {}
            for detail in error.errors(include_url=False):
                found.setdefault(str(detail["loc"][0]), _problem(detail, wants))
            return found
        return {}

    def taken(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those that fit, as their taker gets them."""
        return {name: _as_taken(value, self._hints.get(name)) for name, value in options.items()}


def checked(name: str, taker: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` if `taker` can be called with them as keywords.

    Raises `ValueError`, one line a problem, that begins with `name` and says what would be right.
    """
    schema = Options(taker)
    if problems := schema.problems(options):
        raise ValueError("\n".join(f"{name}: {problem}" for problem in problems.values()))
    return schema.taken(options)


def _option(key: Key, field: FieldInfo, helps: Callable[[str], str]) -> Key:
    """A key of the schema as an option. Of a table the schema has its values, `option_x.*`."""
    name, any_key, _ = key.name.removeprefix(FIELD).partition(".*")
    told = replace(key, name=name, description=helps(name))
    if not any_key:
        return told
    default = None if field.is_required() else field.default
    return replace(told, kind=dict, wants=f"a table, each value {key.wants}", default=default)


def _help(taker: Any) -> Callable[[str], str]:
    """What the docstring says of an option: the clauses that have its name in backticks."""
    while isinstance(taker, partial):
        taker = taker.func
    texts = [inspect.getdoc(taker) or "", inspect.getdoc(taker.__init__) or "" if inspect.isclass(taker) else ""]
    said = [text.partition("Options:")[2] if "Options:" in text else text for text in texts if "`" in text]
    clauses = [" ".join(clause.split()) for text in said for clause in re.split(r";|\.(?=\s|$)", text)]

    def of(name: str) -> str:
        said = [clause.removeprefix(f"`{name}`: ") for clause in clauses if f"`{name}`" in clause]
        return "; ".join(clause.replace("`", "") for clause in said)

    return of


def _as_taken(value: Any, hint: Any) -> Any:
    """TOML knows no tuples."""
    return tuple(value) if isinstance(value, list) and get_origin(hint) is tuple else value


def _hints(taker: Any) -> dict[str, Any]:
    while isinstance(taker, partial):
        taker = taker.func
    try:
        return get_type_hints(taker.__init__ if inspect.isclass(taker) else taker, include_extras=True)
    except NameError:  # an annotation that only a type checker can read: then anything is taken
        return {}


def _problem(detail: Any, wants: dict[str, str]) -> str:
    option = str(detail["loc"][0])
    if detail["type"] == "extra_forbidden":
        near = difflib.get_close_matches(option, wants, 1)
        there = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(wants) or 'none'}"
        return f"no option {option!r}; {there}"
    if detail["type"] == "missing" and len(detail["loc"]) == 1:
        return f"option {option!r} is missing: it wants {wants[option]}"
    shown = repr(detail["input"])
    return f"option {option!r} wants {wants[option]}, not {shown if len(shown) <= 60 else shown[:59] + '…'}"
