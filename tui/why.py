"""Why a turn weighs what it weighs: from its reward functions to what the loss made of it, as sums one can check.

Each number is the one that was used, out of the run's record; what is written before `=` is only how it came about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.types import Credit, Fate, Rollout, Turn
from tui.words import MINUS, plural, signed

if TYPE_CHECKING:
    from engine.reading.tracing import Member, Trace
    from engine.rows import StoredEpisode

WRITTEN = 8
"""Rewards of a group whose sum is written out; of more only the sum is."""

FATES = {
    Fate.LEARNT: "It was in an update of the weights.",
    Fate.STALE: "Left out as stale: it was more versions behind than run.max_staleness allowed.",
    Fate.GREEDY: "Left out: it was sampled at temperature 0, which leaves no gradient.",
    Fate.IDLE: "Skipped: nothing in its minibatch asked for other weights.",
    Fate.NONFINITE: "Skipped: the loss or gradient of its update was not finite.",
}


@dataclass(frozen=True, slots=True)
class Sum:
    """`what: written = value`."""

    what: str
    written: str
    """How it came about; empty where it simply is that."""
    value: float
    note: str = ""

    @property
    def shown(self) -> str:
        return f"{self.written} = {digits(self.value)}" if self.written else digits(self.value)


@dataclass(frozen=True, slots=True)
class Part:
    """One stretch of the path: sums, and sentences where there is nothing to add up."""

    title: str
    rows: list[Sum | str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Other:
    """An episode that one can go to from here."""

    rollout_id: str
    relation: str
    """`"group"`, `"parent"` or `"child"`."""
    told: str
    is_here: bool = False


@dataclass(frozen=True, slots=True)
class Why:
    """The path of one turn."""

    rollout_id: str
    turn: int
    role: str
    about: str
    """Who spoke, and when it was learnt from."""
    parts: list[Part]
    others: list[Other] = field(default_factory=list)
    group: str = ""
    is_settled: bool = True
    """Whether nothing of it will change any more."""

    def text(self) -> str:
        """As text to copy."""
        lines = [f"Why · episode {self.rollout_id}, turn {self.turn + 1} of {self.role}", self.about]
        for part in self.parts:
            lines += ["", part.title]
            for row in part.rows:
                told = row if isinstance(row, str) else f"{row.what}: {row.shown}  {row.note}"
                lines.append(f"  {told}".rstrip())
        if self.others:
            lines += ["", f"Group {self.group}" if self.group else "Tree"]
            lines += [
                f"  {'→' if other.is_here else ' '} {other.relation} {other.rollout_id}  {other.told}"
                for other in self.others
            ]
        return "\n".join(lines) + "\n"


def explain(trace: Trace, turn: Turn) -> Why:
    """The path of a turn of the episode that is traced."""
    episode, credit = trace.episode, turn.credit
    parts = [_reward(episode.rollout, turn.role)] if trace.is_over else []
    settled = trace.is_over
    if not trace.is_over:
        parts.append(Part("Reward", ["The episode is still in play: its reward comes at its end."]))
    elif not episode.trainable:
        words = "It was played in an evaluation" if episode.evaluation else "It was played outside training"
        parts.append(Part("Learning", [f"{words}: nothing is learnt from it."]))
    elif credit is None:
        words, settled = _why_no_credit(episode.rollout, turn)
        parts.append(Part("Learning", [words]))
    else:
        compared = trace.compared.get(credit.group, [])
        parts += [_baseline(credit, compared), _advantage(credit, turn, episode.rollout), _learning(turn, credit)]
        settled = turn.learnt is not None or not credit.counts
    group = credit.group if credit is not None and credit.rule != "constant" else ""
    others = _others(trace, turn)
    return Why(episode.rollout.id, turn.index, turn.role, _about(trace, turn), parts, others, group, settled)


def digits(value: float) -> str:
    """Six digits that count, with a real minus."""
    return f"{value:.6g}".replace("-", MINUS)


def term(value: float) -> str:
    """A number behind an operator."""
    return f"({digits(value)})" if value < 0 else digits(value)


def added(values: list[float]) -> str:
    return " + ".join([digits(values[0]), *map(term, values[1:])]) if values else ""


def _reward(rollout: Rollout, role: str) -> Part:
    """Each function's weight × value, and their sum."""
    part = Part(f"Reward of {role}")
    if role not in rollout.rewards:
        part.rows.append(_why_no_reward(rollout, role))
        return part
    values = {name: by_role[role] for name, by_role in rollout.breakdown.items() if role in by_role}
    shares: list[float] = []
    for name, value in values.items():
        weight = rollout.weights.get(name, {}).get(role)
        if weight is None:
            part.rows.append(Sum(name, "", value, "its weight is not in this older record"))
        else:
            shares.append(weight * value)
            note = "" if weight else "weight 0: only shown"
            part.rows.append(Sum(name, f"{digits(weight)} × {term(value)}", shares[-1], note))
    reward = rollout.rewards[role]
    if len(shares) != len(values):
        part.rows.append(Sum("reward", "", reward))
    elif math.isclose(sum(shares), reward, rel_tol=1e-6, abs_tol=1e-9):
        part.rows.append(Sum("reward", added(shares) if len(shares) > 1 else "", reward))
    else:
        rest = reward - sum(shares)
        part.rows.append(Sum("beside them", "", rest, "given by the episode itself"))
        part.rows.append(Sum("reward", added([*shares, rest]), reward))
    return part


