"""Is the run well? What is to be watched in self-play, in words, with what to do about it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from engine.events import RunState
from tui.interface import StatusLike
from tui.state import Store
from tui.words import number, plural

Level = Literal["good", "watch", "bad", "none"]

ILLEGAL_WATCH, ILLEGAL_BAD = 0.05, 0.25
"""Shares of a step's turns."""

SIGNAL_WATCH = 0.1
"""Share of turns with an advantage, below which little is learnt."""

MISMATCH_WATCH, MISMATCH_BAD = 0.02, 0.2
"""Mean |log-probability| by which sampler and learner may differ, nats."""


ADVICE = {
    "one rollout": "play several from each beginning, as by task.options.repeats",
    "rewards": "rewards must differ to be learnt from",
    "finite": "lower train.learning_rate or train.grad_clip",
}
"""Why a step was skipped, by words of it, and what to do."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of health."""

    name: str
    level: Level
    words: str
    advice: str = ""


def findings(store: Store, status: StatusLike | None, left_out: int = 0) -> list[Finding]:
    """What there is to say, always in the same order. `left_out` counts events the screen came too late for."""
    metrics = store.metrics
    failed = store.run_state is RunState.FAILED
    said = [Finding("run", "bad", "failed: the reason stands above")] if failed else []
    said += [
        _signal(store),
        _moved(metrics),
        _finite(store),
        _illegal(metrics, status),
        _mismatch(metrics),
        _stale(metrics, status),
        _failed(store, status),
    ]
    if left_out:
        said.append(Finding("screen", "watch", f"{left_out:,} live events left out", "the run itself lost nothing"))
    return said


def _signal(store: Store) -> Finding:
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
    level: Level = "watch" if share < SIGNAL_WATCH else "good"
    flat = sum(store.metrics.get(kind, 0.0) for kind in ("flat_groups", "lone_groups"))
    words = f", {flat:.0f} of {store.metrics['groups']:.0f} groups none" if flat else ""
    return Finding(name, level, f"{share:.0%} of turns have an advantage{words}")


def _moved(metrics: dict[str, float]) -> Finding:
    full = "difference_norm" in metrics
    norm = metrics["difference_norm"] if full else metrics.get("lora_b_norm", math.nan)
    if math.isnan(norm):
        return Finding("adapter", "none", "no step yet")
    if norm == 0.0:
        words = f"{'W' if full else 'B'} has not moved: still the base model"
        return Finding("adapter", "bad", words, "is the learning rate zero?")
    return Finding("adapter", "good", f"moved, |{'ΔW' if full else 'B'}| {number(norm)}")


def _finite(store: Store) -> Finding:
    loss = store.metrics.get("loss", math.nan)
    if store.metrics.get("nonfinite", 0.0) or (loss and math.isinf(loss)):
        advice = "lower train.learning_rate or train.grad_clip"
        return Finding("numbers", "bad", "loss or gradient was not finite", advice)
    if math.isnan(loss):
        return Finding("numbers", "none", "no loss yet")
    return Finding("numbers", "good", f"finite, |gradient| {number(store.metrics.get('grad_norm', math.nan))}")


def _illegal(metrics: dict[str, float], status: StatusLike | None) -> Finding:
    share = metrics.get("illegal_rate", math.nan)
    if math.isnan(share):
        return Finding("illegal", "none", "no step yet")
    level: Level = "bad" if share >= ILLEGAL_BAD else "watch" if share >= ILLEGAL_WATCH else "good"
    words = f"{share:.1%} of turns" + (f", {status.illegal:,} so far" if status is not None else "")
    return Finding("illegal", level, words, "" if level == "good" else "does the prompt say how to move?")


def _mismatch(metrics: dict[str, float]) -> Finding:
    mean = metrics.get("mismatch_mean", math.nan)
    if math.isnan(mean):
        return Finding("mismatch", "none", "not measured yet")
    level: Level = "bad" if mean >= MISMATCH_BAD else "watch" if mean >= MISMATCH_WATCH else "good"
    return Finding("mismatch", level, f"sampler and learner {number(mean, 4)} apart")


def _stale(metrics: dict[str, float], status: StatusLike | None) -> Finding:
    total = status.stale if status is not None else 0
    if not total:
        return Finding("stale", "good", "nothing dropped")
    now = metrics.get("stale", 0.0)
    level: Level = "watch" if now else "good"
    return Finding("stale", level, f"{total:,} turns dropped, {now:.0f} in the last step")


def _failed(store: Store, status: StatusLike | None) -> Finding:
    failed = status.failed if status is not None else len(store.errors)
    skipped = status.skipped if status is not None else len(store.skipped)
    unscored = int(store.metrics.get("unscored", 0.0))
    if failed:
        last = store.errors[-1][1] if store.errors else ""
        return Finding("episodes", "bad", f"{plural(failed, 'episode')} failed", last)
    words = [plural(skipped, "step") + " skipped"] if skipped else []
    words += [plural(unscored, "episode") + " unscored"] if unscored else []
    return Finding("episodes", "watch" if words else "good", ", ".join(words) or "none failed, no step skipped")
