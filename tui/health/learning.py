"""Does it learn, and from what it should? A function a question, of a step's metrics and the run's state."""

from __future__ import annotations

import math

from tui.health.finding import Finding, Level, graded
from tui.interface import StatusLike
from tui.state import Store
from tui.words import number, plural

SIGNAL_WATCH = 0.1
"""Share of turns with an advantage, below which little is learnt."""

FLAT_WATCH = 0.75
"""Share of groups without signal from which on most of what is played teaches nothing."""

MISMATCH_WATCH, MISMATCH_BAD = 0.02, 0.2
"""Mean |log-probability| by which sampler and learner may differ, nats."""

BEHIND_WATCH, BEHIND_BAD = 3, 8
"""Versions by which the oldest turn of a step may be older than the learner: the ratio and its bound make up for
a few, and beyond them most tokens are clipped."""

ADVICE = {
    "one rollout": "play several from each beginning, as by task.options.repeats",
    "rewards": "rewards must differ to be learnt from",
    "finite": "lower train.learning_rate or train.grad_clip",
}
"""Why a step was skipped, by words of it, and what to do."""


def signal(store: Store) -> Finding:
    name = "signal"
    if not store.step:
        return Finding(name, "none", "no step yet")
    if store.skipped and store.skipped[-1][0] == store.step:
        why = store.skipped[-1][1]
        advice = next((told for words, told in ADVICE.items() if words in why), "")
        return Finding(name, "bad", f"step skipped: {why}", advice)
    share = store.metrics.get("signal", math.nan)
    if math.isnan(share):
        return Finding(name, "good", "learning")
    flat = sum(store.metrics.get(kind, 0.0) for kind in ("flat_groups", "lone_groups"))
    groups = store.metrics.get("groups", 0.0)
    little = share < SIGNAL_WATCH or (groups > 1 and flat >= FLAT_WATCH * groups)
    words = f", {flat:.0f} of {groups:.0f} groups none" if flat else ""
    advice = "only rewards that differ within a group teach: larger groups, a higher temperature, other problems"
    return Finding(name, "watch" if little else "good", f"{share:.0%} of turns have an advantage{words}", advice)


def moved(metrics: dict[str, float]) -> Finding:
    full = "difference_norm" in metrics
    norm = metrics["difference_norm"] if full else metrics.get("lora_b_norm", math.nan)
    if math.isnan(norm):
        return Finding("adapter", "none", "no step yet")
    if norm == 0.0:
        words = f"{'W' if full else 'B'} has not moved: still the base model"
        return Finding("adapter", "bad", words, "is the learning rate zero?")
    return Finding("adapter", "good", f"moved, |{'ΔW' if full else 'B'}| {number(norm)}")


def finite(store: Store) -> Finding:
    loss = store.metrics.get("loss", math.nan)
    if store.metrics.get("nonfinite", 0.0) or (loss and math.isinf(loss)):
        advice = "lower train.learning_rate or train.grad_clip"
        return Finding("numbers", "bad", "loss or gradient was not finite", advice)
    if math.isnan(loss):
        return Finding("numbers", "none", "no loss yet")
    return Finding("numbers", "good", f"finite, |gradient| {number(store.metrics.get('grad_norm', math.nan))}")


def mismatch(metrics: dict[str, float]) -> Finding:
    mean = metrics.get("mismatch_mean", math.nan)
    if math.isnan(mean):
        return Finding("mismatch", "none", "not measured yet")
    level = graded(mean, MISMATCH_WATCH, MISMATCH_BAD)
    advice = "they should agree: doctor checks the device, and a smaller learning rate hides nothing"
    return Finding("mismatch", level, f"sampler and learner {number(mean, 4)} apart", advice)


def stale(metrics: dict[str, float], status: StatusLike | None) -> Finding:
    total = status.stale if status is not None else 0
    if not total:
        return Finding("stale", "good", "nothing dropped")
    now = metrics.get("stale", 0.0)
    level: Level = "watch" if now else "good"
    advice = "raise run.max_staleness, or play fewer episodes a step"
    return Finding("stale", level, f"{total:,} turns dropped, {now:.0f} in the last step", advice)


def behind(store: Store) -> Finding | None:
    """How old what was learnt from was; None while that isn't known."""
    versions = store.behind
    if versions is None:
        return None
    if not versions:
        return Finding("age", "good", "nothing is older than the learner")
    level = graded(versions, BEHIND_WATCH, BEHIND_BAD)
    words = f"what is learnt from is up to {plural(versions, 'version')} behind the learner"
    return Finding("age", level, words, "lower run.max_staleness, or play fewer episodes a step")
