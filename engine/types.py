"""The vocabulary of self-play: roles take turns in an episode; what happened is a rollout.

A *role* is who speaks (a system prompt and how to sample), a *player* is whose weights speak (a LoRA
slot by name). One player may sit in every role of an episode: that is self-play.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypedDict

BASE = "base"
"""The player without an adapter: slot 0, the reference policy, and the oracle's default."""

POLICY = "policy"
"""The player that learns."""

AVERAGE = "average"
"""The player whose weights are a running mean of the policy's (`train.average`): measured, never trained."""

PERSON = "person"
"""The player who is a person at the table (`engine.sitting.game`): what they say is recorded, and never trained."""

REWARD_EDIT = "rewards."
"""Before the name of a reward function, in what `Rollout.edits` names beside roles."""


class EngineError(Exception):
    """The engine itself failed (not a task): the run cannot go on."""


class RunError(Exception):
    """A run that can't be made, opened, steered or continued: says why, and what would help."""


class Message(TypedDict):
    """One chat message, as chat templates take it."""

    role: str
    content: str


class StopReason(StrEnum):
    """Why a completion ended, and who decided it."""

    STOP = "stop"
    """An end-of-turn token was sampled, or a stop string was completed. Its last token is the record's last."""
    LENGTH = "length"
    """`max_tokens` were sampled without an end-of-turn token."""
    CONTEXT = "context"
    """Prompt and completion fill the model's window. The completion may be empty."""
    DEADLINE = "deadline"
    """The time allowed was over. The completion holds what was sampled until then, and may be empty."""
    CANCELLED = "cancelled"
    """The request was withdrawn before it ended."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample one completion. The recorded log-probabilities are of the distribution these define."""

    temperature: float = 1.0
    """0 is greedy: the most likely token, recorded with log-probability 0."""
    max_tokens: int = 256
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    """What the logits of tokens seen in prompt and reply are divided by where positive, multiplied by where not."""
    logit_bias: tuple[tuple[str, float], ...] = ()
    """What is added to the logit of a token, given by its text."""
    stop: tuple[str, ...] = ()
    """Texts that end the reply. They are left out of its text, their tokens are kept in the record."""
    choices: tuple[str, ...] = ()
    """The only replies allowed; empty allows any. The learner applies the same mask to what they rule out."""
    seconds: float | None = None
    """Longest time from asking to answer; None for no limit."""

    def check(self) -> None:
        """Raises ValueError for a setting that no distribution has."""
        bounds = {
            "temperature": (self.temperature, 0.0, math.inf),
            "max_tokens": (self.max_tokens, 1, math.inf),
            "top_p": (self.top_p, 0.0, 1.0),
            "top_k": (self.top_k, 0, math.inf),
            "min_p": (self.min_p, 0.0, 1.0),
            "repetition_penalty": (self.repetition_penalty, 1e-3, 1e3),
        }
        for name, (value, least, most) in bounds.items():
            if not (least <= value <= most and math.isfinite(value)):
                raise ValueError(f"{name} is {value}; it has to be from {least:g} to {most:g}, and finite")
        if any(not math.isfinite(value) for _, value in self.logit_bias):
            raise ValueError("logit_bias: every value has to be finite")

    @property
    def distortions(self) -> tuple[str, ...]:
        """The settings that make the distribution sampled from another than the learner computes.

        Temperature and `choices` aren't among them: the learner applies these too.
        """
        neutral = Sampling()
        shaping = ("top_p", "top_k", "min_p", "repetition_penalty", "logit_bias")
        return tuple(name for name in shaping if getattr(self, name) != getattr(neutral, name))


def settled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a `Sampling` or `Role` as these keep them: lists and tables as tuples."""
    return {name: _fixed(value) for name, value in settings.items()}


def _fixed(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


@dataclass(slots=True)
class Role:
    """Who speaks: an identity, a system prompt, how to sample, and which player's weights answer."""

    id: str
    system_prompt: str = ""
    temperature: float = 1.0
    max_tokens: int = 256
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[str, float], ...] = ()
    stop: tuple[str, ...] = ()
    seconds: float | None = None
    constrained: bool = False
    """Whether the task's legal answers are the only ones it can give, where the task knows them."""
    tags: tuple[str, ...] = ()
    """Skill tags, the most skilled last: each tree of rollouts draws one for all that the role is asked in it."""
    player: str = POLICY

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            logit_bias=self.logit_bias,
            stop=self.stop,
            seconds=self.seconds,
        )


