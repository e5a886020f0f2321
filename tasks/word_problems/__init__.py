"""Word problems of two steps, made by rule: what is told, how one would plan it, and how one counts it out."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple


class Story(NamedTuple):
    """What happens to three numbers."""

    text: str
    plan: str
    steps: Callable[[int, int, int], list[tuple[str, int]]]
    """Two calculations and what they come to; the second is how many things there are in the end."""


STORIES = [
    Story("{name} has {a} {things} and buys {b} bags of {c} each.",
          "First multiply the bags by what is in each. Then add what {name} has.",
          lambda a, b, c: [(f"{b} * {c}", b * c), (f"{a} + {b * c}", a + b * c)]),
    Story("{name} has {b} boxes of {c} {things} and then finds {a} more.",
          "First multiply the boxes by what is in each. Then add what {name} finds.",
          lambda a, b, c: [(f"{b} * {c}", b * c), (f"{b * c} + {a}", b * c + a)]),
    Story("{name} had {sum} {things}, gave {a} to a friend and lost {b}.",
          "First take away what {name} gave. Then take away what {name} lost.",
          lambda a, b, c: [(f"{a + b + c} - {a}", b + c), (f"{b + c} - {b}", c)]),
    Story("{name} puts {a} red and {b} blue {things} into each of {c} jars.",
          "First add the red and the blue ones. Then multiply by the jars.",
          lambda a, b, c: [(f"{a} + {b}", a + b), (f"{a + b} * {c}", (a + b) * c)]),
    Story("{name} collects {a} {things} a day for {b} days and {c} the day after.",
          "First multiply what {name} collects a day by the days. Then add the day after.",
          lambda a, b, c: [(f"{a} * {b}", a * b), (f"{a * b} + {c}", a * b + c)]),
    Story("{name} finds {a} {things}, Lee finds {b} more than {name}, and {c} lie in a bowl.",
          "First find what Lee has by adding to what {name} has. Then add up both and the bowl.",
          lambda a, b, c: [(f"{a} + {b}", a + b), (f"{a} + {a + b} + {c}", 2 * a + b + c)]),
]  # fmt: skip
NAMES, THINGS = ("Ann", "Ben", "Mia", "Tom"), ("marbles", "apples", "stamps", "coins", "shells")
HELD_OUT = 0.2
"""The share of stories that is never trained on; it depends on the story alone."""


def story(rng: random.Random, *, held_out: bool, kinds: int = len(STORIES), largest: int = 12) -> dict[str, Any]:
    """A problem, its plan, its two calculations and its answer: one of the first `kinds`, with numbers from 2 to
    `largest`."""
    while True:
        number = rng.randrange(kinds)
        a, b, c = (rng.randint(2, largest) for _ in range(3))
        if (random.Random(f"story {number} {a} {b} {c}").random() < HELD_OUT) == held_out:
            text, plan, steps = STORIES[number]
            words = {"name": rng.choice(NAMES), "things": rng.choice(THINGS), "a": a, "b": b, "c": c}
            done = steps(a, b, c)
            return {
                "problem": f"{text.format(**words, sum=a + b + c)} How many are there in the end?",
                "plan": plan.format(**words),
                "steps": done,
                "answer": done[-1][1],
            }
