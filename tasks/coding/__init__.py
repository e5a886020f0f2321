"""Small problems for `tasks/code.py`: each is its reference solution, a statement, and inputs.

The first input is shown with its result; the others are the tests. Expected values are computed from the reference
here, in the process that trains: code that is judged never comes near them.
"""

from tasks.coding.easy import EASY, SHOWN
from tasks.coding.problem import Problem
from tasks.coding.sequences import SEQUENCES
from tasks.coding.texts import TEXTS
from tasks.coding.whole_numbers import WHOLE_NUMBERS

PROBLEMS: dict[str, tuple[Problem, ...]] = {
    "easy": tuple(EASY),
    "usual": (*WHOLE_NUMBERS, *TEXTS, *SEQUENCES),
}
"""By what they ask of a model: a line, or a function with a loop or two."""

__all__ = ["PROBLEMS", "SHOWN", "Problem"]
