"""Is what is played worth learning from? A function a question; None where it doesn't arise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from tui.health.finding import Finding, graded
from tui.interface import StatusLike
from tui.state import Store
from tui.words import number, plural, signed

ILLEGAL_WATCH, ILLEGAL_BAD = 0.05, 0.25
"""Shares of a step's turns."""

TRUNCATED_WATCH, TRUNCATED_BAD = 0.05, 0.3
"""Shares of a step's turns that were cut short: what a reply would have ended in is then not rewarded."""

UNPARSED_WATCH, UNPARSED_BAD = 0.02, 0.2
"""Shares of judgements without a verdict, over the last 10 steps: their episodes teach nothing, and which these are
is no accident."""

SEAT_WATCH = 0.3
"""Difference of mean reward between seats, over the last 10 steps. A game may favour a seat, so it is never bad."""

SEAT_STEPS = 3
"""Steps before it is said: a step's mean is mostly chance."""


def illegal(metrics: dict[str, float], status: StatusLike | None) -> Finding:
    share = metrics.get("illegal_rate", math.nan)
    if math.isnan(share):
        return Finding("illegal", "none", "no step yet")
    level = graded(share, ILLEGAL_WATCH, ILLEGAL_BAD)
    words = f"{share:.1%} of turns" + (f", {status.illegal:,} so far" if status is not None else "")
    return Finding("illegal", level, words, "" if level == "good" else "does the prompt say how to move?")


def truncated(metrics: Mapping[str, float]) -> Finding | None:
    share = metrics.get("truncated_rate", math.nan)
    if math.isnan(share):
        return None
    level = graded(share, TRUNCATED_WATCH, TRUNCATED_BAD)
    words = f"{share:.0%} of turns cut short" if share else "no turn cut short"
    return Finding("length", level, words, "raise the role's max_tokens, or have its prompt ask for less")


def judge(store: Store) -> Finding | None:
    """None where nothing is judged."""
    share = store.unparsed.running()
    if math.isnan(share):
        return None
    level = graded(share, UNPARSED_WATCH, UNPARSED_BAD)
    words = f"{share:.0%} of judgements unparsed" if share else "all judgements have a verdict"
    return Finding("judge", level, words, "give the judge more tokens, constrain its verdict, or take a larger one")


def seats(store: Store) -> Finding | None:
    """The largest difference between seats: roles of one task that are rewarded by the same functions, as those of
    a game are. None where there are no such roles, or too few steps."""
    functions: dict[str, set[str]] = defaultdict(set)
    for function, role in store.rewards.ledgers:
        functions[role].add(function)
    alike: dict[tuple[str, frozenset[str]], dict[str, float]] = defaultdict(dict)
    for role, names in functions.items():
        ledger = store.rewards.ledgers.get(("", role))
        if ledger is not None and len(ledger.closed) >= SEAT_STEPS:
            alike[role.rpartition("/")[0], frozenset(names)][role] = ledger.running()
    found = [(max(means.values()) - min(means.values()), means) for means in alike.values() if len(means) > 1]
    if not found:
        return None
    bias, means = max(found, key=lambda entry: entry[0])
    ranked = sorted(means, key=lambda role: -means[role])
    told = ", ".join(f"{role.rpartition('/')[2]} {signed(means[role])}" for role in (ranked[0], ranked[-1]))
    advice = 'does the game favour a seat? A baseline a role (credit.kind = "rae") keeps it out of the advantages'
    return Finding("seats", "watch" if bias >= SEAT_WATCH else "good", f"bias {number(bias)}: {told}", advice)


def failed(store: Store, status: StatusLike | None) -> Finding:
    failed = status.failed if status is not None else len(store.errors)
    skipped = status.skipped if status is not None else len(store.skipped)
    unscored = int(store.metrics.get("unscored", 0.0))
    if failed:
        last = store.errors[-1][1] if store.errors else ""
        return Finding("episodes", "bad", f"{plural(failed, 'episode')} failed", last)
    words = [plural(skipped, "step") + " skipped"] if skipped else []
    words += [plural(unscored, "episode") + " unscored"] if unscored else []
    return Finding("episodes", "watch" if words else "good", ", ".join(words) or "none failed, no step skipped")