def averaged(metric: str) -> str:
    """What a metric is called where the average was measured: `average_win`, `nim/average_win`."""
    task, slash, name = metric.rpartition("/")
    return f"{task}{slash}{AVERAGE}_{name}"


@dataclass(slots=True)
class Completion:
    """What a model answered: the exact tokens sampled, never re-tokenised, and what is known of each."""

    text: str
    """The tokens decoded, without the end-of-turn token."""
    prompt_tokens: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Sampled ids, the end-of-turn token included."""
    logprobs: list[float] = field(default_factory=list)
    """Natural logarithm, one per token, of the distribution it was sampled from."""
    versions: list[int] = field(default_factory=list)
    """The player's policy version at each token."""
    allowed: list[list[int]] = field(default_factory=list)
    """The token ids each token was chosen among, one list a token; empty where every token was allowed."""
    stop_reason: StopReason = StopReason.STOP
    player: str = POLICY
    sampling: Sampling = Sampling()


@dataclass(slots=True)
class Credit:
    """Why a turn weighs what it weighs: enough to redo the sum by hand.

    `advantage = discount · (reward − baseline)`; with `credit.normalise`, divided by `spread + 1e-4`.
    """

    advantage: float
    reward: float
    baseline: float = 0.0
    """What the reward was compared with: a group's mean or a moving average."""
    spread: float = 0.0
    """The group's standard deviation; 0 where no group was used."""
    group: str = ""
    """Which rewards were compared, such as `"nim/First"`."""
    group_size: int = 1
    discount: float = 1.0
    """`credit.discount` to the power of the role's turns that were still to come."""
    counts: bool = True
    """False where the group taught nothing (no spread, or nobody to compare with): the turn stays out of
    the batch and of its denominator, but in every metric."""
    rule: str = ""
    """The `credit.kind` it was given by; empty in records of before that was kept."""
    scale: float = 1.0
    """What the difference was divided by."""
    decay: float = 0.0
    """RAE: how much of the baseline stayed when it took in this reward."""
    after: float = 0.0
    """RAE: the baseline then, `decay · baseline + (1 − decay) · reward`: what the next reward was compared with."""


class Fate(StrEnum):
    """What became of a turn that has credit in the learner's step."""

    LEARNT = "learnt"
    """It was in an update of the weights."""
    STALE = "stale"
    """Left out before the step: older than `run.max_staleness`."""
    GREEDY = "greedy"
    """Left out by the learner: at temperature 0 there is no gradient."""
    IDLE = "idle"
    """Nothing in its minibatch asked for other weights."""
    NONFINITE = "nonfinite"
    """Its update was left out: loss or gradient was not finite."""


@dataclass(slots=True)
class Learnt:
    """What the learner made of a turn. Numbers are there where its `fate` is that it was learnt from."""

    fate: Fate
    age: int = 0
    """Versions between the learner and the turn's oldest token."""
    ratio: float = 1.0
    """Mean over its tokens of ρ, the policy's probability over that when sampled, as the loss saw it."""
    ratio_max: float = 1.0
    clipped: int = 0
    """Tokens whose ratio the loss bounded."""
    loss: float = 0.0
    """What its tokens added to the policy loss of their update, before `train.policy`."""


@dataclass(slots=True)
class Turn:
    """One role speaking once."""

    role: str
    index: int
    """Position among the turns of its rollout, from 0."""
    messages: list[Message]
    """What was asked, before the chat template."""
    completion: Completion
    trainable: bool = True
    illegal: bool = False
    """Whether the task ruled the reply out, as an illegal move or an answer it could not read."""
    credit: Credit | None = None
    learnt: Learnt | None = None
    """None where it has no credit that counts, before its step, and in records of before this was kept."""
    ratios: list[float] = field(default_factory=list)
    """ρ of each token, where it was learnt from."""


