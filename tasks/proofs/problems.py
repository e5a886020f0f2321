"""Things to prove, drawn by a generator: expressions to compute, equations to solve, in five levels."""

from __future__ import annotations

import random


def problem(kind: str, level: int, rng: random.Random) -> str:
    """An expression of `level` + 1 operations, or an equation with a whole solution, some `level` steps away: at 0
    one of each."""
    return _expression(level + 1, rng)[0] if kind == "compute" else _equation(level, rng)


def _expression(operations: int, rng: random.Random) -> tuple[str, str]:
    """An expression and its outermost operation, "" for a number alone."""
    if operations == 0:
        return str(rng.randint(1, 9)), ""
    left = rng.randrange(operations)
    (a, outer), (b, inner) = _expression(left, rng), _expression(operations - 1 - left, rng)
    sign = rng.choice("++-**")
    a = f"({a})" if sign == "*" and outer in ("+", "-") else a
    b = f"({b})" if (sign == "*" and inner in ("+", "-")) or (sign == "-" and inner in ("+", "-")) else b
    return f"{a} {sign} {b}", sign


def _equation(level: int, rng: random.Random) -> str:
    solution, a, b = rng.choice([*range(-9, 0), *range(1, 10)]), rng.randint(2, 9), rng.randint(1, 9)
    sign = rng.choice("+-")
    offset = b if sign == "+" else -b
    if level == 0:
        return f"{a}x = {a * solution}"
    if level == 1:
        return f"x {sign} {b} = {solution + offset}"
    if level == 2:
        return f"{a}x {sign} {b} = {a * solution + offset}"
    c = rng.choice([n for n in range(2, 10) if n != a])
    left, worth = f"{a}x {sign} {b}", a * solution + offset
    if level == 4:
        left, worth = f"{a}(x {sign} {b})", a * (solution + offset)
    rest = worth - c * solution
    return f"{left} = {c}x {'-' if rest < 0 else '+'} {abs(rest)}"
