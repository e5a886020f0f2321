"""What is worth reading in a run of a hundred thousand episodes.

Each kind is a pure function from an episode, and the others of its step like it, to a `Highlight` or None. What a
role was expected to get is the baseline its credit used, or, where it got none (an evaluation), the mean of its
*peers*: the same role of the same type of episode, between the same players, in the same step.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean, median

from engine.reading.drift import Drift
from engine.reading.outlines import Outline, TurnOutline
from engine.reading.saying import signed

UPSET = 0.7
"""Share of its peers' range of rewards that a reward is off by, to be an upset."""

GAIN = 0.3
"""Share of that range a reward is above what was expected, to be suspected."""

LENGTH = 3.0
"""Times as long as its peers' median, or as short, that a reply is odd at; and at least `APART` tokens off."""

APART = 8

REPETITION = 0.5
"""Share of repeated phrases at which a reply is odd."""

PHRASE, WORDS = 4, 24
"""Words of a phrase, and how many words a text has at least for its phrases to be counted."""

LONG = 2.0
"""Times the median episode of its step, in tokens, that an episode is long at."""

FEW = 4
"""Peers that a comparison takes at least."""


class Kind(StrEnum):
    """Why an episode is interesting, the most telling first."""

    HACK = "hack"
    """A reward far above what was expected for a reply of odd length or full of repetition; or training reward that
    rises while the evaluation gets worse."""
    UPSET = "upset"
    """A reward most unlike what was expected."""
    JUDGE = "judge"
    """A judge whose verdicts disagree, as when the order of two texts is changed."""
    ILLEGAL = "illegal"
    """A turn that the task ruled out, where few were."""
    FAILED = "failed"
    """An episode that raised."""
    LONGEST = "longest"
    """Most tokens sampled."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """One thing worth a look."""

    kind: Kind
    score: float
    """How interesting it is among those of its kind."""
    step: int
    rollout_id: str
    """Empty where it is about the step as a whole."""
    words: str
    """Why, in a sentence without its full stop; it may quote roles and errors, not what a model said."""
    role: str = ""


@dataclass(slots=True)
class Peers:
    """What the same role got elsewhere in the step."""

    rewards: list[float] = field(default_factory=list)
    lengths: list[float] = field(default_factory=list)
    """Tokens a turn."""

    low: float = math.inf
    high: float = -math.inf

    def add(self, reward: float, lengths: Sequence[int]) -> None:
        if math.isfinite(reward):
            self.rewards.append(reward)
            self.low, self.high = min(self.low, reward), max(self.high, reward)
        if lengths:
            self.lengths.append(fmean(lengths))

    @property
    def range(self) -> float:
        return self.high - self.low if self.rewards else 0.0


Company = Mapping[tuple[object, ...], Peers]


def company(outlines: Iterable[Outline]) -> Company:
    """The peers of every role of a step's episodes."""
    found: dict[tuple[object, ...], Peers] = defaultdict(Peers)
    for outline in outlines:
        for role, reward in outline.episode.rollout.rewards.items():
            found[_seat(outline, role)].add(reward, [turn.tokens for turn in outline.turns_of(role)])
    return found


def upset(outline: Outline, peers: Company) -> Highlight | None:
    """The role whose reward was furthest from what was expected, by `UPSET` of its peers' range or more."""
    found: list[Highlight] = []
    for role, reward in outline.episode.rollout.rewards.items():
        expected, share = _surprise(outline, role, reward, peers)
        if abs(share) >= UPSET:
            words = f"{role} got {signed(reward)} where {signed(expected)} was expected"
            found.append(_highlight(Kind.UPSET, abs(share), outline, words, role))
    return max(found, key=lambda highlight: highlight.score, default=None)


def hack(outline: Outline, peers: Company) -> Highlight | None:
    """A role that got `GAIN` of its peers' range more than expected, by replies that are odd in form."""
    found: list[Highlight] = []
    for role, reward in outline.episode.rollout.rewards.items():
        seat = peers[_seat(outline, role)]
        turns = outline.turns_of(role)
        if not turns or len(seat.rewards) < FEW:
            continue
        expected, share = _surprise(outline, role, reward, peers)
        if share < GAIN:
            continue
        oddness, form = _oddness(turns, median(seat.lengths))
        if oddness >= 1.0:
            words = f"{role} {signed(reward)} (expected {signed(expected)}), {form}"
            found.append(_highlight(Kind.HACK, share * oddness, outline, words, role))
    return max(found, key=lambda highlight: highlight.score, default=None)


def disagreement(outline: Outline) -> Highlight | None:
    """Judgements kept in extras (`Judgement.keep_in`) whose verdicts did not agree; by their share."""
    kept = outline.episode.rollout.extras.get("judge")
    if not isinstance(kept, list):
        return None
    judged = [one for one in kept if isinstance(one, dict) and one.get("agreed") is not None]
    split = sum(not one["agreed"] for one in judged)
    if not split:
        return None
    words = "the judge's verdicts disagree" if len(judged) == 1 else f"{split} of {len(judged)} judgements disagree"
    return _highlight(Kind.JUDGE, split / len(judged), outline, words)


def illegal(outline: Outline, share: float) -> Highlight | None:
    """A turn that was ruled out; the more telling, the smaller the share of the step's turns that were."""
    turn = next((turn for turn in outline.turns if turn.illegal), None)
    if turn is None:
        return None
    words = f"turn {turn.index + 1} of {turn.role} was ruled out, as {share:.1%} of the step's turns"
    return _highlight(Kind.ILLEGAL, 1.0 - share, outline, words, turn.role)


