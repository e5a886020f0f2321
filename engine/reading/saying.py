"""Numbers in sentences for people, written as the app writes its own: with a real minus, as wide as the plus."""

from __future__ import annotations

MINUS = "−"


def signed(value: float) -> str:
    """`+1.00`, `−0.50`; what rounds to nothing is `+0.00`."""
    return f"{value:+z.2f}".replace("-", MINUS)


def unsigned(value: float) -> str:
    """`1.00`, `−0.50`: a plus would say that it is a reward."""
    return f"{value:z.2f}".replace("-", MINUS)
