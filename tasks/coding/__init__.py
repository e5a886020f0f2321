"""Small problems for `tasks/code.py`: each is its reference solution, a statement, and inputs.

The first input is shown with its result; the others are the tests. Expected values are computed from the reference
here, in the process that trains: code that is judged never comes near them.
"""

from tasks.coding.problem import Problem
from tasks.coding.sequences import SEQUENCES
from tasks.coding.texts import TEXTS
from tasks.coding.whole_numbers import WHOLE_NUMBERS

PROBLEMS: tuple[Problem, ...] = (*WHOLE_NUMBERS, *TEXTS, *SEQUENCES)

__all__ = ["PROBLEMS", "Problem"]