def _baseline(credit: Credit, compared: list[Member]) -> Part:
    match credit.rule:
        case "rae":
            kept = f"{digits(credit.decay)} × {term(credit.baseline)}"
            taken_in = f"{kept} + {digits(1 - credit.decay)} × {term(credit.reward)}"
            return Part(
                "Baseline (RAE)",
                [
                    f"The moving average of the rewards in {credit.group}, as it was before this one.",
                    Sum("baseline", "", credit.baseline),
                    Sum("afterwards", taken_in, credit.after, "what the next reward is compared with"),
                ],
            )
        case "grpo":
            return _group_mean(credit, [member.credit.reward for member in compared])
        case "constant":
            return Part("Baseline", ["None: every turn weighs 1, as in supervised learning on what was kept."])
    return Part("Baseline", ["By a rule that is not in this older record.", Sum("baseline", "", credit.baseline)])


def _group_mean(credit: Credit, rewards: list[float]) -> Part:
    part = Part("Baseline (GRPO)", [f"The mean reward of its group of {credit.group_size}."])
    whole = len(rewards) == credit.group_size
    if whole and len(rewards) <= WRITTEN:
        total = f"({added(rewards)})" if len(rewards) > 1 else digits(rewards[0])
    else:
        total = digits(math.fsum(rewards))
    part.rows.append(Sum("mean", f"{total} / {len(rewards)}" if whole else "", credit.baseline))
    if credit.group_size > 1:
        part.rows.append(Sum("spread", "", credit.spread, "their standard deviation, n − 1 in its denominator"))
    return part


def _advantage(credit: Credit, turn: Turn, rollout: Rollout) -> Part:
    part = Part("Advantage")
    if not credit.counts:
        alone = "Nobody is there to compare with" if credit.group_size < 2 else "All rewards of the group are equal"
        part.rows.append(f"{alone}: there is nothing to learn, and the turn leaves the batch.")
        part.rows.append(Sum("advantage", "", credit.advantage))
        return part
    if credit.rule == "constant":
        part.rows.append(Sum("advantage", f"{digits(credit.discount)} × 1", credit.advantage))
    elif credit.rule or math.isclose(credit.advantage, credit.discount * (credit.reward - credit.baseline)):
        written = f"{digits(credit.discount)} × ({digits(credit.reward)} {MINUS} {term(credit.baseline)})"
        note = "discount × (reward − baseline)"
        if credit.scale != 1.0:
            written, note = f"{written} / {digits(credit.scale)}", f"{note} / (spread + 0.0001)"
        part.rows.append(Sum("advantage", written, credit.advantage, note))
    else:
        part.rows.append(Sum("advantage", "", credit.advantage))
    if credit.discount != 1.0:
        later = sum(other.role == turn.role and other.index > turn.index for other in rollout.turns)
        words = f"The discount is of {plural(later, 'turn')} of {turn.role} that followed."
        part.rows.append(words)
    return part


