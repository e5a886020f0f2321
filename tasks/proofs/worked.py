"""Proofs written by rule, to be shown as examples: the leftmost operation first, or x gathered and then freed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fractions import Fraction

from tasks.proofs.expressions import Expression, line, read


def proof(kind: str, given: str) -> str:
    """A proof of a problem of `tasks.proofs.problems`, one step a line."""
    return "\n".join(_computed(given) if kind == "compute" else _solved(given))


def _computed(given: str) -> Iterator[str]:
    expression = _read(given)
    while not isinstance(expression, ast.Constant):
        expression = _reduced(expression)
        yield f"= {ast.unparse(expression)}"


def _reduced(expression: Expression) -> Expression:
    """With its leftmost operation on two numbers done."""
    assert isinstance(expression, ast.BinOp), expression
    left, right = expression.left, expression.right
    if isinstance(left, ast.BinOp):
        return ast.BinOp(_reduced(left), expression.op, right)
    if isinstance(right, ast.BinOp):
        return ast.BinOp(left, expression.op, _reduced(right))
    worth = line(expression)
    assert worth is not None, expression
    return ast.Constant(int(worth.offset))


def _solved(given: str) -> Iterator[str]:
    """Brackets multiplied out, x to the left, numbers to the right, and divided; what is done is no step."""
    (a, b), (c, d) = sides = [_line(side) for side in given.split("=")]
    steps = [sides, [(a - c, b), (Fraction(0), d)], [(a - c, Fraction(0)), (Fraction(0), d - b)]]
    steps.append([(Fraction(1), Fraction(0)), (Fraction(0), (d - b) / (a - c))])
    before = given
    for left, right in steps:
        text = f"{_written(*left)} = {_written(*right)}"
        if text != before:
            yield text
        before = text


def _written(slope: Fraction, offset: Fraction) -> str:
    if not slope:
        return str(offset)
    x = {1: "x", -1: "-x"}.get(int(slope), f"{slope}x")
    return f"{x} {'-' if offset < 0 else '+'} {abs(offset)}" if offset else x


def _line(text: str) -> tuple[Fraction, Fraction]:
    worth = line(_read(text))
    assert worth is not None, text
    return worth


def _read(text: str) -> Expression:
    expression = read(text)
    assert expression is not None, text
    return expression
