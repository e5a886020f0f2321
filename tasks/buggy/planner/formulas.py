"""Formulas such as '2 * (hours + 1)': numbers, names, + - * / and brackets."""

import re

TOKEN = re.compile(r"\s*(\d+\.?\d*|[A-Za-z_]\w*|[-+*/()])")


def tokens(text):
    """The parts of a formula. Raises ValueError at what can't be one."""
    found = []
    text = text.rstrip()
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise ValueError(f"can't read {text[position:]!r}")
        found.append(match[1])
        position = match.end()
    return found


def value(text, names):
    """The value of a formula. Raises ValueError if it isn't one, KeyError for a name without a value."""
    rest = tokens(text)
    result = _sum(rest, names)
    if rest:
        raise ValueError(f"unexpected {rest[0]!r}")
    return result


def _sum(rest, names):
    result = _product(rest, names)
    while rest and rest[0] in "+-":
        if rest.pop(0) == "+":
            result += _product(rest, names)
        else:
            result -= _product(rest, names)
    return result


def _product(rest, names):
    result = _factor(rest, names)
    while rest and rest[0] in "*/":
        if rest.pop(0) == "*":
            result *= _factor(rest, names)
        else:
            result /= _factor(rest, names)
    return result


def _factor(rest, names):
    if not rest:
        raise ValueError("it ends too early")
    token = rest.pop(0)
    if token == "-":
        return -_factor(rest, names)
    if token == "(":
        result = _sum(rest, names)
        if not rest or rest.pop(0) != ")":
            raise ValueError("a bracket isn't closed")
        return result
    if token[0].isdigit():
        return float(token)
    if token[0].isalpha() or token[0] == "_":
        return float(names[token])
    raise ValueError(f"unexpected {token!r}")


def used(text):
    """The names in a formula, in alphabetical order."""
    return sorted({token for token in tokens(text) if token[0].isalpha() or token[0] == "_"})