def _learning(turn: Turn, credit: Credit) -> Part:
    part, learnt, tokens = Part("Learning"), turn.learnt, len(turn.completion.tokens)
    if learnt is None:
        if credit.counts:
            part.rows.append("The learner has it now, or this older record doesn't say what it made of it.")
        return part if part.rows else Part("Learning", ["It was not in the batch."])
    part.rows.append(FATES[learnt.fate])
    versions = turn.completion.versions
    if versions:
        oldest = min(versions)
        note = f"learner v{oldest + learnt.age} on tokens of v{oldest}"
        part.rows.append(Sum("staleness", f"{oldest + learnt.age} {MINUS} {oldest}", learnt.age, note))
    if learnt.fate is not Fate.LEARNT:
        return part
    many = max(tokens, 1)
    part.rows.append(
        Sum("ratio", "", learnt.ratio, f"mean over {plural(tokens, 'token')} of p now / p when sampled")
    )
    part.rows.append(Sum("largest", "", learnt.ratio_max))
    bounded = "of its tokens had their ratio bounded" if learnt.clipped else "no token's ratio was bounded"
    part.rows.append(Sum("clipped", f"{learnt.clipped} / {many}", learnt.clipped / many, bounded))
    part.rows.append(Sum("loss", "", learnt.loss, "what its tokens added to the update's policy loss"))
    return part


def _about(trace: Trace, turn: Turn) -> str:
    rollout, versions = trace.episode.rollout, turn.completion.versions
    told = [turn.completion.player]
    if versions:
        told.append(f"v{versions[0]}" + (f"→{versions[-1]}" if versions[-1] != versions[0] else ""))
    if turn.role in rollout.edits:
        told.append(f"prompt {rollout.edits[turn.role]}")
    if tag := rollout.tags.get(turn.role):
        told.append(f"tag {tag}")
    told.append(f"{'evaluation after ' if trace.episode.evaluation else ''}step {trace.episode.step}")
    return " · ".join(told)


def _others(trace: Trace, turn: Turn) -> list[Other]:
    """The members of its group, and who stands above and below it in the tree."""
    here, credit = trace.episode.rollout.id, turn.credit
    found: list[Other] = []
    if credit is not None and credit.rule != "constant":
        for member in trace.compared.get(credit.group, []):
            told = f"{signed(member.credit.reward)} against {signed(member.credit.baseline)}"
            told += f" → A {signed(member.credit.advantage)}"
            found.append(Other(member.rollout_id, "group", told, member.rollout_id == here))
    if trace.parent is not None:
        found.append(Other(trace.parent.rollout.id, "parent", _rewards(trace.parent)))
    found += [Other(child.rollout.id, "child", _rewards(child)) for child in trace.children]
    return found


def _rewards(episode: StoredEpisode) -> str:
    rollout = episode.rollout
    return (
        " · ".join(f"{role} {signed(reward)}" for role, reward in rollout.rewards.items()) or rollout.episode_type
    )


def _why_no_reward(rollout: Rollout, role: str) -> str:
    if rollout.error is not None:
        return "The episode failed: it has no reward and is not learnt from."
    if rollout.unscored is not None:
        return f"No reward: {rollout.unscored} could not judge it."
    return f"No reward function said anything of {role}."


def _why_no_credit(rollout: Rollout, turn: Turn) -> tuple[str, bool]:
    """Why it has none, and whether it stays so."""
    if not rollout.is_scored or turn.role not in rollout.rewards:
        return "Without a reward there is nothing to learn from.", True
    if not turn.trainable:
        return "Another player than the policy spoke: nothing is learnt from its words.", True
    if not turn.completion.tokens:
        return "No token was sampled: there is nothing to learn from.", True
    return "Its batch is still in play: it is compared, and learnt from, once that is over.", False
