"""Expressions as a model writes them: whole numbers, x, + − × ÷ and brackets. Read by a whitelist, never evaluated.

There are no powers and no names, a text is at most `LONGEST` characters and a number `DIGITS` digits long, so that
nothing a model can write takes long or grows large.
"""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from typing import NamedTuple

LONGEST = 160
DIGITS = 9
ALLOWED = re.compile(r"[0-9x+\-*/() ]+")
SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "[": "(", "]": ")", "X": "x"})


class Line(NamedTuple):
    """A straight line, `slope · x + offset`: all that an expression here can be."""

    slope: Fraction
    offset: Fraction


Expression = ast.expr


def read(text: str) -> Expression | None:
    """The expression a text is, or None. `3x` and `2(x + 1)` are products."""
    text = text.translate(SIGNS).strip()
    if (
        not 0 < len(text) <= LONGEST
        or not ALLOWED.fullmatch(text)
        or re.search(rf"\d{{{DIGITS + 1}}}|\d +\d", text)
    ):
        return None
    text = re.sub(r"(?<=[\dx)]) ?(?=[x(])|(?<=[x)]) ?(?=\d)", "*", text)
    try:
        expression = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return expression if line(expression) is not None else None


def line(expression: Expression) -> Line | None:
    """What an expression is worth; None if it holds something else, a product of two x, or a division by x or 0."""
    match expression:
        case ast.Constant(value=int(number)):
            return Line(Fraction(0), Fraction(number))
        case ast.Name(id="x"):
            return Line(Fraction(1), Fraction(0))
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            worth = line(operand)
            return worth and (scaled(worth, Fraction(-1)) if isinstance(sign, ast.USub) else worth)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = line(left), line(right)
            return None if a is None or b is None else _combined(a, operator, b)
    return None


def scaled(worth: Line, factor: Fraction) -> Line:
    return Line(worth.slope * factor, worth.offset * factor)


def plus(a: Line, b: Line) -> Line:
    return Line(a.slope + b.slope, a.offset + b.offset)


def _combined(a: Line, operator: ast.operator, b: Line) -> Line | None:
    match operator:
        case ast.Add():
            return plus(a, b)
        case ast.Sub():
            return plus(a, scaled(b, Fraction(-1)))
        case ast.Mult() if not (a.slope and b.slope):
            return scaled(a, b.offset) if not b.slope else scaled(b, a.offset)
        case ast.Div() if not b.slope and b.offset:
            return scaled(a, 1 / b.offset)
    return None


def size(expression: Expression) -> int:
    """Operations left to do: one each, and one more for brackets that have to be multiplied out."""
    match expression:
        case ast.UnaryOp(operand=operand):
            return size(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            multiplies = isinstance(operator, ast.Mult | ast.Div)
            brackets = sum(_is_sum(side) for side in (left, right)) if multiplies else 0
            return 1 + brackets + size(left) + size(right)
    return 0


def _is_sum(expression: Expression) -> bool:
    return isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Add | ast.Sub)


Tree = Fraction | tuple
"""A number, or ("+", terms) or ("*", factors) in a fixed order: the same for all ways of writing one thing."""


def tree(expression: Expression) -> Tree:
    """An expression without x and division, but for brackets and order."""
    match expression:
        case ast.Constant(value=int(number)):
            return Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return negative(tree(operand))
        case ast.UnaryOp(operand=operand):
            return tree(operand)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return joined("+", [tree(left), tree(right)])
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return joined("+", [tree(left), negative(tree(right))])
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return joined("*", [tree(left), tree(right)])
    raise ValueError("an expression with x or a division is no sum or product of numbers")


def joined(kind: str, parts: list[Tree]) -> Tree:
    """A sum or product; of one part, that part; parts of the same kind become its own."""
    flat = [
        inner for part in parts for inner in (part[1] if isinstance(part, tuple) and part[0] == kind else [part])
    ]
    return flat[0] if len(flat) == 1 else (kind, tuple(sorted(flat, key=repr)))


def negative(part: Tree) -> Tree:
    if isinstance(part, Fraction):
        return -part
    if part[0] == "+":
        return joined("+", [negative(inner) for inner in part[1]])
    return part[1] if part[0] == "-" else ("-", part)


def reductions(part: Tree) -> set[Tree]:
    """All that one operation makes of it: two numbers of a sum or product become one."""
    if isinstance(part, Fraction):
        return set()
    kind, inner = part
    if kind == "-":
        return {negative(less) for less in reductions(inner)}
    found: set[Tree] = set()
    for i, first in enumerate(inner):
        rest = [*inner[:i], *inner[i + 1 :]]
        found |= {joined(kind, [*rest, less]) for less in reductions(first)}
        for j, second in enumerate(inner[i + 1 :], i):
            if isinstance(first, Fraction) and isinstance(second, Fraction):
                made = first + second if kind == "+" else first * second
                found.add(joined(kind, [*rest[:j], *rest[j + 1 :], made]))
    return found


def leaves(part: Tree) -> int:
    """How many numbers it holds."""
    if isinstance(part, Fraction):
        return 1
    return leaves(part[1]) if part[0] == "-" else sum(map(leaves, part[1]))
