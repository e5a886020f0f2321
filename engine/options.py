"""What may be said to whoever takes keyword options, such as a task: their signature, read as a schema.

    def __init__(self, *, samples: Annotated[int, Between(1, 64)] = 8, style: Literal["short", "long"] = "short")

takes a preset's `options` only if they fit; who is made from them need not check them again.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_origin, get_type_hints

from annotated_types import Interval

if TYPE_CHECKING:
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


def checked(name: str, taker: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` if `taker` can be called with them as keywords.

    Raises `ValueError`, one line a problem, that begins with `name` and says what would be right.
    """
    from pydantic import ConfigDict, Field, ValidationError, create_model  # 0.2 s, and nothing before needs it

    from engine.keys import keys

    parameters = inspect.signature(taker).parameters.values()
    hints = _hints(taker)
    fields: dict[str, Any] = {
        FIELD + p.name: (
            hints.get(p.name, Any),
            Field(... if p.default is p.empty else p.default, alias=p.name),
        )
        for p in parameters
        if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    }
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    strict = ConfigDict(
        strict=True, extra="allow" if takes_any else "forbid", arbitrary_types_allowed=True, allow_inf_nan=False
    )
    schema = create_model("Options", __config__=strict, **fields)
    options = {name: _as_taken(value, hints.get(name)) for name, value in options.items()}
    try:
        schema.model_validate(options)
    except ValidationError as error:
        wants = dict(_wanted(key) for key in keys(schema))
        lines = dict.fromkeys(_problem(detail, wants) for detail in error.errors(include_url=False))
        raise ValueError("\n".join(f"{name}: {line}" for line in lines)) from error
    return options


def _wanted(key: Key) -> tuple[str, str]:
    """An option, and what a right value of it is. Of a table the schema has its values, `option_x.*`."""
    name, any_key, _ = key.name.removeprefix(FIELD).partition(".*")
    return name, f"a table, each value {key.wants}" if any_key else key.wants


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