def failed(outline: Outline) -> Highlight | None:
    """An episode that raised; the latest first."""
    error = outline.episode.rollout.error
    if error is None:
        return None
    told = next(iter(error.strip().splitlines()[-1:]), "") or "no reason given"
    return _highlight(Kind.FAILED, float(outline.episode.step), outline, f"it failed: {told}")


def longest(outline: Outline, usual: float) -> Highlight | None:
    """Where `LONG` times as many tokens were sampled as in the median episode of the step, `usual`."""
    if outline.tokens < max(LONG * usual, 1):
        return None
    words = f"{outline.tokens:,} tokens in {len(outline.turns):,} turns; the step's median is {usual:,.0f}"
    return _highlight(Kind.LONGEST, float(outline.tokens), outline, words)


def of_step(outlines: Sequence[Outline]) -> list[Highlight]:
    """The best of each kind in one step, so that no step fills the whole list."""
    peers = company(outlines)
    turns = [turn for outline in outlines for turn in outline.turns]
    ruled_out = sum(turn.illegal for turn in turns) / max(len(turns), 1)
    usual = median([outline.tokens for outline in outlines]) if outlines else 0.0
    found: list[Highlight | None] = []
    for outline in outlines:
        found += [hack(outline, peers), upset(outline, peers), disagreement(outline)]
        found += [illegal(outline, ruled_out), failed(outline), longest(outline, usual)]
    return _best(highlight for highlight in found if highlight is not None)


class Highlights:
    """The highlights of a run, step by step. Bounded by its steps, not by its episodes."""

    def __init__(self) -> None:
        self._by_step: dict[int, list[Highlight]] = {}
        self._drifts: list[Drift] = []

    def add(self, step: int, outlines: Sequence[Outline]) -> None:
        """A step's episodes; those of the same step take the place of what was said of it before."""
        self._by_step[step] = of_step(outlines)

    def forget_after(self, step: int) -> None:
        """The run went back to `step`."""
        self._by_step = {known: found for known, found in self._by_step.items() if known <= step}

    def drift(self, found: list[Drift]) -> None:
        """Where reward and evaluation part company; takes the place of what was found before."""
        self._drifts = found

    def top(self, each: int = 5) -> list[Highlight]:
        """At most `each` of a kind, kinds in their order, the most interesting first, no sentence twice."""
        by_kind: dict[Kind, list[Highlight]] = defaultdict(list)
        for found in self._by_step.values():
            for highlight in found:
                by_kind[highlight.kind].append(highlight)
        by_kind[Kind.HACK] += [
            Highlight(Kind.HACK, 1.0 + one.fall, one.step, "", one.words) for one in self._drifts
        ]
        chosen: list[Highlight] = []
        for kind in Kind:
            told: dict[str, Highlight] = {}
            for highlight in sorted(by_kind[kind], key=lambda one: (-one.score, -one.step)):
                told.setdefault(highlight.words, highlight)
            chosen += list(told.values())[:each]
        return chosen


def repetition(text: str) -> float:
    """Share of a text's phrases of `PHRASE` words that it has said before; 0 for a text of a few words."""
    words = text.lower().split()
    if len(words) < WORDS:
        return 0.0
    phrases = Counter(zip(*(words[offset:] for offset in range(PHRASE)), strict=False))
    return 1.0 - len(phrases) / phrases.total()


def _oddness(turns: list[TurnOutline], usual: float) -> tuple[float, str]:
    """How odd replies are in form, 1 being just odd, and in which way."""
    length = _length(turns)
    oddness, form = 0.0, ""
    if abs(length - usual) >= APART:
        times = max(length, 1.0) / max(usual, 1.0)
        oddness = abs(math.log(times)) / math.log(LENGTH)
        compared = f"{times:.1f} times" if times > 1 else f"{times:.0%} of"
        form = f"replies {compared} the usual length"
    repeated = max(repetition(turn.text) for turn in turns)
    if repeated / REPETITION > oddness:
        oddness, form = repeated / REPETITION, f"{repeated:.0%} of a reply repeats itself"
    return oddness, form


def _surprise(outline: Outline, role: str, reward: float, peers: Company) -> tuple[float, float]:
    """What was expected, and by what share of its peers' range the reward is above it, from -1 to 1."""
    seat = peers[_seat(outline, role)]
    credit = next((turn.credit for turn in outline.turns_of(role) if turn.credit is not None), None)
    # without credit, and with too few of its kind, nothing was expected
    if credit is None and len(seat.rewards) < FEW:
        return reward, 0.0
    expected = credit.baseline if credit is not None else fmean(seat.rewards)
    if not seat.range or not math.isfinite(reward):
        return expected, 0.0
    return expected, max(-1.0, min(1.0, (reward - expected) / seat.range))


def _seat(outline: Outline, role: str) -> tuple[object, ...]:
    rollout = outline.episode.rollout
    return outline.episode.evaluation, rollout.episode_type, tuple(sorted(rollout.players.items())), role


def _length(turns: Sequence[TurnOutline]) -> float:
    return fmean(turn.tokens for turn in turns)


def _best(found: Iterable[Highlight]) -> list[Highlight]:
    best: dict[Kind, Highlight] = {}
    for highlight in found:
        held = best.get(highlight.kind)
        if held is None or highlight.score > held.score:
            best[highlight.kind] = highlight
    return list(best.values())


def _highlight(kind: Kind, score: float, outline: Outline, words: str, role: str = "") -> Highlight:
    return Highlight(kind, score, outline.episode.step, outline.id, words, role)