@dataclass(slots=True)
class EpisodeRequest:
    """An episode to play. `is_trainable=False` keeps it, and all it spawns, out of training."""

    episode_type: str
    artifact: Any = None
    is_trainable: bool = True
    players: dict[str, str] = field(default_factory=dict)
    """Who sits in which role, where it isn't the role's own player."""
    group: str | None = None
    """Rollouts with the same group are compared by GRPO; by default those of an equal artifact. Give a batch's
    proposers one name where each begins with something of its own."""
    task: str = ""
    """Which of several tasks it belongs to, if there are several: its names are meant in that one's scope."""


@dataclass(slots=True)
class Rollout:
    """What happened in one episode, its children apart."""

    id: str
    """`"17"` at the top level, `"17.0"` for its first child, `"eval-40/3"` in an evaluation."""
    episode_type: str
    artifact: Any = None
    group: str | None = None
    turns: list[Turn] = field(default_factory=list)
    rewards: dict[str, float] = field(default_factory=dict)
    """Role → the weighted sum of its reward functions."""
    breakdown: dict[str, dict[str, float]] = field(default_factory=dict)
    """Reward function → role → its unweighted value."""
    weights: dict[str, dict[str, float]] = field(default_factory=dict)
    """Reward function → role → what its value was multiplied by; empty in records of before this was kept."""
    extras: dict[str, Any] = field(default_factory=dict)
    players: dict[str, str] = field(default_factory=dict)
    """Role → player, for every role that spoke or was seated with one, such as a bot."""
    edits: dict[str, int] = field(default_factory=dict)
    """Role → the number of the prompt edit in force when its tree began; 0 is the preset's own prompt. All roles
    are here: whether one came to speak is an outcome, and what is compared must not depend on outcomes. So are
    configured reward functions, as `rewards.NAME`."""
    error: str | None = None
    """What was raised, where the episode failed. Such a rollout has no rewards and never trains."""
    unscored: str | None = None
    """The reward function that could not judge it. Such a rollout has no rewards and never trains."""
    tags: dict[str, str] = field(default_factory=dict)
    """Role → the skill tag its whole tree is played under, for every role that has some."""

    @property
    def is_scored(self) -> bool:
        """Whether it has rewards to be compared: it didn't fail, was judged, and by finite numbers."""
        return self.error is None and self.unscored is None and all(map(math.isfinite, self.rewards.values()))


@dataclass(slots=True)
class GenerateResult:
    """A rollout and those of the episodes it spawned."""

    rollout: Rollout
    children: list[GenerateResult] = field(default_factory=list)
    is_trainable: bool = True

    @property
    def rewards(self) -> dict[str, float]:
        return self.rollout.rewards

    def walk(self) -> list[GenerateResult]:
        """This result and all below it, parents first."""
        return [self, *(node for child in self.children for node in child.walk())]


@dataclass(frozen=True, slots=True)
class Question:
    """Something an episode asks the person who watches."""

    id: int
    rollout_id: str
    """Of the episode that asks."""
    text: str
    choices: tuple[str, ...] = ()
    """The only answers it takes; empty takes any text."""
    about: tuple[str, ...] = ()
    """Texts to look at first, a model's among them."""
    seconds: float | None = None
    """How long it waits for an answer; None for as long as it takes."""
    left: float | None = None
    """How many of these are left."""


@dataclass(slots=True)
class TrainingRecord:
    """One turn, ready to learn from."""

    rollout_id: str
    turn: int
    role: str
    episode_type: str
    prompt_tokens: list[int]
    tokens: list[int]
    logprobs: list[float]
    versions: list[int]
    advantage: float
    temperature: float = 1.0
    allowed: list[list[int]] = field(default_factory=list)
    """As in `Completion`."""
    reward: float = 0.0
    """What the role got in the rollout."""
    tags: tuple[tuple[str, str], ...] = ()
    """Roles and skill tags of the rollout."""
    learnt: Learnt | None = None
    """Filled in by the learner's step, and so is `ratios`: both as in `Turn`."""
    ratios: list[float] = field(default_factory=list)

    @property
    def conversation(self) -> tuple[str, str]:
        """Rollout and role: the turns of one conversation have this in common."""
        return self.rollout_id, self.role

    @property
    def version(self) -> int:
        """The policy version of the oldest token."""
        return min(self.versions)
