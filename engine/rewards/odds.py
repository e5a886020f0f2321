"""How much likelier one of two answers is than the other, from a reply that could only be one of them.

Whichever is drawn, its log-probability says what the other's is. So odds need no request of their own kind: they
are batched with all others, share the beginnings of their prompts, and wait in lockstep like them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from engine.types import Completion, StopReason

HOT = 8.0
"""The temperature to ask at. At 1, what a sure judge says has a probability within a float32's rounding of 1, which
leaves nothing of the other's; odds in logarithms are simply this much smaller at this temperature."""

SUREST = -1e-6
"""The largest log-probability that is believed: odds end at about HOT · 14."""


def log_odds(reply: Completion, words: tuple[str, str]) -> float | None:
    """`ln P(words[0]) − ln P(words[1])` at temperature 1, of a reply to `choices=words, temperature=HOT`.

    None where it is cut off.
    """
    if reply.stop_reason is not StopReason.STOP or reply.text not in words:
        return None
    said = min(sum(reply.logprobs), SUREST)
    odds = HOT * (said - math.log(-math.expm1(said)))
    return odds if reply.text == words[0] else -odds


def balanced(forth: Sequence[float | None], back: Sequence[float | None]) -> float | None:
    """The mean log-odds of pairs asked both ways, as a probability: what is the same in both cancels.

    None where most pairs miss a half.
    """
    pairs = zip(forth, back, strict=True)
    whole = [(one - other) / 2 for one, other in pairs if one is not None and other is not None]
    if 2 * len(whole) <= len(forth):
        return None
    return 0.5 + 0.5 * math.tanh(fmean(whole) / 2)  # the logistic function, which doesn't overflow


def consistent(forth: Sequence[float | None], back: Sequence[float | None]) -> bool | None:
    """Whether all that was asked, either way, leans to the same side; None where something is missing."""
    if None in (*forth, *back):
        return None
    leans = {odds > 0 for odds in forth if odds is not None} | {odds < 0 for odds in back if odds is not None}
    return len(leans) == 1
