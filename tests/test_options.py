"""Options are read by the signature of who takes them; whatever doesn't fit is named with what would."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import pytest

from engine.options import Between, Count, Options, Share, checked


class Taker:
    def __init__(
        self,
        first: str,
        *,
        many: Count = 2,
        part: Share = 0.5,
        digits: Annotated[int, Between(1, 4)] = 2,
        style: Literal["short", "long"] = "short",
        names: list[str] | None = None,
        weights: dict[str, float] | None = None,
        counts: dict[str, int] = {},  # noqa: B006
        anything: Any = None,
        loose=None,
    ) -> None: ...


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"many": 9, "part": 1, "digits": 4, "style": "long"},
        {"names": ["a", "b"], "weights": {"a": 2.0}, "anything": {"x": [1]}, "loose": object},
        {"names": None},
    ],
)
def test_what_fits_is_passed_as_it_is(options):
    assert checked("t", partial(Taker, "x"), options) == options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"many": 0}, "t: option 'many' wants a whole number from 1 to 100000, not 0"),
        ({"many": 2.5}, "t: option 'many' wants a whole number from 1 to 100000, not 2.5"),
        ({"many": True}, "t: option 'many' wants a whole number from 1 to 100000, not True"),
        ({"many": "2"}, "t: option 'many' wants a whole number from 1 to 100000, not '2'"),
        ({"part": 1.5}, "t: option 'part' wants a number from 0 to 1, not 1.5"),
        ({"part": float("nan")}, "t: option 'part' wants a number from 0 to 1, not nan"),
        ({"digits": 5}, "t: option 'digits' wants a whole number from 1 to 4, not 5"),
        ({"style": "odd"}, "t: option 'style' wants one of short, long, not 'odd'"),
        ({"names": "a"}, "t: option 'names' wants a list of texts, not 'a'"),
        ({"names": [1]}, "t: option 'names' wants a list of texts, not 1"),
        ({"weights": {"a": "b"}}, "t: option 'weights' wants a table of numbers, not 'b'"),
        ({"counts": "a"}, "t: option 'counts' wants a table, each value a whole number, not 'a'"),
        ({"stile": "odd"}, "t: no option 'stile'; did you mean 'style'?"),
    ],
)
def test_what_does_not_fit_is_named(options, says):
    with pytest.raises(ValueError, match=r"^t: ") as raised:
        checked("t", partial(Taker, "x"), options)
    assert says.rstrip("?") in str(raised.value)


def test_an_option_may_have_any_name_python_allows(recwarn):
    def taker(*, json: int, copy: Count = 1, model_config: str = "", _own: float = 0.0) -> None: ...

    options = {"json": 1, "copy": 2, "model_config": "x", "_own": 0.5}
    assert checked("t", taker, options) == options
    with pytest.raises(ValueError, match="t: option 'copy' wants a whole number from 1 to 100000, not 0"):
        checked("t", taker, {**options, "copy": 0})
    with pytest.raises(ValueError, match="t: option 'json' is missing: it wants a whole number"):
        checked("t", taker, {})
    assert not recwarn.list


def test_a_list_will_do_for_a_tuple():
    def taker(*, pair: tuple[int, int] = (1, 2)) -> None: ...

    assert checked("t", taker, {"pair": [3, 4]}) == {"pair": (3, 4)}
    for wrong in ([3], [3, "4"], "34"):
        with pytest.raises(ValueError, match="t: option 'pair' wants 2 numbers, not"):
            checked("t", taker, {"pair": wrong})


def test_what_is_missing_is_named_and_every_problem_has_a_line():
    with pytest.raises(ValueError, match="option 'first' is missing: it wants text") as raised:
        checked("t", Taker, {"many": 0})
    assert len(str(raised.value).splitlines()) == 2


def test_who_takes_any_keyword_is_given_any():
    def taker(**options: Any) -> None: ...

    assert checked("t", taker, {"x": 1}) == {"x": 1}


def test_annotations_that_only_a_type_checker_can_read_take_anything():
    def taker(x: Unknown = None) -> None: ...  # noqa: F821

    assert checked("t", taker, {"x": 1}) == {"x": 1}


class Described:
    """Options: the `kind` of thing; so many `many` of it, at most. Whether it is `loud`.

    What is no option isn't described.
    """

    def __init__(
        self, *, kind: Literal["a", "b"] = "a", many: Count = 2, loud: bool = False, bare: int = 0
    ) -> None: ...


def test_options_are_keys_of_a_schema_described_by_the_docstring():
    keys = {key.name: key for key in Options(Described).keys}
    assert [*keys] == ["kind", "many", "loud", "bare"]
    assert (keys["many"].wants, keys["many"].default) == ("a whole number from 1 to 100000", 2)
    assert keys["kind"].choices == ("a", "b")
    assert keys["kind"].description == "the kind of thing"
    assert keys["many"].description == "so many many of it, at most"
    assert keys["loud"].description == "Whether it is loud"
    assert keys["bare"].description == ""


def test_a_table_is_one_option_with_its_own_default():
    keys = {key.name: key for key in Options(partial(Taker, "x")).keys}
    assert (keys["counts"].kind, keys["counts"].default) == (dict, {})
    assert keys["counts"].wants == "a table, each value a whole number"
    assert keys["weights"].kind is dict


def test_problems_are_told_by_option():
    assert Options(Described).problems({"many": 0, "kind": "b", "nope": 1}) == {
        "many": "option 'many' wants a whole number from 1 to 100000, not 0",
        "nope": "no option 'nope'; it has: kind, many, loud, bare",
    }
