"""The package's tests: of each module functions, arguments, and what comes of them, written by hand.

`VISIBLE` is what roles are shown where it fails. `HIDDEN` is asked too when a repair is judged, so that a special
case for each call that is shown repairs nothing. The verdict is made from these tables in the process that trains,
never by code that a role could have changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Raises:
    """The call has to raise this exception."""

    error: str

    def __repr__(self) -> str:
        return f"raise {self.error}"


Check = tuple[str, list[Any], Any]
"""Function, arguments, value or `Raises`."""

_HOUSE = {"roof": ["walls"], "walls": ["base"], "paint": ["walls"], "base": []}
_HOUSE_LENGTHS = {"base": 3, "walls": 5, "roof": 4, "paint": 2}
_RING = {"a": ["b"], "b": ["c"], "c": ["a"]}

# fmt: off
VISIBLE: dict[str, list[Check]] = {
    "durations": [
        ("minutes", ["90m"], 90),
        ("minutes", ["2h 30m"], 150),
        ("minutes", ["1w 1d"], 2880),
        ("minutes", ["1.5h"], 90),
        ("minutes", ["5x"], Raises("ValueError")),
        ("written", [150], "2h 30m"),
        ("written", [0], "0m"),
        ("written", [-75], "-1h 15m"),
        ("written", [2400], "1w"),
        ("rounded", [61, 15], 75),
        ("rounded", [60, 15], 60),
        ("longest", [["1h", "90m", "1h 30m"]], "90m"),
        ("longest", [["2h", "30m"]], "2h"),
        ("longest", [[]], ""),
    ],
    "dates": [
        ("is_leap", [2024], True),
        ("is_leap", [1900], False),
        ("is_leap", [2000], True),
        ("days_in", [2023, 2], 28),
        ("days_in", [2024, 2], 29),
        ("days_in", [2024, 4], 30),
        ("number", [[1, 1, 1]], 1),
        ("number", [[2000, 3, 1]], 730180),
        ("weekday", [[2024, 1, 1]], 0),
        ("weekday", [[2000, 1, 1]], 5),
        ("add_days", [[2023, 12, 31], 1], [2024, 1, 1]),
        ("add_days", [[2024, 2, 28], 2], [2024, 3, 1]),
        ("add_months", [[2024, 1, 31], 1], [2024, 2, 29]),
        ("add_months", [[2024, 11, 15], 2], [2025, 1, 15]),
        ("workdays", [[2024, 1, 1], [2024, 1, 7]], 5),
        ("workdays", [[2024, 1, 6], [2024, 1, 8]], 1),
    ],
    "intervals": [
        ("merged", [[[1, 3], [2, 5]]], [[1, 5]]),
        ("merged", [[[5, 6], [1, 2]]], [[1, 2], [5, 6]]),
        ("merged", [[[1, 2], [2, 3]]], [[1, 3]]),
        ("merged", [[[4, 4], [1, 9], [2, 3]]], [[1, 9]]),
        ("gaps", [[[2, 4]], 0, 6], [[0, 2], [4, 6]]),
        ("gaps", [[[0, 6]], 0, 6], []),
        ("gaps", [[[-3, 1], [5, 9]], 0, 6], [[1, 5]]),
        ("first_fit", [[[1, 4], [5, 6]], 2, 0, 9], 6),
        ("first_fit", [[[1, 4]], 1, 0, 9], 0),
        ("first_fit", [[[1, 4]], 6, 0, 9], None),
        ("most_at_once", [[[1, 4], [2, 5], [3, 6]]], 3),
        ("most_at_once", [[[1, 2], [2, 3]]], 1),
    ],
    "graph": [
        ("names", [{"b": ["a"]}], ["a", "b"]),
        ("order", [_HOUSE], ["base", "walls", "paint", "roof"]),
        ("order", [{"b": [], "a": []}], ["a", "b"]),
        ("order", [_RING], Raises("ValueError")),
        ("order", [{"b": ["a", "a"]}], ["a", "b"]),
        ("all_needs", [_HOUSE, "roof"], ["base", "walls"]),
        ("all_needs", [_HOUSE, "base"], []),
        ("all_needs", [_RING, "a"], ["a", "b", "c"]),
        ("levels", [_HOUSE], [["base"], ["walls"], ["paint", "roof"]]),
        ("levels", [{}], []),
    ],
    "schedule": [
        ("starts", [_HOUSE_LENGTHS, _HOUSE], {"base": 0, "walls": 3, "roof": 8, "paint": 8}),
        ("starts", [{"a": 2, "b": 3, "c": 1}, {"c": ["a", "b"]}], {"a": 0, "b": 0, "c": 3}),
        ("finish", [_HOUSE_LENGTHS, _HOUSE], 12),
        ("finish", [{}, {}], 0),
        ("slack", [_HOUSE_LENGTHS, _HOUSE], {"base": 0, "walls": 0, "roof": 0, "paint": 2}),
        ("critical", [_HOUSE_LENGTHS, _HOUSE], ["base", "walls", "roof"]),
        ("critical", [{"b": 2, "a": 2}, {}], ["a", "b"]),
        ("end_date", [[2024, 1, 1], 1], [2024, 1, 1]),
        ("end_date", [[2024, 1, 5], 2], [2024, 1, 8]),
        ("end_date", [[2024, 1, 6], 1], [2024, 1, 8]),
    ],
    "table": [
        ("fields", ["a,b,c"], ["a", "b", "c"]),
        ("fields", ["a,,c"], ["a", "", "c"]),
        ("fields", ['"a,b",c'], ["a,b", "c"]),
        ("fields", ['"say ""hi""",x'], ['say "hi"', "x"]),
        ("records", ["x,y\n1,2\n\n3"], [{"x": "1", "y": "2"}, {"x": "3", "y": ""}]),
        ("records", [""], []),
        ("aligned", [[["name", "cost"], ["roof", "12"], ["a", "5"]]], ["name  cost", "roof    12", "a        5"]),
        ("aligned", [[["a", "b"], ["ccc", "d"]]], ["a    b", "ccc  d"]),
        ("totals", [[{"k": "a", "v": "1"}, {"k": "b", "v": "2"}, {"k": "a", "v": "3"}], "k", "v"],
         {"a": 4, "b": 2}),
        ("totals", [[], "k", "v"], {}),
    ],
    "shares": [
        ("split", [100, [1, 1]], [50, 50]),
        ("split", [100, [1, 1, 1]], [34, 33, 33]),
        ("split", [10, [1, 2, 4]], [1, 3, 6]),
        ("split", [0, [1, 3]], [0, 0]),
        ("settle", [{"ann": 30, "bob": 10}], [["bob", "ann", 10]]),
        ("settle", [{"ann": 90, "bob": 0, "cyd": 0}], [["bob", "ann", 30], ["cyd", "ann", 30]]),
        ("settle", [{"ann": 5, "bob": 5}], []),
        ("written", [123456], "1,234.56"),
        ("written", [-5], "-0.05"),
        ("written", [100], "1.00"),
        ("after_interest", [10000, 5, 1], 10500),
        ("after_interest", [10000, 5, 2], 11025),
        ("after_interest", [10, 5, 1], 11),
    ],
    "formulas": [
        ("tokens", ["2*(x+1)"], ["2", "*", "(", "x", "+", "1", ")"]),
        ("tokens", ["1 $ 2"], Raises("ValueError")),
        ("value", ["2 + 3 * 4", {}], 14.0),
        ("value", ["(2 + 3) * 4", {}], 20.0),
        ("value", ["10 - 4 - 3", {}], 3.0),
        ("value", ["8 / 2 / 2", {}], 2.0),
        ("value", ["-2 * 3", {}], -6.0),
        ("value", ["rate * hours", {"rate": 20, "hours": 1.5}], 30.0),
        ("value", ["(1 + 2", {}], Raises("ValueError")),
        ("value", ["1 2", {}], Raises("ValueError")),
        ("value", ["x", {}], Raises("KeyError")),
        ("used", ["b + a * b - 2"], ["a", "b"]),
        ("used", ["1"], []),
    ],
}

HIDDEN: dict[str, list[Check]] = {
    "durations": [
        ("minutes", ["1d 2h 3m"], 603),
        ("minutes", ["0.25d"], 120),
        ("minutes", ["3"], Raises("ValueError")),
        ("written", [2941], "1w 1d 1h 1m"),
        ("written", [-480], "-1d"),
        ("written", [59], "59m"),
        ("rounded", [1, 30], 30),
        ("rounded", [0, 7], 0),
        ("longest", [["30m", "1d", "2h"]], "1d"),
    ],
    "dates": [
        ("is_leap", [2100], False),
        ("is_leap", [1996], True),
        ("is_leap", [2023], False),
        ("days_in", [2023, 12], 31),
        ("days_in", [1900, 2], 28),
        ("number", [[2024, 12, 31]], 739251),
        ("number", [[1970, 1, 1]], 719163),
        ("weekday", [[1969, 7, 20]], 6),
        ("weekday", [[2024, 2, 29]], 3),
        ("add_days", [[2023, 1, 1], 365], [2024, 1, 1]),
        ("add_days", [[2024, 1, 31], 0], [2024, 1, 31]),
        ("add_months", [[2023, 12, 31], 2], [2024, 2, 29]),
        ("add_months", [[2024, 3, 31], -1], [2024, 2, 29]),
        ("add_months", [[2024, 1, 1], 11], [2024, 12, 1]),
        ("workdays", [[2024, 2, 1], [2024, 2, 29]], 21),
        ("workdays", [[2024, 1, 6], [2024, 1, 7]], 0),
    ],
    "intervals": [
        ("merged", [[]], []),
        ("merged", [[[1, 10], [2, 3], [4, 12], [20, 21]]], [[1, 12], [20, 21]]),
        ("merged", [[[3, 1]]], []),
        ("gaps", [[], 3, 5], [[3, 5]]),
        ("gaps", [[[1, 2], [8, 9], [4, 5]], 0, 7], [[0, 1], [2, 4], [5, 7]]),
        ("gaps", [[[6, 8]], 0, 6], [[0, 6]]),
        ("first_fit", [[[0, 2], [4, 5]], 2, 0, 9], 2),
        ("first_fit", [[[0, 9]], 1, 0, 9], None),
        ("first_fit", [[[0, 7]], 2, 0, 9], 7),
        ("most_at_once", [[]], 0),
        ("most_at_once", [[[0, 9], [1, 2], [1, 3], [2, 4], [5, 5]]], 3),
    ],
    "graph": [
        ("names", [{}], []),
        ("names", [{"x": ["z", "y"], "y": []}], ["x", "y", "z"]),
        ("order", [{"d": ["a"], "c": ["d"], "b": []}], ["a", "b", "d", "c"]),
        ("order", [{"a": ["a"]}], Raises("ValueError")),
        ("order", [{}], []),
        ("all_needs", [{"d": ["b", "c"], "b": ["a"], "c": ["a"]}, "d"], ["a", "b", "c"]),
        ("all_needs", [{}, "x"], []),
        ("levels", [{"c": ["a", "b"], "b": ["a"], "d": []}], [["a", "d"], ["b"], ["c"]]),
        ("levels", [_RING], Raises("ValueError")),
    ],
    "schedule": [
        ("starts", [{"x": 1}, {}], {"x": 0}),
        ("starts", [{"a": 4, "b": 1, "c": 1, "d": 2}, {"b": ["a"], "c": ["b"], "d": ["a", "c"]}],
         {"a": 0, "b": 4, "c": 5, "d": 6}),
        ("finish", [{"a": 4, "b": 9}, {}], 9),
        ("finish", [{"a": 4, "b": 1}, {"b": ["a"]}], 5),
        ("slack", [{"a": 4, "b": 1, "c": 2}, {"c": ["b"]}], {"a": 0, "b": 1, "c": 1}),
        ("slack", [{"a": 1, "b": 5, "c": 2, "d": 1}, {"d": ["b", "c"], "c": ["a"]}],
         {"a": 2, "b": 0, "c": 2, "d": 0}),
        ("critical", [{"a": 4, "b": 1, "c": 3}, {"c": ["b"]}], ["a", "b", "c"]),
        ("end_date", [[2024, 1, 1], 5], [2024, 1, 5]),
        ("end_date", [[2024, 1, 7], 6], [2024, 1, 15]),
        ("end_date", [[2024, 12, 30], 5], [2025, 1, 3]),
    ],
    "table": [
        ("fields", [""], [""]),
        ("fields", ["x"], ["x"]),
        ("fields", ['a,"b""",'], ["a", 'b"', ""]),
        ("fields", ['""'], [""]),
        ("records", ["h"], []),
        ("records", ["a,b\n1,2,3\n"], [{"a": "1", "b": "2"}]),
        ("records", ['n\n"x,y"'], [{"n": "x,y"}]),
        ("aligned", [[["n"], ["-12"], ["7"]]], ["n", "-12", "  7"]),
        ("aligned", [[["long", "x"], ["s", "100"]]], ["long  x", "s     100"]),
        ("totals", [[{"k": "z", "v": "-1"}, {"k": "y", "v": "5"}, {"k": "z", "v": "1"}], "k", "v"],
         {"z": 0, "y": 5}),
    ],
    "shares": [
        ("split", [5, [1, 1, 1]], [2, 2, 1]),
        ("split", [1000, [2, 3, 5]], [200, 300, 500]),
        ("split", [7, [1, 3, 3]], [1, 3, 3]),
        ("split", [2, [3, 1, 3]], [1, 0, 1]),
        ("settle", [{}], []),
        ("settle", [{"a": 0, "b": 60, "c": 30}], [["a", "b", 30]]),
        ("settle", [{"a": 10, "b": 20, "c": 60, "d": 30}], [["a", "c", 20], ["b", "c", 10]]),
        ("written", [0], "0.00"),
        ("written", [-123456789], "-1,234,567.89"),
        ("written", [9], "0.09"),
        ("after_interest", [9, 5, 1], 9),
        ("after_interest", [777, 0, 9], 777),
        ("after_interest", [1000, 10, 3], 1331),
    ],
    "formulas": [
        ("tokens", [""], []),
        ("tokens", [" a_1 / 2.5 "], ["a_1", "/", "2.5"]),
        ("value", ["1 - 2 + 3", {}], 2.0),
        ("value", ["12 / 3 * 2", {}], 8.0),
        ("value", ["2 * (3 - (4 - 6)) - 1", {}], 9.0),
        ("value", ["-(1 + 2)", {}], -3.0),
        ("value", ["_a * b2", {"_a": 3, "b2": 4}], 12.0),
        ("value", ["", {}], Raises("ValueError")),
        ("value", ["2 *", {}], Raises("ValueError")),
        ("value", [")", {}], Raises("ValueError")),
        ("used", ["(z - y) * 3 + z"], ["y", "z"]),
    ],
}
